"""Pictures of a forecast: each workload's sensitivity curves, and pairs predicted against measured."""

from __future__ import annotations

import math
from typing import Any

from contend.report.plotkit import COLOUR, Plot, Spec, bounds, chart, dashed, dots, marks, quantity
from contend.report.theme import series_colours, var
from contend.stats.estimate import Estimate
from contend.studies.sensitivity import words as wording
from contend.studies.sensitivity.result import Pair, Sensitivities

HEIGHT = 220
PAIRS_HEIGHT = 340


def forecast_plots(of: Sensitivities) -> list[Plot]:
    """Plots of a forecast (roles: curves, one a workload; pairs, one)."""
    colours = series_colours(of.resources)
    plots = [_curves(number, name, of, colours) for number, name in enumerate(of.workloads)]
    both = [p for p in of.pairs if p.measured is not None and _finite(p.measured.value, p.predicted.value)]
    return plots + ([_pairs(both)] if both else [])


def _finite(*values: float) -> bool:
    return all(math.isfinite(value) for value in values)


def _curves(number: int, name: str, of: Sensitivities, colours: dict[str, str]) -> Plot:
    points: list[dict[str, Any]] = []
    for resource in of.resources:
        points.append(_point(0, None, resource, name, colours[resource]))
        for level, estimate in zip(of.intensities, of.curves.get((name, resource), ()), strict=False):
            if math.isfinite(estimate.value):
                points.append(_point(level, estimate, resource, name, colours[resource]))
    axis = {"grid": False, "values": [0, *of.intensities]}
    x = quantity("x", "intensity of the injector, %", axis, domain=[0, max(of.intensities)])
    y = quantity("v", "slowdown (1 = none)", {"tickCount": 5}, zero=False, nice=True)
    layers: list[Spec] = [
        marks("area", {"opacity": 0.14, "clip": True}, x=x, **bounds(y), color=COLOUR),
        marks("line", {"strokeWidth": 2}, x=x, y=y, color=COLOUR),
        dots(36, x=x, y=y),
        dashed([{"v": 1}], y=y),
    ]
    rows = tuple(
        (resource, f"{level:g} %", wording.estimate(estimate))
        for resource in of.resources
        for level, estimate in zip(of.intensities, of.curves.get((name, resource), ()), strict=False)
    )
    return Plot(
        f"curves-{number}",
        "curves",
        f"{name}: slowed by each injector",
        "Points are measured slowdowns under an injector that works so much of the time, bands their intervals; the line at"
        " 1 is no slowdown.",
        chart(HEIGHT, layers, points),
        dict(colours),
        ("injector", "intensity", "slowdown"),
        rows,
    )


def _point(level: float, estimate: Estimate | None, resource: str, name: str, colour: str) -> dict[str, Any]:
    if estimate is None:  # nothing presses: no slowdown, by definition
        return {"x": level, "v": 1, "low": 1, "high": 1, "colour": colour, "say": "0 %: alone"}
    low, high = _drawn(estimate)
    return {
        "x": level,
        "v": estimate.value,
        "low": low,
        "high": high,
        "colour": colour,
        "say": f"{name}, {resource} at {level:g} %: {wording.estimate(estimate)}",
    }


def _drawn(estimate: Estimate) -> tuple[float, float]:
    """Its interval on a log scale; where there is none that can stand there, the value alone."""
    known = _finite(estimate.low, estimate.high) and estimate.low > 0
    return (estimate.low, estimate.high) if known else (estimate.value, estimate.value)


def _pairs(pairs: list[Pair]) -> Plot:
    """Predicted over measured, on log scales; the diagonal is right."""
    legend = {"held out": var("c2"), "not held out": var("c1")}
    values: list[dict[str, Any]] = []
    for pair in pairs:
        assert pair.measured is not None
        low, high = _drawn(pair.predicted)
        values.append(
            {
                "m": pair.measured.value,
                "p": pair.predicted.value,
                "low": low,
                "high": high,
                "colour": legend["held out" if pair.held_out else "not held out"],
                "say": f"{pair.victim} beside {pair.neighbour}: predicted {wording.estimate(pair.predicted)}, measured"
                f" {wording.estimate(pair.measured)}",
            }
        )
    every = [v for value in values for v in (value["m"], value["low"], value["high"])]
    ends = [0.97 * min(every), 1.03 * max(every)]
    scale = {"type": "log", "domain": ends, "nice": False}
    axis = {"tickCount": 6, "format": ".2~f"}
    x: Spec = {
        "field": "m",
        "type": "quantitative",
        "title": "measured slowdown",
        "scale": scale,
        "axis": axis,
    }
    y: Spec = {"field": "p", "type": "quantitative", "title": "predicted", "scale": scale, "axis": axis}
    layers: list[Spec] = [
        dashed([{"m": end, "p": end} for end in ends], "line", x=x, y=y),
        marks("rule", {"strokeWidth": 1.5, "opacity": 0.6}, x=x, **bounds(y), color=COLOUR),
        dots(55, 0.95, x=x, y=y),
    ]
    rows = tuple(
        (
            p.victim,
            p.neighbour,
            wording.estimate(p.predicted),
            wording.estimate(p.measured),
            "held out" if p.held_out else "",
        )
        for p in pairs
        if p.measured is not None
    )
    return Plot(
        "pairs",
        "pairs",
        "Every pair: predicted against measured",
        "A point on the dashed line was predicted as it was measured; vertical lines are the predicted intervals. No pair"
        " was used to make the curves; those held out were used for nothing at all.",
        chart(PAIRS_HEIGHT, layers, values),
        legend,
        ("victim", "beside", "predicted", "measured", ""),
        rows,
    )
