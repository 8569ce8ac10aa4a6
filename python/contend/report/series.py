"""The host's timelines for a chart: cumulative counters to rates, in at most POINTS steps.

Times are seconds since the first trial began (CLOCK_MONOTONIC). A counter that went backwards (a reboot, a
wrap) gives no point rather than a wrong one; a column or a file that is not there gives no line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from contend.probes.series import pattern, series_files
from contend.units import NS_PER_S

if TYPE_CHECKING:
    import duckdb

POINTS = 360  # steps a chart can show on a wide screen; more only makes the page heavy

CPU_STATES = {
    "user_ns": "user", "nice_ns": "nice", "system_ns": "system", "irq_ns": "interrupts",
    "softirq_ns": "soft interrupts", "iowait_ns": "waiting for disk", "steal_ns": "stolen",
}  # fmt: skip
PRESSURES = {"psi_cpu_some_ns": "CPU", "psi_io_some_ns": "disk", "psi_memory_some_ns": "memory"}

OTHERS = "all others"


class Step(NamedTuple):
    """One step of one line: its middle (s), its mean, and the most in one interval of it."""

    t: float
    mean: float
    most: float
    line: str


@dataclass(frozen=True, slots=True)
class Timelines:
    """Lines by chart: `cpu` in CPUs, `queue` in threads, `pressure` in % of the time, `disk_queue` in
    requests, `iops` in operations a second, `network` in MB/s; by program `consumers` in CPUs, `delay` in tasks,
    `disk_users` in MB/s."""

    cpu: Sequence[Step] = ()
    queue: Sequence[Step] = ()
    pressure: Sequence[Step] = ()
    disk_queue: Sequence[Step] = ()
    iops: Sequence[Step] = ()
    network: Sequence[Step] = ()
    consumers: Sequence[Step] = ()
    delay: Sequence[Step] = ()
    disk_users: Sequence[Step] = ()

    @property
    def empty(self) -> bool:
        lines = (self.cpu, self.queue, self.pressure, self.disk_queue, self.iops, self.network)
        return not any(lines)


def read_timelines(directory: Path | None, origin_ns: int) -> Timelines:
    """Timelines of a run's series directory; empty ones where it holds none."""
    if directory is None or not directory.is_dir():
        return Timelines()
    import duckdb

    from contend.report.sample_series import read_consumers

    programs = read_consumers(directory, origin_ns, POINTS)
    with duckdb.connect() as connection:
        reader = _Reader(connection, directory, origin_ns)
        return Timelines(
            cpu=reader.rates("cpu", "cpu", CPU_STATES, scale=1 / NS_PER_S),
            queue=[
                *reader.gauge("host", "procs_running", "runnable"),
                *reader.gauge("host", "procs_blocked", "blocked"),
            ],
            pressure=reader.rates("host", "", PRESSURES, scale=100 / NS_PER_S),
            disk_queue=reader.rates("disk", "device", {"queue_ns": ""}, scale=1 / NS_PER_S, by_key=True),
            iops=reader.rates("disk", "device", {"reads": "reads", "writes": "writes"}, scale=1),
            network=reader.rates(
                "net", "interface", {"rx_bytes": "received", "tx_bytes": "sent"}, scale=1e-6
            ),
            consumers=programs.get("consumers", ()),
            delay=programs.get("delay", ()),
            disk_users=programs.get("disk-users", ()),
        )  # fmt: skip


class _Reader:
    def __init__(self, connection: duckdb.DuckDBPyConnection, directory: Path, origin_ns: int) -> None:
        self._db = connection
        self._directory = directory
        self._origin_ns = origin_ns
        self._columns: dict[str, set[str]] = {}

    def _open(self, table: str) -> set[str]:
        """Columns of a table, read once; none where it has no files."""
        if table not in self._columns:
            files = [pattern(path) for path in series_files(self._directory).get(table, ())]
            self._columns[table] = set()
            if files:
                relation = self._db.read_parquet(files, union_by_name=True)
                # A view: a table would hold every column of it, of which a few are asked for.
                relation.project("* REPLACE (t_ns::BIGINT AS t_ns)").create_view(table)
                self._columns[table] = set(relation.columns)
        return self._columns[table]

    def _step_ns(self, table: str) -> int:
        low, high = self._db.execute(f"SELECT min(t_ns), max(t_ns) FROM {table}").fetchone() or (0, 0)
        return max(1, ((high or 0) - (low or 0)) // POINTS)

    def gauge(self, table: str, column: str, name: str) -> list[Step]:
        """Mean of a gauge in every step."""
        if column not in self._open(table):
            return []
        step = self._step_ns(table)
        rows = self._db.execute(
            f"SELECT avg(t_ns), avg({column}) FROM {table} WHERE {column} IS NOT NULL "
            f"GROUP BY t_ns // {step} ORDER BY 1"
        ).fetchall()
        return [_step(self._seconds(t), round(float(v), 3), name) for t, v in rows]

    def rates(
        self, table: str, key: str, columns: dict[str, str], *, scale: float, by_key: bool = False
    ) -> list[Step]:
        """Growth a second of cumulative columns: summed over `key` (CPUs, devices), or a line for each."""
        present = [c for c in columns if c in self._open(table)]
        if not present or (key and key not in self._columns[table]):
            return []
        step = self._step_ns(table)
        part = f'"{key}"' if key else "0"
        line, group = ("k", "bucket, k") if by_key else ("''", "bucket")
        numbers = range(len(present))
        grown = ", ".join(f"{c}::DOUBLE - lag({c}::DOUBLE) OVER w AS grown{n}" for n, c in enumerate(present))
        # A step's rate: growth over the time it covers, for each key by itself, then summed.
        rates = ", ".join(
            f"avg(t_ns) FILTER ({known}) AS t{n},"
            f" sum(grown{n}) FILTER ({known}) / sum(spent) FILTER ({known}) * 1e9 AS rate{n}"
            for n in numbers
            for known in (f"grown{n} >= 0 AND spent > 0",)
        )
        rows = self._db.execute(
            f"""
            WITH samples AS (
                SELECT {part} AS k, t_ns, t_ns - lag(t_ns) OVER w AS spent, {grown}
                FROM {table} WINDOW w AS (PARTITION BY {part} ORDER BY t_ns)
            ), steps AS (SELECT k, t_ns // {step} AS bucket, {rates} FROM samples GROUP BY 1, 2)
            SELECT {line}, {", ".join(f"avg(t{n}), sum(rate{n})" for n in numbers)} FROM steps GROUP BY {group}
            """
        ).fetchall()
        points: list[Step] = []
        for n in numbers:
            name = columns[present[n]]
            known = sorted(
                (t, v, k)
                for k, t, v in ((row[0], *row[1 + 2 * n : 3 + 2 * n]) for row in rows)
                if v is not None
            )
            points += [
                _step(self._seconds(t), _round(float(v) * scale), f"{k} {name}".strip() if by_key else name)
                for t, v, k in known
            ]
        return _without_idle(points)

    def _seconds(self, t_ns: float) -> float:
        return round((t_ns - self._origin_ns) / NS_PER_S, 2)


def _round(value: float) -> float:
    return float(f"{value:.4g}")


def _step(t: float, value: float, line: str) -> Step:
    return Step(t, value, value, line)


def _without_idle(points: list[Step]) -> list[Step]:
    """Lines that are zero throughout say nothing and cost a legend entry; one stays when all are."""
    busy = {point.line for point in points if point.mean}
    if not busy:
        first = points[0].line if points else ""
        return [p for p in points if p.line == first]
    return [p for p in points if p.line in busy]
