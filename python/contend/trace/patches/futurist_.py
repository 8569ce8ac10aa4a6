"""futurist, the pools of OpenStack's services: what is submitted, how long it waits, and its run in a thread or greenlet."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from contend.trace import queues
from contend.trace.patches.futures import limits, submits
from contend.trace.patches.waiting import method

_SITE = "_contend_site"


def patch_pools(module: ModuleType) -> None:
    """All executors of a class are made in one place, and are pools of their own all the same."""
    pool = module.ThreadPoolExecutor

    @method(pool, "__init__")
    def _create(original: Callable[..., None]) -> Callable[..., None]:
        def __init__(self: Any, /, *args: Any, **options: Any) -> None:  # noqa: N807
            original(self, *args, **options)
            limits(getattr(self._work_queue, "_waits", None), self._max_workers)
            setattr(self, _SITE, _caller())

        return __init__

    submits(pool)

    @method(pool, "submit")
    def _submit(original: Callable[..., Any]) -> Callable[..., Any]:
        def submit(self: Any, /, *args: Any, **options: Any) -> Any:
            if getattr(self, _SITE, None) is not None:
                _name(self)
            return original(self, *args, **options)

        return submit

    submits(module.GreenThreadPoolExecutor)


def _name(pool: Any) -> None:
    """Its queue goes by the name that the program has given the pool since, else by where the pool was made."""
    with pool._shutdown_lock:
        site = getattr(pool, _SITE, None)
        setattr(pool, _SITE, None)
        queue = getattr(pool, "_work_queue", None)
        # Only the first work starts a worker, which then keeps the queue.
        if site is None or type(queue) is not queues.Queue or pool._workers or queue.qsize():
            return
        given = getattr(pool, "name", None)
        name = given if isinstance(given, str) and given else f"{type(pool).__name__} ({site})"
        pool._work_queue = queues.Queue(name=name)
        limits(pool._work_queue._waits, pool._max_workers)


def _caller() -> str:
    """The first outside of futurist and of us."""
    frame = sys._getframe(2)
    while frame.f_back is not None and "/futurist/" in frame.f_code.co_filename:
        frame = frame.f_back
    above, _, file = frame.f_code.co_filename.rpartition("/")
    return f"{above.rpartition('/')[2]}/{file}:{frame.f_lineno}"
