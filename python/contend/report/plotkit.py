"""Parts that the plots share: the Plot, colours of conditions, rows with their labels, the frame of a chart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contend.document import Analysis
from contend.report.matrix import matrices, platform_name
from contend.report.model import ReportInput
from contend.report.theme import series_colours, var

Spec = dict[str, Any]
VEGA_LITE = "6.4"  # the Vega-Lite that the specs are written for; vl-convert has it
ROW = 40  # pixels of one row of points or intervals

COLOUR: Spec = {"field": "colour", "type": "nominal", "scale": None, "legend": None}
"""The colour that a row names itself."""


def quantity(field: str, title: str | None, axis: Spec | None = None, **scale: Any) -> Spec:
    """A channel of numbers; keywords are its scale's: from zero on in round steps without any, never rounded to a domain."""
    if not scale:
        scale = {"zero": True, "nice": True}
    elif "domain" in scale:
        scale = {"nice": False, **scale}
    shown = {} if axis is None else {"axis": axis}
    return {"field": field, "type": "quantitative", "title": title, "scale": scale, **shown}


def bounds(y: Spec) -> dict[str, Any]:
    """Channels from `low` to `high` on that axis."""
    return {"y": {**y, "field": "low"}, "y2": "high"}


def dots(size: float, opacity: float = 0.7, **encoding: Any) -> Spec:
    """Filled points that say on hover what they are."""
    look = {"filled": True, "size": size, "opacity": opacity}
    return marks("point", look, **{"color": COLOUR, **encoding}, tooltip="say")


def dashed(values: Sequence[Mapping[str, Any]], kind: str = "rule", **encoding: Any) -> Spec:
    """A reference for the others: a rule, or a line through `values`."""
    return marks(kind, {"color": var("soft"), "strokeDash": [4, 3]}, values=values, **encoding)


def limit(value: float, y: Spec) -> Spec:
    """A dashed rule over the whole width."""
    look = {"strokeDash": [6, 4], "color": var("bad"), "clip": True}
    return marks("rule", look, values=[{"v": value}], y=y, x={"value": 0}, x2={"value": "width"})


def curve(of: Callable[[float], float], numbers: Iterable[float], colour: str, y: Spec) -> Spec:
    """A line through what `of` says at these numbers, `n` of the axis, never below zero."""
    values = [{"n": n, "v": max(of(n), 0)} for n in numbers]
    return marks("line", {"strokeWidth": 2, "color": colour}, values=values, y=y)


def band(of: Callable[[float], tuple[float, float]], numbers: Iterable[float], colour: str, y: Spec) -> Spec:
    """The same between a lower and an upper edge."""
    values = [{"n": n, "v": max(low, 0), "v2": max(high, 0)} for n in numbers for low, high in [of(n)]]
    return marks("area", {"opacity": 0.14, "color": colour, "clip": True}, values=values, y=y, y2="v2")


def ticks(count: int, values: Iterable[float]) -> Spec:
    """An axis of about so many ticks, its labels as `values` ask for."""
    return {"tickCount": count, "format": axis_format(values)}


def marks(
    kind: str,
    look: Spec,
    *,
    values: Sequence[Mapping[str, Any]] | None = None,
    where: str = "",
    transform: Sequence[Spec] = (),
    **encoding: Any,
) -> Spec:
    """One layer of a chart: the kind of its marks, how they look, and its channels, of which a text names the field.

    values: its own rows, else the chart's; where: an expression that keeps some of them, else `transform`.
    """
    steps = [{"filter": where}] if where else transform
    return {
        **({} if values is None else {"data": {"values": values}}),
        **({"transform": steps} if steps else {}),
        "mark": {"type": kind, **look},
        "encoding": {name: {"field": of} if isinstance(of, str) else of for name, of in encoding.items()},
    }


@dataclass(frozen=True, slots=True)
class Plot:
    """One figure. `spec` is Vega-Lite with colours as CSS variables and the width of its container; `legend`
    maps names to colours; `headers` and `table` say the same in figures; `role` tells where it belongs."""

    id: str
    role: str  # answer, points, strip, timeline, histogram, stacks
    title: str
    caption: str
    spec: Spec
    legend: Mapping[str, str]
    headers: tuple[str, ...]
    table: tuple[tuple[str, ...], ...]


def condition_colours(report: ReportInput) -> dict[str, str]:
    """One colour a condition in the whole report: the baseline and its control grey, then the columns."""
    names = ["alone", "control"]
    for matrix in matrices(report.analysis):
        names.extend(matrix.columns)
    names += [condition_name(report.analysis, factors, cell) for cell, factors in report.cells.items()]
    baselines = {matrix.baseline: var("alone") for matrix in matrices(report.analysis)}
    return {**baselines, **{name: c for name, c in series_colours(names).items() if name not in baselines}}


