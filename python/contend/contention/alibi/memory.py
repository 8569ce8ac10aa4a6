"""Memory: time that tasks stood still because there was too little of it, in the host or in a cgroup with a limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from contend.contention.alibi import limits
from contend.contention.alibi.grid import Grid, by_key
from contend.contention.alibi.recording import Recording
from contend.contention.alibi.track import Judged, Measure, Track, mean

if TYPE_CHECKING:
    from contend.contention.alibi.grid import Array, Flags, Floats

# Cumulative counters of table host that tell how a shortage showed.
_SIGNS = {
    "swap_in_bytes": ("swapped in", "B/s"),
    "swap_out_bytes": ("swapped out", "B/s"),
    "direct_scans": ("pages that tasks themselves scanned to free memory", "1/s"),
    "major_faults": ("major page faults", "1/s"),
    "oom_kills": ("processes killed for want of memory", "1/s"),
}


def judge_memory(recording: Recording, grid: Grid) -> Judged:
    """Stalls by PSI, or by direct reclaim and swapping where the kernel keeps none; and the cgroup at its limit."""
    host, found = recording.get("host"), Judged()
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
        saturated, measures = (stalled >= limits.MEMORY_STALL) | killed, (stall, *measures)
    elif "direct_scans" in rates:
        # Tasks that free memory themselves, and pages that come back at once: short of memory, to what extent unsaid.
        moved = np.nan_to_num(rates.get("swap_in_bytes", np.zeros(grid.bins))) + np.nan_to_num(
            rates.get("major_faults", np.zeros(grid.bins))
        )
        saturated = ((np.nan_to_num(rates["direct_scans"]) > 0) & (moved > 0)) | killed
        stalled = np.where(saturated, limits.MEMORY_STALL, 0.0)
        found.unknown.append("how long tasks waited for memory: no pressure recorded (PSI)")
    else:
        found.unknown.append("memory: neither pressure (PSI) nor reclaim recorded")
        found.blind = True
        return found
    subject, of_group = _cgroup(recording.get("cgroups"), grid, saturated)
    if saturated.any():
        found.tracks.append(Track("memory", subject, saturated, stalled, measures + of_group))
    if "mem_available_bytes" in host and "mem_total_bytes" in host:
        free = mean(grid, grid.mean(host["t_ns"], host["mem_available_bytes"] / host["mem_total_bytes"]))
        found.idle["memory"] = round(free, 4)
    return found


def _cgroup(
    table: Mapping[str, Array] | None, grid: Grid, saturated: Flags
) -> tuple[str, tuple[Measure, ...]]:
    """The cgroup that is at its limit, or stalls most, meanwhile; the host itself where none does."""
    best: tuple[float, str, tuple[Measure, ...]] = (0.0, "the host", ())
    if table is None or not saturated.any():
        return best[1:]
    for cgroup, rows in by_key(table["cgroup"]):
        t = table["t_ns"][rows]
        stalled: Floats = grid.summed(t, table["psi_memory_some_ns"][rows]) / grid.widths
        with np.errstate(invalid="ignore", divide="ignore"):
            filled = grid.mean(t, table["memory_bytes"][rows] / table["memory_limit_bytes"][rows])
        at_limit = np.nan_to_num(np.where(np.isfinite(filled), filled, 0.0)) >= limits.AT_LIMIT
        measures: tuple[Measure, ...] = ()
        if at_limit.any():
            measures += (
                Measure("of its memory limit in use", filled, "fraction", "table cgroup_use, memory_bytes"),
            )
        if stalled.any():
            measures += (
                Measure("time its tasks stood still", stalled, "fraction", "table cgroup_use, psi_memory_some_ns"),
            )  # fmt: skip
        # A limit that is met explains the stall better than the stall itself, which its parents share.
        weight = float(stalled[saturated].mean() + at_limit[saturated].mean())
        if weight > best[0] and cgroup != "/":
            best = (weight, f"cgroup {cgroup}" + (", at its limit" if at_limit.any() else ""), measures)
    return best[1:] if best[0] >= limits.MEMORY_STALL else ("the host", ())
