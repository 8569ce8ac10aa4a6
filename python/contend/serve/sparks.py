"""Sparklines: how one figure went over the last runs of a scenario, as small as a word."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

WIDTH, HEIGHT, EDGE = 96, 20, 3


def spark(values: Sequence[float], says: str, *, line: str = "#7d8694", dot: str = "#3b82f6") -> str:
    """A line through the values, oldest first, from the least to the most; a dot at the last. says: for who cannot see it.

    As a picture of its own it takes no colours from a page: those it has can be seen on light and on dark.

    >>> spark([1, 3, 2], "wall")[:61]
    '<svg xmlns="http://www.w3.org/2000/svg" width="96" height="20'
    """
    low, high = min(values), max(values)
    across, up = (WIDTH - 2 * EDGE) / max(1, len(values) - 1), HEIGHT - 2 * EDGE
    points = [
        (EDGE + across * n, HEIGHT / 2 if high == low else EDGE + up * (high - value) / (high - low))
        for n, value in enumerate(values)
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    x, y = points[-1]
    text = escape(says)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
        f' role="img"><title>{text}</title><polyline points="{path}" fill="none" stroke="{line}" stroke-width="1.5"'
        f' stroke-linejoin="round"/><circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="{dot}"/></svg>'
    )
