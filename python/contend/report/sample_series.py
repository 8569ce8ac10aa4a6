"""A recording's timelines, in at most POINTS steps: the mean of each, and the most that any interval in it had.

Times are seconds since the first sample. Steps are as wide as the interval of sampling until there are more than
POINTS of them, so a short recording is shown as it is, and a day opens as fast as an hour.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from contend.report.steps import CPU_STATES, OTHERS, PRESSURES, Step
from contend.store.series import open_series
from contend.units import NS_PER_S

POINTS = 1500
CELLS = 12_000  # of the picture of all cores: more are neither seen nor drawn in time
CONSUMERS = 7  # names a stack shows beside all others
USERS, USER_POINTS = 15, 300  # of the table that follows the chosen range
SHORTEST_NS = 64  # the bucket of zero, whose next begins at 128 ns, is drawn from here on


@dataclass(frozen=True, slots=True)
class Users:
    """Usage of each name in each of `edges`' spans: CPU and run delay in seconds, disk in bytes."""

    edges: Sequence[float]
    names: Sequence[str]
    used: Mapping[str, Sequence[Sequence[float]]]


@dataclass(frozen=True, slots=True)
class SampleLines:
    """Lines by chart; a chart without data is absent. `histograms`: by kind, (log2 of the lower edge in ns, subject,
    count). `step_s` is their width, 0 without samples;
    `origin_ns` the first sample (CLOCK_MONOTONIC)."""

    charts: Mapping[str, Sequence[Step]] = field(default_factory=dict)
    cores: Sequence[tuple[float, float, int, float]] = ()  # from, to (s), CPU, part of it that was busy
    users: Users | None = None
    histograms: Mapping[str, Sequence[tuple[int, str, float]]] = field(default_factory=dict)
    step_s: float = 0.0
    interval_s: float = 0.0
    end_s: float = 0.0
    origin_ns: int = 0

    @property
    def merged(self) -> bool:
        """True if a step holds several intervals."""
        return self.step_s > 1.5 * self.interval_s


def read_sample(directory: Path, points: int = POINTS) -> SampleLines:
    """Timelines of a series directory in at most `points` steps; none where there are fewer than two samples."""
    with _opened(directory, points) as reader:
        return SampleLines() if reader is None else reader.lines()


def read_consumers(directory: Path, origin_ns: int, points: int) -> dict[str, list[Step]]:
    """The charts of programs alone: "consumers", "delay" and "disk-users", in seconds since `origin_ns`."""
    with _opened(directory, points) as reader:
        return {} if reader is None else reader.consumers(origin_ns)


@contextmanager
def _opened(directory: Path, points: int) -> Iterator[_Reader | None]:
    with duckdb.connect() as connection:
        tables = open_series(connection, directory).keys()
        reader = None
        if {"host", "cpu"} <= tables:
            first, last, samples = connection.execute(
                "SELECT min(t_ns), max(t_ns), count(*) FROM host"
            ).fetchall()[0]
            if samples >= 2 and last > first:
                reader = _Reader(connection, set(tables), first, last, samples, points)
        yield reader


