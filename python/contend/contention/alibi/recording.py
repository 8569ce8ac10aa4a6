"""The series that a verdict is taken from, whichever way they come: Parquet files of a run, or tables in memory.

Of the big tables (a row a process and sample) only what can matter is kept: threads and processes that used half a
CPU or more, and cgroups that were throttled, stalled or near their limit. A day of samples then fits in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb
import numpy as np

from contend.contention.alibi import limits
from contend.contention.alibi.grid import by_key, make_grid
from contend.contention.alibi.processes import coded
from contend.errors import BadInput
from contend.store.series import pattern, series_files

if TYPE_CHECKING:
    from contend.contention.alibi.grid import Array, Grid
    from contend.probes.base import Table
    from contend.store.directory import RunDirectory

T = TypeVar("T")
# Names, not numbers, by table; every other column is a number.
_NAMES = {"device", "interface", "kind", "name", "cgroup"}
# What is read of a table: all of it, or a query over it. {table} is the view, columns are as recorded.
QUERIES = {
    **{table: f"SELECT * FROM {table}" for table in ("host", "cpu", "disk", "net", "qdisc")},
    "busy": """
        SELECT t_ns, pid, start_ns, name, threads, busiest_tid, busiest_thread_ns,
               user_ns::DOUBLE + system_ns AS cpu_ns
        FROM process_use
        WHERE interval_ns > 0 AND (2 * busiest_thread_ns >= interval_ns OR 2 * (user_ns + system_ns) >= interval_ns)
    """,
    "delays": "SELECT t_ns, sum(run_delay_ns) AS run_delay_ns FROM process_use GROUP BY t_ns ORDER BY t_ns",
    "cgroups": f"""
        SELECT * FROM cgroup_use
        WHERE throttled_periods > 0 OR throttled_ns > 0 OR psi_memory_some_ns > 0
              OR (memory_limit_bytes > 0 AND memory_bytes >= {limits.AT_LIMIT} * memory_limit_bytes)
    """,
}
# Columns that no judge looks at: half of what a recording of days would hold.
_UNREAD = {
    "lateness_ns", "interrupts", "context_switches", "forks", "psi_cpu_full_ns", "psi_io_full_ns", "psi_memory_full_ns",
    "dirty_bytes", "writeback_bytes", "swap_total_bytes", "swap_free_bytes", "tcp_retransmits", "in_flight", "queue_ns",
    "rx_packets", "rx_errors", "rx_dropped", "tx_packets", "tx_errors", "tx_dropped",
}  # fmt: skip
# Plain scans, whose rows come in the same order however often they are asked for: read a column at a time.
_SCANS = ("host", "cpu", "disk", "net", "qdisc", "busy", "cgroups")
_SOURCE = {"busy": "process_use", "delays": "process_use", "cgroups": "cgroup_use", "own": "process_use"}


@dataclass(frozen=True)
class Recording:
    """The tables of a recording. A table that was not recorded is absent, one without rows of note is empty.

    Tables: host, cpu, disk, net and qdisc as the probe writes them; busy (rows of process_use with half a CPU or
    more), delays (run delay of all processes by sample), cgroups (rows of cgroup_use that say something).
    link_bytes_per_s: speed of interfaces where it is known.
    """

    tables: Mapping[str, Mapping[str, Array]]
    link_bytes_per_s: Mapping[str, float] = field(default_factory=dict)
    _kept: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of_run(cls, run: RunDirectory) -> Recording:
        """Read the series of a run or a sample, and the link speeds in its environment. Raises BadInput as
        `of_directory`."""
        links = run.environment().get("links_mbit_per_s", {})
        return cls.of_directory(run.series, {name: mbit * 1e6 / 8 for name, mbit in links.items()})

    @classmethod
    def of_directory(cls, directory: Path, link_bytes_per_s: Mapping[str, float] | None = None) -> Recording:
        """Read the series of a run: files TABLE-NUMBER.parquet. Raises BadInput for files that cannot be read."""
        files_of = series_files(directory)

        def prepare(connection: duckdb.DuckDBPyConnection) -> Sequence[str]:
            for table, files in files_of.items():
                connection.read_parquet([pattern(path) for path in files], union_by_name=True).create_view(
                    table
                )
            return _SCANS

        # Of interfaces whose speed nobody knows nothing is asked.
        queries = (
            QUERIES if link_bytes_per_s else QUERIES | {"net": "SELECT t_ns, interface FROM net LIMIT 0"}
        )
        return cls(read_tables(prepare, list(files_of), str(directory), queries), link_bytes_per_s or {})

    @classmethod
    def of_tables(
        cls, tables: Mapping[str, Table], link_bytes_per_s: Mapping[str, float] | None = None
    ) -> Recording:
        """Take tables as ProbeProcess hands them out (all drains put together).

        >>> from contend.probes.client import ProbeProcess
        >>> recording = Recording.of_tables(ProbeProcess({"interval_ms": 5, "host": True}).stop().tables)
        >>> "cpu" in recording.tables, "busy" in recording.tables
        (True, False)
        """

        def prepare(connection: duckdb.DuckDBPyConnection) -> Sequence[str]:
            for name, table in tables.items():
                connection.register(name, dict(table))
            return ()

        return cls(read_tables(prepare, sorted(tables), "the tables", QUERIES), link_bytes_per_s or {})

    def get(self, table: str) -> Mapping[str, Array] | None:
        return self.tables.get(table)

    def between(self, start_ns: int, end_ns: int) -> Recording:
        """The part recorded in [start_ns, end_ns]. Disks and network queues stay whole, for the search for unloaded
        times."""
        _ = self.grid  # of the whole, before a part may be asked for it
        tables = dict(self.tables)
        for name, table in tables.items():
            if name not in ("disk", "qdisc", "own"):
                first = int(table["t_ns"].searchsorted(start_ns, "left"))
                last = int(table["t_ns"].searchsorted(end_ns, "right"))
                tables[name] = {column: values[first:last] for column, values in table.items()}
        return Recording(tables, self.link_bytes_per_s, self._kept)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Call `make` once for the recording and all parts of it. Of the whole recording only: of what `between`
        leaves whole."""
        if key not in self._kept:
            self._kept[key] = make()
        kept: T = self._kept[key]
        return kept

    def devices(self, table: str) -> Mapping[str, Mapping[str, Array]]:
        """The rows of each disk ("disk"), or of each interface's queues ("qdisc"); none without that table."""
        column = {"disk": "device", "qdisc": "interface"}[table]

        def split() -> dict[str, dict[str, Array]]:
            columns = self.tables.get(table)
            if not columns:
                return {}
            return {
                str(name): {key: values[rows] for key, values in columns.items() if key != column}
                for name, rows in by_key(columns[column])
            }

        return self.once((table, column), split)

    @property
    def grid(self) -> Grid | None:
        """The whole recording's own bins; None where it has fewer than two samples."""

        def make() -> Grid | None:
            times = self.times
            return make_grid(times, int(times[0]), int(times[-1]), limits.BIN_NS) if len(times) else None

        return self.once("grid", make)

    @property
    def interval_ns(self) -> int:
        """Median time between two samples; 0 without."""
        return int(np.median(np.diff(self.times))) if len(self.times) > 1 else 0

    @cached_property
    def times(self) -> Array:
        """The sample times, ns; empty without samples of the host."""
        for name in ("host", "cpu", "disk"):
            table = self.tables.get(name)
            if table is not None and len(table["t_ns"]):
                times = np.sort(table["t_ns"])  # which they mostly are: np.unique would hash each
                return times[np.diff(times, prepend=times[0] - 1) > 0]
        return np.array([], dtype=np.int64)


