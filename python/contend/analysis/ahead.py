"""A thread for work that is done meanwhile: reading files, or native code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


class Ahead:
    """One worker thread that does its jobs in turn: two readers at once would hold the memory of both."""

    def __init__(self, pool: ThreadPoolExecutor | None) -> None:
        self._pool = pool

    def begin(self, make: Callable[[], T]) -> Callable[[], T]:
        """Start `make()` in the thread. Returns a function that waits for the result, or raises what `make` raised;
        damage that it notes is noted here."""
        return make if self._pool is None else self._pool.submit(copy_context().run, make).result


@contextmanager
def ahead(*, worth_it: bool = True) -> Iterator[Ahead]:
    """A context with a worker thread; leaving it waits for what was begun. Where it is not `worth_it`, each job runs when
    its result is wanted: on a small run two things at once take more memory and hardly less time.

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
