"""The figures of a hunt: every job's time, the critical path of the batch, and the mean job of each batch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from contend.contention.hunt import Batch, Hunt
from contend.contention.hunting.rows import BATCH, Tables
from contend.report.plotkit import Plot, Spec, chart, marks, row_axis, row_labels
from contend.report.scaling_plots import scaling_plots
from contend.report.theme import var
from contend.units import duration_unit, format_duration

COLOURED = 8  # parts that have a colour of their own; the rest is grey
JOBS = 200  # drawn; of more every so many-th
_REST = "all else"
_WORDS = {
    "lock": "waits for lock", "pool": "waits for a worker of", "reply": "waits for the answer of",
    "queue": "waits at queue", "condition": "waits for", "gil": "waits for the GIL", "cpu": "waits for a CPU",
    "suspended": "suspended", "io": "I/O:", "sleep": "sleeps", "blocked": "blocked",
}  # fmt: skip
_PATH = re.compile(r"/\S*/([^/\s]+/[^/\s]+:\d+)")


def hunt_plots(hunt: Hunt) -> list[Plot]:
    """Plots of the hunt for which there is data."""
    batches = [hunt.batch, *hunt.others]
    names = _coloured(batches)
    plots = [_jobs(hunt.batch, names), _critical(hunt.batch.whole, names)]
    if hunt.others:
        plots.append(_before_after(batches, names))
    grown = scaling_plots(hunt.growth) if hunt.growth is not None else []
    return [*grown, *(plot for plot in plots if plot is not None)]


def short_path(name: str) -> str:
    """A shorter name for a lock that is named by where it was made: two steps of its path tell it from others.

    >>> short_path("/usr/lib/python3/site-packages/futurist/_thread.py:63"), short_path("HTTP GET /a/b/c")
    ('futurist/_thread.py:63', 'HTTP GET /a/b/c')
    """
    return _PATH.sub(r"\1", name)


def part_name(kind: str, part: str, resource: str) -> str:
    """
    >>> part_name("lock", "claim", "db"), part_name("running", "claim", ""), part_name("running", "", "")
    ('waits for lock db', 'in claim', 'in no span')
    >>> part_name("io", "save", "fsync"), part_name("sleep", "fetch", "sleep"), part_name("blocked", "", "")
    ('I/O: fsync', 'sleeps in fetch', 'blocked in no span')
    """
    resource = short_path(resource)
    if kind == "running":
        return f"in {part or resource}" if part or resource else "in no span"
    if kind in ("blocked", "sleep"):
        return f"{_WORDS[kind]} in {part or 'no span'}"
    return (
        f"{_WORDS.get(kind, kind)} {resource}".strip()
        if kind not in ("gil", "cpu", "suspended")
        else _WORDS[kind]
    )


def _rows(tables: Tables) -> Iterable[tuple[int, str, int]]:
    """Job, name of the part, ns."""
    for row in tables.time:
        yield row.job, part_name(row.kind, row.part, row.resource), row.ns


def _coloured(batches: Sequence[Batch]) -> dict[str, str]:
    """A colour for each of the parts with most time in all batches together, waits in the first colours' order."""
    sums: dict[str, int] = {}
    for batch in batches:
        for _, name, ns in _rows(batch.whole):
            sums[name] = sums.get(name, 0) + ns
    largest = sorted(sums, key=lambda name: (-sums[name], name))[:COLOURED]
    return {**{name: var(f"c{at}") for at, name in enumerate(largest, start=1)}, _REST: var("alone")}


def _colour(names: Mapping[str, str]) -> Spec:
    scale = {"domain": list(names), "range": list(names.values())}
    return {"field": "name", "type": "nominal", "legend": None, "scale": scale}


def _bars(rows: int, names: Mapping[str, str], title: str, half: float) -> Spec:
    """Rows `y` from `a` to `b` of the x axis."""
    x = {"field": "a", "type": "quantitative", "title": title, "axis": {"tickCount": 6, "format": ".6~g"}}
    edges = (("top", f"datum.y-{half}"), ("bottom", f"datum.y+{half}"))
    moved = [{"calculate": how, "as": name} for name, how in edges]
    y: Spec = {"y": row_axis("top", rows), "y2": "bottom", "color": _colour(names)}
    return marks("rect", {"clip": True}, transform=moved, x=x, x2="b", **y, tooltip="say")


def _stacked(
    parts: Mapping[str, int], names: Mapping[str, str], start: float, size: float
) -> list[dict[str, object]]:
    """One bar: parts one after the other, in the order of the colours."""
    sums = dict.fromkeys(names, 0)
    for part, ns in parts.items():
        sums[part if part in names else _REST] += ns
    segments: list[dict[str, object]] = []
    at = start
    for name, ns in sums.items():
        if ns:
            segments.append(
                {
                    "a": round(at, 6),
                    "b": round(at + ns / size, 6),
                    "name": name,
                    "say": f"{name}: {format_duration(ns)}",
                }
            )
            at += ns / size
    return segments


def _by_job(tables: Tables) -> dict[int, dict[str, int]]:
    by_job: dict[int, dict[str, int]] = {}
    for job, name, ns in _rows(tables):
        of = by_job.setdefault(job, {})
        of[name] = of.get(name, 0) + ns
    return by_job


