"""Blockers: what keeps an event loop or a hub from all others, asked for only when it takes or has taken too long.

asyncio's own loops run every callback and every step of a task by `Handle._run`; loops that do not, such as uvloop's,
are not looked at. Greenlets are looked at where a hub of eventlet or gevent runs on their thread.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, ModuleType
from typing import Any

from contend._native import trace_blocked, trace_frame, trace_wrap
from contend.trace.imports import when_imported

LOOP, HUB = "event loop", "hub"
_CALLBACK = 4  # of trace_wrap
_THROUGH = ("/eventlet/", "/gevent/", "/greenlet/", "/contend/trace/", "/asyncio/")

_STANDARD = os.path.dirname(os.__file__) + "/"  # noqa: PTH120 - pathlib would be imported into every service for it

_followed = False


def follow(limit_ms: float) -> None:
    """Record each run of a loop or hub that takes longer than the limit, from now on."""
    global _followed  # noqa: PLW0603 - patches are made once
    if not _followed:
        _followed = True
        when_imported("asyncio.events", _follow_handles)
        when_imported("eventlet.greenthread", _follow_spawns)
    trace_blocked(max(1, round(limit_ms * 1e6)), describe, look)


def leave() -> None:
    """Stop recording them."""
    trace_blocked(0, describe, look)


def followed() -> bool:
    """True if loops and hubs were patched already."""
    return _followed


def forget(before: bool) -> None:
    """Note that what `follow` has patched was put back: as it was `before`."""
    global _followed  # noqa: PLW0603
    _followed = _followed and before


def describe(subject: Any) -> tuple[str, str, str, int | None] | None:
    """Describe a handle or greenlet that has run: its loop, its name, `file:line`, how many were ready behind it.

    None for what may take its time: the hub itself, and greenlets of no hub.
    """
    events = sys.modules.get("asyncio.events")
    if events is not None and isinstance(subject, events.Handle):
        ready = getattr(getattr(subject, "_loop", None), "_ready", None)
        name, site = _of_handle(subject)
        return LOOP, name, site, None if ready is None else len(ready)
    hub, ready = _hub()
    if hub is None or subject is hub:
        return None
    name, site = _of_greenlet(subject)
    return HUB, name, site, ready


def look(thread: int) -> tuple[str, str] | None:
    """Return the function that a thread is in, and `file:line`; None where nothing but a loop or hub runs.

    The innermost function of the program, else of a library. Is called by a thread of our own, also while a monkey patch
    is in force: it waits for nothing.
    """
    frames = [f for f in _frames(trace_frame(thread)) if not _passes_through(f.f_code)]
    own = [frame for frame in frames if not _of_library(frame.f_code)]
    for frame in own or frames:
        return frame.f_code.co_qualname, f"{frame.f_code.co_filename}:{frame.f_lineno}"
    return None


def _of_library(code: CodeType) -> bool:
    file = code.co_filename
    return file.startswith((_STANDARD, "<frozen")) or "/site-packages/" in file or "/dist-packages/" in file


def _follow_handles(module: ModuleType) -> None:
    run = module.Handle._run
    module.Handle._run = functools.update_wrapper(trace_wrap(run, "asyncio:Handle._run", _CALLBACK), run)


def _of_handle(handle: Any) -> tuple[str, str]:
    callback: Any = getattr(handle, "_callback", None)
    coroutine_of = getattr(getattr(callback, "__self__", None), "get_coro", None)
    if coroutine_of is not None:
        coroutine = coroutine_of()
        if coroutine is not None:
            return _qualname(coroutine), _suspended_at(coroutine)
    while hasattr(callback, "func"):
        callback = callback.func  # functools.partial
    callback = getattr(callback, "__func__", callback)
    code = getattr(getattr(callback, "__wrapped__", callback), "__code__", None)
    return _qualname(callback), _site(code)


def _suspended_at(coroutine: Any) -> str:
    """Where it gave the loop back: in what it awaits, as far as that is the program's."""
    code = getattr(coroutine, "cr_code", None)
    site = _site(code)
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None)
        if frame is not None and not _passes_through(frame.f_code):
            site = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        coroutine = getattr(coroutine, "cr_await", None)
    return site


def _hub() -> tuple[Any, int | None]:
    """The greenlet of this thread's hub, and how many timers of it are due; None where there is none."""
    hubs = sys.modules.get("eventlet.hubs")
    hub = getattr(getattr(hubs, "_threadlocal", None), "hub", None)
    if hub is not None:
        now = getattr(hub, "clock", time.monotonic)()
        timers = getattr(hub, "timers", ())
        return getattr(hub, "greenlet", None), sum(1 for timer in list(timers) if timer[0] <= now)
    module = sys.modules.get("gevent._hub_local")
    return (module.get_hub_if_exists(), None) if module is not None else (None, None)


def _of_greenlet(greenlet: Any) -> tuple[str, str]:
    """The function it began with, and where it let others run; of one that has ended its function only."""
    # Of the one that runs greenlet knows no frame: it is about to let others run, and ours is on top.
    getcurrent = getattr(sys.modules.get("greenlet"), "getcurrent", lambda: None)
    frame = sys._getframe() if getcurrent() is greenlet else getattr(greenlet, "gr_frame", None)
    frames = [f for f in _frames(frame) if not _passes_through(f.f_code)]
    if frames:
        site = f"{frames[0].f_code.co_filename}:{frames[0].f_lineno}"
        return frames[-1].f_code.co_qualname, site
    began_with = getattr(greenlet, "_contend_function", None)
    if began_with is None:
        return f"{type(greenlet).__qualname__} (ended)", ""
    return _qualname(began_with), _site(getattr(began_with, "__code__", None))


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _follow_spawns(module: ModuleType) -> None:
    package = sys.modules.get("eventlet")
    for name in ("spawn", "spawn_n", "spawn_after"):
        original = getattr(module, name)
        spawn = _spawns(original, 1 if name == "spawn_after" else 0)
        setattr(module, name, spawn)
        if getattr(package, name, None) is original:
            setattr(package, name, spawn)


def _spawns(original: Callable[..., Any], at: int) -> Callable[..., Any]:
    """A greenlet that has ended does not know any more what it ran."""

    @functools.wraps(original)
    def spawn(*args: Any, **options: Any) -> Any:
        made = original(*args, **options)
        function = args[at] if len(args) > at else None
        if getattr(function, "__name__", "") == "_spawn_n_impl" and len(args) > at + 1:
            function = args[at + 1]  # of a GreenPool
        if hasattr(made, "__dict__"):
            made._contend_function = function
        return made

    return spawn


def _passes_through(code: CodeType) -> bool:
    return any(part in code.co_filename for part in _THROUGH)


def _qualname(thing: Any) -> str:
    return getattr(thing, "__qualname__", None) or type(thing).__qualname__


def _site(code: CodeType | None) -> str:
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""
