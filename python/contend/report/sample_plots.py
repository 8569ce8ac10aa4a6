"""The charts of a recording: a strip to brush, timelines that follow it (`contend.report.timeline`), histograms."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from contend.report.plotkit import Plot, Spec, chart, marks, quantity
from contend.report.sample_series import SampleLines
from contend.report.steps import OTHERS, Step
from contend.report.theme import var
from contend.report.timeline import BRUSH, CPU_COLOURS, HEADERS, HEIGHT, Time, figures, timeline
from contend.units import format_value


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of chart: what it shows and how."""

    name: str
    title: str
    unit: str
    caption: str
    colours: Mapping[str, str]
    stacked: bool = False
    ceiling: bool = False  # up to the number of CPUs


_KINDS = (
    _Kind("cpu", "CPU time by state", "CPUs", "How many CPUs' worth of time went where; the rest is idle.", CPU_COLOURS,
          stacked=True, ceiling=True),
    _Kind("consumers", "CPU time by program", "CPUs",
          "The programs that used most, all processes of one name together.", {}, stacked=True, ceiling=True),
    _Kind("delay", "Waiting for a CPU, by program", "tasks",
          "How many tasks were runnable and had no CPU (run delay), by program.", {}, stacked=True),
    _Kind("queue", "Run queue", "threads",
          "Threads that run or want to, and those blocked by disks. Momentary values: more runnable ones than CPUs, and"
          " somebody waits.", {"runnable": var("c1"), "blocked": var("c2")}),
    _Kind("pressure", "Pressure", "% of the time",
          "Share of the time in which at least one task waited for it (pressure stall information).",
          {"CPU": var("c1"), "disk": var("c2"), "memory": var("c4")}),
    _Kind("memory", "Memory", "GiB", "What the host uses, or has available, and what is not on disk yet.", {}),
    _Kind("latency", "Disk latency", "ms a request",
          "Time of the requests that ended, over their number; no point where none did.", {}),
    _Kind("disk-queue", "Disk queue", "requests",
          "Mean number of requests waiting or in service at each device (queue time ÷ time).", {}),
    _Kind("disk-bytes", "Disk throughput", "MB/s", "Bytes read from and written to each device.", {}),
    _Kind("disk-users", "Disk throughput by program", "MB/s", "Bytes that programs caused to be read and written.", {},
          stacked=True),
    _Kind("network", "Network", "MB/s", "Received and sent, by interface.", {}),
    _Kind("groups", "CPU time by cgroup", "CPUs", "The cgroups whose processes used most.", {}, stacked=True,
          ceiling=True),
    _Kind("throttled", "Throttled by a CPU quota", "s a second", "Time that runnable tasks were held back.", {}),
)  # fmt: skip


# Of every chart: its title and its unit.
TITLES = {kind.name: (kind.title, kind.unit) for kind in _KINDS}


def sample_plots(lines: SampleLines, cpus: int) -> list[Plot]:
    """The strip first, then a chart for everything that was recorded; none without samples."""
    if "cpu" not in lines.charts:
        return []
    plots = [_strip(lines, cpus)]
    for kind in _KINDS:
        steps = lines.charts.get(kind.name)
        if steps:
            plots.append(_timeline(kind, steps, lines, float(cpus)))
        if kind.name == "cpu" and len({core for *_, core, _ in lines.cores}) > 1:
            plots.append(_cores(lines))
    return plots + [
        _histogram(kind, lines.histograms[kind]) for kind in _HISTOGRAMS if kind in lines.histograms
    ]


_HISTOGRAMS = {
    "run_queue": ("Waiting for a CPU", "How long a runnable task waited until it ran."),
    "on_cpu": ("On a CPU", "How long a task ran until it was switched out."),
    "off_cpu": (
        "Off the CPU",
        "How long a task was off the CPU until it ran again, the wait for one included.",
    ),
}