class _Reader:
    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        tables: set[str],
        first: int,
        last: int,
        samples: int,
        points: int,
    ) -> None:
        self._db, self._tables, self._first, self._last = connection, tables, first, last
        self._interval = (last - first) / (samples - 1)
        # Every sample is a step of its own until there are too many: steps of just an interval would, with a clock's
        # small errors, hold now two and now none.
        merged = samples > points
        self._step = math.ceil((last - first) / points) if merged else round(self._interval)
        self._bucket = f"(t_ns - {first}) // {self._step}" if merged else "t_ns"
        # Sampling times and how long each interval was: what rates of processes are divided by.
        connection.execute(
            f"""CREATE TABLE spans AS SELECT t_ns, {self._bucket} AS step, spent FROM (
                SELECT t_ns, t_ns - lag(t_ns) OVER (ORDER BY t_ns) AS spent FROM host) WHERE spent > 0"""
        )
        connection.execute(
            "CREATE TABLE steps AS SELECT step, sum(spent) AS spent, avg(t_ns - spent / 2) AS middle"
            " FROM spans GROUP BY step"
        )

    def lines(self) -> SampleLines:
        charts = {
            "cpu": self._rates("cpu", "cpu", CPU_STATES, 1 / NS_PER_S, "sum"),
            **self._programs(),
            "groups": self._top(("user_ns", "system_ns"), "cgroup", 1 / NS_PER_S),
            "throttled": self._groups("throttled_ns", 1 / NS_PER_S),
            "queue": [
                *self._gauge("procs_running", "runnable", 1.0),
                *self._gauge("procs_blocked", "blocked", 1.0),
            ],
            "pressure": self._rates("host", "", PRESSURES, 100 / NS_PER_S, ""),
            "memory": self._memory(),
            "latency": self._latency(),
            "disk-queue": self._rates("disk", "device", {"queue_ns": ""}, 1 / NS_PER_S, "key"),
            "disk-bytes": self._rates(
                "disk", "device", {"read_bytes": "read", "write_bytes": "written"}, 1e-6, "key"
            ),
            "network": self._rates(
                "net", "interface", {"rx_bytes": "received", "tx_bytes": "sent"}, 1e-6, "key"
            ),
        }
        return SampleLines(
            {name: steps for name, steps in charts.items() if steps},
            self._cores(),
            self._users(),
            self._histograms(),
            self._step / NS_PER_S,
            self._interval / NS_PER_S,
            (self._last - self._first) / NS_PER_S,
            self._first,
        )

    def _programs(self) -> dict[str, list[Step]]:
        return {
            "consumers": self._top(("user_ns", "system_ns"), "name", 1 / NS_PER_S),
            "delay": self._top(("run_delay_ns",), "name", 1 / NS_PER_S),
            "disk-users": self._top(("read_bytes", "write_bytes"), "name", 1e-6),
        }

    def consumers(self, origin_ns: int) -> dict[str, list[Step]]:
        """Charts that anybody is in, their times from `origin_ns` on."""
        shift = (self._first - origin_ns) / NS_PER_S
        return {
            name: [step._replace(t=round(step.t + shift, 3)) for step in steps]
            for name, steps in self._programs().items()
            if steps
        }

    def _columns(self, table: str) -> set[str]:
        if table not in self._tables:
            return set()
        return {str(row[0]) for row in self._db.execute(f"DESCRIBE {table}").fetchall()}

    def _seconds(self, t_ns: float) -> float:
        return round((t_ns - self._first) / NS_PER_S, 4)

    def _steps(self, rows: Sequence[tuple[Any, ...]], scale: float) -> list[Step]:
        """Rows (t_ns, mean, most, line) as steps; lines that never were anything but zero are left out."""
        made = [
            Step(self._seconds(t), _short(mean * scale), _short(most * scale), str(line))
            for t, mean, most, line in rows
        ]
        alive = {step.line for step in made if step.most}
        if not alive and made:
            alive = {made[0].line}
        return [step for step in made if step.line in alive]

    def _rates(self, table: str, key: str, columns: Mapping[str, str], scale: float, by: str) -> list[Step]:
        """Growth a second of cumulative columns. `by`: "sum" over the keys, "key" for a line each, "" has no keys."""
        present = [c for c in columns if c in self._columns(table)]
        if not present:
            return []
        part = f'"{key}"' if key else "''"
        grown = ", ".join(f"{c}::DOUBLE - lag({c}::DOUBLE) OVER w AS {c}" for c in present)
        own = part if by == "key" else "''"
        names = {c: columns[c].replace("'", "''") for c in present}
        summed = ", ".join(f"sum({c}) FILTER ({c} >= 0) AS {c}" for c in present)
        lines = " UNION ALL ".join(
            f"SELECT t_ns, spent, trim(k || ' {name}') AS line, {c} AS grown FROM samples"
            for c, name in names.items()
        )
        rows = self._db.execute(
            f"""
            WITH each AS (
                SELECT t_ns, {own} AS k, t_ns - lag(t_ns) OVER w AS spent, {grown}
                FROM {table} WINDOW w AS (PARTITION BY {part} ORDER BY t_ns)
            ), samples AS (
                SELECT t_ns, k, max(spent) AS spent, {summed} FROM each WHERE spent > 0 GROUP BY t_ns, k
            ), lines AS ({lines})
            SELECT avg(t_ns - spent / 2), sum(grown) / sum(spent) * 1e9, max(grown / spent) * 1e9, line
            FROM lines WHERE grown IS NOT NULL GROUP BY line, {self._bucket} ORDER BY 1
            """
        ).fetchall()
        return self._steps(rows, scale)

    def _gauge(self, column: str, line: str, scale: float) -> list[Step]:
        if column not in self._columns("host"):
            return []
        rows = self._db.execute(
            f"""SELECT avg(t_ns), avg({column}), max({column}), '{line}' FROM host
                GROUP BY {self._bucket} ORDER BY 1"""
        ).fetchall()
        return self._steps(rows, scale)

    def _memory(self) -> list[Step]:
        known = {"mem_total_bytes", "mem_available_bytes"} <= self._columns("host")
        used = self._used() if known else self._gauge("mem_available_bytes", "available", 2**-30)
        return [*used, *self._gauge("dirty_bytes", "dirty (not on disk yet)", 2**-30)]

    def _used(self) -> list[Step]:
        rows = self._db.execute(
            f"""SELECT avg(t_ns), avg(mem_total_bytes - mem_available_bytes),
                       max(mem_total_bytes - mem_available_bytes), 'used' FROM host
                GROUP BY {self._bucket} ORDER BY 1"""
        ).fetchall()
        return self._steps(rows, 2**-30)

    def _latency(self) -> list[Step]:
        """Time of the requests that ended in a step over their number; a step without any has no point."""
        if "disk" not in self._tables:
            return []
        rows = self._db.execute(
            f"""
            WITH each AS (
                SELECT t_ns, device, (read_ns + write_ns) - lag(read_ns + write_ns) OVER w AS took,
                       (reads + writes) - lag(reads + writes) OVER w AS ended
                FROM disk WINDOW w AS (PARTITION BY device ORDER BY t_ns)
            )
            SELECT avg(t_ns), sum(took) / sum(ended), max(took / ended), device FROM each
            WHERE ended > 0 AND took >= 0
            GROUP BY device, {self._bucket} ORDER BY 1
            """
        ).fetchall()
        return self._steps(rows, 1e-6)

    def _top(self, columns: tuple[str, ...], key: str, scale: float) -> list[Step]:
        """A second's use by the names that used most, and all others together; steps without use are zeros."""
        if not set(columns) <= self._columns("process_use"):
            return []
        return self._ranked("process_use", " + ".join(columns), key, scale)

    def _groups(self, value: str, scale: float) -> list[Step]:
        return (
            self._ranked("cgroup_use", value, "cgroup", scale) if value in self._columns("cgroup_use") else []
        )

    def _ranked(self, table: str, value: str, key: str, scale: float) -> list[Step]:
        ranked = self._largest(table, value, key, CONSUMERS)
        if not ranked:
            return []
        names = [str(row[0]) for row in ranked if row[0]]
        among = ", ".join("?" * len(names)) or "NULL"
        conditions = [(name, f"{key} = ?", [name]) for name in names]
        conditions.append((OTHERS, f"({key} IS NULL OR {key} NOT IN ({among}))" if names else "true", names))
        sums = ", ".join(
            f"sum({value}) FILTER ({where}) AS used{n}" for n, (_, where, _) in enumerate(conditions)
        )
        each = ", ".join(
            f"sum(used{n}) AS used{n}, max(used{n} / spent) AS most{n}" for n in range(len(conditions))
        )
        shown = ", ".join(
            f"coalesce(used{n}, 0) / spent * 1e9, coalesce(most{n}, 0) * 1e9" for n in range(len(conditions))
        )
        # A row a sample: to group by the names too takes three times as long.
        rows = self._db.execute(
            f"""
            WITH used AS (SELECT t_ns, {sums} FROM {table} GROUP BY t_ns),
            stepped AS (SELECT step, {each} FROM used JOIN spans USING (t_ns) GROUP BY step)
            SELECT middle, {shown} FROM steps LEFT JOIN stepped USING (step) ORDER BY middle
            """,
            [name for _, _, of in conditions for name in of],
        ).fetchall()
        *_, (_, others, of) = conditions
        if not self._db.execute(f"SELECT 1 FROM {table} WHERE {others} LIMIT 1", of).fetchall():
            conditions.pop()
        return self._steps(
            [
                (row[0], row[1 + 2 * n], row[2 + 2 * n], line)
                for row in rows
                for n, (line, _, _) in enumerate(conditions)
            ],
            scale,
        )

    def _largest(self, table: str, value: str, key: str, count: int) -> list[tuple[Any, ...]]:
        """The names with the largest sums."""
        return self._db.execute(
            f"""SELECT {key}, sum({value}) AS used FROM {table} GROUP BY 1 HAVING used > 0
                ORDER BY 2 DESC, 1 LIMIT {count}"""
        ).fetchall()

    def _cores(self) -> list[tuple[float, float, int, float]]:
        """How busy each CPU was, in fewer steps the more CPUs there are."""
        cpus = self._db.execute("SELECT count(DISTINCT cpu) FROM cpu").fetchall()[0][0]
        width = max(
            self._step, math.ceil((self._last - self._first) / max(20, min(300, CELLS // max(1, cpus))))
        )
        rows = self._db.execute(
            f"""
            WITH each AS (
                SELECT t_ns, cpu, t_ns - lag(t_ns) OVER w AS spent,
                       (user_ns + nice_ns + system_ns + irq_ns + softirq_ns)
                       - lag(user_ns + nice_ns + system_ns + irq_ns + softirq_ns) OVER w AS busy
                FROM cpu WINDOW w AS (PARTITION BY cpu ORDER BY t_ns)
            )
            SELECT min(t_ns - spent), max(t_ns), cpu, least(1, sum(busy) / sum(spent)) FROM each
            WHERE spent > 0 AND busy >= 0 GROUP BY cpu, (t_ns - {self._first}) // {width} ORDER BY cpu, 1
            """
        ).fetchall()
        return [
            (self._seconds(a), self._seconds(b), int(cpu), round(float(busy), 3)) for a, b, cpu, busy in rows
        ]

    def _histograms(self) -> dict[str, list[tuple[int, str, float]]]:
        """Counts by power of two, of the subjects that were switched most and all others together."""
        if "sched_hist" not in self._tables:
            return {}
        counts: dict[str, list[tuple[int, str, float]]] = {}
        rows = self._db.execute(
            f"""
            WITH ranked AS (
                SELECT subject FROM sched_hist GROUP BY 1 ORDER BY sum(count) DESC, 1 LIMIT {CONSUMERS}
            )
            SELECT h.kind, floor(log2(greatest(h.bucket_ns, {SHORTEST_NS})))::INTEGER AS power,
                   coalesce(r.subject, '{OTHERS}') AS line, sum(h.count)
            FROM sched_hist h LEFT JOIN ranked r ON h.subject = r.subject GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
            """
        ).fetchall()
        for kind, power, line, count in rows:
            counts.setdefault(str(kind), []).append((int(power), str(line), float(count)))
        return counts

    def _users(self) -> Users | None:
        """The names that used most of anything, in few enough spans to add up in a page."""
        wanted = {"cpu": "user_ns + system_ns", "delay": "run_delay_ns", "disk": "read_bytes + write_bytes"}
        if "process_use" not in self._tables:
            return None
        names: dict[str, None] = {}
        for value in wanted.values():
            rows = self._largest("process_use", value, "name", USERS // 2)
            names.update(dict.fromkeys(str(row[0]) for row in rows))
        spans = min(USER_POINTS, max(1, round((self._last - self._first) / self._step)))
        width = math.ceil((self._last - self._first) / spans)
        chosen = list(names)[:USERS]
        indices = {name: n for n, name in enumerate(chosen)}
        used = {by: [[0.0] * spans for _ in chosen] for by in wanted}
        sums = ", ".join(f"sum({value})" for value in wanted.values())
        rows = self._db.execute(
            f"SELECT name, least({spans - 1}, (t_ns - {self._first} - 1) // {width}) AS span, {sums} FROM process_use "
            f"WHERE t_ns > {self._first} GROUP BY 1, 2"
        ).fetchall()
        for name, span, *values in rows:
            if name in indices:
                for (by, lines), number in zip(used.items(), values, strict=True):
                    scale = 1.0 if by == "disk" else 1 / NS_PER_S
                    lines[indices[name]][int(span)] = _short(float(number) * scale)
        edges = [self._seconds(self._first + n * width) for n in range(spans)] + [self._seconds(self._last)]
        return Users(edges, chosen, used)


def _short(value: float) -> float:
    return float(f"{value:.4g}")
