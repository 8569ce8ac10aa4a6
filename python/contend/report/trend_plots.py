"""The picture of a trend: every run's level with its interval, oldest first, and where the level changed."""

from __future__ import annotations

import statistics
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from contend.report.plotkit import Plot, Spec, axis_format, chart
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
    """Role: trend. what: the metric and its cell."""
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
    y: Spec = {
        "field": "v",
        "type": "quantitative",
        "title": f"{what}, {unit}" if len(what) + len(unit) < 40 else unit,
        "scale": {"zero": False, "nice": True},
        "axis": {"tickCount": 6, "format": axis_format([p["v"] for p in points])},
    }
    x: Spec = {
        "field": "x",
        "type": "quantitative",
        "title": "run, oldest first",
        "scale": {"domain": [0.4, len(points) + 0.6], "nice": False},
        "axis": {"grid": False, "tickMinStep": 1, "format": "d"},
    }
    levels = [_levels(trend, size, y)] if trend.changes else []
    layers = [*_changes(trend), _intervals(y), *levels, _dots(y)]
    for layer in layers:
        layer["encoding"].setdefault("x", x)
    many = len(trend.changes)
    caption = (
        "Each point is one run: the median of its trials, with its 95 % interval, in which nothing is of what differs from"
        " run to run. The axis does not begin at zero."
    )
    if many:
        caption += f" Dashed: where the level of the runs changed ({many}); lines are the median of the runs of one level."
    legend = {_NAMES["points"]: var("c1"), **({_NAMES["levels"]: var("c2")} if many else {})}
    return Plot(
        "trend", "trend", f"{what}, run by run", caption, chart(HEIGHT, layers, points), legend, (), ()
    )


def _scale(trend: Trend) -> tuple[float, str]:
    """Factor and unit in which the largest level reads best."""
    most = max(point.estimate.value for point in trend.points)
    if trend.unit not in ("s", "ns"):
        return 1.0, trend.unit
    seconds = most if trend.unit == "s" else most / 1e9
    unit, size_ns = duration_unit(seconds * 1e9)
    return (1e9 / size_ns if trend.unit == "s" else 1 / size_ns), unit


def _intervals(y: Spec) -> Spec:
    return {
        "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.45, "color": var("c1"), "clip": True},
        "encoding": {"y": {**y, "field": "low"}, "y2": {"field": "high"}},
        "transform": [{"filter": "isValid(datum.low) && isValid(datum.high)"}],
    }


def _dots(y: Spec) -> Spec:
    return {
        "mark": {
            "type": "point",
            "filled": True,
            "size": 60,
            "opacity": 1,
            "color": var("c1"),
            "cursor": "pointer",
        },
        "encoding": {"y": y, "tooltip": {"field": "say"}, "href": {"field": "href"}},
    }


def _levels(trend: Trend, size: float, y: Spec) -> Spec:
    bounds = [0, *(change.first for change in trend.changes), len(trend.points)]
    values: list[dict[str, Any]] = []
    for a, b in pairwise(bounds):
        middle = statistics.median(point.estimate.value for point in trend.points[a:b]) * size
        values.append({"x": a + 0.6, "x2": b + 0.4, "v": middle})
    return {
        "data": {"values": values},
        "mark": {"type": "rule", "strokeWidth": 2.5, "color": var("c2")},
        "encoding": {"y": y, "x2": {"field": "x2"}},
    }


def _changes(trend: Trend) -> list[Spec]:
    values = [{"x": change.first + 0.5, "say": str(n)} for n, change in enumerate(trend.changes, 1)]
    if not values:
        return []
    line: Spec = {
        "data": {"values": values},
        "mark": {"type": "rule", "strokeDash": [6, 4], "strokeWidth": 1.5, "color": var("warn")},
        "encoding": {},
    }
    label: Spec = {
        "data": {"values": values},
        "mark": {
            "type": "text",
            "dx": 8,
            "y": 10,
            "fontSize": 13,
            "fontWeight": "bold",
            "color": var("warn"),
        },
        "encoding": {"text": {"field": "say"}},
    }
    return [line, label]