def _histogram(kind: str, bars: Sequence[tuple[int, str, float]]) -> Plot:
    """Draw the whole recording: histograms are not cut by the brush."""
    title, caption = _HISTOGRAMS[kind]
    totals: dict[str, float] = {}
    for _, line, count in bars:
        totals[line] = totals.get(line, 0.0) + count
    names = sorted(totals, key=lambda n: (n == OTHERS, -totals[n], n))
    colours = {n: var("alone") if n == OTHERS else var(f"c{at % 8 + 1}") for at, n in enumerate(names)}
    rows = "\n".join(f"{power},{power + 1},{count:g},{names.index(line)}" for power, line, count in bars)
    layer = marks(
        "rect",
        {},
        x=quantity(
            "p",
            "from … on, doubling",
            {"labelExpr": "format(pow(2,datum.value)*1e-9,'.2~s')+'s'", "tickCount": 8, "grid": False},
            nice=False,
            zero=False,
        ),
        x2="q",
        y=quantity("low", "times", {"tickCount": 4, "format": "~s"}, zero=True),
        y2="high",
        color={
            "field": "k",
            "type": "nominal",
            "legend": None,
            "scale": {"domain": names, "range": list(colours.values())},
        },
    )
    spec = chart(HEIGHT, [layer], [])
    spec["data"] = {"values": f"p,q,n,o\n{rows}", "format": {"type": "csv"}}
    # Stacked here: with both axes of numbers Vega-Lite would not know which way bars stand.
    spec["transform"] = [
        {"calculate": f"{json.dumps(names)}[datum.o]", "as": "k"},
        {"stack": "n", "groupby": ["p"], "sort": [{"field": "o"}], "as": ["low", "high"]},
    ]
    table = tuple((name, format_value(totals[name], "count")) for name in names)
    return Plot(f"sched-{kind}", "histogram", title, caption, spec, colours, ("whose", "times"), table)


def _busy(lines: SampleLines) -> tuple[list[tuple[float, float]], str]:
    """CPU time of all states but waiting, by step."""
    total: dict[float, float] = {}
    for step in lines.charts["cpu"]:
        if step.line not in ("waiting for disk", "stolen"):
            total[step.t] = total.get(step.t, 0.0) + step.mean
    return sorted(total.items()), "t,v"


def _strip(lines: SampleLines, cpus: int) -> Plot:
    busy, header = _busy(lines)
    rows = "\n".join(f"{t},{v:.4g}" for t, v in busy)
    layer: Spec = {
        "params": [BRUSH],
        "mark": {"type": "area", "color": var("c1"), "opacity": 0.75, "clip": True},
        "encoding": {
            "x": _time(lines).axis(follow=False),
            "y": quantity("v", None, {"tickCount": 2, "format": "~s"}, domain=[0, cpus]),
        },
    }
    spec = chart(56, [layer], [])
    spec["data"] = {"values": f"{header}\n{rows}", "format": {"type": "csv"}}
    table = (("busy", *figures([v for _, v in busy], "CPUs")),)
    caption = "CPUs in use over the whole recording. Drag across it to choose a range; a click shows everything again."
    return Plot("strip", "strip", "The recording", caption, spec, {}, HEADERS, table)


def _timeline(kind: _Kind, steps: Sequence[Step], lines: SampleLines, cpus: float) -> Plot:
    peaks = lines.merged and not kind.stacked
    caption = kind.caption
    if lines.merged:
        shown = peaks and kind.name != "latency"
        caption += f" Means of {lines.step_s:.3g} s" + ("; pale: the most in one interval." if shown else ".")
    return timeline(
        kind.name,
        f"{kind.title}, {kind.unit}" + (f" of {cpus:g}" if kind.ceiling else ""),
        kind.unit,
        caption,
        steps,
        _time(lines),
        kind.colours,
        stacked=kind.stacked,
        ceiling=cpus if kind.ceiling else None,
        peaks=peaks and kind.name != "latency",
        dots=kind.name == "latency",
    )


def _time(lines: SampleLines) -> Time:
    return Time(lines.end_s, "the first sample")


def _cores(lines: SampleLines) -> Plot:
    cpus = sorted({core for *_, core, _ in lines.cores})
    rows = "\n".join(f"{a},{b},{core},{core + 1},{busy}" for a, b, core, busy in lines.cores)
    layer = marks(
        "rect",
        {"clip": True},
        x=_time(lines).axis(follow=True, field="a"),
        x2="b",
        y=quantity(
            "c",
            "CPU",
            {"tickMinStep": 1, "tickCount": min(len(cpus), 8), "grid": False, "format": "d"},
            domain=[cpus[0], cpus[-1] + 1],
            nice=False,
            zero=False,
            reverse=True,
        ),
        y2="d",
        opacity={
            "field": "v",
            "type": "quantitative",
            "legend": None,
            "scale": {"domain": [0, 1], "range": [0.04, 1]},
        },
        color={"value": var("c1")},
    )
    spec = chart(max(60, min(260, 22 * len(cpus))), [layer], [])
    spec["data"] = {"values": f"a,b,c,d,v\n{rows}", "format": {"type": "csv"}}
    spec["params"] = _time(lines).window()
    table = tuple(
        (f"CPU {core}", *figures([100 * busy for *_, c, busy in lines.cores if c == core], "%"))
        for core in cpus
    )
    caption = "Each row is a CPU, darker the busier: one row dark and the others pale is a limit that no mean shows."
    return Plot(
        "timeline-cores",
        "timeline",
        "How busy each CPU was",
        caption,
        spec,
        {},
        ("CPU", "mean", "least", "most"),
        table,
    )
