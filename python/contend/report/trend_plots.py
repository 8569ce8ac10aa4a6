"""The picture of a trend: every run's level with its interval, oldest first, and where the level changed."""

from __future__ import annotations

import statistics
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from contend.report.plotkit import Plot, Spec, bounds, chart, marks, quantity, ticks
from contend.report.theme import var
from contend.units import duration_unit, format_value

if TYPE_CHECKING:
    from contend.serve.trend import Trend

HEIGHT = 300
_NAMES = {
    "points": "a run: median of its trials, with its interval",
    "levels": "median of the runs of one level",
}


def trend_plot(trend: Trend, what: str) -> Plot:
    """The plot (role: trend) of a metric over runs. what: the metric and its cell."""
    size, unit = _scale(trend)
    points: list[dict[str, Any]] = [
        {
            "x": number,
            "v": point.estimate.value * size,
            "low": point.estimate.low * size,
            "high": point.estimate.high * size,
            "href": f"/run/{quote(point.entry.name, safe='')}",
            "say": f"{number}: {format_value(point.estimate.value, point.estimate.unit)}, {point.entry.name}",
            **({} if point.estimate.verdict == "level" else {"low": None, "high": None}),
        }
        for number, point in enumerate(trend.points, 1)
    ]
    title = f"{what}, {unit}" if len(what) + len(unit) < 40 else unit
    y = quantity("v", title, ticks(6, [p["v"] for p in points]), zero=False, nice=True)
    axis = {"grid": False, "tickMinStep": 1, "format": "d"}
    x = quantity("x", "run, oldest first", axis, domain=[0.4, len(points) + 0.6])
    levels = [_levels(trend, size, y)] if trend.changes else []
    blue = {"color": var("c1")}
    thin = {"strokeWidth": 2, "opacity": 0.45, "clip": True, **blue}
    intervals = marks("rule", thin, where="isValid(datum.low) && isValid(datum.high)", **bounds(y))
    point = {"filled": True, "size": 60, "opacity": 1, "cursor": "pointer", **blue}
    runs = marks("point", point, y=y, tooltip="say", href="href")
    layers = [*_changes(trend), intervals, *levels, runs]
    many = len(trend.changes)
    caption = (
        "Each point is one run: the median of its trials, with its 95 % interval, in which nothing is of what differs from"
        " run to run. The axis does not begin at zero."
    )
    if many:
        caption += f" Dashed: where the level of the runs changed ({many}); lines are the median of the runs of one level."
    legend = {_NAMES["points"]: var("c1"), **({_NAMES["levels"]: var("c2")} if many else {})}
    return Plot(
        "trend", "trend", f"{what}, run by run", caption, chart(HEIGHT, layers, points, x=x), legend, (), ()
    )


def _scale(trend: Trend) -> tuple[float, str]:
    """Factor and unit in which the largest level reads best."""
    most = max(point.estimate.value for point in trend.points)
    if trend.unit not in ("s", "ns"):
        return 1.0, trend.unit
    seconds = most if trend.unit == "s" else most / 1e9
    unit, size_ns = duration_unit(seconds * 1e9)
    return (1e9 / size_ns if trend.unit == "s" else 1 / size_ns), unit


def _levels(trend: Trend, size: float, y: Spec) -> Spec:
    ends = [0, *(change.first for change in trend.changes), len(trend.points)]
    values: list[dict[str, Any]] = []
    for a, b in pairwise(ends):
        middle = statistics.median(point.estimate.value for point in trend.points[a:b]) * size
        values.append({"x": a + 0.6, "x2": b + 0.4, "v": middle})
    return marks("rule", {"strokeWidth": 2.5, "color": var("c2")}, values=values, y=y, x2="x2")


def _changes(trend: Trend) -> list[Spec]:
    values = [{"x": change.first + 0.5, "say": str(n)} for n, change in enumerate(trend.changes, 1)]
    if not values:
        return []
    line = marks("rule", {"strokeDash": [6, 4], "strokeWidth": 1.5, "color": var("warn")}, values=values)
    bold = {"dx": 8, "y": 10, "fontSize": 13, "fontWeight": "bold", "color": var("warn")}
    return [line, marks("text", bold, values=values, text="say")]
