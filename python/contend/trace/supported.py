"""Which interpreters can be traced. The recorder's books are kept under the interpreter's lock (GIL)."""

from __future__ import annotations

import sys


def check() -> None:
    """Raise ImportError, with what to do, where the native module cannot be had or is not safe.

    One module serves CPython from 3.11 on by the stable ABI, which free-threaded builds do not have: there the module
    has to be built for that very version. Then its import turns the lock on, unless that is forbidden.
    """
    try:
        import contend._native  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name == "contend._native" and "t" in getattr(sys, "abiflags", ""):
            raise ImportError(
                "contend.trace: no native module for this free-threaded Python: "
                "install contend from source with it, or run the program with a Python that has the GIL"
            ) from error
        raise
    if not getattr(sys, "_is_gil_enabled", _always)():
        raise ImportError(
            "contend.trace records under the interpreter's lock (GIL), which is off: unset PYTHON_GIL=0 and -X gil=0"
        )


def _always() -> bool:
    """Before 3.13 there is no way to turn it off."""
    return True
