"""The window of a trial that its evidence is about: counters before, counters after, and who else was there.

It spans the command that the headline metric comes from (nginx's throughput, say, but not the latency measurement
that follows it), or the whole of the victim's run where no single command is that.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from contend.engine.groups_watch import GroupsWatch
from contend.platforms import cgroups, standing
from contend.platforms.base import Exit, Host, Usage
from contend.platforms.quotas import Throttling
from contend.platforms.standing import Change
from contend.platforms.topology import siblings
from contend.probes.evidence import Started, difference, held_s
from contend.probes.observed import Evidence, Observations, Observed, put
from contend.probes.rundelay import RunDelay
from contend.probes.snapshot import Snapshot


class Window:
    """Measures one window: opened once and closed once. `others` are the hosts of every other participant contend
    started."""

    def __init__(
        self,
        host: Host,
        others: Sequence[Host],
        cpu_list: tuple[int, ...],
        *,
        device: str | None,
        tool_cpus: tuple[int, ...] | None,
        server_pid: int | None,
    ) -> None:
        self._host, self._others, self._cpu_list = host, others, cpu_list
        self._device, self._tool_cpus, self._server_pid = device, tool_cpus, server_pid
        self.watch: RunDelay | None = None
        self._before: tuple[Snapshot, Usage, list[Usage], int] | None = None
        self._after: tuple[Snapshot, Usage, list[Usage], int] | None = None
        self._seen: dict[str, int] | None = None
        self._groups: GroupsWatch | None = None
        self._held: Throttling | None = None
        self._own: list[Path] = []  # the victim's groups

    def open(self) -> None:
        self.watch = RunDelay(self._host.cgroup(), cpus=self._tool_cpus)
        if self._server_pid is not None:
            self.watch.follow(self._server_pid)
        self._own = standing.groups_of(self._host.honoured())
        others = [group for host in self._others for group in standing.groups_of(host.honoured())]
        self._groups = GroupsWatch(self._own, self._pids, cpus=self._tool_cpus, others=others)
        if self._server_pid is not None:
            self.follow(self._server_pid)
        self._before = self._read()

    def follow(self, pid: int) -> None:
        """Watch also the control groups that this process of the victim's moves to."""
        if self._groups is not None and self._direct:
            self._groups.follow(pid)

    @property
    def _direct(self) -> bool:
        """True if the processes started are the workload's own, and no clients of an engine."""
        return self._host.visible and self._host.honoured().get("cpus_by") == "affinity"

    def _pids(self) -> set[int]:
        group = self._host.cgroup() or next(iter(self._own), None)
        return cgroups.members(group) if group is not None else set()

    def close(self) -> None:
        """Close the window. Idempotent; also called where the victim failed, so that no thread goes on."""
        if self.watch is None or self._after is not None:
            return
        self._seen = self.watch.stop()
        self._held = self._groups.stop() if self._groups is not None else None
        self._after = self._read()

    @property
    def length_s(self) -> float:
        assert self._before is not None
        assert self._after is not None
        return (self._after[0].t_ns - self._before[0].t_ns) / 1e9

    def evidence(self, ended: Exit | None) -> Evidence:
        """Evidence of the window. `ended` is the victim's own end, None where the victim is a server that goes on."""
        assert self._before is not None
        assert self._after is not None
        (before, usage_before, others_before, own_before), (after, usage_after, others_after, own_after) = (
            self._before,
            self._after,
        )
        started: list[Started] | None = [Started(own_after - own_before, self._tool_cpus)]
        for host, earlier, now in zip(self._others, others_before, others_after, strict=True):
            if now.cpu_ns is None or earlier.cpu_ns is None or started is None:
                started = None  # what one of ours used cannot be told, so neither can what strangers did
            else:
                started.append(Started(now.cpu_ns - earlier.cpu_ns, host.spec.cpu_list))
        seen = self._seen
        if seen is not None and not self._host.visible:
            seen = {
                **seen,
                "looks": 0,
            }  # at an emulator's threads: what the guest's tasks wait for is not seen
        evidence = difference(
            before,
            after,
            usage_before,
            usage_after,
            ended,
            seen,
            self._cpu_list,
            device=self._device,
            others=started,
            siblings=siblings(self._cpu_list),
            traffic_of_others=_moved(others_before, others_after),
        )
        self._add_throttling(evidence)
        held = held_s(Observations(evidence), len(self._cpu_list))
        if held is not None:
            put(evidence, Observed.HELD, held)
        return evidence

    def _add_throttling(self, evidence: Evidence) -> None:
        """Quotas of groups above and below count as those of its own."""
        held = self._held
        if held is None or held.held_s is None:
            return
        own_s, _ = evidence.get(Observed.THROTTLED, (0.0, ""))
        own_periods, _ = evidence.get(Observed.THROTTLED_PERIODS, (0, ""))
        put(evidence, Observed.THROTTLED, max(own_s, held.held_s))
        put(evidence, Observed.THROTTLED_PERIODS, max(own_periods, held.periods))

    @property
    def throttling(self) -> Throttling | None:
        """The quotas that held the victim back; None before it is closed."""
        return self._held

    @property
    def changed(self) -> tuple[Change, ...]:
        """Limits of the victim's and neighbours' groups that somebody changed while it ran."""
        return () if self._groups is None else tuple(self._groups.changes.values())

    @property
    def limits(self) -> dict[str, str]:
        """Limits of the victim's and neighbours' groups when it was opened, by file."""
        return {} if self._groups is None else self._groups.before

    def _read(self) -> tuple[Snapshot, Usage, list[Usage], int]:
        others = [host.usage() for host in self._others]
        usage = self._host.usage()
        snapshot = Snapshot.take((self._device,) if self._device else ())
        return snapshot, usage, others, time.process_time_ns()


def _moved(before: Sequence[Usage], after: Sequence[Usage]) -> int | None:
    """Bytes that these moved to and from memory; None where nobody counted."""
    pairs = [
        (one.memory_traffic_bytes, other.memory_traffic_bytes)
        for one, other in zip(before, after, strict=True)
    ]
    known = [now - then for then, now in pairs if then is not None and now is not None]
    return sum(known) if known else None
