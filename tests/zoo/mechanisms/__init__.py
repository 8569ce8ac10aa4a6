"""The mechanisms, a module each: `ABOUT` (a line), `FLAVOURS`, `FRONT` (whether it drives the jobs) and `draw`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from random import Random
from typing import Protocol, cast

from zoo.parts import Part

THREADED = ("threads", "eventlet", "gevent")
"""Flavours whose jobs are plain functions: greenlets under a monkey patch run the code of threads."""
FLAVOURS = (*THREADED, "asyncio", "processes")


class Mechanism(Protocol):
    """A module of this folder."""

    ABOUT: str
    FLAVOURS: tuple[str, ...]
    FRONT: bool

    def draw(self, rng: Random, flavour: str) -> Part:
        """Make the part of a program, the same for the same state of the generator."""
        ...


def mechanisms() -> Mapping[str, Mechanism]:
    """All mechanisms by name, in alphabetical order."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name: cast(Mechanism, importlib.import_module(f"{__name__}.{name}")) for name in names}
