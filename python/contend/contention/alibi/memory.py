"""Memory: time that tasks stood still because there was too little of it, in the host or in a cgroup with a limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from contend.contention.alibi import limits
from contend.contention.alibi.grid import Array, Flags, Floats, Grid, by_key
from contend.contention.alibi.recording import Recording
from contend.contention.alibi.track import Judged, Measure, Track, mean

# Cumulative counters of table host that tell how a shortage showed.
_SIGNS = {
    "swap_in_bytes": ("swapped in", "B/s"),
    "swap_out_bytes": ("swapped out", "B/s"),
    "direct_scans": ("pages that tasks themselves scanned to free memory", "1/s"),
    "major_faults": ("major page faults", "1/s"),
    "oom_kills": ("processes killed for want of memory", "1/s"),
}


def judge_memory(recording: Recording, grid: Grid) -> Judged:
    """Judge memory by stalls (PSI), or by direct reclaim and swapping where the kernel keeps none; names the cgroup at
    its limit."""
    host, judged = recording.get("host"), Judged()
    if host is None:
        return Judged(unknown=["memory: no host table"], blind=True)
    rates = {
        name: grid.grown(host["t_ns"], host[name]) / grid.widths * 1e9 for name in _SIGNS if name in host
    }
    killed = np.nan_to_num(rates.get("oom_kills", np.zeros(grid.bins))) > 0
    measures = tuple(
        Measure(_SIGNS[name][0], rate, _SIGNS[name][1], f"table host, {name}")
        for name, rate in rates.items()
        if np.nansum(rate) > 0
    )
    if "psi_memory_some_ns" in host:
        stalled = grid.grown(host["t_ns"], host["psi_memory_some_ns"]) / grid.widths
        stall = Measure(
            "time in which some task stood still for memory", stalled, "fraction", "table host, psi_memory_some_ns"
        )  # fmt: skip
        starved = _starved(recording, grid, stalled >= limits.MEMORY_PAGING)
        saturated, measures = (stalled >= limits.MEMORY_STALL) | starved | killed, (stall, *measures)
    elif "direct_scans" in rates:
        # Tasks that free memory themselves, and pages that come back at once: short of memory, to what extent unsaid.
        moved = np.nan_to_num(rates.get("swap_in_bytes", np.zeros(grid.bins))) + np.nan_to_num(
            rates.get("major_faults", np.zeros(grid.bins))
        )
        saturated = ((np.nan_to_num(rates["direct_scans"]) > 0) & (moved > 0)) | killed
        stalled = np.where(saturated, limits.MEMORY_STALL, 0.0)
        judged.unknown.append("how long tasks waited for memory: no pressure recorded (PSI)")
    else:
        judged.unknown.append("memory: neither pressure (PSI) nor reclaim recorded")
        judged.blind = True
        return judged
    if saturated.any():
        group = _shortest(recording.get("cgroups"), grid, saturated)
        subject, more = ("the host", ()) if group is None else (group.subject, group.measures)
        judged.tracks.append(Track("memory", subject, saturated, stalled, measures + more))
    if "mem_available_bytes" in host and "mem_total_bytes" in host:
        free = mean(grid, grid.mean(host["t_ns"], host["mem_available_bytes"] / host["mem_total_bytes"]))
        judged.idle["memory"] = round(free, 4)
    return judged


def _starved(recording: Recording, grid: Grid, paging: Flags) -> Flags:
    """Where pages come back, and one cgroup, at its limit, reads most of what all disks read: it has no room for them.

    The stall alone tells too little of that. The kernel counts only pages that had been in use when they went, and on a
    slow disk, or beside others' work, the rest of the reads takes the time in which these would come back.
    """
    group = _shortest(recording.get("cgroups"), grid, paging)
    if group is None:
        return np.zeros(grid.bins, dtype=bool)
    of_all = np.zeros(grid.bins)
    for own in recording.devices("disk").values():
        of_all += np.nan_to_num(grid.grown(own["t_ns"], own["read_bytes"]))
    return paging & group.at_limit & (of_all > 0) & (group.reads >= 0.5 * of_all)


@dataclass(frozen=True)
class Group:
    """A cgroup that is short of memory. weight: how much it looks like the one; reads: bytes it reads, by bin;
    at_limit: bins in which it uses all that it may."""

    weight: tuple[float, float]
    subject: str
    measures: tuple[Measure, ...]
    reads: Floats
    at_limit: Flags


def _shortest(table: Mapping[str, Array] | None, grid: Grid, saturated: Flags) -> Group | None:
    """The cgroup that is at its limit, or stalls most, meanwhile; None where that is the host itself."""
    if table is None or not saturated.any():
        return None
    groups = (  # one at a time: there may be thousands
        short_group(str(cgroup), {name: values[rows] for name, values in table.items()}, grid, saturated)
        for cgroup, rows in by_key(table["cgroup"])
        if cgroup != "/"
    )
    best = max(groups, key=lambda group: group.weight, default=None)
    return best if best is not None and best.weight[0] >= limits.MEMORY_STALL else None


def short_group(cgroup: str, own: Mapping[str, Array], grid: Grid, saturated: Flags) -> Group:
    """Describe a cgroup that is short of memory, from its own rows."""
    t, none = own["t_ns"], np.zeros(len(own["t_ns"]))
    stalled: Floats = grid.summed(t, np.nan_to_num(own.get("psi_memory_some_ns", none))) / grid.widths
    reads = grid.summed(t, np.nan_to_num(own.get("read_bytes", none)))
    with np.errstate(invalid="ignore", divide="ignore"):
        filled = grid.mean(t, own["memory_bytes"] / own["memory_limit_bytes"])
    filled = np.where(np.isfinite(filled), filled, np.nan)
    at_limit = np.nan_to_num(filled) >= limits.AT_LIMIT
    measures: tuple[Measure, ...] = ()
    if at_limit.any():
        measures += (
            Measure("of its memory limit in use", filled, "fraction", "table cgroup_use, memory_bytes"),
        )
    if stalled.any():
        measures += (
            Measure(
                "time its tasks stood still", stalled, "fraction", "table cgroup_use, psi_memory_some_ns"
            ),
        )
    # A limit that is met explains the stall better than the stall itself, which the groups above it share; of several
    # at their limit (a page cache fills any) the one that reads most.
    weight = float(stalled[saturated].mean() + at_limit[saturated].mean()), float(reads[saturated].sum())
    subject = f"cgroup {cgroup}" + (", at its limit" if at_limit.any() else "")
    return Group(weight, subject, measures, reads, at_limit)


def blame_for_paging(memory: Judged, disks: Judged, recording: Recording, grid: Grid) -> None:
    """Mark disk tracks as caused by memory where the disk is busy with pages that memory had no room for.

    Three signs of it, any of them while memory is short. Most of the time that tasks wait for I/O they stand still for
    memory: the kernel counts a refault or a swap-in as both (mm/filemap.c, mm/page_io.c: psi_memstall_enter around
    the wait), but only of pages that had been in use before. So also: page faults ask for most of the requests. Or,
    because read-ahead makes much of one fault: most of what is read is read by the cgroup that is short.
    """
    host, disk = recording.get("host") or {}, recording.get("disk")
    if not memory.tracks or disk is None:
        return
    short = memory.tracks[0]
    paging = np.zeros(grid.bins, dtype=bool)
    if "psi_io_some_ns" in host:
        waiting: Floats = grid.grown(host["t_ns"], host["psi_io_some_ns"]) / grid.widths
        paging |= short.waited >= 0.5 * np.nan_to_num(waiting)
    faults = grid.grown(host["t_ns"], host["major_faults"]) if "major_faults" in host else np.zeros(grid.bins)
    group = _shortest(recording.get("cgroups"), grid, short.saturated)
    for track in disks.tracks:
        own = recording.devices("disk")[track.subject]
        t = own["t_ns"]
        explained = paging | (faults >= 0.5 * grid.grown(t, own["reads"]))
        if group is not None:
            explained |= group.reads >= 0.5 * grid.grown(t, own["read_bytes"])
        if (track.saturated & explained & short.saturated).sum() >= 0.5 * track.saturated.sum():
            track.cause = "memory"
