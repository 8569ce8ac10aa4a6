"""Watching: where the figures come from, and the loop that turns them into periods. No load of ours.

With BPF the probe charges every wait in the kernel. Without it there is a weaker watch: the run delay of every process,
and who used the CPUs meanwhile. That is a correlation, named so wherever it is shown.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from contend.contention.blame import Blame, Period, periods
from contend.contention.correlation import correlated
from contend.contention.groups import Namer
from contend.errors import HostFailed
from contend.platforms import procfs
from contend.probes.base import Cost
from contend.probes.client import ProbeProcess
from contend.units import NS_PER_S

if TYPE_CHECKING:
    from contend.contention.watch_record import WatchRecord
    from contend.interrupts import Interrupts
    from contend.probes.base import Table
    from contend.probes.client import Drained

Kind = Literal["blame", "correlation"]
_AFTER_NS = 30_000_000  # after a tick, for the probe to have its rows ready


@dataclass(slots=True)
class Watched:
    """A watch so far. `note` says what is worse than it could be, and why; `loading_ns` is the CPU time that starting
    the probe and loading its programs took once, and is in `cost`; `last_ns` is where the next period begins; `cpus` are
    those of the host."""

    kind: Kind
    by: Literal["cgroup", "process"]
    interval_ns: int
    source: str
    note: str = ""
    blame: Blame = field(default_factory=Blame)
    namer: Namer = field(default_factory=Namer)
    cost: Cost = field(default_factory=lambda: Cost(cpu_ns=0, samples=0))
    loading_ns: int = 0
    last_ns: int = 0
    cpus: int = field(default_factory=lambda: os.cpu_count() or 1)
    _first: Period | None = None  # the probe's first sample comes at once: part of the first interval

    def take(self, tables: Mapping[str, Table]) -> Iterator[Period]:
        """Add the probe's rows, in the order of time; returns the periods that are complete with them."""
        for period in _READ[self.kind](tables, self.last_ns, self):
            self.last_ns = period.end_ns
            if self.blame.whole is None and self._first is None and 2 * period.length_ns < self.interval_ns:
                self._first = period
                continue
            if self._first is not None:
                period.join(self._first)
                self._first = None
            self.blame.add(period)
            yield period


class Watch:
    """A probe at work. `periods` yields what was charged, an interval at a time; `stop` ends it and gives the rest."""

    def __init__(
        self,
        by: Literal["cgroup", "process"],
        interval_ns: int,
        *,
        bpf: bool = True,
        record: WatchRecord | None = None,
    ) -> None:
        """Start it; its rows go to `record` too. Raises HostFailed where neither kind of watch is possible here."""
        probe, kind, note = _start(by, interval_ns, bpf)
        self._probe, self._record = probe, record
        source = "; ".join(probe.sources.values())
        self.watched = Watched(kind, by, interval_ns, source, note, last_ns=time.monotonic_ns())
        if record is not None:
            record.begin(self.watched)
        list(self._taken(probe.drain()))
        self.watched.loading_ns = self.watched.cost.cpu_ns

    def periods(self, interrupts: Interrupts, seconds: float | None) -> Iterator[Period]:
        """Yield one period an interval, until `seconds` have passed or KeyboardInterrupt is raised here."""
        began = time.monotonic_ns()
        end = None if seconds is None else began + round(seconds * NS_PER_S)
        due = began
        while end is None or due < end:
            due += self.watched.interval_ns
            until = due + _AFTER_NS if end is None else min(due + _AFTER_NS, end)
            time.sleep(max(0, until - time.monotonic_ns()) / NS_PER_S)
            with interrupts.postponed():  # half an answer read would be the next one's beginning
                taken = list(self._taken(self._probe.drain()))
            yield from taken

    def stop(self) -> list[Period]:
        """End the probe. Rows that it still had are added; it takes its last sample now."""
        rest = list(self._taken(self._probe.stop()))
        if self._record is not None:
            self._record.close(self.watched)
        return rest

    def _taken(self, drained: Drained) -> Iterator[Period]:
        self.watched.cost = drained.cost
        if self._record is not None:
            self._record.keep(drained.coded)
        yield from self.watched.take(drained.tables)


def _blamed(tables: Mapping[str, Table], begin_ns: int, watched: Watched) -> Iterator[Period]:
    return periods(tables, begin_ns, watched.namer)


def _correlated(tables: Mapping[str, Table], begin_ns: int, watched: Watched) -> Iterator[Period]:
    return correlated(tables, begin_ns, watched.by, watched.namer, watched.cpus)


_READ: Mapping[Kind, Callable[[Mapping[str, Table], int, Watched], Iterator[Period]]] = {
    "blame": _blamed,
    "correlation": _correlated,
}


def _start(by: str, interval_ns: int, bpf: bool) -> tuple[ProbeProcess, Kind, str]:
    config: dict[str, Any] = {"interval_ms": interval_ns / 1e6}
    why = "it was not asked for"
    if bpf:
        try:
            return ProbeProcess({**config, "bpf_stats": True, "blame": {"by": by, "disk": True}}), "blame", ""
        except HostFailed as error:
            why = error.message
            if "contend-probe is not installed" in why:
                raise
    note = (
        f"no blame without BPF ({why}): shown is who used the CPUs while a victim waited, anywhere on this host;"
        " that is a correlation"
    )
    if procfs.stat(1) is None:
        note += "; other users' processes are hidden (/proc is mounted with hidepid), and nobody of theirs is shown"
    return ProbeProcess({**config, "processes": True}), "correlation", note
