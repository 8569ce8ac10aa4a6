"""Interpreters that can be traced."""

from __future__ import annotations

import sys


def check() -> None:
    """Raise ImportError, with what to do, where the native module cannot be had.

    One module serves CPython from 3.11 on by the stable ABI. Free-threaded builds look for it too, but have another ABI:
    there the module has to be built for that very version. It leaves the lock off.
    """
    if "t" in getattr(sys, "abiflags", ""):
        from importlib.util import find_spec

        spec = find_spec("contend._native")
        if spec is None or str(spec.origin).endswith(".abi3.so"):
            raise ImportError(
                "contend.trace: no native module for this free-threaded Python: "
                "install contend from source with it, or run the program with a Python that has the GIL"
            )


def has_gil() -> bool:
    """True if threads take turns by the interpreter's lock; before 3.13 there is no way to turn it off."""
    enabled = getattr(sys, "_is_gil_enabled", None)
    return enabled is None or bool(enabled())
