"""WSGI servers: each request is a job and a span, from its head to the last byte of the answer that the server takes.

What is wrapped is the server's own handling of one request, so that the application's iterable is iterated and closed
inside the span, by the server, as without us.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from contend._native import TraceRequest as Request
from contend._native import trace_on, trace_wrap
from contend.trace.locks import MOST
from contend.trace.patches.futures import limits
from contend.trace.patches.http_names import known, served
from contend.trace.patches.waiting import method

_HANDLER = 10  # of trace_wrap

Getter = Callable[[Any], Any]
Way = tuple[int | str | Getter | tuple[str, Getter], ...]
"""Where something is told: the position of an argument, then names of attributes, places in a tuple, who is asked, or an
attribute and who is asked where there is none."""


def _request(method: object, path: object, client: object, port: object) -> Request:
    """One request, on record until its `end` is told."""
    return Request(known.get((method, path)) or served(str(method), str(path)), client, port)


def patch_waitress(module: ModuleType) -> None:
    task = module.WSGITask
    task.execute = _handler(
        task.execute,
        method=(0, "request", "command"),
        path=(0, "request", "path"),
        client=(0, "channel", "addr"),
        port=(0, "channel", "server", "effective_port"),
        status=(0, "status"),
    )


def patch_waitress_channel(module: ModuleType) -> None:
    """Jobs take the lock of its condition with each answer; that itself is waited for only by who has more than 16 MiB to
    send."""

    @method(module.HTTPChannel, "__init__")
    def _create(original: Callable[..., None]) -> Callable[..., None]:
        def __init__(self: Any, /, *args: Any, **options: Any) -> None:  # noqa: N807
            original(self, *args, **options)
            limits(getattr(getattr(self, "outbuf_lock", None), "_waits", None), MOST)

        return __init__


def patch_wsgiref(module: ModuleType) -> None:
    handler = module.BaseHandler
    run, close = handler.run, handler.close

    @functools.wraps(run)
    def on_record(self: Any, application: Any) -> Any:
        if not trace_on():
            return run(self, application)
        environ = getattr(self, "base_env", None) or self.os_environ
        client = getattr(getattr(self, "request_handler", None), "client_address", None)
        method, path = environ.get("REQUEST_METHOD", ""), environ.get("PATH_INFO", "")
        with _request(method, path, client, environ.get("SERVER_PORT")) as begun:
            result = run(self, application)
            begun.end(getattr(self, "_contend_status", None))
            return result

    @functools.wraps(close)
    def on_close(self: Any) -> Any:
        self._contend_status = self.status  # it forgets it now
        return close(self)

    handler.run, handler.close = on_record, on_close


def patch_werkzeug(module: ModuleType) -> None:
    handler = module.WSGIRequestHandler
    run, respond = handler.run_wsgi, handler.send_response

    @functools.wraps(run)
    def on_record(self: Any) -> Any:
        if not trace_on():
            return run(self)
        self._contend_status = None
        address = self.server.server_address
        port = address[1] if isinstance(address, tuple) else None
        with _request(self.command, self.path, self.client_address, port) as begun:
            result = run(self)
            begun.end(self._contend_status)
            return result

    @functools.wraps(respond)
    def send_response(self: Any, code: Any, message: Any = None) -> Any:
        self._contend_status = code
        return respond(self, code, message)

    handler.run_wsgi, handler.send_response = on_record, send_response


def patch_gunicorn_response(module: ModuleType) -> None:
    response = module.Response
    start = response.start_response

    @functools.wraps(start)
    def start_response(self: Any, status: Any, *args: Any, **options: Any) -> Any:
        try:
            self.req._contend_status = status
        except AttributeError:  # a request of another kind takes none
            return start(self, status, *args, **options)
        return start(self, status, *args, **options)

    response.start_response = start_response


def patch_gunicorn_sync(module: ModuleType) -> None:
    """handle_request(listener, request, socket, address)."""
    worker = module.SyncWorker
    port = (1, ("_contend_port", _port_kept))
    worker.handle_request = _gunicorn(worker.handle_request, at=2, client=(4,), port=port)


def patch_gunicorn_threads(module: ModuleType) -> None:
    """handle_request(request, connection); the connection has asked its listener when it came."""
    worker = module.ThreadWorker
    worker.handle_request = _gunicorn(
        worker.handle_request, at=1, client=(2, "client"), port=(2, "server", 1)
    )


def patch_gunicorn_async(module: ModuleType) -> None:
    """Greenlets: handle_request(listener's name, request, socket, address)."""
    worker = module.AsyncWorker
    worker.handle_request = _gunicorn(worker.handle_request, at=2, client=(4,), port=(3, _port))


def _gunicorn(handle: Callable[..., Any], at: int, client: Way, port: Way) -> Callable[..., Any]:
    return _handler(
        handle,
        method=(at, "method"),
        path=(at, "path"),
        client=client,
        port=port,
        status=(at, "_contend_status"),
    )


def _handler(
    handle: Callable[..., Any], *, method: Way, path: Way, client: Way, port: Way, status: Way
) -> Callable[..., Any]:
    """Each way leads from an argument of `handle`, 0 its object."""
    context = (known, served, method, path, client, port, status)
    return functools.update_wrapper(trace_wrap(handle, "", _HANDLER, context), handle)


def _port(socket: Any) -> int | None:
    try:
        return int(socket.getsockname()[1])
    except (AttributeError, IndexError, OSError, TypeError, ValueError):
        return None  # of no port, or closed


def _port_kept(listener: Any) -> int | None:
    """Each request comes by a connection of its own: its listener remembers its port, and no system call is made again."""
    port = _port(listener)
    if port is not None:
        with contextlib.suppress(AttributeError):  # a socket itself, which takes no attributes
            listener._contend_port = port
    return port


def patch_eventlet(module: ModuleType) -> None:
    protocol = module.HttpProtocol
    handle = protocol.handle_one_response

    @functools.wraps(handle)
    def on_record(self: Any) -> Any:
        if not trace_on():
            return handle(self)
        application, statuses = self.application, [None]

        def listening(environ: Any, start_response: Any) -> Any:
            def start(status: Any, *args: Any, **options: Any) -> Any:
                statuses[0] = status
                return start_response(status, *args, **options)

            return application(environ, start)

        self.application = listening
        try:
            environ = self.environ
            method, path = environ.get("REQUEST_METHOD", ""), environ.get("PATH_INFO", "")
            with _request(method, path, self.client_address, environ.get("SERVER_PORT")) as begun:
                result = handle(self)
                begun.end(statuses[0])
                return result
        finally:
            self.application = application

    protocol.handle_one_response = on_record
