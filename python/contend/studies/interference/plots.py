"""Plots of copies: slowdown against how many of the same run at once, beside what CPU time alone would make."""

from __future__ import annotations

import math
from typing import Any

from contend.report import words
from contend.report.plotkit import COLOUR, Plot, Spec, bounds, chart, dots, marks, quantity
from contend.report.theme import series_colours
from contend.studies.interference.copies import CopiesCurve

HEIGHT = 260


def copies_plots(curves: tuple[CopiesCurve, ...]) -> list[Plot]:
    """The plot (role: crowd) of slowdown by number of copies, for all applications; none where numbers were not varied."""
    curves = tuple(curve for curve in curves if curve.points)
    if not curves:
        return []
    colours = series_colours([curve.application for curve in curves])
    values: list[dict[str, Any]] = []
    fair: list[dict[str, Any]] = []
    for curve in curves:
        colour = colours[curve.application]
        values.append({"k": 1, "v": 1.0, "colour": colour, "say": f"{curve.application} alone"})
        for point in curve.points:
            e = point.slowdown
            if not math.isfinite(e.value):  # refused: it stands in the table only
                continue
            edges = {"low": e.low, "high": e.high} if math.isfinite(e.high) and e.low > 0 else {}
            say = f"{point.copies} of {curve.application}: {words.ratio(e)}"
            values.append({"k": point.copies, "v": e.value, "colour": colour, "say": say, **edges})
        most = max(point.copies for point in curve.points)
        if curve.wants is not None:
            knee = min(max(1.0, curve.cpus / curve.wants), most)
            ends = [1.0, knee, float(most)]
            fair += [
                {
                    "k": k,
                    "v": max(1.0, k * curve.wants / curve.cpus),
                    "colour": colour,
                    "of": curve.application,
                }
                for k in dict.fromkeys(ends)
            ]
    axis = {"grid": False, "values": sorted({value["k"] for value in values}), "format": "d"}
    x = quantity("k", "of the same at once", axis, domainMin=1, nice=False, padding=12)
    y = quantity("v", "slowdown of each", zero=False)
    pale = {"strokeDash": [4, 3], "strokeWidth": 1.5, "opacity": 0.8}
    wide = {"strokeWidth": 4, "opacity": 0.45}
    layers: list[Spec] = [
        marks("line", pale, values=fair, x=x, y=y, color=COLOUR, detail="of"),
        marks("line", {"strokeWidth": 2}, x=x, y=y, color=COLOUR),
        marks("rule", wide, where="isValid(datum.low)", x=x, **bounds(y), color=COLOUR),
        dots(60, 1, x=x, y=y),
    ]
    caption = (
        "Points are estimates, bars their intervals. Dashed: what each would take if only CPU time were shared, by what "
        "one uses alone; a bar wholly above it is something else."
    )
    table = tuple(
        (
            curve.application,
            str(p.copies),
            words.ratio(p.slowdown),
            "-" if math.isnan(p.fair) else f"{p.fair:.2f}",
        )
        for curve in curves
        for p in curve.points
    )
    headers = ("application", "at once", "slowdown", "by CPU time alone")
    title = "Slowdown of each, by how many there are"
    return [Plot("crowd", "crowd", title, caption, chart(HEIGHT, layers, values), colours, headers, table)]
