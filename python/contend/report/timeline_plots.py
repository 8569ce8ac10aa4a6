"""The host's timelines under a strip of trials (`contend.report.timeline`): what the machine did while each cell ran."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from contend.report.matrix import matrices, subject
from contend.report.model import ReportInput
from contend.report.plotkit import (
    COLOUR,
    Plot,
    Spec,
    chart,
    condition_colours,
    condition_name,
    marks,
    ordinal,
    row_axis,
    row_labels,
)
from contend.report.series import Timelines, read_timelines
from contend.report.theme import var
from contend.report.timeline import BRUSH, CPU_COLOURS, Time, timeline
from contend.store.series import series_or
from contend.units import NS_PER_S, format_duration

SINCE = "the first trial"
ONE_LANE = "trials"  # where there is no victim to have a lane each
MOST_BANDS, MOST_FAILED = 400, 300  # of the strip: two pixels each
BANDS = 400  # with more trials than this the bands are in the strip only: thinner ones could not be seen

_WAITING = "Threads that run or want to: more than the host has CPUs, and somebody waits. Momentary values."
_QUEUED = "Mean number of requests waiting or in service at each device (queue time ÷ time)."
_PRESSED = "Share of the time in which at least one task waited for it (pressure stall information)."
_DONE = "Completed reads and writes of all devices together."
_SENT = "All interfaces together, the loopback included."
_PROGRAMS = (
    "The programs that used most in the whole run, all processes of one name together; contend's own too."
)
_DELAY = "How many tasks were runnable and had no CPU (run delay), by program."
_USERS = "Bytes that programs caused to be read and written."
_QUEUE = {"runnable": var("c1"), "blocked": var("c2")}
_PRESSURE = {"CPU": var("c1"), "disk": var("c2"), "memory": var("c4")}
_READS = {"reads": var("c1"), "writes": var("c2")}
_RECEIVED = {"received": var("c1"), "sent": var("c2")}
_STACKED = {"cpu", "consumers", "delay", "disk-users"}


def timeline_plots(report: ReportInput) -> list[Plot]:
    """The strip of trials, then a chart for each part of the host that the run recorded."""
    trials = _trials(report)
    if not trials:
        return []
    origin = min(int(row["started_ns"]) for row in report.rows if row.get("started_ns") is not None)
    directory = report.series_dir
    lines = report.timelines
    if lines is None:
        lines = (
            Timelines()
            if directory is None
            else series_or(directory, Timelines(), lambda: read_timelines(directory, origin))
        )
    palette = condition_colours(report)
    ran = {t["name"] for t in trials}
    colours = {name: colour for name, colour in palette.items() if name in ran}
    for trial in trials:
        trial["colour"] = colours[trial["name"]]
    end = max(t["end"] for t in trials)
    rows = dict.fromkeys(row for matrix in matrices(report.analysis) for row in matrix.rows)
    lane_index = {row: number for number, row in enumerate(rows)}
    trials.sort(key=lambda t: (lane_index.get(t["lane"], len(lane_index)), t["start"]))
    return [_strip(trials, colours, end), *_panels(lines, trials, end, report)]


def _trials(report: ReportInput) -> list[dict[str, Any]]:
    """One band a trial: when (s since the first), whose, beside whom, and how it ended."""
    timed = [r for r in report.rows if r.get("started_ns") is not None and r.get("ended_ns") is not None]
    if not timed:
        return []
    origin = min(int(r["started_ns"]) for r in timed)
    names: dict[str, tuple[str, str]] = {}  # of a cell: its lane, and what it has its colour from
    for r in timed:
        if (cell := str(r.get("cell", ""))) not in names:
            factors = r.get("factors", {})
            lane = subject(factors) if "victim" in factors else ONE_LANE
            names[cell] = lane, condition_name(report.analysis, factors, cell)
    return [
        {
            "start": round((int(r["started_ns"]) - origin) / NS_PER_S, 3),
            "end": round((int(r["ended_ns"]) - origin) / NS_PER_S, 3),
            "lane": names[str(r.get("cell", ""))][0],
            "name": names[str(r.get("cell", ""))][1],
            "block": -1 if r.get("phase") in ("pilot", "screening") else int(r.get("block", 0)),
            "failed": r.get("status") == "failed",
            "flagged": bool(r.get("flags")),
        }
        for r in timed
    ]


def _strip(trials: list[dict[str, Any]], colours: Mapping[str, str], end: float) -> Plot:
    lanes = list(dict.fromkeys(t["lane"] for t in trials))
    every = -(-len(trials) // MOST_BANDS)
    drawn = _thinned(trials, every)
    values = [
        {
            "start": t["start"],
            "end": t["end"],
            "y": lanes.index(t["lane"]) - 0.22,
            "y2": lanes.index(t["lane"]) + 0.3,
            "middle": round((t["start"] + t["end"]) / 2, 4),
            "colour": t["colour"],
            "block": t["block"],
            "mark": "failed" if t["failed"] else "",
            "say": _say(t),
        }
        for t in drawn
    ]
    labels = [{"y": n, "label": lane} for n, lane in enumerate(lanes)]
    x = Time(end, SINCE).axis(follow=False)
    y = row_axis("y", len(lanes))
    layers: list[Spec] = [
        {
            "params": [BRUSH],
            "mark": {"type": "rect", "clip": True},
            "encoding": {
                "x": {**x, "field": "start"},
                "x2": {"field": "end"},
                "y": y,
                "y2": {"field": "y2"},
                "color": COLOUR,
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
    legend = (
        "a colour for what is compared" if lanes == [ONE_LANE] else "a lane a victim, a colour a neighbour"
    )
    caption = (
        f"Every trial in the order it ran; {legend}, pale the pilot. The colours "
        "should be mixed evenly from left to right: that is the randomised order."
    )
    if every > 1:
        caption += (
            f" Of {len(trials):,} trials every {ordinal(every)} is drawn, as wide as {every}, and of those without a result"
            f" at most {MOST_FAILED}."
        )
    if any(t["failed"] for t in trials):
        caption += " ✕ marks a trial without a result."
    return Plot(
        "strip", "strip", "Trials", caption, spec, colours, ("lane", "cell", "trials", "mean length"), table
    )


def _thinned(trials: list[dict[str, Any]], every: int) -> list[dict[str, Any]]:
    """Every k-th trial in the order they ran, up to the next that is drawn; and some that failed."""
    if every == 1:
        return trials
    ran = sorted(trials, key=lambda t: t["start"])
    kept = ran[::every]
    until = [t["start"] for t in kept[1:]] + [ran[-1]["end"]]
    failed = [t for n, t in enumerate(ran) if t["failed"] and n % every]
    some = failed[:: -(-len(failed) // MOST_FAILED)] if failed else []
    wide = [
        {**t, "end": max(t["end"], end), "took": t["end"] - t["start"]}
        for t, end in zip(kept, until, strict=True)
    ]
    return wide + some


def _cross(x: Spec, y: Spec, **look: Any) -> Spec:
    """A mark on every trial without a result; drawn twice, the first time as its own halo."""
    look = {"text": "✕", "fontSize": 15, "fontWeight": "bold", "dy": 2, **look}
    return marks("text", look, where="datum.mark == 'failed'", x={**x, "field": "middle"}, y=y)


def _say(trial: Mapping[str, Any]) -> str:
    when = "pilot" if trial["block"] < 0 else f"block {trial['block'] + 1}"
    notes = [note for note in ("failed", "flagged") if trial[note]]
    return ", ".join(
        [
            trial["lane"],
            trial["name"],
            when,
            f"{trial.get('took', trial['end'] - trial['start']):.2f} s",
            *notes,
        ]
    )


def _panels(lines: Timelines, trials: list[dict[str, Any]], end: float, report: ReportInput) -> list[Plot]:
    cpus = report.environment.get("cpus")
    whole = float(cpus) if isinstance(cpus, int | float) else None
    of = f" of {whole:g}" if whole else ""
    spent = f"How many CPUs' worth of time went where{of and ','}{of}; the rest is idle."
    time, behind = Time(end, SINCE), _bands(trials, Time(end, SINCE))
    draw = partial(timeline, time=time, behind=behind)
    charts = {
        "cpu": (f"CPU time by state, CPUs{of}", "CPUs", spent, lines.cpu, CPU_COLOURS),
        "queue": ("Run queue, threads", "threads", _WAITING, lines.queue, _QUEUE),
        "pressure": ("Pressure, % of the time", "%", _PRESSED, lines.pressure, _PRESSURE),
        "disk-queue": ("Disk queue, requests", "requests", _QUEUED, lines.disk_queue, {}),
        "iops": ("Disk operations a second", "operations/s", _DONE, lines.iops, _READS),
        "network": ("Network, MB/s", "MB/s", _SENT, lines.network, _RECEIVED),
        "consumers": (f"CPU time by program, CPUs{of}", "CPUs", _PROGRAMS, lines.consumers, {}),
        "delay": ("Waiting for a CPU, by program, tasks", "tasks", _DELAY, lines.delay, {}),
        "disk-users": ("Disk throughput by program, MB/s", "MB/s", _USERS, lines.disk_users, {}),
    }
    return [
        draw(
            name, title, unit, caption, steps, colours=colours,
            stacked=name in _STACKED, ceiling=whole if name in ("cpu", "consumers") else None,
        )
        for name, (title, unit, caption, steps, colours) in charts.items()
        if steps
    ]  # fmt: skip


def _bands(trials: list[dict[str, Any]], time: Time) -> list[Spec]:
    """The trials behind a panel, in the colours of the strip."""
    if len(trials) > BANDS:
        return []
    spans = [{k: t[k] for k in ("start", "end", "colour")} for t in trials]
    x = time.axis(follow=True, field="start")
    return [marks("rect", {"opacity": 0.16, "clip": True}, values=spans, x=x, x2="end", color=COLOUR)]
