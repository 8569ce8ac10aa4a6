"""Parts of the standard library, and of eventlet and gevent, that tell what they do, in a program that knows nothing of it.

One module a library; each patches it once, when it is imported, and leaves its behaviour as it is.
"""

from __future__ import annotations

from contend.trace.imports import when_imported
from contend.trace.patches import (
    asyncio_,
    eventlet_,
    futures,
    gevent_,
    locks,
    multiprocessing_,
    processes,
    services,
    threads,
)


def apply() -> None:
    """All of them, now or as soon as their library is imported."""
    locks.follow_monkey_patches()
    when_imported("threading", locks.patch_threading)
    when_imported("threading", threads.patch_threads)
    when_imported("queue", locks.patch_queue)
    when_imported("multiprocessing.synchronize", multiprocessing_.patch_synchronize)
    when_imported("multiprocessing.queues", multiprocessing_.patch_queues)
    when_imported("multiprocessing.process", multiprocessing_.patch_process)
    when_imported("asyncio.locks", asyncio_.patch_locks)
    when_imported("asyncio.queues", asyncio_.patch_queues)
    when_imported("concurrent.futures.thread", futures.patch_threads)
    when_imported("concurrent.futures.process", futures.patch_processes)
    when_imported("eventlet.semaphore", eventlet_.patch_semaphores)
    when_imported("eventlet.lock", eventlet_.patch_locks)
    when_imported("eventlet.queue", eventlet_.patch_queues)
    when_imported("eventlet.event", eventlet_.patch_events)
    when_imported("eventlet.greenthread", eventlet_.patch_greenthreads)
    when_imported("eventlet.tpool", eventlet_.patch_tpool)
    when_imported("gevent.lock", gevent_.patch_locks)
    when_imported("gevent.event", gevent_.patch_events)
    when_imported("gevent.queue", gevent_.patch_queues)
    when_imported("subprocess", processes.patch_subprocess)
    services.apply()
