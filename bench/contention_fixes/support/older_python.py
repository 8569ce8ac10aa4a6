"""What projects of 2012 to 2018 need of the standard library and CPython 3.11 no longer has. Import it before them."""

from __future__ import annotations

import collections
import collections.abc
import inspect
import time
from collections.abc import Callable, Sequence
from typing import Any


def formatargspec(
    args: Sequence[str],
    varargs: str | None = None,
    varkw: str | None = None,
    defaults: Sequence[object] | None = None,
    *_: object,
    formatvalue: Callable[[Any], str] = lambda value: f"={value!r}",
) -> str:
    """As `inspect` had it until Python 3.10; arguments by name only and annotations are left out."""
    given = tuple(defaults or ())
    first = len(args) - len(given)
    words = [name if k < first else name + formatvalue(given[k - first]) for k, name in enumerate(args)]
    words += [f"*{varargs}"] * bool(varargs) + [f"**{varkw}"] * bool(varkw)
    return f"({', '.join(words)})"


for name in collections.abc.__all__:  # until Python 3.9
    setattr(collections, name, getattr(collections.abc, name))
inspect.formatargspec = formatargspec  # type: ignore[attr-defined]
time.clock = time.perf_counter  # type: ignore[attr-defined] # until Python 3.7
