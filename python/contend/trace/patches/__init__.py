"""Parts of the standard library, and of eventlet and gevent, that tell what they do, in a program that knows nothing of it.

One module a library; each patches it once, when it is imported, and leaves its behaviour as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from contend._native import trace_digest_key
from contend.trace import greens
from contend.trace.imports import Hook, when_imported
from contend.trace.patches import (
    asyncio_,
    eventlet_,
    futures,
    gevent_,
    locks,
    managers,
    multiprocessing_,
    pipes,
    processes,
    services,
    sql,
    threads,
)

# What they patch must not have been used: its instances would be no instances of a class that takes its place (programs
# ask for that of queues), or lack what theirs have. In a program that runs they are for what is still to be imported.
_FROM_THE_BEGINNING = (
    "queue",
    "multiprocessing.synchronize",
    "multiprocessing.queues",
    "multiprocessing.process",
    "multiprocessing.managers",
    "concurrent.futures.process",
    "gevent.lock",
    "gevent.event",
    "gevent.queue",
    "oslo_concurrency.lockutils",
    "fasteners.lock",
)


def use_digests(options: Mapping[str, Any]) -> None:
    """Digest arguments of calls by the recording's key, or switch digests off."""
    trace_digest_key(bytes.fromhex(options["key"]) if options["digests"] else None)


def apply(*, running: bool = False) -> None:
    """Patch all libraries, now or as soon as each is imported; `running`: the program began before contend was
    there."""
    when: Callable[[str, Hook], None] = _when_unused if running else when_imported
    if not running:
        locks.follow_monkey_patches()
    if not (running and greens.active()):  # there threading's locks are green
        when("threading", locks.patch_threading)
    when("threading", threads.patch_threads)
    when("queue", locks.patch_queue)
    when("multiprocessing.synchronize", multiprocessing_.patch_synchronize)
    when("multiprocessing.queues", multiprocessing_.patch_queues)
    when("multiprocessing.process", multiprocessing_.patch_process)
    when("multiprocessing.connection", pipes.patch_connection)
    when("multiprocessing.managers", managers.patch_managers)
    when("asyncio.locks", asyncio_.patch_locks)
    when("asyncio.queues", asyncio_.patch_queues)
    when("asyncio.tasks", asyncio_.patch_sleep)
    when("concurrent.futures.thread", futures.patch_threads)
    when("concurrent.futures.process", futures.patch_processes)
    when("eventlet.semaphore", eventlet_.patch_semaphores)
    when("eventlet.lock", eventlet_.patch_locks)
    when("eventlet.queue", eventlet_.patch_queues)
    when("eventlet.event", eventlet_.patch_events)
    when("eventlet.greenthread", eventlet_.patch_greenthreads)
    when("eventlet.greenthread", eventlet_.patch_sleep)
    when("eventlet.tpool", eventlet_.patch_tpool)
    when("gevent.hub", eventlet_.patch_sleep)
    when("gevent.lock", gevent_.patch_locks)
    when("gevent.event", gevent_.patch_events)
    when("gevent.queue", gevent_.patch_queues)
    when("subprocess", processes.patch_subprocess)
    services.apply(when)
    if running and "sqlalchemy.engine.base" in sys.modules:
        when_imported("sqlalchemy.engine.base", sql.reach_engines)


def _when_unused(name: str, hook: Hook) -> None:
    if name not in _FROM_THE_BEGINNING or name not in sys.modules:
        when_imported(name, hook)
