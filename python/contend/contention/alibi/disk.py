"""Disks, by their queues: how long a request takes now against how long it takes on this device when it is alone.

Or, where that is not known: how deep the queue is against the depth at which the device did as much already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from contend.contention.alibi import limits
from contend.contention.alibi.ceiling import knees
from contend.contention.alibi.grid import Array, Flags, Floats, Grid
from contend.contention.alibi.recording import Recording
from contend.contention.alibi.track import Judged, Measure, Track, mean


@dataclass(frozen=True)
class _Requests:
    """Requests of one kind (read or write), by bin: how many ended, how long they took in all (ns), their bytes."""

    count: Floats
    took_ns: Floats
    bytes: Floats


@dataclass(frozen=True)
class _Alone:
    """A request on a lightly loaded device: what it takes, and how large it was."""

    ns: float
    bytes: float


_KINDS = ("read", "write")


@dataclass(frozen=True)
class _Seen:
    """A device in the whole recording. Worked out when it is asked for, and once for all phases that are judged."""

    own: Mapping[str, Array]
    whole: Grid

    @cached_property
    def requests(self) -> list[_Requests]:
        """Reads, then writes."""
        return [_requests(self.own, self.whole, kind) for kind in _KINDS]

    @cached_property
    def rates(self) -> tuple[list[Floats], Floats]:
        return _rates(self.requests, self.whole)

    @cached_property
    def busy(self) -> Floats:
        return self.whole.grown(self.own["t_ns"], self.own["busy_ns"]) / self.whole.widths

    @cached_property
    def alone(self) -> list[_Alone | None]:
        """The lone request of reads, then of writes; None where too few were seen alone."""
        return [_alone(this, self.rates[1]) for this in self.requests]


def judge_disks(recording: Recording, grid: Grid, whole: Grid) -> Judged:
    """Judge each disk by its queue. whole: the recording's own bins, in which unloaded times are looked for."""
    table, judged = recording.get("disk"), Judged()
    if table is None:
        return Judged(unknown=["disks: no disk table"], blind=True)
    host = recording.get("host") or {}
    stalled = (
        grid.grown(host["t_ns"], host["psi_io_some_ns"]) / grid.widths if "psi_io_some_ns" in host else None
    )
    busiest = 0.0
    for device, own in recording.devices("disk").items():
        seen = recording.once(("seen", device), partial(_Seen, own, whole))
        busy = np.minimum(grid.grown(own["t_ns"], own["busy_ns"]) / grid.widths, 1.0)
        busiest = max(busiest, np.nan_to_num(mean(grid, busy)))
        track = _device(device, own, grid, seen, busy, stalled)
        if track is not None:
            judged.tracks.append(track)
    judged.idle["disk"] = round(1 - busiest, 4)
    if stalled is not None and not judged.tracks:
        share = mean(grid, stalled)
        if share >= 0.5 and busiest < 0.5 * share:
            # Requests that a limit holds back wait before the device counts them (block/blk-throttle.c).
            judged.notes.append(
                f"tasks waited for I/O {share:.0%} of the time while every disk was idle at least {1 - busiest:.0%} of it:"
                " an I/O limit of their cgroup (io.max, blkio.throttle), or a file system that is elsewhere"
            )
        elif share >= 0.5:
            judged.notes.append(
                f"tasks waited for disk requests {share:.0%} of the time, without a queue: the time of one request after"
                " the other, not the device's capacity"
            )
    return judged


