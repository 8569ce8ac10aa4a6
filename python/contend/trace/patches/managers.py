"""Managers of multiprocessing: what they lend is asked for by messages to their process."""

from __future__ import annotations

import _thread
from collections.abc import Callable
from types import ModuleType
from typing import Any

from contend._native import TraceSpan as Span
from contend._native import Waits, trace_on
from contend.trace.patches.multiprocessing_ import key_of
from contend.trace.patches.waiting import (
    ATTRIBUTE,
    LOCK,
    REENTRANT,
    SEMAPHORE,
    made,
    method,
    releases,
    waits_of,
)

_PROXIED = {"Lock": LOCK, "RLock": REENTRANT, "Semaphore": SEMAPHORE, "BoundedSemaphore": SEMAPHORE}
"""What a manager lends that can be held, by its `typeid`."""


def patch_managers(module: ModuleType) -> None:
    """Locks of a manager: a lock to those who wait for it, though a message to them. The manager's own are not on record."""
    registry = module.SyncManager._registry
    for name, plain in (("Lock", _thread.allocate_lock), ("RLock", _thread.RLock)):
        registry[name] = (plain, *registry[name][1:])
    proxy = module.AcquirerProxy
    made(proxy, _proxy_waits)
    for name in ("acquire", "__enter__"):
        method(proxy, name)(_acquires)
    for name in ("release", "__exit__"):
        method(proxy, name)(releases)
    method(module.BaseProxy, "_callmethod")(_calls_manager)


def _proxy_waits(proxy: Any) -> Waits | None:
    token = proxy._token
    kind = _PROXIED.get(token.typeid)
    # What it is called, the process says that made it: there it came from its manager.
    key = key_of(f"{token.address}/{token.id}")
    if kind is None:
        return None
    return Waits(kind, shared=kind == SEMAPHORE, located=proxy._manager is not None, across=key)


def _acquires(original: Callable[..., Any]) -> Callable[..., Any]:
    def acquire(self: Any, /, *args: Any, **options: Any) -> Any:
        waits = waits_of(self)
        if waits is None:
            return original(self, *args, **options)
        token, taken = waits.wait(), False
        try:
            result = original(self, *args, **options)
            taken = bool(result)
        finally:
            if taken:
                waits.acquired(token)
            else:
                waits.gave_up(token)
        return result

    return acquire


def _calls_manager(original: Callable[..., Any]) -> Callable[..., Any]:
    def _callmethod(self: Any, /, methodname: str, *args: Any, **options: Any) -> Any:
        if not trace_on() or getattr(self, ATTRIBUTE, None) is not None:
            return original(self, methodname, *args, **options)
        with Span(f"manager {self._token.typeid}.{methodname}", kind="remote"):
            return original(self, methodname, *args, **options)

    return _callmethod
