"""Parts of the standard library that tell what they do, in a program that knows nothing of it.

One module a library; each patches it once, when it is imported, and leaves its behaviour as it is.
"""

from __future__ import annotations

from contend.trace.imports import when_imported
from contend.trace.patches import futures, locks, processes, services


def apply() -> None:
    """All of them, now or as soon as their library is imported."""
    when_imported("threading", locks.patch_threading)
    when_imported("queue", locks.patch_queue)
    when_imported("concurrent.futures.thread", futures.patch_threads)
    when_imported("subprocess", processes.patch_subprocess)
    services.apply()
