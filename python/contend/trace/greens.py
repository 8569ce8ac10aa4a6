"""Locks of contend.trace where eventlet or gevent run greenlets on threads: they wait as greenlets do.

A lock that blocked its thread would stop every greenlet on it, also the one that is to release the lock. So from the
moment that `threading` is monkey-patched, a wait for a lock of ours lets other greenlets run, whenever it was made.
"""

from __future__ import annotations

import functools
import itertools
import sys
from bisect import insort
from collections.abc import Callable
from types import ModuleType
from typing import Any

from contend._native import trace_cooperate
from contend.trace.imports import when_imported

# A lock may be released by a thread that cannot wake greenlets of another: whoever waits looks again so often.
_LOOK_AGAIN_S = 0.05

Hub = Callable[[], Any]
"""The hub that may be switched to, here and now; None where there is none."""

_hub: Hub = lambda: None  # noqa: E731 - replaced when there is one
_semaphore: Callable[[], Any]
_numbers = itertools.count(1)
# By lock and hub, so that one thread alone uses a row; in the order of their places.
_waiting: dict[tuple[int, int], list[tuple[int, Any]]] = {}
_active = False

before: list[Callable[[], None]] = []
"""Called before threading is monkey-patched,"""
after: list[Callable[[], None]] = []
"""and after it."""


def active() -> bool:
    """True if threading is monkey-patched, so that threads are greenlets."""
    return _active


def park(key: int, seconds: float | None, number: int) -> int:
    """Let other greenlets run until `wake` is called or `seconds` have passed (None: no limit); 0 if no greenlets run
    here.

    `number` is 0 for the end of the queue; returned is the number that keeps one's turn at the next call.
    """
    hub = _hub()
    if hub is None:
        return 0
    waiter = _semaphore()
    entry = (number or next(_numbers), waiter)
    waiters = _waiting.setdefault((key, id(hub)), [])
    insort(waiters, entry)
    woken = False
    try:
        woken = waiter.acquire(timeout=_LOOK_AGAIN_S if seconds is None else min(seconds, _LOOK_AGAIN_S))
    except BaseException:
        if entry not in waiters:
            wake(key)  # it was for us, and we leave: the next one's turn
        raise
    finally:
        if not woken and entry in waiters:
            waiters.remove(entry)
        if not waiters and _waiting.get((key, id(hub))) is waiters:
            del _waiting[key, id(hub)]
    return entry[0]


def wake(key: int) -> None:
    """Wake the greenlet of this thread that has waited longest: it looks again."""
    waiters = _waiting.get((key, id(_own_hub())))
    if waiters:
        waiters.pop(0)[1].release()


_own_hub: Hub = lambda: None  # noqa: E731


def follow() -> None:
    """Wait as greenlets do as soon as there are any."""
    when_imported("eventlet.patcher", _eventlet)
    when_imported("gevent.monkey", _gevent)


def _wrap(module: ModuleType, name: str, patched: Callable[[], bool], activate: Callable[[], None]) -> None:
    original = getattr(module, name)

    @functools.wraps(original)
    def patch(*args: Any, **options: Any) -> Any:
        # What it looks at, such as the type of threading's RLocks, is to be the standard library's own.
        for call in before:
            call()
        try:
            return original(*args, **options)
        finally:
            if patched() and not _active:
                activate()
            for call in after:
                call()

    setattr(module, name, patch)
    package = sys.modules.get(module.__name__.partition(".")[0])
    if getattr(package, name, None) is original:
        setattr(package, name, patch)
    if patched() and not _active:
        activate()


def _eventlet(module: ModuleType) -> None:
    def activate() -> None:
        from eventlet import hubs
        from eventlet.semaphore import Semaphore
        from greenlet import getcurrent

        def own() -> Any:
            return getattr(hubs._threadlocal, "hub", None)

        def hub() -> Any:
            current = own()
            return None if current is None or current.greenlet is getcurrent() else current

        plain = _plain(Semaphore)
        _begin(own, hub, lambda: plain(0), getcurrent)

    _wrap(module, "monkey_patch", lambda: bool(module.is_monkey_patched("thread")), activate)


def _gevent(module: ModuleType) -> None:
    def activate() -> None:
        from gevent._hub_local import get_hub_if_exists
        from gevent._semaphore import Semaphore
        from greenlet import getcurrent

        def hub() -> Any:
            current = get_hub_if_exists()
            return None if current is None or current is getcurrent() else current

        _begin(get_hub_if_exists, hub, lambda: Semaphore(0), getcurrent)

    for name in ("patch_thread", "patch_queue"):
        _wrap(module, name, lambda: bool(module.is_module_patched("threading")), activate)


def _plain(semaphore: Any) -> Any:
    """A plain semaphore, never on record."""
    return type(
        "Semaphore",
        (semaphore,),
        {name: _unwrapped(getattr(semaphore, name)) for name in ("__init__", "acquire", "release")},
    )


def _unwrapped(function: Any) -> Any:
    return getattr(function, "__wrapped__", function)


def _begin(own: Hub, hub: Hub, semaphore: Callable[[], Any], getcurrent: Callable[[], Any]) -> None:
    global _hub, _own_hub, _semaphore, _active  # noqa: PLW0603 - of the process, as the monkey patch is
    _own_hub, _hub, _semaphore = own, hub, semaphore
    _active = True
    trace_cooperate(park, wake, getcurrent)
