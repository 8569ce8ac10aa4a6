"""Strips of raw values: a ring a run, a tick for the median, a band for its interval, a row a cell."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from contend.document import MetricInfo
from contend.report.plotkit import (
    COLOUR,
    ROW,
    Plot,
    Spec,
    chart,
    marks,
    median,
    ordinal,
    quantity,
    row_axis,
    row_labels,
    ticks,
)
from contend.report.theme import var
from contend.units import format_value

MOST_POINTS = 850
"""Dots of a page: more cannot be told apart, and make it heavy."""
PointRow = tuple[str, Sequence[float], Sequence[int], Sequence[int], tuple[float, float] | None]
"""Name, values, their blocks, positions of those that were flagged, and the median's interval where there is one."""


def strip(
    rows: Sequence[PointRow],
    metric: MetricInfo,
    colours: Mapping[str, str],
    plot_id: str,
    role: str,
    title: str,
    *,
    seed: str = "",
    unit: str = "block",
    most: int = MOST_POINTS,
) -> Plot | None:
    """A dot a value (jittered vertically, by `seed`); None where there is no value. `unit`: what is counted.

    Of more than `most` values every k-th of each cell is drawn and listed, and the caption says so: which ones does not
    depend on what they are. Median, interval and axis are those of all values.
    """
    everything = [value for _, series, *_ in rows for value in series]
    if not everything:
        return None
    jitter = random.Random(seed)  # the same page from the same run
    one = "trial" if unit == "block" else unit
    every = -(-len(everything) // most)
    flags = [frozenset(flagged) for _, _, _, flagged, _ in rows]
    dots: list[dict[str, Any]] = []
    summaries: list[dict[str, Any]] = []
    for number, (name, series, blocks, _, interval) in enumerate(rows):
        for position, value in list(enumerate(series))[::every]:
            mark = "flagged" if position in flags[number] else "clean"
            dots.append(
                {
                    "y": round(number + 0.12 * jitter.uniform(-1, 1), 3),
                    "value": value,
                    "colour": colours[name],
                    "mark": mark,
                    "say": f"{name}, {unit} {blocks[position] + 1}: {format_value(value, metric.unit)}"
                    + (" (flagged)" if mark == "flagged" else ""),
                }
            )
        middle = median(series)
        middle_text = "no result" if middle is None else format_value(middle, metric.unit)
        text = f"{name}\u2003{middle_text}"
        summary: dict[str, Any] = {"y": number, "label": text, "value": middle, "colour": colours[name]}
        if interval is not None:
            summary |= {"low": interval[0], "high": interval[1]}
        summaries.append({k: v for k, v in summary.items() if v is not None})
    zero = max(everything) > 1.5 * min(everything)
    x = quantity("value", f"{metric.name}, {metric.unit}", ticks(5, everything), zero=zero, nice=True)
    y = row_axis("y", len(rows))
    tick = {"thickness": 2, "height": 16, "orient": "vertical", "color": var("ink")}
    spec = chart(
        len(rows) * ROW,
        [
            *({**layer, "data": {"values": summaries}} for layer in row_labels("label", len(rows))),
            *intervals(summaries, x, y, strokeWidth=12, opacity=0.22),
            marks("tick", tick, values=summaries, where="isValid(datum.value)", x=x, y=y),
            marks(
                "point",
                {"size": 26, "strokeWidth": 1.3, "filled": False},
                x=x,
                y=y,
                color=COLOUR,
                shape={
                    "field": "mark",
                    "type": "nominal",
                    "legend": None,
                    "scale": {"domain": ["clean", "flagged"], "range": ["circle", "triangle-up"]},
                },
                tooltip="say",
            ),
        ],
        dots,
    )
    better = "less is better" if metric.better == "lower" else "more is better"
    thinned = (
        f" Every {ordinal(every)} of {len(everything):,} {one}s is drawn and listed; all of them count."
        if every > 1
        else ""
    )
    caption = (
        f"Each ring is one {one}, the tick their median, the band its interval; {better}. "
        + ("The axis begins at zero." if zero else "The axis does not begin at zero.")
        + (" Triangles: trials whose surroundings were flagged; they count." if any(flags) else "")
        + thinned
    )
    table = tuple(
        (name, str(blocks[i] + 1), format_value(v, metric.unit), "flagged" if i in own else "")
        for (name, series, blocks, _, _), own in zip(rows, flags, strict=True)
        for i, v in list(enumerate(series))[::every]
    )
    return Plot(
        plot_id,
        role,
        title,
        caption,
        spec,
        {},
        ("cell", unit, metric.name, "note"),
        table,
    )


def intervals(values: list[dict[str, Any]], x: Spec, y: Spec, **mark: float) -> list[Spec]:
    """A band from `low` to `high`; no layer where no row has bounds, since it would have no extent."""
    bounded = [v for v in values if "low" in v]
    layer = marks("rule", {**mark}, values=bounded, x={**x, "field": "low"}, x2="high", y=y, color=COLOUR)
    return [layer] if bounded else []