def ordinal(number: int) -> str:
    """
    >>> [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 21, 103)]
    ['1st', '2nd', '3rd', '4th', '11th', '12th', '21st', '103rd']
    """
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"


def condition_name(analysis: Analysis, factors: Mapping[str, str], cell: str) -> str:
    """The name by which a trial gets its colour: its neighbour, else its variant or platform."""
    if analysis.is_control(cell):
        return "control"
    kinds = ("neighbour", "variant", "platform", analysis.layout.column)
    name = next((factors[kind] for kind in kinds if factors.get(kind)), cell)
    if name == "none":
        return "alone"
    if factors.get("provisioning", "none") != "none":
        return platform_name(factors)
    return name


def median(values: Sequence[float]) -> float | None:
    ordered = sorted(values)
    middle = len(ordered) // 2
    if not ordered:
        return None
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def axis_format(values: Iterable[float]) -> str:
    """The number format of an axis: SI prefixes for large numbers, else plain digits."""
    return "~s" if max(abs(v) for v in values) >= 10_000 else ".6~g"


def bars_with_intervals(
    groups: tuple[str, Sequence[str]], bars: tuple[str, Sequence[str]], y: Spec, *, title: str | None = None
) -> list[Spec]:
    """Groups of bars side by side, each with its interval as a dark line. Of rows with `colour`, `say`, `low` and `high`.

    groups, bars: the field of each, and its levels in their order; title: of the groups.
    """
    x: Spec = {
        "field": groups[0],
        "type": "nominal",
        "sort": groups[1],
        "title": title,
        "axis": {"labelAngle": 0, "grid": False, "labelLimit": 140},
        "scale": {"paddingInner": 0.25, "paddingOuter": 0.15},
    }
    offset: Spec = {"field": bars[0], "sort": bars[1]}
    return [
        marks("bar", {"opacity": 0.75}, x=x, xOffset=offset, y=y, color=COLOUR, tooltip="say"),
        marks("rule", {"color": var("ink"), "strokeWidth": 1.5}, x=x, xOffset=offset, **bounds(y)),
    ]


def row_axis(field: str, rows: int) -> Spec:
    """Rows as numbers from the top; a row's marks stand in its lower part, below its label."""
    return {
        "field": field,
        "type": "quantitative",
        "axis": None,
        "scale": {"domain": [-0.68, rows - 0.68], "reverse": True, "nice": False, "zero": False},
    }


def row_labels(field: str, rows: int, *, halo: float = 14) -> list[Spec]:
    """A label above each row; a halo in the page's colour, `halo` pixels, keeps grid lines off the words."""

    def layer(**mark: Any) -> Spec:
        text = {"type": "text", "align": "left", "baseline": "middle", "dy": -16, "fontSize": 12.5}
        return {
            "mark": {**text, "limit": {"expr": "width"}, **mark},
            "encoding": {"x": {"value": 0}, "y": row_axis("y", rows), "text": {"field": field}},
        }

    behind = layer(color=var("page"), stroke=var("page"), strokeWidth=halo, strokeJoin="round")
    return [*([behind] if halo else []), layer(color=var("ink"))]


def chart(height: int, layers: list[Spec], values: list[dict[str, Any]], *, x: Spec | None = None) -> Spec:
    """A layered chart as wide as its container. Plain Vega-Lite: building it through Altair's classes takes
    about a second a chart, all of it in checks that the tests make once against Vega-Lite's schema. x: of layers that have
    none of their own."""
    for each in layers if x is not None else ():
        each["encoding"].setdefault("x", x)
    return {
        "$schema": f"https://vega.github.io/schema/vega-lite/v{VEGA_LITE}.json",
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "padding": {"left": 2, "right": 8, "top": 4, "bottom": 2},
        "background": "transparent",
        "data": {"values": values},
        "layer": layers,
        "config": CONFIG,
    }


CONFIG: Spec = {
    "aria": False,  # the page gives each figure a name and a table; a thousand labelled marks help nobody
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": var("soft"),
        "titleColor": var("soft"),
        "gridColor": var("grid"),
        "tickColor": var("line"),
        "domainColor": var("line"),
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelOverlap": True,
        "titlePadding": 8,
    },
    "legend": {
        "labelColor": var("ink"),
        "titleColor": var("soft"),
        "labelFontSize": 12,
        "orient": "top",
        "title": None,
    },
}
