"""A check of every object of a class, whichever test makes it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def every_made(of: type, check: Callable[[Any], None]) -> Iterator[None]:
    """Have `check` look at each one that is made meanwhile; what it raises, its maker raises."""
    original = of.__init__  # type: ignore[misc]

    @functools.wraps(original)
    def checked(self: object, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        check(self)

    of.__init__ = checked  # type: ignore[misc]
    try:
        yield
    finally:
        of.__init__ = original  # type: ignore[misc]
