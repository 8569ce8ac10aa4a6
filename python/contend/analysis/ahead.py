"""Work that is done in a thread of its own meanwhile: what waits for files, or runs in native code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


class Ahead:
    """One thread, which does what it is given in turn: two readers at once would hold the memory of both."""

    def __init__(self, pool: ThreadPoolExecutor | None) -> None:
        self._pool = pool

    def begin(self, make: Callable[[], T]) -> Callable[[], T]:
        """Begin `make()`. What is returned waits for its result, and raises what it raised; damage that it notes is
        noted here."""
        return make if self._pool is None else self._pool.submit(copy_context().run, make).result


@contextmanager
def ahead(*, worth_it: bool = True) -> Iterator[Ahead]:
    """Until the block ends, which waits for what was begun. Where it is not `worth_it` nothing is done until it is asked
    for, once each: of a small run two things at once take more memory and hardly less time.

    >>> with ahead() as meanwhile:
    ...     total = meanwhile.begin(lambda: sum(range(10)))
    ...     total()
    45
    """
    if not worth_it:
        yield Ahead(None)
        return
    with ThreadPoolExecutor(1, "ahead") as pool:
        yield Ahead(pool)
