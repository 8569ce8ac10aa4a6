"""Networks: queues that a link refuses to empty, and links at their known speed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from contend.contention.alibi import limits
from contend.contention.alibi.ceiling import knees
from contend.contention.alibi.grid import Grid, by_key
from contend.contention.alibi.recording import Recording
from contend.contention.alibi.track import Judged, Measure, Track, mean

if TYPE_CHECKING:
    from contend.contention.alibi.grid import Array, Floats

_REFUSALS = ("overlimits", "drops", "requeues")


def judge_networks(recording: Recording, grid: Grid, whole: Grid) -> Judged:
    """Interfaces whose queue stands while the link refuses more, and those at their known speed in one direction.

    whole: the recording's own bins, in which a queue's ceiling is looked for.
    """
    found, queues, net = Judged(), recording.get("qdisc"), recording.get("net")
    if queues is None:
        found.unknown.append("network queues: no qdisc table")
    else:
        names = queues["interface"]
        for interface, rows in by_key(names):
            track = _queue(str(interface), {k: v[rows] for k, v in queues.items()}, grid, whole)
            if track is not None:
                found.tracks.append(track)
    used = 0.0
    if net is not None:
        for interface, rows in by_key(net["interface"]):
            speed = recording.link_bytes_per_s.get(str(interface))
            if speed:
                used = max(
                    used, _link(str(interface), {k: v[rows] for k, v in net.items()}, grid, speed, found)
                )
                found.idle["network"] = round(1 - min(1.0, used), 4)
    elif queues is None:
        found.unknown[:] = ["networks: no net and no qdisc table"]
    return found


def _queue(interface: str, own: Mapping[str, Array], grid: Grid, whole: Grid) -> Track | None:
    """The fullest of an interface's queues: with classes or several hardware queues there are many."""
    best: Track | None = None
    for kind, rows in by_key(own["kind"]):
        t = own["t_ns"][rows]
        times, at = np.unique(t, return_inverse=True)

        def summed(column: str, rows: Array = rows, at: Array = at, n: int = len(times)) -> Array:
            return np.bincount(at, own[column][rows], n)

        packets, sent = summed("backlog_packets"), summed("sent_bytes")
        standing = grid.mean(times, (packets > 0).astype(np.float64))
        refused = sum(np.nan_to_num(grid.grown(times, summed(c))) for c in _REFUSALS if c in own)
        saturated = (np.nan_to_num(standing) >= limits.BACKLOG) & (refused > 0)
        knee = _knees(times, packets, sent, grid, whole)
        deeper = np.nan_to_num(grid.mean(times, packets)) >= limits.DEEPER * knee
        saturated |= deeper
        if not saturated.any():
            continue
        queued = grid.mean(times, summed("backlog_bytes"))
        rate = grid.grown(times, sent) / grid.widths * 1e9
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
        track = Track("network", f"{interface} ({kind})", saturated, standing, measures)
        if best is None or track.waiting(grid) > best.waiting(grid):
            best = track
    return best


def _knees(times: Array, packets: Array, sent: Array, grid: Grid, whole: Grid) -> Floats:
    """By bin with a deep queue, the packets that waited when the interface sent as much already, in this recording."""
    rates = [of.grown(times, sent) / of.widths for of in (grid, whole)]
    never_empty = whole.mean(times, (packets > 0).astype(np.float64)) >= 1
    deep = (grid.mean(times, packets) >= limits.QUEUE_DEEP) & (
        grid.mean(times, (packets > 0).astype(np.float64)) >= 1
    )
    return knees(deep, rates[:1], whole.mean(times, packets), rates[1:], never_empty)


def _link(interface: str, own: Mapping[str, Array], grid: Grid, speed: float, found: Judged) -> float:
    """Compare both directions with the link's speed (B/s); the part of it in use."""
    used = 0.0
    for direction, column in (("sending", "tx_bytes"), ("receiving", "rx_bytes")):
        part: Floats = grid.grown(own["t_ns"], own[column]) / grid.widths * 1e9 / speed
        used = max(used, float(np.nan_to_num(mean(grid, part))))
        saturated = np.nan_to_num(part) >= limits.LINK
        if saturated.any():
            measures = (Measure("of the link's speed", part, "fraction", f"table net, {column}"),)
            found.tracks.append(Track("network", f"{interface}, {direction}", saturated, part, measures))
    return used
