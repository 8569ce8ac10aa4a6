"""Work that is done in a thread of its own meanwhile: what waits for files, or runs in native code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def ahead(make: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """Begin `make()`; what is yielded waits for its result, and raises what it raised. Damage that it notes is noted here.

    >>> with ahead(lambda: sum(range(10))) as result:
    ...     result()
    45
    """
    with ThreadPoolExecutor(1, "ahead") as pool:
        yield pool.submit(copy_context().run, make).result
