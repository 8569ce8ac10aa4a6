"""Waits of threads beside locks: the GIL, collections of garbage, what blocks an event loop, system calls."""

from __future__ import annotations

import functools
import threading
from types import ModuleType
from typing import Any

from contend._native import (
    trace_collections,
    trace_gil,
    trace_instant,
    trace_io,
    trace_on,
    trace_thread,
)
from contend.trace import blocked
from contend.trace.imports import when_imported
from contend.trace.supported import has_gil

OFF, ON = "off", "on"
NO_GIL = "this Python runs without a global interpreter lock: nothing waits for it"


_MAKE_CALLS = ("_socket", "select", "_ssl", "fcntl")
"""Modules whose objects make system calls that wait, beside the interpreter's own."""


def follow(*, gil: bool, gc: bool, io: bool, blocked_after_ms: float) -> str:
    """Record garbage collection and waits for the GIL from now on. Returns `OFF`, `ON`, or why the GIL cannot be
    recorded."""
    if gc:
        trace_collections(True)
    if blocked_after_ms > 0:
        blocked.follow(blocked_after_ms)
    if gil or io:
        _tell_names()
    if io:
        trace_io(True)
        _follow_io()
    if not gil:
        return OFF
    why = trace_gil(True) if has_gil() else NO_GIL
    if why is not None:
        trace_instant("GIL waits are not recorded", why=why)
    return ON if why is None else why


def leave() -> None:
    """Put back what `follow` has patched."""
    global _io  # noqa: PLW0603
    _io = False
    trace_gil(False)
    trace_io(False)
    trace_collections(False)
    blocked.leave()


State = tuple[bool, bool, bool]
_naming = False
_io_followed = False
_io = False


def followed() -> State:
    """The patches made already."""
    return _naming, blocked.followed(), _io_followed


def forget(before: State) -> None:
    """Note that what `follow` has patched was put back: as it was `before`."""
    global _naming, _io_followed  # noqa: PLW0603 - patches are made once
    _naming = _naming and before[0]
    blocked.forget(before[1])
    _io_followed = _io_followed and before[2]


def _follow_io() -> None:
    """Modules that are imported later."""
    global _io, _io_followed  # noqa: PLW0603
    _io = True
    if not _io_followed:
        _io_followed = True
        for name in _MAKE_CALLS:
            when_imported(name, _module_loaded)


def _module_loaded(_module: ModuleType) -> None:
    if _io:
        trace_io(True)


def _tell_names() -> None:
    """A thread that waits cannot ask for its name."""
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
