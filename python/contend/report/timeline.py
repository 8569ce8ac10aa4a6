"""Parts of charts over time: a strip to brush, an axis of time, lines and areas that follow the brush.

All timelines share the parameters `x0` and `x1`, the visible seconds; the page sets them from the brush in the strip,
or from its list of ranges.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from contend.report.plotkit import Plot, Spec, chart, marks, quantity
from contend.report.steps import OTHERS, Step
from contend.report.theme import var
from contend.units import format_value

HEIGHT = 140
_PERCENT_WHOLE = 25
"""From so many percent on an axis goes up to 100: below, the line would lie on its floor."""
CPU_COLOURS = {
    "user": var("c1"),
    "nice": var("c5"),
    "system": var("c2"),
    "interrupts": var("c7"),
    "soft interrupts": var("c3"),
    "waiting for disk": var("c4"),
    "stolen": var("c6"),
}
HEADERS = ("line", "mean", "least", "most")
# A selection of a part of the time, as a parameter of the strip's first layer.
BRUSH: Spec = {
    "name": "brush",
    "select": {
        "type": "interval",
        "encodings": ["x"],
        "mark": {"fill": var("ink"), "fillOpacity": 0.12, "stroke": var("ink"), "strokeWidth": 1},
    },
}
# Steps of a time axis that people count in, s.
_TICKS = (
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800,
    3600, 7200, 10800, 21600, 43200, 86400,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Time:
    """From 0 to `end` seconds since something, or in another `unit`."""

    end: float
    since: str
    unit: str = ""

    def window(self) -> list[Spec]:
        """The parameters of a chart that follows the brush: everything at first."""
        return [{"name": "x0", "value": 0}, {"name": "x1", "value": self.end}]

    def axis(self, *, follow: bool, field: str = "t") -> Spec:
        """The axis with times as clocks show them; `follow` lets the page move the visible part."""
        low, high = ("x0", "x1") if follow else ("0", repr(self.end))
        span = f"({high}-{low})"
        step = repr(float(_TICKS[-1]))
        for tick in reversed(_TICKS[:-1]):
            step = f"({span}<={6 * tick!r}?{tick!r}:{step})"
        scale: Spec = {"nice": False, "zero": False}
        if follow:
            scale |= {"domainMin": {"expr": "x0"}, "domainMax": {"expr": "x1"}}
        else:
            scale["domain"] = [0, self.end]
        hours = "floor(datum.value/3600)+utcFormat(datum.value*1000,':%M')"
        clock = f"{span}<360?{hours}+utcFormat(datum.value*1000,':%S'):{hours}" if self.end >= 3600 else ""
        minutes = "utcFormat(datum.value*1000,'%M:%S')"
        label = clock or (minutes if self.end >= 120 else "format(datum.value,'~g')")
        unit = "hours:minutes" if self.end >= 3600 else "minutes:seconds" if self.end >= 120 else "seconds"
        if self.unit:
            label, unit = "format(datum.value,'~g')", self.unit
        return {
            "field": field,
            "type": "quantitative",
            "title": f"{unit} since {self.since}",
            "scale": scale,
            "axis": {
                "values": {"expr": f"sequence(ceil({low}/{step})*{step},{high}+{step}/1000,{step})"},
                "labelExpr": label,
                "labelFlush": True,
                "grid": False,
            },
        }


def timeline(
    name: str,
    title: str,
    unit: str,
    caption: str,
    steps: Sequence[Step],
    time: Time,
    colours: Mapping[str, str],
    *,
    stacked: bool = False,
    ceiling: float | None = None,
    peaks: bool = False,
    dots: bool = False,
    behind: Sequence[Spec] = (),
) -> Plot:
    """Lines, or areas on each other. `colours` are of known lines; `ceiling` is the top of the axis, where there is one.

    `peaks`: beside each mean the most in one interval, pale. `dots`: also a mark for each step: a single one between
    two without any would be no line at all. `behind`: layers of data of their own.
    """
    names = line_names(colours, steps)
    shades = (var("alone") if n == OTHERS else var(f"c{at % 8 + 1}") for at, n in enumerate(names))
    legend = {n: colours.get(n, shade) for n, shade in zip(names, shades, strict=True)}
    order = {n: at for at, n in enumerate(names)}
    y = quantity("v", unit, {"tickCount": 4, "format": ",.10~g"}, domainMin=0, zero=True, nice=True)
    if not any(step.mean for step in steps):
        y["scale"] = {"domain": [0, 1]}  # a line of zeros has no scale of its own
    elif ceiling is None and unit == "%" and 100 >= max(step.mean for step in steps) > _PERCENT_WHOLE:
        y["scale"] = {"domain": [0, 100], "nice": False}
    elif ceiling is not None:
        y["scale"] = {"domain": [0, ceiling], "nice": False}
    shade = {"domain": names, "range": list(legend.values())}
    colour: Spec = {"field": "k", "type": "nominal", "legend": None, "scale": shade}
    x = time.axis(follow=True)
    if stacked:
        upward: Spec = {"y": {**y, "stack": "zero"}, "order": {"field": "o", "type": "quantitative"}}
        layers: list[Spec] = [marks("area", {"clip": True}, x=x, color=colour, **upward)]
    else:
        y["stack"] = None
        mark: Spec = {"type": "line", "clip": True, "strokeWidth": 1.5, "point": dots and {"size": 9}}
        layers = [{"mark": mark, "encoding": {"x": x, "y": y, "color": colour}}]
        if peaks:
            pale: Spec = {"type": "line", "clip": True, "strokeWidth": 1, "opacity": 0.45}
            layers.insert(0, {"mark": pale, "encoding": {"x": x, "y": {**y, "field": "m"}, "color": colour}})
    # As CSV the thousands of points take a third of the room that objects would, and none needs more digits than pixels.
    short = shortened([s.most if peaks else s.mean for s in steps])
    rows = "\n".join(
        f"{s.t:.10g},{short(s.mean)},{order[s.line]}" + (f",{short(s.most)}" if peaks else "") for s in steps
    )
    lines: Spec = {
        "data": {"values": f"t,v,o{',m' if peaks else ''}\n{rows}", "format": {"type": "csv"}},
        "transform": [{"calculate": f"{json.dumps(names)}[datum.o]", "as": "k"}],
    }
    spec = chart(HEIGHT, [*behind, {**lines, "layer": layers}] if behind else layers, [])
    spec |= {
        "params": time.window(),
        **({"resolve": {"scale": {"color": "independent"}}} if behind else lines),
    }
    table = tuple((n, *figures([s.mean for s in steps if s.line == n], unit)) for n in names)
    return Plot(f"timeline-{name}", "timeline", title, caption, spec, legend, HEADERS, table)


def shortened(values: Iterable[float]) -> Callable[[float], str]:
    """A way to write numbers of one axis: to a thousandth of the largest, and no digit more.

    >>> of = shortened([0.5, 87.25])
    >>> of(87.25), of(0.5), of(0.0), of(0.00213)
    ('87.25', '0.5', '0', '0')
    >>> shortened([12345.6])(12345.6), shortened([])(3.0), shortened([0.00123])(0.00123456)
    ('12346', '3', '0.001235')
    """
    most = max((abs(value) for value in values), default=0.0)
    digits = max(0, 3 - math.floor(math.log10(most))) if most else 3

    def short(value: float) -> str:
        text = f"{value:.{digits}f}"
        return (text.rstrip("0").rstrip(".") or "0") if digits else text

    return short


def line_names(colours: Mapping[str, str], steps: Sequence[Step]) -> list[str]:
    """Lines in the order of their legend: as their colours say, or the largest first, the rest last."""
    totals: dict[str, float] = {}
    for step in steps:
        totals[step.line] = totals.get(step.line, 0.0) + step.mean
    known = [name for name in colours if name in totals]
    others = sorted((n for n in totals if n not in known), key=lambda n: (n == OTHERS, -totals[n], n))
    return known + others


def figures(values: Sequence[float], unit: str) -> tuple[str, str, str]:
    """Mean, minimum and maximum as texts, with the unit where it is short."""
    if not values:
        return ("", "", "")
    short = unit if unit in ("CPUs", "%", "MB/s", "GiB") else ""
    mean, least, most = (
        format_value(v) + (f" {short}" if short else "")
        for v in (sum(values) / len(values), min(values), max(values))
    )
    return mean, least, most
