"""Who is held back at a time: nobody, nobody with all the writes made, each suspect, and suspects together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

HELD, NOBODY, SHAM = "held back", "nobody", "nobody (control)"
"""The factor, and its levels besides the suspects."""
FACTORIAL = 3
"""Suspects of which every combination is tried: of four it would be sixteen."""
_AND = " + "


def together(suspects: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """Who is held back at each level: each suspect, and every combination of them, of many all at once.

    >>> together(["a", "b"])
    {'a': ('a',), 'b': ('b',), 'a + b': ('a', 'b')}
    >>> list(together("abcd"))
    ['a', 'b', 'c', 'd', 'a + b + c + d']
    """
    n = len(suspects)
    sizes = range(1, n + 1) if n <= FACTORIAL else (1, n)
    return {_AND.join(of): of for size in sizes for of in combinations(suspects, size)}
