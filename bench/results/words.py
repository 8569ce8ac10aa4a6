"""How pages, and figures that are quoted from them, are written: filters and functions for their templates."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from contend.stats.compare import compare
from contend.stats.quantiles import clopper_pearson
from contend.units import format_ratio


def pct(value: float, digits: int = 0) -> str:
    """
    >>> pct(0.123, 1)
    '12.3 %'
    """
    return f"{100 * value:.{digits}f} %"


def fixed(value: float, digits: int = 1) -> str:
    """
    >>> fixed(1234.5, 0)
    '1,234'
    """
    return f"{value:,.{digits}f}"


def signed(value: float, digits: int = 1) -> str:
    """
    >>> signed(1.24)
    '+1.2'
    """
    return f"{value:+,.{digits}f}"


def duration(seconds: float) -> str:
    """
    >>> duration(61), duration(30), duration(7300)
    ('61 s', '30 s', '2.0 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def bounds(low: float, high: float, digits: int = 1) -> str:
    """
    >>> bounds(0.5, 0.75)
    '50.0 % – 75.0 %'
    """
    return f"{pct(low, digits)} – {pct(high, digits)}"


def interval(of: Any, digits: int = 2) -> str:
    """Of an estimate, an object or as it is in JSON.

    >>> interval({"value": 1.234, "low": 1.2, "high": 1.3})
    '1.23 [1.20, 1.30]'
    """
    value, low, high = (
        (of[k] if isinstance(of, Mapping) else getattr(of, k)) for k in ("value", "low", "high")
    )
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def ratio(base: Sequence[float], other: Sequence[float]) -> Any:
    """Of pairs: within blocks of one run each, with its 95 % interval."""
    return compare(base, other, blocks=range(len(base)))


def table(head: Sequence[str], rows: Iterable[Sequence[object]], align: str = "") -> str:
    """Markdown. `align`: a letter a column, l or r.

    >>> print(table(["a", "b"], [["x", 1]], "lr"))
    | a | b |
    |---|--:|
    | x | 1 |
    """
    marks = {"l": "---", "r": "--:"}
    lines = [_row(head), "|" + "|".join(marks[one] for one in (align or "l" * len(head))) + "|"]
    return "\n".join([*lines, *map(_row, rows)])


def _row(cells: Iterable[object]) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def fence(text: str) -> str:
    """As a terminal showed it."""
    return "```\n" + "\n".join(line.rstrip() for line in text.strip("\n").splitlines()) + "\n```"


def search(pattern: str, text: str) -> str:
    """What the first group of a pattern finds; LookupError where it finds nothing.

    >>> search("in ([0-9]+) s", "done in 12 s")
    '12'
    """
    if (found := re.search(pattern, text)) is None:
        raise LookupError(f"nothing is like '{pattern}'")
    return found[1]


def three(of: Sequence[float]) -> str:
    """A ratio and its interval, to the digits that it has.

    >>> three([0.2216, 0.19, 0.258])
    '0.22 [0.19, 0.26]'
    """
    return str(format_ratio(*of))


def ms(seconds: float) -> str:
    """Whole milliseconds.

    >>> ms(0.0405)
    '40'
    """
    return f"{1e3 * seconds:.0f}"


FILTERS = {
    "three": three,
    "ms": ms,
    "value": lambda text: str(text).partition(" ")[0],
    "pct": pct,
    "fixed": fixed,
    "signed": signed,
    "duration": duration,
    "interval": interval,
}
FUNCTIONS = {
    "bounds": bounds,
    "search": search,
    "ratio": ratio,
    "clopper_pearson": clopper_pearson,
    "median": statistics.median,
    "sum": sum,
    "min": min,
    "max": max,
    "len": len,
    "abs": abs,
}
