"""Cgroups that their CPU quota keeps from CPUs they could have had."""

from __future__ import annotations

import numpy as np

from contend.contention.alibi import limits
from contend.contention.alibi.grid import Floats, Grid, by_key
from contend.contention.alibi.recording import Recording
from contend.contention.alibi.track import Judged, Measure, Track

MOST_CGROUPS = 20


def judge_throttling(recording: Recording, grid: Grid) -> tuple[Judged, Floats]:
    """Judge throttled cgroups; with the share of each bin in which the most throttled one was kept waiting."""
    table, judged, most = recording.get("cgroups"), Judged(), np.zeros(grid.bins)
    if table is None:
        judged.unknown.append("throttling by a CPU quota: no cgroup table")
        return judged, most
    for cgroup, rows in by_key(table["cgroup"]):
        t = table["t_ns"][rows]
        # The kernel adds up the CPUs that it keeps a group from: more than a bin fits into one.
        kept = grid.summed(t, table["throttled_ns"][rows]) / grid.widths
        hit, periods = (
            grid.summed(t, table["throttled_periods"][rows]),
            grid.summed(t, table["periods"][rows]),
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(periods > 0, hit / periods, np.minimum(kept, 1.0))
        waited = np.minimum(kept, share)
        saturated = waited >= limits.THROTTLED
        if saturated.any():
            most = np.maximum(most, waited)
            measures = (
                Measure("CPU time it was kept from, CPUs", kept, "CPUs", "table cgroup_use, throttled_ns"),
                Measure(
                    "periods in which it met its quota",
                    share,
                    "fraction",
                    "table cgroup_use, throttled_periods of periods",
                ),
            )
            judged.tracks.append(Track("throttling", f"cgroup {cgroup}", saturated, waited, measures))
        if len(judged.tracks) > 2 * MOST_CGROUPS:
            _cut(judged, grid)
    _cut(judged, grid)
    return judged, most


def _cut(judged: Judged, grid: Grid) -> None:
    """Keep the groups that waited most: under a parent's quota every group below it did."""
    judged.tracks = sorted(judged.tracks, key=lambda track: -track.waiting(grid))[:MOST_CGROUPS]
