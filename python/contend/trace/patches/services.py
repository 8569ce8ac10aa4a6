"""The libraries that services are made of, each patched when it is imported."""

from __future__ import annotations

from collections.abc import Callable

from contend.trace.imports import Hook, when_imported
from contend.trace.patches import futurist_, http_client, http_server, libvirt_calls, named_locks, rpc, sql

_HOOKS: dict[str, Hook] = {
    "oslo_concurrency.lockutils": named_locks.patch_lockutils,
    "fasteners.lock": named_locks.patch_reader_writer,
    "fasteners.process_lock": named_locks.patch_between_processes,
    "futurist._futures": futurist_.patch_pools,
    "oslo_messaging.rpc.client": rpc.patch_client,
    "oslo_messaging.rpc.server": rpc.patch_server,
    "oslo_messaging._drivers.common": rpc.patch_envelope,
    "oslo_messaging._drivers.amqp": rpc.patch_message_ids,
    "oslo_messaging._drivers.amqpdriver": rpc.patch_driver,
    "oslo_messaging._drivers.pool": rpc.patch_pool,
    "kombu.messaging": rpc.patch_kombu_sends,
    "kombu.message": rpc.patch_kombu_receives,
    "sqlalchemy.engine.create": sql.patch_engines,
    "sqlalchemy.pool.impl": sql.patch_pool,
    "http.client": http_client.patch_standard,
    "urllib.request": http_client.patch_urllib,
    "urllib3.connectionpool": http_client.patch_urllib3,
    "requests.sessions": http_client.patch_requests,
    "wsgiref.handlers": http_server.patch_wsgiref,
    "waitress.task": http_server.patch_waitress,
    "waitress.channel": http_server.patch_waitress_channel,
    "werkzeug.serving": http_server.patch_werkzeug,
    "gunicorn.http.wsgi": http_server.patch_gunicorn_response,
    "gunicorn.workers.sync": http_server.patch_gunicorn_sync,
    "gunicorn.workers.gthread": http_server.patch_gunicorn_threads,
    "gunicorn.workers.base_async": http_server.patch_gunicorn_async,
    "eventlet.wsgi": http_server.patch_eventlet,
    "libvirtmod": libvirt_calls.patch,
}


def apply(when: Callable[[str, Hook], None] = when_imported) -> None:
    """Patch all of these services' libraries, now or as soon as each is imported, by `when`."""
    for name, hook in _HOOKS.items():
        when(name, hook)
