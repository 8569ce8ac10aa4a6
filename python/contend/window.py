"""The window of a trial that its evidence is about: counters before, counters after, and who else was there.

It spans the command that the headline metric comes from (nginx's throughput, say, but not the latency measurement
that follows it), or the whole of the victim's run where no single command is that.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from contend.platforms.base import Exit, Host, Usage
from contend.probes.evidence import Evidence, Started, difference
from contend.probes.rundelay import RunDelay
from contend.probes.snapshot import Snapshot


class Window:
    """Opened once and closed once. `others` are the hosts of every other party we started."""

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

    def open(self) -> None:
        self.watch = RunDelay(self._host.cgroup(), cpus=self._tool_cpus)
        if self._server_pid is not None:
            self.watch.follow(self._server_pid)
        self._before = self._read()

    def close(self) -> None:
        """Idempotent; also called where the victim failed, so that no thread goes on."""
        if self.watch is None or self._after is not None:
            return
        self._seen = self.watch.stop()
        self._after = self._read()

    @property
    def length_s(self) -> float:
        assert self._before is not None
        assert self._after is not None
        return (self._after[0].t_ns - self._before[0].t_ns) / 1e9

    def evidence(self, ended: Exit | None) -> Evidence:
        """What happened in it. `ended` is the victim's own end, None where the victim is a server that goes on."""
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
        return difference(
            before,
            after,
            usage_before,
            usage_after,
            ended,
            self._seen,
            self._cpu_list,
            device=self._device,
            others=started,
        )

    def _read(self) -> tuple[Snapshot, Usage, list[Usage], int]:
        others = [host.usage() for host in self._others]
        usage = self._host.usage()
        snapshot = Snapshot.take((self._device,) if self._device else ())
        return snapshot, usage, others, time.process_time_ns()
