"""The host's counters as a time series: CPU, pressure, memory, disks, network, all parties together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from contend.errors import HostFailed
from contend.probes.base import Cost, Scope
from contend.probes.client import Drained, ProbeProcess

if TYPE_CHECKING:
    import duckdb

    from contend.probes.base import Table


class HostProbe:
    """The host's counters every `interval_ms`, by contend-probe (tables host, cpu, disk, net).

    Counters are cumulative since boot, unsigned 64-bit; a name's ending is its unit (_ns, _bytes), no ending a count.
    Every table has t_ns (CLOCK_MONOTONIC) and lateness_ns.

    >>> probe = HostProbe(interval_ms=5)
    >>> probe.start(Scope())
    >>> tables = probe.stop()
    >>> sorted(tables), "user_ns" in tables["cpu"]
    (['cpu', 'disk', 'host', 'net'], True)
    """

    name = "host"

    def __init__(self, interval_ms: float = 100.0) -> None:
        self.interval_ms = interval_ms
        self._probe: ProbeProcess | None = None
        self._cost = Cost(cpu_ns=0, samples=0)
        self._connection: duckdb.DuckDBPyConnection | None = None

    def start(self, scope: Scope) -> None:
        """Begin sampling. Raises BadInput or HostFailed."""
        if self._probe is None:
            import duckdb

            # One thread: a worker pool would put load on the victim's CPUs to write a few kilobytes. Opened
            # here, before the first trial, because opening costs ten times what a drain does.
            self._connection = duckdb.connect(config={"threads": 1})
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

    def drain_to(self, directory: Path, index: int) -> tuple[Path, ...]:
        """Write the rows since the last drain as `directory/TABLE-INDEX.parquet`; the files written.

        A file appears whole or not at all; a table without rows makes none. Costs about 10 ms of CPU
        (bench/sampler_cost.py). Raises HostFailed when the disk does not take them; those rows are then lost.
        """
        import duckdb

        if self._connection is None:
            return ()
        written = []
        for name, table in self.drain().items():
            if not len(table["t_ns"]):
                continue
            target = directory / f"{name}-{index:04d}.parquet"
            partial = target.with_suffix(".partial")
            try:
                directory.mkdir(parents=True, exist_ok=True)
                self._connection.register("rows", dict(table))
                path = str(partial).replace("'", "''")
                self._connection.execute(f"COPY rows TO '{path}' (FORMAT parquet)")
                self._connection.unregister("rows")
                partial.replace(target)
            except (OSError, duckdb.Error) as error:
                full = "No space left on device"
                reason = full if full in str(error) else str(error).splitlines()[0]
                raise HostFailed(
                    f"cannot write {target}: {reason}", hint="free some space, then --resume"
                ) from error
            written.append(target)
        return tuple(written)

    def cost(self) -> Cost:
        """What the probe itself used and missed, as of the last drain (not of writing files)."""
        return self._cost
