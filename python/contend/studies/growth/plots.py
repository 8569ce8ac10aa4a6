"""Pictures of growth: latency against population, a figure a kind, every visit and the trend with its interval."""

from __future__ import annotations

from typing import Any

from contend.report.plotkit import Plot, Spec, band, chart, curve, dots, limit, quantity, ticks
from contend.report.theme import series_colours
from contend.stats.trend import PER
from contend.studies.growth.result import Call, Grown, Growths, broken, milliseconds
from contend.units import format_duration

HEIGHT = 240
_STEPS = 30  # of a band's edge


def growth_plots(growths: Growths) -> list[Plot]:
    """Plots (role: growth) of latency against population, one for each kind that has figures."""
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
    y = quantity("v", f"a typical call, {unit}", ticks(5, [point["v"] for point in points]))
    layers = [_band(call, end, size, colours[call.name], y) for call in grown.calls]
    layers += [_line(call, end, size, colours[call.name], y) for call in grown.calls]
    layers.append(dots(40, 0.85, y=y))
    if slo_s <= 1.5 * most_s:
        layers.append(limit(slo_s * size, y))
    x = quantity("n", f"{grown.kind} entities there are", {"grid": False, "tickMinStep": 1}, domain=[0, end])
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
        chart(HEIGHT, layers, points, x=x),
        colours,
        headers,
        table,
    )


def _line(call: Call, end: float, size: float, colour: str, y: Spec) -> Spec:
    return curve(lambda n: call.latency.at(n).value * size, _numbers(end), colour, y)


def _band(call: Call, end: float, size: float, colour: str, y: Spec) -> Spec:
    def edges(n: float) -> tuple[float, float]:
        estimate = call.latency.at(n)
        return estimate.low * size, estimate.high * size

    return band(edges, _numbers(end), colour, y)


def _numbers(end: float) -> list[float]:
    return [end * step / _STEPS for step in range(_STEPS + 1)]
