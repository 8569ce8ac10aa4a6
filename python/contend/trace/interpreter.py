"""The interpreter's own locks and pauses: waits for the GIL, collections of garbage, what blocks an event loop."""

from __future__ import annotations

import functools
import threading
from types import ModuleType
from typing import Any

from contend._native import trace_collections, trace_gil, trace_instant, trace_on, trace_thread
from contend.trace import blocked
from contend.trace.imports import when_imported

OFF, ON = "off", "on"


def follow(*, gil: bool, gc: bool, blocked_after_ms: float) -> str:
    """Record these from now on; how it is with waits for the GIL: `OFF`, `ON`, or why they cannot be recorded."""
    if gc:
        trace_collections(True)
    if blocked_after_ms > 0:
        blocked.follow(blocked_after_ms)
    if not gil:
        return OFF
    _tell_names()
    why = trace_gil(True)
    if why is not None:
        trace_instant("GIL waits are not recorded", why=why)
    return ON if why is None else why


def leave() -> None:
    """As it was before."""
    trace_gil(False)
    trace_collections(False)
    blocked.leave()


State = tuple[bool, bool]
_naming = False


def followed() -> State:
    """What was patched already."""
    return _naming, blocked.followed()


def forget(before: State) -> None:
    """What `follow` has patched was put back: as it was `before`."""
    global _naming  # noqa: PLW0603 - patches are made once
    _naming = _naming and before[0]
    blocked.forget(before[1])


def _tell_names() -> None:
    """A thread that waits for the GIL cannot ask for its name."""
    global _naming  # noqa: PLW0603
    for thread in threading.enumerate():
        known = getattr(thread, "native_id", None)  # eventlet makes threads that have none
        if known is not None:
            trace_thread(thread.name, known)
    if not _naming:
        _naming = True
        when_imported("threading", _name_threads)


def _name_threads(module: ModuleType) -> None:
    original = module.Thread._set_ident

    @functools.wraps(original)
    def _set_ident(self: Any) -> None:
        original(self)
        if trace_on():
            trace_thread(self.name, 0)

    module.Thread._set_ident = _set_ident