def _jobs(batch: Batch, names: Mapping[str, str]) -> Plot | None:
    """Draw the jobs of the first trace: in several, jobs of different times stood beside each other."""
    tables = batch.traces[0]
    if not tables.jobs or not tables.time:
        return None
    ordered = sorted(tables.jobs, key=lambda job: (job.begin_ns, job.job))
    step = -(-len(ordered) // JOBS)
    shown, parts = ordered[::step], _by_job(tables)
    origin = ordered[0].begin_ns
    unit, size = duration_unit(max(job.end_ns for job in ordered) - origin)
    values = []
    for at, job in enumerate(shown):
        boxes = _stacked(parts.get(job.job, {}), names, (job.begin_ns - origin) / size, size)
        values += [{**box, "y": at} for box in boxes]
    high = max(3, min(14, 420 // len(shown)))
    spec = chart(
        len(shown) * high + 30, [_bars(len(shown), names, f"{unit} since the first began", 0.42)], values
    )
    layer = spec["layer"][0]
    layer["encoding"]["y"]["scale"] = {
        "domain": [-0.6, len(shown) - 0.4],
        "reverse": True,
        "nice": False,
        "zero": False,
    }
    some = f" Every {step}th of {len(ordered):,} is drawn." if step > 1 else ""
    several = f" The first of {len(batch.traces)} traces." if len(batch.traces) > 1 else ""
    caption = (
        "Each bar is a job, from its begin to its end, the first on top; colours say what its time went to in sum, not"
        f" when.{some}{several}"
    )
    table = tuple(
        (f"{job.name} {job.number}", format_duration(job.ns), *_largest(parts.get(job.job, {})))
        for job in shown
    )
    return Plot(
        "hunt-jobs",
        "jobs",
        "Every job's time",
        caption,
        spec,
        names,
        ("job", "took", "most of it", "then"),
        table,
    )


def _largest(parts: Mapping[str, int]) -> tuple[str, str]:
    texts = [
        f"{name} {format_duration(ns)}" for name, ns in sorted(parts.items(), key=lambda i: (-i[1], i[0]))[:2]
    ]
    return (texts + ["", ""])[0], (texts + ["", ""])[1]


def _critical(tables: Tables, names: Mapping[str, str]) -> Plot | None:
    rows = [row for row in tables.critical if row.job == BATCH]
    parts: dict[str, int] = {}
    for row in rows:
        name = part_name(row.kind, row.part, row.resource)
        parts[name] = parts.get(name, 0) + row.ns
    whole = sum(parts.values())
    if not whole:
        return None
    unit, size = duration_unit(whole)
    own = {**names}
    for name in sorted(parts, key=lambda name: (-parts[name], name))[:3]:
        own.setdefault(name, var("c8"))
    own = {name: colour for name, colour in own.items() if name == _REST or name in parts}
    values = [{**box, "y": 0} for box in _stacked(parts, own, 0, size)]
    spec = chart(56, [_bars(1, own, unit, 0.3)], values)
    spec["layer"][0]["encoding"]["y"]["scale"] = {
        "domain": [-0.4, 0.4],
        "reverse": True,
        "nice": False,
        "zero": False,
    }
    table = tuple(
        (name, format_duration(ns), f"{100 * ns / whole:.1f} %")
        for name, ns in sorted(parts.items(), key=lambda item: (-item[1], item[0]))[:40]
    )
    caption = (
        "From the end of the last job back to the begin of the first: at every moment what had to end before anything"
        " could go on. Making shorter what is not here does not make the batch shorter."
    )
    return Plot(
        "hunt-critical", "critical", "Critical path of the batch", caption, spec, own,
        ("what", "time", "of the path"), table,
    )  # fmt: skip


def mean_jobs(batches: Sequence[Batch]) -> Plot | None:
    """The mean job of each cell of a run."""
    plot = _before_after(batches, _coloured(batches))
    return plot and replace(
        plot,
        id="traced-cells",
        role="traced",
        title="Where the time went, per cell",
        caption=(
            "What the time of a mean job went to, by the traces of each cell: a wait that is shorter in one may be"
            " longer elsewhere."
        ),
    )


def _before_after(batches: Sequence[Batch], names: Mapping[str, str]) -> Plot | None:
    with_jobs = [batch for batch in batches if batch.whole.jobs]
    means = [_mean(batch.whole) for batch in with_jobs]
    if not any(means):
        return None
    unit, size = duration_unit(max(sum(mean.values()) for mean in means))
    values = [{**box, "y": at} for at, mean in enumerate(means) for box in _stacked(mean, names, 0, size)]
    labels = [{"y": at, "label": batch.name} for at, batch in enumerate(with_jobs)]
    layers = [_bars(len(with_jobs), names, f"{unit}, mean job", 0.16)]
    layers += [{**layer, "data": {"values": labels}} for layer in row_labels("label", len(with_jobs), halo=0)]
    spec = chart(44 * len(with_jobs) + 30, layers, values)
    table = tuple(
        (
            batch.name,
            *(
                format_duration(ns)
                for ns in (batch.whole.median_ns, batch.whole.p90_ns, batch.whole.makespan_ns)
            ),
            f"{len(batch.traces)}",
        )
        for batch in with_jobs
    )
    return Plot(
        "hunt-cells", "cells", "The mean job, before and after",
        "What the time of a mean job went to in each: a wait that is shorter in one may be longer elsewhere.",
        spec, names, ("", "median", "p90", "makespan", "traces"), table,
    )  # fmt: skip


def _mean(tables: Tables) -> dict[str, int]:
    sums: dict[str, int] = {}
    for _, name, ns in _rows(tables):
        sums[name] = sums.get(name, 0) + ns
    return {name: ns // max(len(tables.jobs), 1) for name, ns in sums.items()}