def read_tables(
    prepare: Callable[[duckdb.DuckDBPyConnection], Sequence[str]],
    present: list[str],
    where: str,
    queries: Mapping[str, str],
) -> dict[str, dict[str, Array]]:
    """Run the queries whose tables are `present`. Raises BadInput.

    prepare: makes the tables known to a connection, and says which of the queries may be read a column at a time, in less
    memory: those of no join and no group, whose order may change.
    """
    # One thread: this may run beside the next trial.
    with duckdb.connect(config={"threads": 1}) as connection:
        try:
            scans = prepare(connection)
            tables = {
                name: _columns(connection, query, at_once=name not in scans)
                for name, query in queries.items()
                if _SOURCE.get(name, name) in present
            }
        except duckdb.Error as error:
            raise BadInput(
                f"cannot read the series of {where}: {str(error).splitlines()[0]}",
                hint="were they written by this version of contend? `contend sql` shows their columns",
            ) from error
    if "busy" in tables:
        tables["busy"] |= coded(tables["busy"])
    return tables


def _columns(connection: duckdb.DuckDBPyConnection, query: str, *, at_once: bool) -> dict[str, Array]:
    """A query's columns: times and ids as integers, other numbers as floats (NaN where not recorded), names. By time, where
    they have one.

    A column at a time unless `at_once`: DuckDB holds a result beside the arrays that are made of it, and sorts by copying
    all of it.
    """
    relation = connection.sql(query)
    shown = {
        column: f'"{column}"{_cast(column)} AS "{column}"'
        for column in relation.columns
        if column not in _UNREAD
    }
    if at_once:
        raw = relation.project(", ".join(shown.values())).fetchnumpy()
        columns = {column: _plain(raw.pop(column)) for column in shown}
    else:
        columns = {}
        for column, text in shown.items():
            (values,) = relation.project(text).fetchnumpy().values()
            columns[column] = _plain(values)
    # Files are sorted by device and then by time: what was read is in order for each, and stays so.
    if "t_ns" in columns and (np.diff(columns["t_ns"]) < 0).any():
        order = np.argsort(columns["t_ns"], kind="stable")
        for column in columns:
            columns[column] = columns[column][order]
    return columns


def _cast(column: str) -> str:
    """To what a column is read."""
    return "" if column in _NAMES else "::BIGINT" if column in ("t_ns", "start_ns") else "::DOUBLE"


def _plain(values: Any) -> Array:
    if isinstance(values, np.ma.MaskedArray):
        values = values.filled("" if values.dtype == object else np.nan if values.dtype.kind == "f" else 0)
    if values.dtype == object:  # the same few names over and over
        names: dict[str, str] = {}
        values = np.array([names.setdefault(name, name) for name in values], dtype=object)
    plain: Array = values
    return plain