def _device(
    name: str, own: Mapping[str, Array], grid: Grid, seen: _Seen, busy: Floats, stalled: Floats | None
) -> Track | None:
    now = [_requests(own, grid, kind) for kind in _KINDS]
    took = np.add(now[0].took_ns, now[1].took_ns)
    depth = took / grid.widths
    count = np.add(now[0].count, now[1].count)
    with np.errstate(invalid="ignore", divide="ignore"):
        takes = took / count
    deep = (depth >= limits.DISK_DEPTH) & (count >= 1)
    if not deep.any():
        return None
    alone, larger = _expected(seen, now)
    with np.errstate(invalid="ignore", divide="ignore"):
        slower = takes / alone
        compared = (slower >= limits.DISK_SLOWER) | (larger <= limits.DISK_LARGER)
    by_queue = np.where(compared, slower >= limits.DISK_SLOWER, depth >= limits.DISK_DEEP)
    knee = _knees(own, grid, seen, deep)
    flat = deep & (depth >= limits.DEEPER * knee) & (busy >= limits.KEPT_BUSY)
    saturated = (deep & by_queue) | flat
    if not saturated.any():
        return None
    # Of a request's time all but the unloaded part is waiting, while there are requests.
    with np.errstate(invalid="ignore", divide="ignore"):
        waiting = np.where(compared, 1 - 1 / slower, 1 - 1 / depth)
        waiting = np.where(flat & ~by_queue, 1 - knee / depth, waiting) * np.minimum(busy, 1.0)
    waited = np.fmax(waiting, np.nan_to_num(stalled)) if stalled is not None else waiting
    rate = np.add(now[0].bytes, now[1].bytes) / grid.widths * 1e9
    measures = [
        Measure("requests in flight, mean", depth, "requests", "table disk, read_ns + write_ns"),
        Measure("time of a request", takes / 1e6, "ms", "table disk, read_ns + write_ns a request"),
        Measure("time of a request alone, in this recording", alone / 1e6, "ms", "table disk, lightly loaded"),
        Measure(
            "requests in flight at which it did as much already", np.where(flat, knee, np.nan), "requests",
            "table disk, in this recording",
        ),
        Measure("requests a second", count / grid.widths * 1e9, "IOPS", "table disk, reads + writes"),
        Measure("bytes a second", rate, "B/s", "table disk, read_bytes + write_bytes"),
    ]  # fmt: skip
    if stalled is not None:
        measures.append(
            Measure("time in which some task waited for I/O", stalled, "fraction", "table host, psi_io_some_ns")
        )  # fmt: skip
    return Track("disk", name, saturated, waited, tuple(measures))


def _knees(own: Mapping[str, Array], grid: Grid, seen: _Seen, deep: Flags) -> Floats:
    """The depth, by bin, at which the device had reached its throughput already, in this recording."""
    now, _ = _rates([_requests(own, grid, kind) for kind in _KINDS], grid)
    rates, depth = seen.rates
    return knees(deep, now, depth, rates, seen.busy >= limits.KEPT_BUSY)


def _rates(both: list[_Requests], grid: Grid) -> tuple[list[Floats], Floats]:
    """Requests and bytes a nanosecond, and requests in flight, by bin."""
    each: list[Floats] = [sum(r.count for r in both) / grid.widths, sum(r.bytes for r in both) / grid.widths]
    return each, sum(r.took_ns for r in both) / grid.widths


def _requests(own: Mapping[str, Array], grid: Grid, kind: str) -> _Requests:
    return _Requests(
        *(grid.grown(own["t_ns"], own[column]) for column in (f"{kind}s", f"{kind}_ns", f"{kind}_bytes"))
    )


def _expected(seen: _Seen, now: list[_Requests]) -> tuple[Floats, Floats]:
    """The most that a bin's mix of requests would take on the unloaded device, ns, and how much larger they are.

    NaN where that was never seen. A larger request is allowed time in proportion to its size.
    """
    total, known, most = (np.zeros_like(now[0].count) for _ in range(3))
    for alone, requests in zip(seen.alone, now, strict=True):
        if alone is None:
            continue
        with np.errstate(invalid="ignore", divide="ignore"):
            larger = np.maximum(np.nan_to_num(requests.bytes / requests.count) / max(alone.bytes, 1.0), 1.0)
        most = np.maximum(most, np.where(requests.count > 0, larger, 0.0))
        total += np.nan_to_num(requests.count * alone.ns * larger)
        known += np.nan_to_num(requests.count)
    count = sum(np.nan_to_num(r.count) for r in now)
    with np.errstate(invalid="ignore", divide="ignore"):
        met = (known > 0) & (known >= 0.5 * count)
        return np.where(met, total / known, np.nan), np.where(met, most, np.nan)


def _alone(this: _Requests, depth: Floats) -> _Alone | None:
    """depth: of the device, by bin of the whole recording."""
    light = (depth <= limits.DISK_LIGHT) & (this.count >= limits.DISK_LIGHT_IN_BIN)
    count = this.count[light]
    if count.sum() < limits.DISK_LIGHT_REQUESTS:
        return None
    takes = float(np.quantile(this.took_ns[light] / count, limits.DISK_LIGHT_QUANTILE))
    return _Alone(takes, float(np.median(this.bytes[light] / count)))
