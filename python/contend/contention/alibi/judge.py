"""One verdict on a phase, and the phases of a recording."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from contend.contention.alibi import limits
from contend.contention.alibi.cpu import cores, judge_cores, judge_threads
from contend.contention.alibi.disk import judge_disks
from contend.contention.alibi.grid import Grid, make_grid
from contend.contention.alibi.memory import blame_for_paging, judge_memory
from contend.contention.alibi.network import judge_networks
from contend.contention.alibi.recording import Recording
from contend.contention.alibi.throttling import judge_throttling
from contend.contention.alibi.track import Judged, Track
from contend.contention.alibi.verdict import RESOURCES, Alibi


def judge(recording: Recording, start_ns: int | None = None, end_ns: int | None = None) -> Alibi:
    """Judge the hardware in one phase, [start_ns, end_ns) of CLOCK_MONOTONIC; None: from the first sample, to the last
    one.

    What disks and network queues do unloaded, and at most, is taken from the whole recording, everything else from the
    phase alone. A phase that
    the samples do not cover has the verdict "unknown".

    >>> from contend.probes.client import ProbeProcess
    >>> judge(Recording.of_tables(ProbeProcess({"interval_ms": 5, "host": True}).stop().tables)).end_ns > 0
    True
    """
    times = recording.times
    if len(times) < 2:
        why = "everything: fewer than two samples"
        return Alibi("unknown", "", (), {}, (why,), (), start_ns or 0, end_ns or 0)
    start = int(times[0]) if start_ns is None else start_ns
    end = int(times[-1]) if end_ns is None else end_ns
    if end <= times[0] or start >= times[-1]:
        why = "everything: no sample was taken in this phase"
        return Alibi("unknown", "", (), {}, (why,), (), start, end)
    grid = make_grid(times, start, end, limits.BIN_NS)
    assert grid is not None  # two samples there are
    return verdict_of(_all(recording, grid), grid)


def phases(recording: Recording) -> tuple[Alibi, ...]:
    """Cut the recording where its verdict changes and judge each phase; empty with fewer than two samples.

    Phases shorter than limits.PHASE_BINS bins are joined to the longer of their neighbours.
    """
    grid = recording.grid
    if grid is None:
        return ()
    tracks = [t for j in _all(recording, grid) for t in j.tracks if not t.cause]
    labels: list[tuple[str, str]] = []
    for at in range(grid.bins):
        here = [t for t in tracks if t.saturated[at]]
        lead = max(here, key=lambda t: (t.waited[at], -RESOURCES.index(t.resource)), default=None)
        labels.append(("idle", "") if lead is None else (lead.resource, lead.subject))
    bounds = _runs(labels)
    return tuple(judge(recording, int(grid.edges[a]), int(grid.edges[b])) for a, b in bounds)


def _runs(labels: list[tuple[str, str]]) -> list[tuple[int, int]]:
    """Runs of equal labels as (first bin, last bin + 1), the short ones joined to a neighbour, the shortest first."""
    runs = [(label, len(list(same))) for label, same in groupby(labels)]
    while len(runs) > 1:
        at = min(range(len(runs)), key=lambda i: runs[i][1])
        if runs[at][1] >= limits.PHASE_BINS:
            break
        before = runs[at - 1] if at > 0 else None
        after = runs[at + 1] if at + 1 < len(runs) else None
        into = at - 1 if after is None or (before is not None and before[1] >= after[1]) else at + 1
        runs[into] = (runs[into][0], runs[into][1] + runs[at][1])
        del runs[at]
        # Two runs of one label that now touch are one.
        merged: list[tuple[tuple[str, str], int]] = []
        for label, length in runs:
            if merged and merged[-1][0] == label:
                merged[-1] = (label, merged[-1][1] + length)
            else:
                merged.append((label, length))
        runs = merged
    ends = np.cumsum([length for _, length in runs]).tolist()
    return list(zip([0, *ends[:-1]], ends, strict=True))


def _all(recording: Recording, grid: Grid) -> list[Judged]:
    whole = recording.grid or grid
    recording = recording.between(int(grid.edges[0]), int(grid.edges[-1]))
    memory = judge_memory(recording, grid)
    throttling, throttled = judge_throttling(recording, grid)
    disks = judge_disks(recording, grid, whole)
    blame_for_paging(memory, disks, recording, grid)
    judgements = [memory, throttling, disks, judge_networks(recording, grid, whole)]
    seen = cores(recording, grid)
    if seen is None:
        judgements.append(Judged(unknown=["CPUs and threads: no cpu table"], blind=True))
    else:
        judgements.append(judge_cores(seen, recording, grid, throttled))
        judgements.append(judge_threads(seen, recording, grid, throttled))
    return judgements


def verdict_of(judgements: list[Judged], grid: Grid) -> Alibi:
    """Combine all judgements into one verdict: the resource that was waited for most, if it was at its limit for
    long."""
    tracks = [t for j in judgements for t in j.tracks]
    ranked = sorted(tracks, key=lambda t: _rank(t, grid))
    main = next((t for t in ranked if not t.cause and t.share(grid) >= limits.MAIN_SHARE), None)
    idle: dict[str, float] = {}
    for judged in judgements:
        idle |= judged.idle
    blind = any(j.blind for j in judgements)
    return Alibi(
        verdict=main.resource if main is not None else "unknown" if blind else "idle",
        subject=main.subject if main is not None else "",
        saturated=tuple(t.result(grid) for t in ranked),
        idle=idle,
        unknown=tuple(u for j in judgements for u in j.unknown),
        notes=tuple(n for j in judgements for n in j.notes),
        start_ns=int(grid.edges[0]),
        end_ns=int(grid.edges[-1]),
        program=main.program if main is not None else "",
    )


def _rank(track: Track, grid: Grid) -> tuple[bool, float, int]:
    """Own causes first, the most waiting first."""
    return bool(track.cause), -track.waiting(grid), RESOURCES.index(track.resource)
