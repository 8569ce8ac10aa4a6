"""The picture of prove: the victim's figure over time, with the moments at which somebody was held back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from contend.document import Analysis
from contend.report.plotkit import COLOUR, Plot, axis_format, chart, dots, marks, quantity
from contend.report.theme import series_colours, var
from contend.studies.prove.levels import HELD, NOBODY, SHAM
from contend.studies.prove.result import Proved
from contend.units import NS_PER_S

HEIGHT = 260
CONTROL = "control"


def timeline(of: Proved, analysis: Analysis, rows: Sequence[Mapping[str, Any]]) -> list[Plot]:
    """The plot (role: prove) of the victim's figure, trial by trial; none where there is none.

    rows: of all trials.
    """
    metric = next((cell.metric for cell in analysis.cells if cell.metric.primary), None)
    seen = [row for row in rows if row.get("started_ns") and row["phase"] == "counted"]
    if metric is None or not seen:
        return []
    began_ns = min(int(row["started_ns"]) for row in seen)
    levels = list(dict.fromkeys(str(row["factors"][HELD]) for row in seen))
    named = {NOBODY: "alone", SHAM: CONTROL}
    palette = series_colours(
        [named.get(level, level) for level in ("nobody", SHAM, *sorted(set(levels) - {NOBODY, SHAM}))]
    )
    colours = {level: palette[named.get(level, level)] for level in levels}
    points: list[dict[str, Any]] = [
        {
            "t": (int(row["started_ns"]) + int(row["ended_ns"]) - 2 * began_ns) / 2 / NS_PER_S,
            "v": value,
            "colour": colours[str(row["factors"][HELD])],
            "say": f"{row['factors'][HELD]} held back: {value:.4g} {metric.unit}",
        }
        for row in seen
        if (value := _value(row, metric.name)) is not None
    ]
    if not points:
        return []
    levels_by_names = {
        tuple(seen_["held"]): str(row["factors"][HELD]) for row in seen if (seen_ := row.get("treated"))
    }
    pauses = [
        {
            "t": (pause.from_ns - began_ns) / NS_PER_S,
            "t2": (pause.to_ns - began_ns) / NS_PER_S,
            "colour": colours[levels_by_names[pause.suspects]],
        }
        for pause in of.pauses
        if pause.suspects in levels_by_names and pause.from_ns >= began_ns - NS_PER_S
    ]
    x = quantity("t", "seconds since the first trial that counts", {"grid": False}, zero=True, nice=False)
    y = quantity(
        "v", f"{metric.name}, {metric.unit}", {"format": axis_format([p["v"] for p in points])}, zero=False
    )
    whole: dict[str, Any] = {"y": {"value": 0}, "y2": {"value": "height"}}
    layers = [
        marks("rect", {"opacity": 0.16, "clip": True}, values=pauses, x=x, x2="t2", color=COLOUR, **whole),
        marks("line", {"strokeWidth": 1, "opacity": 0.5, "color": var("soft")}, x=x, y=y),
        dots(44, 0.9, x=x, y=y),
    ]
    table = tuple((f"{p['t']:.1f}", str(p["say"])) for p in points)
    return [
        Plot(
            "prove-timeline",
            "prove",
            f"{metric.name} of the victim, and when somebody was held back",
            "Every point is a trial. Shaded: somebody was held back. Grey: as it is, and the control, in which the same"
            " writes changed nothing.",
            chart(HEIGHT, layers, points),
            {_label(level): colour for level, colour in colours.items()},
            ("s", "trial"),
            table,
        )
    ]


def _label(level: str) -> str:
    return {NOBODY: "as it is", SHAM: CONTROL}.get(level, f"{level} held back")


def _value(row: Mapping[str, Any], metric: str) -> float | None:
    return next((float(m["value"]) for m in row["metrics"] if m["name"] == metric), None)
