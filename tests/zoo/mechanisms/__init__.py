"""The mechanisms, a module each: its docstring is one line about it, `FLAVOURS` says in which programs it can be, and `draw`
makes its part of one. `FRONT = True` where it drives the jobs, which one mechanism of a program can.
`NOT_WITH` names mechanisms that no program can have beside it. `UNSUPPORTED` says why what-if is not expected to answer of
programs with it: docs/guides/what-if.md tells the same to users, and scores are told with and without them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from zoo.parts import Part

THREADED = ("threads", "eventlet", "gevent")
"""Flavours whose jobs are plain functions: greenlets under a monkey patch run the code of threads."""
FLAVOURS = (*THREADED, "asyncio", "processes")


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A module of this folder. draw: makes the part of a program of that flavour, the same for the same generator."""

    about: str
    flavours: tuple[str, ...]
    front: bool
    not_with: tuple[str, ...]
    unsupported: str
    draw: Callable[[Random, str], Part]


def mechanisms() -> Mapping[str, Mechanism]:
    """All mechanisms by name, in alphabetical order."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = {name: importlib.import_module(f"{__name__}.{name}") for name in names}
    return {
        name: Mechanism(
            module.__doc__ or "",
            module.FLAVOURS,
            getattr(module, "FRONT", False),
            getattr(module, "NOT_WITH", ()),
            getattr(module, "UNSUPPORTED", ""),
            module.draw,
        )
        for name, module in modules.items()
    }
