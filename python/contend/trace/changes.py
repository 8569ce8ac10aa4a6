"""Replacements in modules and classes, so that they can be put back: a running program is left as it was."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

_MISSING = object()
_LOCKS = ("Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore")


class Changes:
    """Replaced names, by their owner.

    >>> class Owner: limit = 1
    >>> changes = Changes()
    >>> changes.put(Owner, "limit", 2); Owner.limit
    2
    >>> changes.undo(); Owner.limit
    1
    """

    def __init__(self) -> None:
        self._made: list[tuple[Any, str, Any, Any]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Replace a name of a module, a class or an object."""
        before = vars(owner).get(name, _MISSING)
        setattr(owner, name, value)
        self._made.append((owner, name, before, vars(owner).get(name, _MISSING)))

    def watch(self, hook: Callable[[ModuleType], None], module: ModuleType) -> None:
        """Call a hook, and remember what it replaces in its module, the packages above, and the module's classes."""
        before = [(owner, dict(vars(owner))) for owner in _owners(module)]
        try:
            hook(module)
        finally:
            for owner, names in before:
                for name, value in list(vars(owner).items()):
                    was = names.get(name, _MISSING)
                    if was is not value:
                        self._made.append((owner, name, was, value))

    def follow_imports(self) -> int:
        """Replace what other modules imported by name: `from app.db import query`, `from threading import Lock`.

        How many names. References from elsewhere (a callback, a table of routes, a partial) stay as they are.
        """
        functions = {
            id(was): (was, value)
            for owner, _, was, value in self._made
            if isinstance(owner, ModuleType) and isinstance(was, FunctionType)
        }
        locks = {
            (name, id(was)): (was, value)
            for owner, name, was, value in self._made
            if name in _LOCKS and getattr(owner, "__name__", "") == "threading"
        }
        count = 0
        for module in list(sys.modules.values()):
            if not isinstance(module, ModuleType) or _is_apart(module.__name__):
                continue
            for name, held in list(vars(module).items()):
                change = functions.get(id(held)) or locks.get((name, id(held)))
                if change is not None:
                    self.put(module, name, change[1])
                    count += 1
        return count

    def undo(self) -> None:
        """Put everything back, the last change first; what somebody else has replaced since stays."""
        while self._made:
            owner, name, before, value = self._made.pop()
            if vars(owner).get(name, _MISSING) is not value:
                continue
            if before is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, before)


def _is_apart(module: str) -> bool:
    """Modules that must keep the locks and functions they have: our own, and what locks are made of."""
    return module.partition(".")[0] == "contend" or module in ("threading", "_thread")


def _owners(module: ModuleType) -> Iterator[Any]:
    yield module
    package = module.__name__.rpartition(".")[0]
    while package:
        above = sys.modules.get(package)
        if isinstance(above, ModuleType):
            yield above
        package = package.rpartition(".")[0]
    seen: set[int] = set()
    waiting = [value for value in list(vars(module).values()) if isinstance(value, type)]
    while waiting:
        owner = waiting.pop()
        if id(owner) in seen or owner.__module__ != module.__name__:
            continue
        seen.add(id(owner))
        yield owner
        waiting += [value for value in list(vars(owner).values()) if isinstance(value, type)]
