"""The charts of a recording: a strip to brush, and timelines that follow it.

All timelines share the parameters `x0` and `x1`, the visible seconds; the page sets them from the brush in the strip,
or from its list of ranges.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from contend.report.plotkit import Plot, Spec, chart
from contend.report.sample_series import OTHERS, SampleLines, Step
from contend.report.theme import var
from contend.units import format_value

HEIGHT = 140
STATES = {
    "user": var("c1"),
    "nice": var("c5"),
    "system": var("c2"),
    "interrupts": var("c7"),
    "soft interrupts": var("c3"),
    "waiting for disk": var("c4"),
    "stolen": var("c6"),
}
# Steps of a time axis that people count in, s.
_TICKS = (
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800,
    3600, 7200, 10800, 21600, 43200, 86400,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a chart shows and how."""

    name: str
    title: str
    unit: str
    caption: str
    colours: Mapping[str, str]
    stacked: bool = False
    ceiling: bool = False  # up to the number of CPUs


_KINDS = (
    _Kind("cpu", "CPU time by state", "CPUs", "How many CPUs' worth of time went where; the rest is idle.", STATES,
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
    """Of the whole recording: histograms are not cut by the brush."""
    title, caption = _HISTOGRAMS[kind]
    totals: dict[str, float] = {}
    for _, line, count in bars:
        totals[line] = totals.get(line, 0.0) + count
    names = sorted(totals, key=lambda n: (n == OTHERS, -totals[n], n))
    colours = {n: var("alone") if n == OTHERS else var(f"c{at % 8 + 1}") for at, n in enumerate(names)}
    rows = "\n".join(f"{power},{power + 1},{count:g},{names.index(line)}" for power, line, count in bars)
    layer: Spec = {
        "mark": {"type": "rect"},
        "encoding": {
            "x": {
                "field": "p",
                "type": "quantitative",
                "title": "from … on, doubling",
                "scale": {"nice": False, "zero": False},
                "axis": {
                    "labelExpr": "format(pow(2,datum.value)*1e-9,'.2~s')+'s'",
                    "tickCount": 8,
                    "grid": False,
                },
            },
            "x2": {"field": "q"},
            "y": {
                "field": "low",
                "type": "quantitative",
                "title": "times",
                "scale": {"zero": True},
                "axis": {"tickCount": 4, "format": "~s"},
            },
            "y2": {"field": "high"},
            "color": {
                "field": "k",
                "type": "nominal",
                "legend": None,
                "scale": {"domain": names, "range": list(colours.values())},
            },
        },
    }
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
    brush = {
        "name": "brush",
        "select": {
            "type": "interval",
            "encodings": ["x"],
            "mark": {"fill": var("ink"), "fillOpacity": 0.12, "stroke": var("ink"), "strokeWidth": 1},
        },
    }
    layer: Spec = {
        "params": [brush],
        "mark": {"type": "area", "color": var("c1"), "opacity": 0.75, "clip": True},
        "encoding": {
            "x": _time_axis(lines.end_s, follow=False),
            "y": {
                "field": "v",
                "type": "quantitative",
                "title": None,
                "scale": {"domain": [0, cpus], "nice": False},
                "axis": {"tickCount": 2, "format": "~s"},
            },
        },
    }
    spec = chart(56, [layer], [])
    spec["data"] = {"values": f"{header}\n{rows}", "format": {"type": "csv"}}
    table = (("busy", *_figures([v for _, v in busy], "CPUs")),)
    caption = "CPUs in use over the whole recording. Drag across it to choose a range; a click shows everything again."
    return Plot(
        "strip", "strip", "The recording", caption, spec, {}, ("line", "mean", "least", "most"), table
    )


def _timeline(kind: _Kind, steps: Sequence[Step], lines: SampleLines, cpus: float) -> Plot:
    names = _names(kind, steps)
    shades = [f"c{n % 8 + 1}" for n in range(len(names))]
    colours = {
        name: kind.colours.get(name, var("alone") if name == OTHERS else var(shade))
        for name, shade in zip(names, shades, strict=True)
    }
    order = {name: n for n, name in enumerate(names)}
    y: Spec = {
        "field": "v",
        "type": "quantitative",
        "title": kind.unit,
        "scale": {"domainMin": 0, "zero": True, "nice": True},
        "axis": {"tickCount": 4, "format": ",.4~g"},
    }
    if not any(step.mean for step in steps):
        y["scale"] = {"domain": [0, 1]}  # a line of zeros has no scale of its own
    elif kind.ceiling:
        y["scale"] = {"domain": [0, cpus], "nice": False}
    colour = {
        "field": "k",
        "type": "nominal",
        "legend": None,
        "scale": {"domain": names, "range": list(colours.values())},
    }
    x = _time_axis(lines.end_s, follow=True)
    if kind.stacked:
        mark: Spec = {"type": "area", "clip": True}
        encoding = {
            "x": x,
            "y": {**y, "stack": "zero"},
            "color": colour,
            "order": {"field": "o", "type": "quantitative"},
        }
        layers: list[Spec] = [{"mark": mark, "encoding": encoding}]
    else:
        y["stack"] = None
        # A single sample between two without any would be no line at all.
        mark = {
            "type": "line",
            "clip": True,
            "strokeWidth": 1.5,
            "point": kind.name == "latency" and {"size": 9},
        }
        layers = [{"mark": mark, "encoding": {"x": x, "y": y, "color": colour}}]
        if lines.merged and kind.name != "latency":
            peaks: Spec = {"type": "line", "clip": True, "strokeWidth": 1, "opacity": 0.45}
            layers.insert(0, {"mark": peaks, "encoding": {"x": x, "y": {**y, "field": "m"}, "color": colour}})
    most = lines.merged and not kind.stacked
    data = "\n".join(f"{s.t},{s.mean},{order[s.line]}" + (f",{s.most}" if most else "") for s in steps)
    spec = chart(HEIGHT, layers, [])
    spec["data"] = {"values": f"t,v,o{',m' if most else ''}\n{data}", "format": {"type": "csv"}}
    spec["transform"] = [{"calculate": f"{json.dumps(names)}[datum.o]", "as": "k"}]
    spec["params"] = _window(lines)
    caption = kind.caption
    if lines.merged:
        caption += f" Means of {lines.step_s:.3g} s" + ("; pale: the most in one interval." if most else ".")
    table = tuple((name, *_figures([s.mean for s in steps if s.line == name], kind.unit)) for name in names)
    headers = ("line", "mean", "least", "most")
    title = f"{kind.title}, {kind.unit}" + (f" of {cpus:g}" if kind.ceiling else "")
    return Plot(f"timeline-{kind.name}", "timeline", title, caption, spec, colours, headers, table)


def _names(kind: _Kind, steps: Sequence[Step]) -> list[str]:
    """Lines in the order of their legend: as their colours say, or the largest first, the rest last."""
    totals: dict[str, float] = {}
    for step in steps:
        totals[step.line] = totals.get(step.line, 0.0) + step.mean
    known = [name for name in kind.colours if name in totals]
    others = sorted((n for n in totals if n not in known), key=lambda n: (n == OTHERS, -totals[n], n))
    return known + others


def _cores(lines: SampleLines) -> Plot:
    cpus = sorted({core for *_, core, _ in lines.cores})
    rows = "\n".join(f"{a},{b},{core},{core + 1},{busy}" for a, b, core, busy in lines.cores)
    layer: Spec = {
        "mark": {"type": "rect", "clip": True},
        "encoding": {
            "x": {**_time_axis(lines.end_s, follow=True), "field": "a"},
            "x2": {"field": "b"},
            "y": {
                "field": "c",
                "type": "quantitative",
                "title": "CPU",
                "scale": {"domain": [cpus[0], cpus[-1] + 1], "nice": False, "zero": False, "reverse": True},
                "axis": {"tickMinStep": 1, "tickCount": min(len(cpus), 8), "grid": False, "format": "d"},
            },
            "y2": {"field": "d"},
            "opacity": {
                "field": "v",
                "type": "quantitative",
                "legend": None,
                "scale": {"domain": [0, 1], "range": [0.04, 1]},
            },
            "color": {"value": var("c1")},
        },
    }
    spec = chart(max(60, min(260, 22 * len(cpus))), [layer], [])
    spec["data"] = {"values": f"a,b,c,d,v\n{rows}", "format": {"type": "csv"}}
    spec["params"] = _window(lines)
    table = tuple(
        (f"CPU {core}", *_figures([100 * busy for *_, c, busy in lines.cores if c == core], "%"))
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


def _figures(values: Sequence[float], unit: str) -> tuple[str, str, str]:
    if not values:
        return ("", "", "")
    short = unit if unit in ("CPUs", "%", "MB/s", "GiB") else ""
    return tuple(_value(v, short) for v in (sum(values) / len(values), min(values), max(values)))  # type: ignore[return-value]


def _value(value: float, unit: str) -> str:
    return format_value(value, "ratio").removesuffix(" ratio") + (f" {unit}" if unit else "")


def _window(lines: SampleLines) -> list[Spec]:
    return [{"name": "x0", "value": 0}, {"name": "x1", "value": lines.end_s}]


def _time_axis(end: float, *, follow: bool) -> Spec:
    """Time since the first sample, in the words of clocks; `follow` lets the page move the visible part."""
    low, high = ("x0", "x1") if follow else ("0", repr(end))
    span = f"({high}-{low})"
    step = repr(float(_TICKS[-1]))
    for tick in reversed(_TICKS[:-1]):
        step = f"({span}<={6 * tick!r}?{tick!r}:{step})"
    scale: Spec = {"nice": False, "zero": False}
    if follow:
        scale |= {"domainMin": {"expr": "x0"}, "domainMax": {"expr": "x1"}}
    else:
        scale["domain"] = [0, end]
    hours = "floor(datum.value/3600)+utcFormat(datum.value*1000,':%M')"
    clock = f"{span}<360?{hours}+utcFormat(datum.value*1000,':%S'):{hours}" if end >= 3600 else ""
    label = clock or ("utcFormat(datum.value*1000,'%M:%S')" if end >= 120 else "format(datum.value,'~g')")
    unit = "hours:minutes" if end >= 3600 else "minutes:seconds" if end >= 120 else "seconds"
    return {
        "field": "t",
        "type": "quantitative",
        "title": f"{unit} since the first sample",
        "scale": scale,
        "axis": {
            "values": {"expr": f"sequence(ceil({low}/{step})*{step},{high}+{step}/1000,{step})"},
            "labelExpr": label,
            "labelFlush": True,
            "grid": False,
        },
    }
