"""Pictures of storms of several sizes: the batch law with its intervals and every storm, and what a job's time goes to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from contend.contention.scaling import Growth, Scaling
from contend.contention.scaling_findings import duration
from contend.report.plotkit import Plot, Spec, band, chart, curve, dots, limit, quantity, ticks
from contend.report.theme import series_colours, var
from contend.stats.scaling import FURTHEST, Line
from contend.units import duration_unit, format_duration

HEIGHT = 260
PARTS = 7  # lines of parts, the rest of a job in one more
_STEPS = 40  # of a band's edge
_REST = "everything else"


def scaling_plots(of: Scaling) -> list[Plot]:
    """Plots of the batch law, and of the parts of a mean job."""
    return [_law(of), _parts(of)]


def _end(of: Scaling) -> float:
    """How far the axis of N goes: a little beyond what was measured, or to where the limit breaks."""
    end = 1.25 * of.sizes[-1]
    broken = [estimate.value for estimate in of.breaks.values() if estimate.verdict != "refused"]
    return min(max([end, *(1.1 * n for n in broken)]), FURTHEST * of.sizes[-1])


def _law(of: Scaling) -> Plot:
    end = _end(of)
    unit, size = duration_unit(max(line.value_at(end) for line in of.law.lines.values()))
    colours = series_colours(list(of.law.lines))
    points: list[dict[str, Any]] = [
        {
            "n": storm.jobs,
            "v": getattr(storm.times, f"{name}_ns") / size,
            "colour": colours[name],
            "say": _say(storm, name),
        }
        for storm in of.storms
        for name in of.law.lines
    ]
    y = _y(unit, "time of a storm", [p["v"] for p in points])
    layers = [
        *(_band(line, end, size, colours[name], y) for name, line in of.law.lines.items()),
        *(_straight(line, end, size, colours[name], y) for name, line in of.law.lines.items()),
        dots(45, 0.9, y=y),
        *([] if of.limit_ns is None else [limit(of.limit_ns / size, y)]),
    ]
    caption = (
        "Every point is a storm; lines are the batch law, bands where one more storm is to be expected "
        f"({100 * of.law.median.level:.0f} %). The lines begin at the start-up and rise by what each extra job adds."
    )
    if of.limit_ns is not None:
        caption += f" Dashed: the limit, {format_duration(of.limit_ns)}."
    table = tuple(
        (name, duration(line.start), duration(line.slope), _checked(line))
        for name, line in of.law.lines.items()
    )
    headers = ("of the jobs", "start", "per extra job", "largest N, held out: predicted, measured")
    return Plot(
        "scaling", "scaling", "The storm by its number of jobs", caption,
        _chart(layers, points, end), colours, headers, table,
    )  # fmt: skip


def _checked(line: Line) -> str:
    check = line.check
    if check is None:
        return "not checked"
    return f"{duration(check.predicted)}, {format_duration(check.measured)} ({100 * check.error:+.0f} %)"


def _say(storm: Any, name: str) -> str:
    value = getattr(storm.times, f"{name}_ns")
    return f"{name} of {storm.jobs} jobs: {format_duration(value)} ({storm.source})"


def _parts(of: Scaling) -> Plot:
    shown = sorted(of.parts, key=lambda g: -g.line.value_at(of.sizes[-1]))[:PARTS]
    names = [growth.key.words for growth in shown]
    colours = {**series_colours(names), _REST: var("alone")}
    end = 1.05 * of.sizes[-1]
    unit, size = duration_unit(max(storm.mean_ns for storm in of.storms))
    keys = {growth.key for growth in shown}
    points: list[dict[str, Any]] = []
    for storm in of.storms:
        values = {growth.key.words: storm.parts.get(growth.key, 0.0) for growth in shown}
        values[_REST] = sum(ns for key, ns in storm.parts.items() if key not in keys)
        points += [
            {
                "n": storm.jobs,
                "v": ns / size,
                "colour": colours[name],
                "say": f"{name}: {format_duration(ns)} a job",
            }
            for name, ns in values.items()
        ]
    y = _y(unit, "of a mean job", [p["v"] for p in points])
    layers = [_straight(g.line, end, size, colours[g.key.words], y) for g in shown]
    caption = (
        "What the time of a mean job goes to. The lines of all parts add up to that of the whole; "
        "steep ones are what stretches as jobs are added."
    )
    table = tuple(
        (g.key.words, duration(g.line.slope), f"{100 * g.share:.0f} %", _stretch(g))
        for g in of.parts
        if g.share >= 0.005
    )
    headers = ("part", "per extra job", "of the growth", f"N = {of.sizes[-1]} over N = {of.sizes[0]}")
    return Plot(
        "scaling-parts", "scaling-parts", "Where the time of a job goes", caption,
        _chart([*layers, dots(45, 0.9, y=y)], points, end), colours, headers, table,
    )  # fmt: skip


def _stretch(growth: Growth) -> str:
    return f"{growth.stretch:.3g} ×" if math.isfinite(growth.stretch) else "from nothing"


def _chart(layers: list[Spec], points: list[dict[str, Any]], end: float) -> Spec:
    x = quantity("n", "jobs that begin together (N)", {"grid": False, "tickMinStep": 1}, domain=[0, end])
    return chart(HEIGHT, layers, points, x=x)


def _y(unit: str, what: str, values: Sequence[float]) -> Spec:
    return quantity("v", f"{what}, {unit}", ticks(5, values))


def _straight(line: Line, end: float, size: float, colour: str, y: Spec) -> Spec:
    return curve(lambda n: line.value_at(n) / size, (0.0, end), colour, y)


def _band(line: Line, end: float, size: float, colour: str, y: Spec) -> Spec:
    def edges(n: float) -> tuple[float, float]:
        estimate = line.at(n, furthest=math.inf)
        return estimate.low / size, estimate.high / size

    return band(edges, (end * step / _STEPS for step in range(_STEPS + 1)), colour, y)
