"""The host's counters as a time series: CPU, pressure, memory, disks, network, all parties together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contend.errors import HostFailed
from contend.probes.base import Cost, Scope

if TYPE_CHECKING:
    import duckdb

    from contend._native import HostSampler
    from contend.probes.base import Table


class HostProbe:
    """Samples /proc every `interval_ms` in a native thread (tables host, cpu, disk, net; see `HostSampler`).

    >>> probe = HostProbe(interval_ms=5)
    >>> probe.start(Scope())
    >>> tables = probe.stop()
    >>> sorted(tables), "user_ns" in tables["cpu"]
    (['cpu', 'disk', 'host', 'net'], True)
    """

    name = "host"

    def __init__(self, interval_ms: float = 100.0) -> None:
        self.interval_ms = interval_ms
        self._sampler: HostSampler | None = None
        self._connection: duckdb.DuckDBPyConnection | None = None

    def start(self, scope: Scope) -> None:
        """Begin sampling. Raises BadInput or HostFailed."""
        if self._sampler is None:
            import duckdb

            from contend._native import HostSampler

            # One thread: a worker pool would put load on the victim's CPUs to write a few kilobytes. Opened
            # here, before the first trial, because opening costs ten times what a drain does.
            self._connection = duckdb.connect(config={"threads": 1})
            sampler = HostSampler(self.interval_ms, scope.cpus)
            sampler.start()
            self._sampler = sampler

    def stop(self) -> Mapping[str, Table]:
        """End sampling; the rows since the last drain. `drain_to` still writes them, if called instead."""
        if self._sampler is not None:
            self._sampler.stop()
        return self.drain()

    def drain(self) -> dict[str, Table]:
        """The rows since the last drain, by table; no tables before `start`."""
        return {} if self._sampler is None else {k: _table(v) for k, v in self._sampler.drain().items()}

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
        """CPU time and lateness of the sampling thread (not of writing files)."""
        if self._sampler is None:
            return Cost(cpu_ns=0, samples=0)
        return Cost(**self._sampler.cost())  # type: ignore[arg-type]


def _table(columns: Mapping[str, bytes | list[str]]) -> Table:
    import numpy as np

    numbers = {k: np.frombuffer(v, dtype="<u8") for k, v in columns.items() if isinstance(v, bytes)}
    table: dict[str, np.ndarray[Any, np.dtype[Any]]] = dict(numbers)
    for key, names in columns.items():
        if not isinstance(names, bytes):
            column = key.removesuffix("_names")
            table[column] = np.array(names, dtype=object)[numbers[column].astype(np.intp)]
    return table
