"""Pictures of growth: latency against population, a figure a kind, every visit and the trend with its interval."""

from __future__ import annotations

from typing import Any

from contend.report.plotkit import Plot, Spec, axis_format, chart
from contend.report.theme import series_colours, var
from contend.stats.trend import PER
from contend.studies.growth.result import Call, Grown, Growths, broken, milliseconds
from contend.units import format_duration

HEIGHT = 240
_STEPS = 30  # of a band's edge


def growth_plots(growths: Growths) -> list[Plot]:
    """Role: growth; one for each kind that has figures."""
    return [_plot(grown, growths.slo_s) for grown in growths.kinds if grown.calls]


def _plot(grown: Grown, slo_s: float) -> Plot:
    colours = series_colours([call.name for call in grown.calls])
    most_s = max(visit.value for call in grown.calls for visit in call.latency.visits)
    size, unit = (1.0, "s") if most_s >= 1 else (1e3, "ms")
    end = 1.02 * max(call.latency.largest for call in grown.calls)
    points: list[dict[str, Any]] = [
        {
            "n": visit.population,
            "v": visit.value * size,
            "colour": colours[call.name],
            "say": f"{call.title}: {format_duration(1e9 * visit.value)} at {visit.population:.0f}",
        }
        for call in grown.calls
        for visit in call.latency.visits
    ]
    y: Spec = {
        "field": "v",
        "type": "quantitative",
        "title": f"a typical call, {unit}",
        "scale": {"zero": True, "nice": True},
        "axis": {"tickCount": 5, "format": axis_format([point["v"] for point in points])},
    }
    layers = [_band(call, end, size, colours[call.name], y) for call in grown.calls]
    layers += [_line(call, end, size, colours[call.name], y) for call in grown.calls]
    layers.append(_dots(y))
    if slo_s <= 1.5 * most_s:
        layers.append(_limit(slo_s * size, y))
    x = {
        "field": "n",
        "type": "quantitative",
        "title": f"{grown.kind} entities there are",
        "scale": {"domain": [0, end], "nice": False},
        "axis": {"grid": False, "tickMinStep": 1},
    }
    for layer in layers:
        layer["encoding"].setdefault("x", x)
    caption = (
        "Every point is a visit on the way up or down, the median of its calls as the clock has it; lines are the trend"
        " once control and time are taken out, bands its interval."
    )
    if slo_s <= 1.5 * most_s:
        caption += f" Dashed: the SLO, {format_duration(1e9 * slo_s)}."
    table = tuple(
        (call.name, milliseconds(call.latency.slope), call.latency.shape, broken(call.breaks))
        for call in grown.calls
    )
    headers = ("call", f"ms per {PER:g} more", "grows", "misses the SLO from")
    title = f"Calls about {grown.kind} entities, by how many there are"
    return Plot(
        f"growth-{grown.kind}",
        "growth",
        title,
        caption,
        chart(HEIGHT, layers, points),
        colours,
        headers,
        table,
    )


def _dots(y: Spec) -> Spec:
    colour = {"field": "colour", "type": "nominal", "scale": None, "legend": None}
    return {
        "mark": {"type": "point", "filled": True, "size": 40, "opacity": 0.85},
        "encoding": {"y": y, "color": colour, "tooltip": {"field": "say"}},
    }


def _line(call: Call, end: float, size: float, colour: str, y: Spec) -> Spec:
    values = [
        {"n": n, "v": max(call.latency.at(n).value, 0.0) * size}
        for n in (end * step / _STEPS for step in range(_STEPS + 1))
    ]
    return {
        "data": {"values": values},
        "mark": {"type": "line", "strokeWidth": 2, "color": colour},
        "encoding": {"y": y},
    }


def _band(call: Call, end: float, size: float, colour: str, y: Spec) -> Spec:
    values = []
    for step in range(_STEPS + 1):
        told = call.latency.at(end * step / _STEPS)
        values.append(
            {"n": end * step / _STEPS, "v": max(told.low, 0.0) * size, "v2": max(told.high, 0.0) * size}
        )
    return {
        "data": {"values": values},
        "mark": {"type": "area", "opacity": 0.14, "color": colour, "clip": True},
        "encoding": {"y": y, "y2": {"field": "v2"}},
    }


def _limit(value: float, y: Spec) -> Spec:
    return {
        "data": {"values": [{"v": value}]},
        "mark": {"type": "rule", "strokeDash": [6, 4], "color": var("bad"), "clip": True},
        "encoding": {"y": y, "x": {"value": 0}, "x2": {"value": "width"}},
    }
