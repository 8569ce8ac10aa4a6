"""Networks: queues that a link refuses to empty, and links at their known speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from contend.contention.alibi import limits
from contend.contention.alibi.ceiling import knees
from contend.contention.alibi.grid import Array, Flags, Floats, Grid, by_key
from contend.contention.alibi.recording import Recording
from contend.contention.alibi.track import Judged, Measure, Track, mean

_REFUSALS = ("overlimits", "drops", "requeues")


def judge_networks(recording: Recording, grid: Grid, whole: Grid) -> Judged:
    """Judge interfaces: those with a standing queue while the link refuses more, and those at their known speed in one
    direction.

    whole: the recording's own bins, in which a queue's ceiling is looked for.
    """
    judged, net = Judged(), recording.get("net")
    if recording.get("qdisc") is None:
        judged.unknown.append("network queues: no qdisc table")
    for interface, own in recording.devices("qdisc").items():
        queues = recording.once(("queues", interface), partial(_queues, own, whole))
        track = _fullest(interface, queues, grid)
        if track is not None:
            judged.tracks.append(track)
    used = 0.0
    if net is not None:
        for interface, rows in by_key(net["interface"]) if recording.link_bytes_per_s else ():
            speed = recording.link_bytes_per_s.get(str(interface))
            if speed:
                used = max(
                    used, _link(str(interface), {k: v[rows] for k, v in net.items()}, grid, speed, judged)
                )
                judged.idle["network"] = round(1 - min(1.0, used), 4)
    elif recording.get("qdisc") is None:
        judged.unknown[:] = ["networks: no net and no qdisc table"]
    return judged


@dataclass(frozen=True)
class _Queue:
    """A discipline of an interface in the whole recording, its classes and hardware queues summed, by sample."""

    kind: str
    times: Array
    columns: Mapping[str, Array]
    whole: Grid

    def sent(self, grid: Grid) -> Floats:
        """B/ns, by bin."""
        return grid.grown(self.times, self.columns["sent_bytes"]) / grid.widths

    def mean(self, grid: Grid, values: Array) -> Floats:
        """Mean of a gauge by bin, of the samples that there are in the bins."""
        first, last = (int(self.times.searchsorted(at, "left")) for at in (grid.edges[0], grid.edges[-1] + 1))
        return grid.mean(self.times[first:last], values[first:last])

    @cached_property
    def standing(self) -> Array:
        """1 at each sample at which it held packets, else 0."""
        return (self.columns["backlog_packets"] > 0).astype(np.float64)

    @cached_property
    def seen(self) -> tuple[Floats, Floats, Flags]:
        """Depth, rate, and whether it was never empty, by bin of the whole recording."""
        depth = self.whole.mean(self.times, self.columns["backlog_packets"])
        return depth, self.sent(self.whole), self.whole.mean(self.times, self.standing) >= 1


def _queues(own: Mapping[str, Array], whole: Grid) -> list[_Queue]:
    """The queues of one interface, by discipline."""
    queues = []
    for kind, rows in by_key(own["kind"]):
        times, at = np.unique(own["t_ns"][rows], return_inverse=True)
        columns = {
            name: np.bincount(at, own[name][rows], len(times))
            for name in ("backlog_packets", "backlog_bytes", "sent_bytes", *_REFUSALS)
            if name in own
        }
        queues.append(_Queue(str(kind), times, columns, whole))
    return queues


def _fullest(interface: str, queues: Sequence[_Queue], grid: Grid) -> Track | None:
    """The fullest of an interface's queues: with classes or several hardware queues there are many."""
    best: Track | None = None
    for queue in queues:
        standing = queue.mean(grid, queue.standing)
        refused = sum(
            np.nan_to_num(grid.grown(queue.times, queue.columns[c])) for c in _REFUSALS if c in queue.columns
        )
        saturated = (np.nan_to_num(standing) >= limits.BACKLOG) & (refused > 0)
        depth = queue.mean(grid, queue.columns["backlog_packets"])
        knee = _knees(queue, grid, depth, standing)
        deeper = np.nan_to_num(depth) >= limits.DEEPER * knee
        saturated |= deeper
        if not saturated.any():
            continue
        queued = queue.mean(grid, queue.columns["backlog_bytes"])
        rate = queue.sent(grid) * 1e9
        measures = (
            Measure("samples at which its queue held packets", standing, "fraction", "table qdisc, backlog_packets"),
            Measure("bytes in its queue, mean", queued, "B", "table qdisc, backlog_bytes"),
            Measure(
                "times the link refused more", refused / grid.widths * 1e9, "1/s",
                "table qdisc, overlimits + drops + requeues",
            ),
            Measure("sent", rate, "B/s", "table qdisc, sent_bytes"),
            Measure(
                "packets in its queue at which it sent as much already", np.where(deeper, knee, np.nan), "packets",
                "table qdisc, in this recording",
            ),
            Measure("part of its highest rate in this phase", rate / np.nanmax(rate), "fraction", "table qdisc, sent_bytes"),
        )  # fmt: skip
        track = Track("network", f"{interface} ({queue.kind})", saturated, standing, measures)
        if best is None or track.waiting(grid) > best.waiting(grid):
            best = track
    return best


def _knees(queue: _Queue, grid: Grid, depth: Floats, standing: Floats) -> Floats:
    """Packets, by bin with a deep queue, that waited when the interface sent as much already, in this recording."""
    deep = (depth >= limits.QUEUE_DEEP) & (standing >= 1)
    if not deep.any():
        return np.full(grid.bins, np.nan)
    depth_seen, rate_seen, never_empty = queue.seen
    return knees(deep, [queue.sent(grid)], depth_seen, [rate_seen], never_empty)


def _link(interface: str, own: Mapping[str, Array], grid: Grid, speed: float, judged: Judged) -> float:
    """Compare both directions with the link's speed (B/s); the part of it in use."""
    used = 0.0
    for direction, column in (("sending", "tx_bytes"), ("receiving", "rx_bytes")):
        part: Floats = grid.grown(own["t_ns"], own[column]) / grid.widths * 1e9 / speed
        used = max(used, float(np.nan_to_num(mean(grid, part))))
        saturated = np.nan_to_num(part) >= limits.LINK
        if saturated.any():
            measures = (Measure("of the link's speed", part, "fraction", f"table net, {column}"),)
            judged.tracks.append(Track("network", f"{interface}, {direction}", saturated, part, measures))
    return used
