"""The host's timelines for a chart: cumulative counters to rates, in at most POINTS steps.

Times are seconds since the first trial began (CLOCK_MONOTONIC). A counter that went backwards (a reboot, a
wrap) gives no point rather than a wrong one; a column or a file that is not there gives no line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from contend.report.sample_series import read_consumers
from contend.report.steps import CPU_STATES, PRESSURES, Step
from contend.store.series import pattern, series_files
from contend.units import NS_PER_S

if TYPE_CHECKING:
    Array = np.ndarray[Any, np.dtype[Any]]

POINTS = 320  # steps a chart can show on a wide screen; more only makes the page heavy


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
        ((low, high),) = self._db.execute(f"SELECT min(t_ns), max(t_ns) FROM {table}").fetchall()
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
        counters = self._counters(table, key)
        points: list[Step] = []
        for column in present:
            t, rate, code = counters.rates(self._fetch(table, f"{column}::DOUBLE"))
            if not by_key:
                steps, which = np.unique(t // counters.step, return_inverse=True)
                t = np.bincount(which, t, len(steps)) / np.bincount(which, minlength=len(steps))
                rate = np.bincount(which, rate, len(steps))
                code = np.zeros(len(steps), np.int64)
            name = columns[column]
            known = sorted(zip((t + counters.first).tolist(), rate.tolist(), code.tolist(), strict=True))
            points += [
                _step(
                    self._seconds(at),
                    _round(value * scale),
                    f"{counters.keys[k]} {name}".strip() if by_key else name,
                )
                for at, value, k in known
            ]
        return _without_idle(points)

    def _fetch(self, table: str, column: str) -> Array:
        """One column of a table, in the order of its files; NaN where a number was not recorded."""
        (values,) = self._db.sql(f"SELECT {column} AS c FROM {table}").fetchnumpy().values()
        if isinstance(values, np.ma.MaskedArray):
            return values.filled(np.nan if values.dtype.kind == "f" else -1)
        return np.asarray(values)

    def _counters(self, table: str, key: str) -> _Counters:
        """The table's rows by key and time. A column at a time is read of it: all at once take ten times the memory."""
        t = self._fetch(table, "t_ns")
        rows = self._db.execute(f'SELECT DISTINCT "{key}" FROM {table} ORDER BY 1').fetchall() if key else []
        keys = [row[0] for row in rows if row[0] is not None] or [""]
        if len(keys) == 1:
            codes = np.zeros(len(t), np.int16)
        else:
            names = ", ".join("'" + str(name).replace("'", "''") + "'" for name in keys)
            column = f"""enum_code(CAST("{key}"::VARCHAR AS ENUM({names})))::SMALLINT"""
            codes = self._fetch(table, column).astype(np.int16)
        return _Counters(t, codes, keys, self._step_ns(table))

    def _seconds(self, t_ns: float) -> float:
        return round((t_ns - self._origin_ns) / NS_PER_S, 2)


class _Counters:
    """Rows of cumulative counters in order of their key (a CPU, a device) and time, and what they grew by in each step."""

    def __init__(self, t: Array, codes: Array, keys: Sequence[Any], step: int) -> None:
        """t: ns; codes: the place of each row's key in `keys`."""
        self.keys, self.step = keys, step
        in_order = bool((np.diff(t) >= 0).all())
        self._order = np.argsort(codes, kind="stable") if in_order else np.lexsort((t, codes))
        t, self._codes = t[self._order], codes[self._order].astype(np.int64)
        bucket = t // step
        changes = (np.diff(bucket) != 0) | (np.diff(self._codes) != 0)
        self._starts = np.concatenate(([0], np.flatnonzero(changes) + 1)) if len(t) else np.zeros(0, np.int64)
        self._spent = np.diff(t, prepend=t[:1]).astype(np.float64)
        self._spent[1:][np.diff(self._codes) != 0] = 0.0  # the first of its key
        # Buckets begin at whole steps; sums of times since one of those are exact enough.
        self.first = int(bucket.min(initial=0)) * step
        self._t = (t - self.first).astype(np.float64)

    def rates(self, values: Array) -> tuple[Array, Array, Array]:
        """Rates by key and step in which the counter was read twice: the mean time (ns since `first`), its growth a second,
        and the place of the key."""
        values = values[self._order]
        grown = np.diff(values, prepend=values[:1])
        known = (grown >= 0) & (self._spent > 0)

        def summed(of: Array) -> Array:
            return np.add.reduceat(np.where(known, of, 0.0), self._starts) if len(of) else of

        number, spent = summed(np.ones_like(grown)), summed(self._spent)
        there = number > 0
        rate = summed(grown)[there] / spent[there] * NS_PER_S
        return summed(self._t)[there] / number[there], rate, self._codes[self._starts][there]


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
