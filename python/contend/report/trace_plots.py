"""The picture of a trace: a strip to brush, and a line for each of its busiest tracks: in spans, and waiting for locks.

Bounded whatever the trace is: LANES tracks, PARTS parts of the time, equal neighbours drawn as one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise

from contend.report.plotkit import ROW, Plot, Spec, chart, marks, row_axis, row_labels
from contend.report.theme import var
from contend.report.timeline import BRUSH, Time
from contend.store.trace_summary import Lane, TraceSummary
from contend.units import NS_PER_S, format_duration

LANES, PARTS = 20, 300
STEPS = 20  # of a part that can be told apart: a line is so many pixels high
COLOURS = {"in spans": var("c1"), "waiting for locks": var("c2"), "waiting for others to act": var("line")}
_BUSY = dict(list(COLOURS.items())[:2])  # of the strip: idle threads would hide it
_UNITS = ((NS_PER_S, "seconds"), (NS_PER_S // 1000, "milliseconds"), (1000, "microseconds"))
_HEADERS = ("track", *COLOURS)
_THREAD = 1  # kind of a track; those above run on one


def trace_plots(summary: TraceSummary) -> list[Plot]:
    """Plots of the strip and of the tracks; none where nothing that takes time was recorded."""
    if not summary.lanes or not summary.length_ns:
        return []
    return [_strip(summary), _tracks(summary)]


def time_of(summary: TraceSummary) -> tuple[Time, int]:
    """The axis of time, and how many ns its unit has."""
    fits = (u for u in _UNITS if summary.length_ns >= u[0] // 5)
    size, unit = next(fits, _UNITS[-1])
    return Time(summary.length_ns / size, "the first event", "" if size == NS_PER_S else unit), size


def _label(lane: Lane, summary: TraceSummary) -> str:
    parts = [lane.name] if lane.kind <= _THREAD else [lane.thread, lane.name]
    if len(summary.processes) > 1:
        process = summary.processes[lane.file]
        parts.insert(
            0, f"{process.name} {process.pid}" if str(process.pid) not in process.name else process.name
        )
    return " › ".join(parts)


def _strip(summary: TraceSummary) -> Plot:
    time, size = time_of(summary)
    width = summary.width_ns
    sums = [[sum(part) for part in zip(*(getattr(lane, kind) for lane in summary.lanes), strict=True)]
            for kind in ("run", "wait")]  # fmt: skip
    rows = "\n".join(
        f"{_short((at + 0.5) * width / size)},{_short(ns / width)},{kind}"
        for kind, values in enumerate(sums)
        for at, ns in enumerate(values)
    )
    layer: Spec = {
        "params": [BRUSH],
        "mark": {"type": "area", "opacity": 0.8, "clip": True, "interpolate": "step"},
        "encoding": {
            "x": time.axis(follow=False),
            "y": {
                "field": "v",
                "type": "quantitative",
                "title": None,
                "stack": "zero",
                "axis": {"tickCount": 2, "format": "~s"},
            },
            "order": {"field": "k", "type": "quantitative"},
            "color": _colour(),
        },
    }
    spec = chart(56, [layer], [])
    spec["data"] = {"values": f"t,v,k\n{rows}", "format": {"type": "csv"}}
    spec["transform"] = _KINDS
    table = tuple(
        (name, f"{sum(values) / summary.length_ns:.2f}", f"{max(values, default=0) / width:.2f}")
        for name, values in zip(_BUSY, sums, strict=True)
    )
    caption = (
        "How many of the tracks below were in spans, and waited for locks. Drag across it to choose a range."
    )
    return Plot("strip", "strip", "The trace", caption, spec, _BUSY, ("tracks", "mean", "most"), table)


def _colour() -> Spec:
    return {
        "field": "name",
        "type": "nominal",
        "legend": None,
        "scale": {"domain": list(COLOURS), "range": list(COLOURS.values())},
    }


# In the data a kind is a number.
_KINDS: list[Spec] = [{"calculate": f"{json.dumps(list(COLOURS))}[datum.k]", "as": "name"}]


def _tracks(summary: TraceSummary) -> Plot:
    time, size = time_of(summary)
    lanes = summary.lanes
    rows = [
        f"{_short(a * summary.width_ns / size)},{_short(b * summary.width_ns / size)},{top:g},{bottom:g},{kind}"
        for at, lane in enumerate(lanes)
        for a, b, top, bottom, kind in _boxes(lane, summary.width_ns, at)
    ]
    labels = [{"y": at, "label": _label(lane, summary)} for at, lane in enumerate(lanes)]
    layer: Spec = {
        "data": {"values": "a,b,y,y2,k\n" + "\n".join(rows), "format": {"type": "csv"}},
        "transform": _KINDS,
        "mark": {"type": "rect", "clip": True},
        "encoding": {
            "x": time.axis(follow=True, field="a"),
            "x2": {"field": "b"},
            "y": row_axis("y", len(lanes)),
            "y2": {"field": "y2"},
            "color": _colour(),
        },
    }
    base = marks(
        "rule",
        {"color": var("line")},
        values=labels,
        transform=[{"calculate": "datum.y+0.3", "as": "base"}],
        y=row_axis("base", len(lanes)),
    )
    names = [{**layer, "data": {"values": labels}} for layer in row_labels("label", len(lanes), halo=0)]
    spec = chart(len(lanes) * ROW, [base, layer, *names], [])
    spec["params"] = time.window()
    left = summary.tracks - len(lanes)
    caption = (
        f"Each line is a thread, task or greenlet; its height the part of each {format_duration(summary.width_ns)} "
        "that it was in spans, with its waits on top: for locks that others held, and for a condition or at a queue."
    )
    if left:
        caption += f" The {len(lanes)} with most time in either; {left:,} more have none here."
    table = tuple(
        (_label(lane, summary), *(format_duration(sum(part)) for part in (lane.run, lane.wait, lane.idle)))
        for lane in lanes
    )
    return Plot("timeline-tracks", "timeline", "Tracks", caption, spec, COLOURS, _HEADERS, table)


def _boxes(lane: Lane, width_ns: int, at: int) -> Iterator[tuple[int, int, float, float, int]]:
    """From part, to part, top, bottom, and which: waits stand on spans."""
    bottom, high = at + 0.3, 0.52
    edges: list[list[int]] = [[0] * len(lane.run)]
    sums = [0] * len(lane.run)
    for values in (lane.run, lane.wait, lane.idle):
        sums = [before + ns for before, ns in zip(sums, values, strict=True)]
        edges.append([round(ns / width_ns * STEPS) for ns in sums])
    for kind, (below, above) in enumerate(pairwise(edges)):
        for start, end, (low, top) in _runs(list(zip(below, above, strict=True))):
            if top > low:
                yield (
                    start,
                    end,
                    round(bottom - high * top / STEPS, 3),
                    round(bottom - high * low / STEPS, 3),
                    kind,
                )


def _runs(values: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """Equal neighbours as one.

    >>> list(_runs([(0, 1), (0, 1), (0, 2)]))
    [(0, 2, (0, 1)), (2, 3, (0, 2))]
    """
    start = 0
    for at, value in enumerate(values):
        if value != values[start]:
            yield start, at, values[start]
            start = at
    if values:
        yield start, len(values), values[start]


def _short(value: float) -> str:
    return f"{value:.6g}"
