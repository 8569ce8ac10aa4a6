"""The host's timelines under a strip of trials: what the machine did while each cell ran.

All charts share the parameters `x0` and `x1`, the visible seconds; the page sets them from the brush in the
strip, or from its list of blocks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from contend.report.matrix import matrices, subject
from contend.report.model import ReportInput
from contend.report.plotkit import Plot, Spec, chart, condition_colours, condition_name, row_axis, row_labels
from contend.report.series import Point, Timelines, read_timelines
from contend.report.theme import var
from contend.units import NS_PER_S, format_duration, format_value

BANDS = 400  # with more trials than this the bands are in the strip only: thinner ones could not be seen
HEIGHT = 120
CPU_COLOURS = {
    "user": var("c1"),
    "nice": var("c5"),
    "system": var("c2"),
    "interrupts": var("c7"),
    "soft interrupts": var("c3"),
    "waiting for disk": var("c4"),
    "stolen": var("c6"),
}


def timeline_plots(report: ReportInput) -> list[Plot]:
    """The strip of trials, then a chart for each part of the host that the run recorded."""
    trials = _trials(report)
    if not trials:
        return []
    origin = min(int(row["started_ns"]) for row in report.rows if row.get("started_ns") is not None)
    lines = read_timelines(report.series_dir, origin)
    palette = condition_colours(report)
    ran = {t["name"] for t in trials}
    colours = {name: colour for name, colour in palette.items() if name in ran}
    for trial in trials:
        trial["colour"] = colours[trial["name"]]
    end = max(t["end"] for t in trials)
    rows = [row for matrix in matrices(report.analysis) for row in matrix.rows]
    trials.sort(key=lambda t: (rows.index(t["lane"]) if t["lane"] in rows else len(rows), t["start"]))
    return [_strip(trials, colours, end), *_panels(lines, trials, end, report)]


def _trials(report: ReportInput) -> list[dict[str, Any]]:
    """One band a trial: when (s since the first), whose, beside whom, and how it ended."""
    timed = [r for r in report.rows if r.get("started_ns") is not None and r.get("ended_ns") is not None]
    if not timed:
        return []
    origin = min(int(r["started_ns"]) for r in timed)
    return [
        {
            "start": round((int(r["started_ns"]) - origin) / NS_PER_S, 3),
            "end": round((int(r["ended_ns"]) - origin) / NS_PER_S, 3),
            "lane": subject(r.get("factors", {})) if "victim" in r.get("factors", {}) else "trials",
            "name": condition_name(r.get("factors", {}), str(r.get("cell", ""))),
            "block": -1 if r.get("phase") == "pilot" else int(r.get("block", 0)),
            "failed": r.get("status") == "failed",
            "flagged": bool(r.get("flags")),
        }
        for r in timed
    ]


def _strip(trials: list[dict[str, Any]], colours: Mapping[str, str], end: float) -> Plot:
    lanes = list(dict.fromkeys(t["lane"] for t in trials))
    values = [
        {
            "start": t["start"],
            "end": t["end"],
            "y": lanes.index(t["lane"]) - 0.22,
            "y2": lanes.index(t["lane"]) + 0.3,
            "middle": (t["start"] + t["end"]) / 2,
            "colour": t["colour"],
            "block": t["block"],
            "mark": "failed" if t["failed"] else "",
            "say": _say(t),
        }
        for t in trials
    ]
    labels = [{"y": n, "label": lane} for n, lane in enumerate(lanes)]
    x = _time_axis(0, end, follow=False)
    y = row_axis("y", len(lanes))
    brush = {
        "name": "brush",
        "select": {
            "type": "interval",
            "encodings": ["x"],
            "mark": {"fill": var("ink"), "fillOpacity": 0.12, "stroke": var("ink"), "strokeWidth": 1},
        },
    }
    layers: list[Spec] = [
        {
            "params": [brush],
            "mark": {"type": "rect", "clip": True},
            "encoding": {
                "x": {**x, "field": "start"},
                "x2": {"field": "end"},
                "y": y,
                "y2": {"field": "y2"},
                "color": {"field": "colour", "type": "nominal", "scale": None, "legend": None},
                "opacity": {"condition": {"test": "datum.block < 0", "value": 0.35}, "value": 1},
                "tooltip": {"field": "say"},
            },
        },
        _cross(x, y, color=var("page"), stroke=var("page"), strokeWidth=4),
        _cross(x, y, color=var("bad")),
        *({**layer, "data": {"values": labels}} for layer in row_labels("label", len(lanes), halo=0)),
    ]
    spec = chart(len(lanes) * 40, layers, values)
    totals: dict[tuple[str, str], list[float]] = {}
    for t in trials:
        totals.setdefault((t["lane"], t["name"]), []).append(t["end"] - t["start"])
    table = tuple(
        (lane, name, str(len(spent)), format_duration(sum(spent) / len(spent) * NS_PER_S))
        for (lane, name), spent in totals.items()
    )
    caption = (
        "Every trial in the order it ran; a lane a victim, a colour a neighbour, pale the pilot. The colours "
        "should be mixed evenly from left to right: that is the randomised order."
    )
    if any(t["failed"] for t in trials):
        caption += " ✕ marks a trial without a result."
    return Plot(
        "strip", "strip", "Trials", caption, spec, colours, ("lane", "cell", "trials", "mean length"), table
    )


def _cross(x: Spec, y: Spec, **look: Any) -> Spec:
    """A mark on every trial without a result; drawn twice, the first time as its own halo."""
    return {
        "transform": [{"filter": "datum.mark == 'failed'"}],
        "mark": {"type": "text", "text": "✕", "fontSize": 15, "fontWeight": "bold", "dy": 2, **look},
        "encoding": {"x": {**x, "field": "middle"}, "y": y},
    }


def _say(trial: Mapping[str, Any]) -> str:
    when = "pilot" if trial["block"] < 0 else f"block {trial['block'] + 1}"
    notes = [note for note in ("failed", "flagged") if trial[note]]
    return ", ".join([trial["lane"], trial["name"], when, f"{trial['end'] - trial['start']:.2f} s", *notes])


def _time_axis(start: float, end: float, *, follow: bool) -> Spec:
    """Seconds since the first trial; `follow` lets the page move the visible part."""
    scale: Spec = {"nice": False, "zero": False, "domain": [start, end]}
    if follow:
        scale = {"nice": False, "zero": False, "domainMin": {"expr": "x0"}, "domainMax": {"expr": "x1"}}
    return {
        "field": "t",
        "type": "quantitative",
        "title": "seconds since the first trial",
        "scale": scale,
        "axis": {"tickCount": 6, "grid": False, "format": ".10~g"},
    }


def _panels(lines: Timelines, trials: list[dict[str, Any]], end: float, report: ReportInput) -> list[Plot]:
    cpus = report.environment.get("cpus")
    whole = float(cpus) if isinstance(cpus, int | float) else None
    of = f" of {whole:g}" if whole else ""
    spent = f"How many CPUs' worth of time went where{of and ','}{of}; the rest is idle."
    waiting = (
        "Threads that run or want to: more than the host has CPUs, and somebody waits. Momentary values."
    )
    queued = "Mean number of requests waiting or in service at each device (queue time ÷ time)."
    pressed = "Share of the time in which at least one task waited for it (pressure stall information)."
    found = [
        _panel(
            "cpu",
            f"CPU time by state, CPUs{of}",
            "CPUs",
            lines.cpu,
            CPU_COLOURS,
            whole,
            stacked=True,
            caption=spent,
        ),
        _panel(
            "queue",
            "Run queue, threads",
            "threads",
            lines.queue,
            {"runnable": var("c1"), "blocked": var("c2")},
            caption=waiting,
        ),
        _panel(
            "pressure",
            "Pressure, % of the time",
            "%",
            lines.pressure,
            {"CPU": var("c1"), "disk": var("c2"), "memory": var("c4")},
            caption=pressed,
        ),
        _panel("disk-queue", "Disk queue, requests", "requests", lines.disk_queue, {}, caption=queued),
        _panel(
            "iops",
            "Disk operations a second",
            "operations/s",
            lines.iops,
            {"reads": var("c1"), "writes": var("c2")},
            caption="Completed reads and writes of all devices together.",
        ),
        _panel(
            "network",
            "Network, MB/s",
            "MB/s",
            lines.network,
            {"received": var("c1"), "sent": var("c2")},
            caption="All interfaces together, the loopback included.",
        ),
    ]
    return [_with_bands(p, trials, end) for p in found if p is not None]


def _panel(
    name: str,
    title: str,
    unit: str,
    points: Sequence[Point],
    colours: Mapping[str, str],
    ceiling: float | None = None,
    *,
    caption: str,
    stacked: bool = False,
) -> Plot | None:
    if not points:
        return None
    names = [n for n in colours if any(p[2] == n for p in points)]
    names += sorted({p[2] for p in points} - set(names))
    legend = dict(
        zip(names, (colours.get(n, var(f"c{i % 8 + 1}")) for i, n in enumerate(names)), strict=True)
    )
    top = {"domainMin": 0, "nice": True, **({"domain": [0, ceiling]} if ceiling else {})}
    encoding: Spec = {
        "x": _time_axis(0, 0, follow=True),
        "y": {
            "field": "v",
            "type": "quantitative",
            "title": unit,
            "scale": {**top, "zero": True},
            "stack": "zero" if stacked else None,
            "axis": {"tickCount": 4, "format": "~s"},
        },
        "color": {
            "field": "k",
            "type": "nominal",
            "legend": None,
            "scale": {"domain": names, "range": list(legend.values())},
        },
    }
    mark: Spec = (
        {"type": "area", "clip": True} if stacked else {"type": "line", "clip": True, "strokeWidth": 1.5}
    )
    order = {n: i for i, n in enumerate(names)}
    if stacked:
        encoding["order"] = {"field": "o", "type": "quantitative"}
    # As CSV the thousands of points take a third of the room that objects would.
    rows = "\n".join(f"{t},{v},{order[k]}" for t, v, k in points)
    spec = {
        "data": {"values": f"t,v,o\n{rows}", "format": {"type": "csv"}},
        "transform": [{"calculate": f"{json.dumps(names)}[datum.o]", "as": "k"}],
        "mark": mark,
        "encoding": encoding,
    }
    table = []
    for n in names:
        series = [v for _, v, k in points if k == n]
        numbers = (sum(series) / len(series), min(series), max(series))
        table.append((n, *(format_value(x, unit) for x in numbers)))
    return Plot(
        f"timeline-{name}",
        "timeline",
        title,
        caption,
        spec,
        legend,
        ("line", "mean over the run", "least", "most"),
        tuple(table),
    )


def _with_bands(panel: Plot, trials: list[dict[str, Any]], end: float) -> Plot:
    """The panel over the trials' bands, in the colours of the strip."""
    layers = [panel.spec]
    if len(trials) <= BANDS:
        bands = [{"start": t["start"], "end": t["end"], "colour": t["colour"]} for t in trials]
        x = _time_axis(0, 0, follow=True)
        layers = [
            {
                "data": {"values": bands},
                "mark": {"type": "rect", "opacity": 0.16, "clip": True},
                "encoding": {
                    "x": {**x, "field": "start"},
                    "x2": {"field": "end"},
                    "color": {"field": "colour", "type": "nominal", "scale": None, "legend": None},
                },
            },
            *layers,
        ]
    spec = chart(HEIGHT, layers, [])
    spec["params"] = [{"name": "x0", "value": 0}, {"name": "x1", "value": end}]
    spec["resolve"] = {"scale": {"color": "independent"}}
    return Plot(
        panel.id, panel.role, panel.title, panel.caption, spec, panel.legend, panel.headers, panel.table
    )
