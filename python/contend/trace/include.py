"""Functions by pattern, traced as their modules are imported: `nova.compute.manager:*`."""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Sequence
from types import FunctionType, ModuleType
from typing import Any

from contend.trace.calls import traced
from contend.trace.imports import Hook, hooks

# Of the special methods only these do a program's own work; others run in places where a span says nothing.
_SPECIAL = ("__init__", "__call__", "__enter__", "__exit__", "__aenter__", "__aexit__")


class Include:
    """Functions to trace: patterns `MODULE:NAME` with * and ?, NAME as in __qualname__.

    A pattern without a colon means everything in the modules that match it. What `exclude` matches is left alone.

    >>> include = Include(["app.*:Store.*"], ["app.secret"])
    >>> include.wants("app.db", "Store.get"), include.wants("app.db", "get"), include.wants("app.secret", "Store.x")
    (True, False, False)
    """

    def __init__(self, include: Sequence[str], exclude: Sequence[str] = ()) -> None:
        self._include = [_parts(pattern) for pattern in include]
        self._exclude = [_parts(pattern) for pattern in exclude]
        self.count = 0
        """Functions that are traced by now."""

    def wants(self, module: str, name: str) -> bool:
        """True if that function matches the patterns."""

        def matches(pattern: tuple[str, str]) -> bool:
            return fnmatch.fnmatchcase(module, pattern[0]) and fnmatch.fnmatchcase(name, pattern[1])

        return any(map(matches, self._include)) and not any(map(matches, self._exclude))

    def install(self) -> None:
        """Trace matching functions of imported modules now, of others when they are imported."""
        if not self._include:
            return
        hooks.every = self._hook
        hooks.install()
        for name, module in list(sys.modules.items()):
            if self._hook(name) is not None and isinstance(module, ModuleType):
                hooks.call(self.trace, module)

    def _hook(self, module: str) -> Hook | None:
        # What traces is not traced: it would call itself.
        if module.partition(".")[0] == "contend":
            return None
        wanted = any(fnmatch.fnmatchcase(module, pattern) for pattern, _ in self._include)
        return self.trace if wanted else None

    def trace(self, module: ModuleType) -> None:
        """Put traced functions in the place of those that the module defines and the patterns match."""
        for name, value in list(vars(module).items()):
            if getattr(value, "__module__", None) == module.__name__:
                self._replace(module, module.__name__, name, value)

    def _replace(self, owner: Any, module: str, name: str, value: Any) -> None:
        if isinstance(value, type):
            if value is not owner:
                for inner, member in list(vars(value).items()):
                    self._member(value, module, inner, member)
        elif isinstance(value, FunctionType) and self.wants(module, value.__qualname__):
            setattr(owner, name, traced(value))
            self.count += 1

    def _member(self, owner: type, module: str, name: str, member: Any) -> None:
        if name.startswith("__") and name.endswith("__") and name not in _SPECIAL:
            return
        if isinstance(member, type):
            # A class inside; not one that is only kept there.
            if member.__module__ == module and member.__qualname__ == f"{owner.__qualname__}.{name}":
                self._replace(owner, module, name, member)
            return
        if isinstance(member, (FunctionType, classmethod, staticmethod, property)) and self.wants(
            module, f"{owner.__qualname__}.{name}"
        ):
            try:
                setattr(owner, name, traced(member))
                self.count += 1
            except (AttributeError, TypeError):
                return  # a class that does not let itself be changed stays as it is


def _parts(pattern: str) -> tuple[str, str]:
    module, colon, name = pattern.partition(":")
    return module, name if colon else "*"
