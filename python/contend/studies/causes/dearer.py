"""More CPU time for the same work: as far as somebody counted what for."""

from __future__ import annotations

from collections.abc import Iterator

from contend.advice.finding import Evidence
from contend.document import CellResult
from contend.probes.observed import Observed
from contend.studies.causes.cause import LEAST_SHARE, Cause, observed, pair, percent
from contend.studies.causes.lost import MORE, Lost
from contend.units import format_value

_SMALLER = 0.8
"""Part of the cache that is left, by which somebody else has taken the rest."""


_NEEDS_MEMORY = 0.5e9
"""Bytes per second of CPU time: work that moves fewer hardly waits for memory. Of lines of 64 bytes, one in 128 ns."""


def dearer_causes(share: float, more: float, lost: Lost, result: CellResult) -> Iterator[Cause]:
    """Yield what the same work took more CPU time for, as far as anybody counted: for the other thread of a core, no
    longer than that was busy (a thread has at least half of its core); the rest for a smaller cache, or slower memory.
    """
    now, before = result.evidence, result.baseline_evidence
    evidence = pair(Observed.CPU, now, before, "CPU time of the victim")
    threads = min(share, lost.share_of(Observed.SIBLINGS_BUSY))
    if threads >= LEAST_SHARE:
        busy, alone = (format_value(observed(seen, Observed.SIBLINGS_BUSY), "s") for seen in (now, before))
        words = (
            f"the same work took {percent(more)} more CPU time, while the other threads of its cores were busy for"
            f" {busy} ({alone} alone)"
        )
        of_threads = pair(Observed.SIBLINGS_BUSY, now, before, "CPU time on the other threads of its cores")
        yield Cause("threads of one core", threads, words, evidence + of_threads, clause=True)
        share -= threads
    if share <= 0:
        return
    resource, why = "dearer execution", ", which no counter here can attribute"
    of_memory: tuple[Evidence, ...] = ()
    if Observed.MEMORY_TRAFFIC in now and Observed.MEMORY_TRAFFIC in before:
        held, had = (observed(seen, Observed.CACHE_HELD) for seen in (now, before))
        moved, alone_moved = (
            observed(seen, Observed.MEMORY_TRAFFIC) for seen in (lost.beside.seen, lost.alone.seen)
        )
        if held < _SMALLER * had and moved > MORE * alone_moved:
            resource = "cache"
            sizes = [format_value(size, "B") for size in (held, had)]
            why = f": it had {sizes[0]} of the last-level caches ({sizes[1]} alone), and had to get more from memory"
        elif _is_slower_memory(moved, alone_moved, result):
            resource = "memory bandwidth"
            rate = observed(now, Observed.OTHERS_MEMORY_TRAFFIC) / observed(now, Observed.WALL)
            why = f": it needs memory, and its neighbours moved {format_value(rate, 'B/s')} meanwhile"
        of_memory = tuple(
            item
            for name, what in (
                (Observed.CACHE_HELD, "of the last-level caches"),
                (Observed.MEMORY_TRAFFIC, "moved to and from memory"),
                (Observed.OTHERS_MEMORY_TRAFFIC, "moved to and from memory by neighbours"),
            )
            for item in pair(name, now, before, what)
        )
    words = f"the same work took {percent(more)} more CPU time{why}"
    yield Cause(resource, share, words, evidence + of_memory, clause=True)


def _is_slower_memory(moved: float, alone: float, result: CellResult) -> bool:
    """The victim moves as much as alone for the same work, and neighbours at least as much a second as it did alone."""
    now, before = result.evidence, result.baseline_evidence
    others = observed(now, Observed.OTHERS_MEMORY_TRAFFIC)
    own = observed(before, Observed.MEMORY_TRAFFIC)
    used, wall, took = (
        observed(before, Observed.CPU),
        observed(now, Observed.WALL),
        observed(before, Observed.WALL),
    )
    if not used or not wall or not took:
        return False
    return moved <= MORE * alone and own >= _NEEDS_MEMORY * used and others / wall >= own / took
