"""The host's counters as a time series in memory: CPU, pressure, memory, disks, network, all parties together.

For a moment's look; what a run records goes to disk as it comes (`contend.probes.recorder`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from contend.probes.base import Cost, Scope
from contend.probes.client import Drained, ProbeProcess

if TYPE_CHECKING:
    from contend.probes.base import Table


class HostProbe:
    """The host's counters every `interval_ms`, by contend-probe (tables host, cpu, disk, net, qdisc).

    Counters are cumulative since boot, unsigned 64-bit; a name's ending is its unit (_ns, _bytes), no ending a count.
    Every table has t_ns (CLOCK_MONOTONIC), and all but qdisc have lateness_ns.

    >>> probe = HostProbe(interval_ms=5)
    >>> probe.start(Scope())
    >>> tables = probe.stop()
    >>> sorted(tables), "user_ns" in tables["cpu"]
    (['cpu', 'disk', 'host', 'net', 'qdisc'], True)
    """

    name = "host"

    def __init__(self, interval_ms: float = 100.0) -> None:
        self.interval_ms = interval_ms
        self._probe: ProbeProcess | None = None
        self._cost = Cost(cpu_ns=0, samples=0)

    def start(self, scope: Scope) -> None:
        """Begin sampling. Raises BadInput or HostFailed."""
        if self._probe is None:
            self._probe = ProbeProcess({"interval_ms": self.interval_ms, "host": True, "cpus": scope.cpus})

    @property
    def pid(self) -> int | None:
        """Of contend-probe; None before `start`."""
        return None if self._probe is None else self._probe.pid

    def stop(self) -> Mapping[str, Table]:
        """End sampling; the rows since the last drain."""
        return {} if self._probe is None else self._keep(self._probe.stop())

    def drain(self) -> Mapping[str, Table]:
        """The rows since the last drain, by table; no tables before `start`."""
        return {} if self._probe is None else self._keep(self._probe.drain())

    def _keep(self, drained: Drained) -> Mapping[str, Table]:
        self._cost = drained.cost
        return drained.tables

    def cost(self) -> Cost:
        """What the probe itself used and missed, as of the last drain."""
        return self._cost
