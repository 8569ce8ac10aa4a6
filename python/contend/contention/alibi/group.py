"""The alibi of a group of processes beside the host's: its own threads, a quota, memory or the disk held it up.

The judges are those of the host, on the group's rows. What is only known of a cgroup (stalls for memory and for disk
requests) is the group's where what was done in that cgroup was its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from contend.contention.alibi import limits
from contend.contention.alibi.cpu import cores, judge_threads
from contend.contention.alibi.grid import Floats, Grid, by_key, make_grid
from contend.contention.alibi.judge import verdict_of
from contend.contention.alibi.memory import short_group
from contend.contention.alibi.recording import Recording
from contend.contention.alibi.throttling import judge_throttling
from contend.contention.alibi.track import Judged, Measure, Track
from contend.contention.alibi.verdict import Alibi
from contend.units import NS_PER_S


def judge_group(
    name: str,
    host: Recording,
    own: Recording,
    start_ns: int,
    end_ns: int,
    quotas: Sequence[Mapping[str, Any]] = (),
) -> Alibi | None:
    """Judge what held up a group of processes in [start_ns, end_ns) of CLOCK_MONOTONIC; None where it did nothing then.

    name: for the text, as "the command". host: of which `own` (scope.read_group) holds the group's rows. "idle": nothing
    of the hardware held it up. A "cpu" here says that its tasks waited for one, a "disk" that they waited for requests;
    whether those were at their limit is the host's verdict.

    quotas: those that were met then, as rows of trials have them, in the groups that its processes were really in. The
    probe looks a group's place in v1's cpu hierarchy up once: of a process that goes into a group with a quota after
    that it sees the wait, and not the quota.
    """
    grid = make_grid(host.times, start_ns, end_ns, limits.BIN_NS)
    if grid is None:
        return None
    start, end = int(grid.edges[0]), int(grid.edges[-1])
    own = own.between(start, end)
    delays = own.get("delays")
    if delays is None or not len(delays["t_ns"]):
        return None
    used = grid.summed(delays["t_ns"], delays["cpu_ns"]) / grid.widths
    throttling, throttled = judge_throttling(own, grid)
    if quotas and not throttling.tracks:
        throttling, throttled = _known_throttling(quotas, grid, (end_ns - start_ns) / NS_PER_S)
    judgements = [throttling, _cpu(own, grid, used, throttled), _stalls(host.between(start, end), own, grid)]
    seen = cores(host.between(start, end), grid)
    if seen is not None:
        # Interrupts are nobody's.
        judgements.append(
            judge_threads(replace(seen, interrupts=np.zeros_like(seen.busy)), own, grid, throttled)
        )
    return replace(verdict_of(judgements, grid), scope=name)


def _known_throttling(
    quotas: Sequence[Mapping[str, Any]], grid: Grid, seconds: float
) -> tuple[Judged, Floats]:
    """As `judge_throttling`, of what is known of the whole phase."""
    judged, most = Judged(), np.zeros(grid.bins)
    for quota in quotas:
        kept = np.full(grid.bins, float(quota["throttled_s"]) / seconds)
        waited = np.minimum(kept, 1.0)
        if waited[0] < limits.THROTTLED:
            continue
        most = np.maximum(most, waited)
        measure = Measure("CPU time it was kept from, CPUs", kept, "CPUs", "table trials, quotas")
        subject = f"cgroup {quota['group']}"
        judged.tracks.append(Track("throttling", subject, np.ones(grid.bins, dtype=bool), waited, (measure,)))
    return judged, most


def _cpu(own: Recording, grid: Grid, used: Floats, throttled: Floats) -> Judged:
    """Its tasks waited for a CPU for a good part of the time that they wanted one.

    The kernel counts a throttled task as waiting for a CPU, so where it was throttled nothing else is told.
    """
    delays = own.tables["delays"]
    delay = grid.summed(delays["t_ns"], delays["run_delay_ns"]) / grid.widths
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.nan_to_num(delay / (delay + used))
    saturated = (delay >= limits.CPU_WAIT) & (part >= limits.CPU_WAIT) & (throttled < limits.THROTTLED)
    measures = (
        Measure("of its time wanted on a CPU it waited", part, "fraction", "table process_use, run_delay_ns"),
        Measure("its tasks waiting, mean", delay, "tasks", "table process_use, run_delay_ns"),
    )
    judged = Judged(notes=[f"it used {float(np.average(used, weights=grid.widths)):.2f} CPUs"])
    if saturated.any():
        judged.tracks.append(Track("cpu", "its tasks waited for one", saturated, part, measures))
    return judged


def _stalls(host: Recording, own: Recording, grid: Grid) -> Judged:
    """Its tasks stood still for memory or disk requests, by the pressure of the cgroups that are its own."""
    judged, table, share = Judged(), own.get("cgroups"), own.tables["own"]
    # The root's pressure is the host's.
    alone = (share["share"] >= limits.OWN) & (share["cgroup"] != "/")
    if share["cpu_ns"][~alone].sum() > (1 - limits.OWN) * share["cpu_ns"].sum():
        _without_pressure(host, grid, judged)
        return judged
    mine = set(share["cgroup"][alone])
    if table is None or "psi_io_some_ns" not in table:
        _without_pressure(host, grid, judged)
        return judged
    for cgroup, rows in by_key(table["cgroup"]):
        if str(cgroup) not in mine:
            continue
        group = {name: values[rows] for name, values in table.items()}
        waits = {
            what: grid.summed(group["t_ns"], np.nan_to_num(group[f"psi_{what}_some_ns"])) / grid.widths
            for what in ("memory", "io")
        }
        short = waits["memory"] >= limits.MEMORY_STALL
        if short.any():
            why = short_group(str(cgroup), group, grid, short)
            judged.tracks.append(Track("memory", why.subject, short, waits["memory"], why.measures))
        # The kernel counts pages that come back as waits for both; where memory is short they are memory's.
        disk = np.where(short, np.maximum(waits["io"] - waits["memory"], 0), waits["io"])
        waiting = disk >= limits.IO_WAIT
        if waiting.any():
            measure = Measure(
                "time in which some task of it waited for I/O", waits["io"], "fraction",
                "table cgroup_use, psi_io_some_ns",
            )  # fmt: skip
            judged.tracks.append(Track("disk", f"cgroup {cgroup}", waiting, disk, (measure,)))
    return judged


def _without_pressure(host: Recording, grid: Grid, judged: Judged) -> None:
    """Some task of the group waits at most as long as some task of the host does."""
    table = host.get("host") or {}
    for what, column, least in (
        ("memory", "psi_memory_some_ns", limits.MEMORY_STALL),
        ("disks", "psi_io_some_ns", limits.IO_WAIT),
    ):
        if column in table:
            waits = np.nan_to_num(grid.grown(table["t_ns"], table[column]) / grid.widths)
            if np.average(waits >= least, weights=grid.widths) < limits.MAIN_SHARE:
                continue
        judged.blind = True
        judged.unknown.append(f"its waits for {what}: it had no cgroup of its own")
