"""Pictures of a storage sweep: response surfaces as grids of engine and block size by depth."""

from __future__ import annotations

import math
from typing import Any

from contend.report.plotkit import Plot, Spec, chart, marks
from contend.report.theme import var
from contend.studies.storage import words as wording
from contend.studies.storage.points import size_text
from contend.studies.storage.result import IOPS, LATENCY, PoolSweep, Spot, Sweep
from contend.units import format_value

ROW_HEIGHT = 28


def sweep_plots(sweep: Sweep) -> list[Plot]:
    """Plots (role: surface), one a pool, mix and metric."""
    return [
        _plot(f"surface-{number}-{at}-{metric}", pool, metric, mix, spots)
        for number, pool in enumerate(sweep.pools)
        for at, mix in enumerate(pool.mixes)
        for metric in (IOPS, LATENCY)
        if (spots := pool.surface(metric, mix))
    ]


def _plot(id_: str, pool: PoolSweep, metric: str, mix: str, spots: list[Spot]) -> Plot:
    unit = wording.UNITS[metric]
    # The shade is of the pool's whole range, so that its mixes can be held against each other.
    every = [math.log(s.value) for m in pool.mixes for s in pool.surface(metric, m)]
    low, high = min(every), max(every)
    rows = [f"{e} {size_text(b)}" for e, b in sorted({(s.point.engine, s.point.block) for s in spots})]
    columns = [str(d) for d in sorted({s.point.depth for s in spots})]
    values: list[dict[str, Any]] = [
        {
            "row": f"{s.point.engine} {size_text(s.point.block)}",
            "depth": str(s.point.depth),
            "shade": 0.06 + 0.5 * ((math.log(s.value) - low) / (high - low) if high > low else 0.5),
            "text": wording.short(s, metric).rstrip("*"),
            "measured": math.isfinite(s.measured),
            "say": f"{s.point.label}: {_interval(s, unit)}"
            + (f"; measured {format_value(s.measured, unit)}" if math.isfinite(s.measured) else ""),
        }
        for s in spots
    ]
    x: Spec = {
        "field": "depth",
        "type": "nominal",
        "sort": columns,
        "title": "requests outstanding",
        "axis": {"labelAngle": 0, "grid": False, "domain": False, "ticks": False},
    }
    y: Spec = {
        "field": "row",
        "type": "nominal",
        "sort": rows,
        "title": None,
        "axis": {"grid": False, "domain": False, "ticks": False, "labelLimit": 110},
    }
    at: Spec = {"x": x, "y": y, "tooltip": "say"}
    shade = {"field": "shade", "type": "quantitative", "scale": None, "legend": None}
    dot = {"filled": True, "color": var("ink"), "size": 14, "yOffset": 9}
    layers: list[Spec] = [
        marks("rect", {"color": var("c1"), "cornerRadius": 2}, fillOpacity=shade, **at),
        marks("text", {"color": var("ink"), "fontSize": 12, "dy": -2}, text="text", **at),
        marks("point", dot, where="datum.measured", **at),
    ]
    table = tuple(
        (
            s.point.engine,
            size_text(s.point.block),
            str(s.point.depth),
            _interval(s, unit),
            format_value(s.measured, unit) if math.isfinite(s.measured) else "",
        )
        for s in spots
    )
    return Plot(
        id_,
        "surface",
        f"{pool.name}, {mix}: {wording.NAMES[metric]}",
        "By the fit, alone: a description, no verdict. Dots stand where the screening measured.",
        chart(ROW_HEIGHT * len(rows), layers, values),
        {},
        ("engine", "block", "depth", "by the fit", "measured"),
        table,
    )


def _interval(s: Spot, unit: str) -> str:
    return f"{format_value(s.value, unit)} [{format_value(s.low, unit)}, {format_value(s.high, unit)}]"
