"""Tracks of what runs on a thread in turn: asyncio tasks and greenlets, wherever they come in."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from contend._native import trace_greenlets, trace_on, trace_spawned, trace_task
from contend.trace.imports import when_imported

_followed = False


def follow() -> None:
    """Give each asyncio task and greenlet that begins from now on its track. Once a process."""
    global _followed  # noqa: PLW0603 - patches are made once
    if not _followed:
        _followed = True
        when_imported("asyncio.base_events", _follow_tasks)
        when_imported("asyncio.tasks", _follow_names)
        when_imported("asyncio.taskgroups", _follow_groups)
        when_imported("greenlet", _follow_greenlets)
        when_imported("eventlet.greenthread", _follow_spawns)
        when_imported("gevent", _follow_gevent)


def followed() -> bool:
    """True if tasks and greenlets are followed already."""
    return _followed


def forget(before: bool) -> None:
    """Note that what `follow` has patched was put back: as it was `before`."""
    global _followed  # noqa: PLW0603
    if _followed and not before:
        _followed = False
        if "greenlet" in sys.modules:
            trace_greenlets(False)
        if "gevent.greenlet" in sys.modules:
            sys.modules["gevent.greenlet"].Greenlet.remove_spawn_callback(trace_spawned)


def _follow_greenlets(_module: ModuleType) -> None:
    trace_greenlets(True)


def _follow_gevent(_module: ModuleType) -> None:
    # Its hub and its greenlets switch from C, past the methods.
    trace_greenlets(True, by_callback=True)
    sys.modules["gevent.greenlet"].Greenlet.add_spawn_callback(trace_spawned)


def _follow_spawns(module: ModuleType) -> None:
    # A GreenPool and threads under a monkey patch end here, too.
    package = sys.modules.get("eventlet")
    for name in ("spawn", "spawn_n"):
        original = getattr(module, name)
        spawn = _spawning(original)
        setattr(module, name, spawn)
        if getattr(package, name, None) is original:
            setattr(package, name, spawn)


def _spawning(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def spawn(*args: Any, **options: Any) -> Any:
        made = original(*args, **options)
        if trace_on():
            trace_spawned(made)
        return made

    return spawn


def _follow_tasks(module: ModuleType) -> None:
    # Every task is made by its loop: asyncio.create_task, gather, run, TaskGroup, ensure_future end here.
    original = module.BaseEventLoop.create_task

    @functools.wraps(original)
    def create_task(self: Any, coro: Any, **options: Any) -> Any:
        if trace_on() and hasattr(coro, "send"):
            name = options.get("name") or getattr(_named, "name", None) or _name(coro)
            coro = trace_task(coro, str(name))
        return original(self, coro, **options)

    module.BaseEventLoop.create_task = create_task


# Up to 3.12 a task gets its name only after its loop has made it: whoever is asked for a named one says so meanwhile.
_named = threading.local()


def _naming(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def create_task(*args: Any, name: str | None = None, **options: Any) -> Any:
        _named.name = name
        try:
            return original(*args, name=name, **options)
        finally:
            _named.name = None

    return create_task


def _follow_names(module: ModuleType) -> None:
    original = module.create_task
    module.create_task = _naming(original)  # type: ignore[attr-defined]
    package = sys.modules["asyncio"]
    if getattr(package, "create_task", None) is original:
        package.create_task = module.create_task  # type: ignore[attr-defined]


def _follow_groups(module: ModuleType) -> None:
    module.TaskGroup.create_task = _naming(module.TaskGroup.create_task)


def _name(coroutine: Any) -> str:
    """Name of its function: tasks' own names, `Task-1` and so on, never end."""
    return getattr(coroutine, "__qualname__", None) or type(coroutine).__qualname__
