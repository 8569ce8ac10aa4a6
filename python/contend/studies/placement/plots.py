"""Pictures of a placement study: bars with intervals by place, and the aggregate against the number of pairs."""

from __future__ import annotations

import math
from typing import Any

from contend.report.plotkit import (
    COLOUR,
    Plot,
    Spec,
    bars_with_intervals,
    bounds,
    chart,
    dashed,
    dots,
    marks,
    quantity,
    ticks,
)
from contend.report.theme import series_colours
from contend.studies.placement.result import Aggregate, Measured, Placements
from contend.units import format_value

HEIGHT = 220
# metric: what the figure is of, unit of the axis, what a value is multiplied with
_SHOWN = {
    "throughput": ("Throughput", "MB/s, all pairs", 1.0),
    "cpu_per_gb": ("CPU time for 10^9 bytes", "CPU s/GB, whole machine", 1.0),
    "guests_cpu_per_gb": ("CPU time of both guests for 10^9 bytes", "CPU s/GB, both guests", 1.0),
    "latency_p50": ("Median latency at a stated rate", "ms", 1e3),
    "latency_p99": ("p99 latency at a stated rate", "ms", 1e3),
}


def placement_plots(placements: Placements) -> list[Plot]:
    """Plots (roles: placement, placement-pairs) of throughput, latency and CPU time by route, and by number of pairs."""
    colours = series_colours([route.short for route in placements.routes])
    made = []
    for metric in _SHOWN:
        of = [
            m
            for m in placements.measured
            if m.metric == metric
            and m.conditions.pairs == placements.first.pairs
            and math.isfinite(m.level.estimate.value)
        ]
        if of:
            made.append(_bars(metric, of, colours))
    return made + ([_pairs(placements, colours)] if placements.aggregates else [])


def _bars(metric: str, of: list[Measured], colours: dict[str, str]) -> Plot:
    """A group a traffic, a bar a place."""
    title, unit, scale = _SHOWN[metric]
    groups = list(dict.fromkeys(_traffic(m) for m in of))
    route_names = list(dict.fromkeys(m.route.short for m in of))
    values: list[dict[str, Any]] = []
    for m in of:
        estimate = m.level.estimate
        known = math.isfinite(estimate.low) and math.isfinite(estimate.high) and estimate.verdict != "too few"
        values.append(
            {
                "traffic": _traffic(m),
                "place": m.route.short,
                "value": estimate.value * scale,
                "low": (estimate.low if known else estimate.value) * scale,
                "high": (estimate.high if known else estimate.value) * scale,
                "colour": colours[m.route.short],
                "say": f"{_traffic(m)}, {m.route.short}: {format_value(estimate.value, estimate.unit)}",
            }
        )
    y = quantity("value", unit, ticks(5, [v["high"] for v in values]))
    return Plot(
        f"placement-{metric.replace('_', '-')}",
        "placement",
        title,
        "Bars are medians over trials, thin lines their intervals. Places are compared by the changes in the table, within"
        " blocks, not by these.",
        chart(HEIGHT, bars_with_intervals(("traffic", groups), ("place", route_names), y), values),
        {name: colours[name] for name in route_names},
        ("traffic", "ends on, in", title),
        tuple((_traffic(m), m.route.short, _level_text(m)) for m in of),
    )


def _traffic(of: Measured) -> str:
    return f"{of.conditions.protocol.upper()} {of.conditions.message} B"


def _level_text(of: Measured) -> str:
    e = of.level.estimate
    return f"{format_value(e.value, e.unit)} [{format_value(e.low, e.unit)}, {format_value(e.high, e.unit)}]"


def _pairs(placements: Placements, colours: dict[str, str]) -> Plot:
    """Lines by the number of pairs; dashed, in proportion to the baseline's fewest."""
    points: list[dict[str, Any]] = []
    for of in placements.aggregates:
        for number, level in of.levels.items():
            e = level.estimate
            known = math.isfinite(e.low) and math.isfinite(e.high) and e.verdict != "too few"
            points.append(
                {
                    "n": number,
                    "v": e.value,
                    "low": e.low if known else e.value,
                    "high": e.high if known else e.value,
                    "place": of.route.short,
                    "colour": colours[of.route.short],
                    "say": f"{of.route.short}, {number} pairs: {format_value(e.value, e.unit)}",
                }
            )
    most = max(p["high"] for p in points)
    numbers = sorted({p["n"] for p in points})
    axis = {"grid": False, "values": numbers, "format": "d"}
    x = quantity("n", "pairs at once", axis, domain=[0, 1.05 * numbers[-1]])
    y = quantity("v", "MB/s, all pairs", ticks(5, [most]), domain=[0, 1.1 * most])
    layers: list[Spec] = [
        marks("line", {"strokeWidth": 2}, x=x, y=y, color=COLOUR, detail="place"),
        marks("rule", {"strokeWidth": 1.5}, x=x, **bounds(y), color=COLOUR),
        dots(50, x=x, y=y),
        _proportion(placements.aggregates[0], most, x, y),
    ]
    route_names = [of.route.short for of in placements.aggregates]
    numbers_ = tuple(str(n) for n in numbers)
    table = tuple(
        (
            of.route.short,
            *(format_value(of.levels[n].estimate.value) if n in of.levels else "" for n in numbers),
        )
        for of in placements.aggregates
    )
    return Plot(
        "placement-pairs",
        "placement-pairs",
        "The aggregate against the number of pairs",
        "Throughput of all pairs together, medians over trials with their intervals. Dashed: in proportion to what the first"
        " place has with the fewest pairs.",
        chart(HEIGHT, layers, points),
        {name: colours[name] for name in dict.fromkeys(route_names)},
        ("MB/s of all pairs", *(f"{n} pairs" for n in numbers_)),
        table,
    )


def _proportion(of: Aggregate, most: float, x: Spec, y: Spec) -> Spec:
    least = min(of.levels)
    rate = of.levels[least].estimate.value / least
    end = min(max(of.levels), 1.1 * most / rate) if rate > 0 else least
    return dashed([{"n": 0, "v": 0}, {"n": end, "v": rate * end}], "line", x=x, y=y)
