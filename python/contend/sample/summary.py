"""A recording in a few figures: the host by resource, the processes that used most, and our own cost.

Rates are over the intervals between samples: `mean` is the whole growth over the whole time, `p95` and `max` are of
the intervals. A counter that went backwards (a reboot, a device that went and came) gives no interval.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import duckdb

from contend.contention.alibi.group import judge_group
from contend.contention.alibi.judge import judge, phases
from contend.contention.alibi.recording import Recording
from contend.contention.alibi.scope import Tree, read_group
from contend.contention.alibi.verdict import Alibi
from contend.sample.stacks import Stack, longest, read_stacks
from contend.store.directory import RunDirectory
from contend.store.series import open_series
from contend.text.shape import HIDDEN, OPTIONAL, Count, Named, Shape, Through, computed
from contend.units import NS_PER_S

TOP = 5
BUSY_NS = "user_ns + nice_ns + system_ns + irq_ns + softirq_ns"
_SUMMED = ("user_ns", "system_ns", "run_delay_ns", "read_bytes", "write_bytes")


@dataclass(frozen=True, slots=True)
class Measure(Shape):
    """One quantity over the recording; p95 and max are of the intervals between samples."""

    resource: str
    subject: Annotated[str, "a device or interface; empty: the host"]
    what: str
    unit: str
    mean: float
    p95: float
    max: float


@dataclass(frozen=True, slots=True)
class Consumer(Shape):
    """All processes of one name."""

    name: str
    processes: Count
    value: Annotated[float, "in the unit of its list"]
    busiest_thread: Annotated[float | None, "largest part of an interval that one thread was on a CPU, 0–1"]


@dataclass(frozen=True, slots=True)
class Lateness(Shape):
    """How late samples were."""

    median_ns: Count
    p99_ns: Count
    max_ns: Count


@dataclass(frozen=True, slots=True)
class Top(Shape):
    """Processes that used most."""

    cpu: Annotated[list[Consumer] | None, OPTIONAL, "CPUs"] = None
    run_delay: Annotated[list[Consumer] | None, OPTIONAL, "seconds waited for a CPU, a second"] = None
    io: Annotated[list[Consumer] | None, OPTIONAL, "bytes a second read from and written to disks"] = None
    memory: Annotated[list[Consumer] | None, OPTIONAL, "bytes resident, on the average"] = None


def _top(by: Mapping[str, tuple[Consumer, ...]]) -> Top:
    return Top(**{resource: list(consumers) for resource, consumers in by.items()})


@dataclass(frozen=True, slots=True)
class Summary(Shape):
    """A recording of `contend sample` in figures.

    Its JSON Schema is docs/reference/sample.schema.json. `phases` are the parts in which the verdict was the same,
    `command_phases` what held the command up in each of them.
    """

    schema_version: Literal[1] = field(default=1, init=False)
    begin_ns: Annotated[int, "first sample, CLOCK_MONOTONIC"]
    end_ns: Annotated[int, "last sample"]
    samples: Count
    cpus: Count
    memory_bytes: Annotated[Count, "of the host; 0 where it is not known"]
    verdict: Annotated[Alibi | None, "what was the limit; null with fewer than two samples"] = field(
        default=None, kw_only=True
    )
    command_alibi: Annotated[
        Alibi | None,
        Named("party"),
        "what held the command up; null without one, or where it was not seen",
    ] = field(default=None, kw_only=True)
    host: tuple[Measure, ...]
    top: Annotated[Mapping[str, tuple[Consumer, ...]], Through(_top)]
    stacks: Annotated[
        tuple[Stack, ...],
        "most time off a CPU, with --off-cpu-stacks; of the command's processes where there is one",
    ] = field(default=(), kw_only=True)
    lateness: Lateness | None
    recording: Annotated[Mapping[str, Any], "sample.json: what was asked, and how it ended"]
    phases: Annotated[tuple[Alibi, ...], HIDDEN] = ()
    command_phases: Annotated[tuple[Alibi | None, ...], HIDDEN] = ()

    @property
    def length_s(self) -> float:
        return (self.end_ns - self.begin_ns) / NS_PER_S

    @property
    def headline(self) -> str:
        """A sentence on the limit; of a recording that is too short, its number of samples."""
        if self.verdict is not None:
            return self.verdict.text
        return f"{self.samples} sample{'s' * (self.samples != 1)}: too few to say what was the limit"

    @property
    @computed(before="recording")
    def probe_share(self) -> float | None:
        """the probe's CPU time, BPF programs' included, as a part of one CPU"""
        cost = self.recording.get("cost")
        if not cost or self.length_s <= 0:
            return None
        return float(cost["cpu_ns"] + cost["bpf_ns"]) / NS_PER_S / self.length_s


def summarise(run: RunDirectory) -> Summary:
    """Summarise a recording's directory, also one that was cut off."""
    with duckdb.connect() as connection:
        summary = _Reader(connection, run).summary()
    summary = replace(summary, stacks=longest(read_stacks(run).stacks, TOP))
    if summary.samples < 2:
        return summary
    recording = Recording.of_run(run)
    summary = replace(summary, verdict=judge(recording), phases=phases(recording))
    description = summary.recording
    own = (
        read_group(
            run.series, Tree(description["pid"], description["began_ns"], not description.get("attached"))
        )
        if description.get("pid")
        else None
    )
    if own is None:
        return summary
    spans = [(summary.begin_ns, summary.end_ns), *((p.start_ns, p.end_ns) for p in summary.phases)]
    name = f"process {description['pid']}" if description.get("attached") else "the command"
    whole, *each = (judge_group(name, recording, own, start, end) for start, end in spans)
    return replace(summary, command_alibi=whole, command_phases=tuple(each))


class _Reader:
    def __init__(self, connection: duckdb.DuckDBPyConnection, run: RunDirectory) -> None:
        self._db = connection
        self._recording = run.sample()
        self._columns = open_series(connection, run.series)
        self._end_ns = 0

    def summary(self) -> Summary:
        begin, end, samples = 0, 0, 0
        if "host" in self._columns:
            begin, end, samples = self._one("SELECT min(t_ns), max(t_ns), count(*) FROM host")
        self._end_ns = end or 0
        cpus = self._one("SELECT count(DISTINCT cpu) FROM cpu")[0] if "cpu" in self._columns else 0
        memory = 0
        if "mem_total_bytes" in self._columns.get("host", ()):
            memory = self._one("SELECT max(mem_total_bytes) FROM host")[0]
        top = (
            dict(self._top((end - begin) / NS_PER_S))
            if {"process", "process_use"} <= set(self._columns)
            else {}
        )
        return Summary(
            begin or 0,
            end or 0,
            samples,
            cpus,
            memory or 0,
            tuple(self._host()),
            top,
            self._lateness(),
            self._recording,
        )

    def _one(self, query: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] | None = self._db.execute(query).fetchone()
        assert row is not None, query
        return row

    # The host

    def _host(self) -> Iterator[Measure]:
        if "cpu" in self._columns:
            yield from self._cpu()
        yield from self._gauge("CPU", "run queue", "threads", "procs_running")
        yield from self._rate("CPU", "pressure", "%", "host", "psi_cpu_some_ns", 100 / NS_PER_S)
        yield from self._rate("CPU", "context switches", "1/s", "host", "context_switches")
        if "sched_hist" in self._columns:
            yield from self._sched()
        yield from self._gauge("memory", "available", "B", "mem_available_bytes")
        if {"swap_in_bytes", "swap_out_bytes"} <= self._columns.get("host", set()):
            yield from self._rate("memory", "swapped", "B/s", "host", "swap_in_bytes + swap_out_bytes")
        yield from self._rate("memory", "pressure", "%", "host", "psi_memory_some_ns", 100 / NS_PER_S)
        for device in self._keys("disk", "device"):
            yield from self._disk(device)
        yield from self._rate("disk", "pressure", "%", "host", "psi_io_some_ns", 100 / NS_PER_S)
        for interface in self._keys("net", "interface"):
            where = ("interface", interface)
            yield from self._rate("network", "received", "B/s", "net", "rx_bytes", 1, where)
            yield from self._rate("network", "sent", "B/s", "net", "tx_bytes", 1, where)

    def _sched(self) -> Iterator[Measure]:
        """Over all tasks, from the lower edges of the buckets: at least so much."""
        for kind, what in (("run_queue", "time in the run queue"), ("on_cpu", "time on a CPU at a stretch")):
            figures = self._one(
                f"""
                WITH buckets AS (
                    SELECT bucket_ns, sum(count) AS n FROM sched_hist WHERE kind = '{kind}' GROUP BY 1
                ), ranked AS (
                    SELECT bucket_ns, n, sum(n) OVER (ORDER BY bucket_ns) / sum(n) OVER () AS below FROM buckets
                )
                SELECT sum(bucket_ns * n) / sum(n), min(bucket_ns) FILTER (below >= 0.95), max(bucket_ns) FROM ranked
                """
            )
            if figures[0] is not None:
                yield Measure("CPU", "", what, "s", *(float(value) / NS_PER_S for value in figures))

    def _cpu(self) -> Iterator[Measure]:
        each = f"""
            SELECT t_ns, cpu, t_ns - lag(t_ns) OVER w AS spent,
                   least(({BUSY_NS}) - lag({BUSY_NS}) OVER w, t_ns - lag(t_ns) OVER w) AS busy,
                   steal_ns - lag(steal_ns) OVER w AS steal
            FROM cpu WINDOW w AS (PARTITION BY cpu ORDER BY t_ns)"""
        sound = f"({each}) WHERE spent > 0 AND busy >= 0 GROUP BY t_ns"
        grouped = f"SELECT {{}} AS grown, max(spent) AS spent FROM {sound}"
        yield from self._measure("CPU", "", "busy", "CPUs", grouped.format("sum(busy)"))
        yield from self._measure("CPU", "", "busiest core", "%", grouped.format("100 * max(busy)"))
        yield from self._measure("CPU", "", "stolen", "CPUs", grouped.format("sum(steal)"))

    def _disk(self, device: str) -> Iterator[Measure]:
        where = ("device", device)
        yield from self._rate("disk", "queue", "requests", "disk", "queue_ns", 1 / NS_PER_S, where)
        name = device.replace("'", "''")
        # A request's time is known when it has ended: the time of those that did, over how many they were.
        latency = f"""
            SELECT (read_ns + write_ns) - lag(read_ns + write_ns) OVER w AS grown,
                   ((reads + writes) - lag(reads + writes) OVER w) * 1e9 AS spent
            FROM disk WHERE device = '{name}' WINDOW w AS (ORDER BY t_ns)"""
        latency = f"SELECT grown, spent FROM ({latency}) WHERE spent > 0 AND grown >= 0"
        yield from self._measure("disk", device, "latency", "s", latency, 1)
        yield from self._rate("disk", "read", "B/s", "disk", "read_bytes", 1, where)
        yield from self._rate("disk", "written", "B/s", "disk", "write_bytes", 1, where)

    def _keys(self, table: str, column: str) -> list[str]:
        if table not in self._columns:
            return []
        rows = self._db.execute(f"SELECT DISTINCT {column} FROM {table} ORDER BY 1").fetchall()
        return [str(row[0]) for row in rows]

    def _rate(
        self,
        resource: str,
        what: str,
        unit: str,
        table: str,
        column: str,
        scale: float = 1.0,
        where: tuple[str, str] | None = None,
    ) -> Iterator[Measure]:
        """Growth a second of a cumulative column (or a sum of such); nothing where there is none."""
        if not set(column.split(" + ")) <= self._columns.get(table, set()):
            return
        subject = "" if where is None else where[1]
        only = "" if where is None else f"WHERE {where[0]} = '" + subject.replace("'", "''") + "'"
        steps = f"""
            SELECT (({column}) - lag({column}) OVER w) * {scale!r} * 1e9 AS grown,
                   t_ns - lag(t_ns) OVER w AS spent
            FROM {table} {only} WINDOW w AS (ORDER BY t_ns)"""
        steps = (
            f"SELECT grown / 1e9 AS grown, spent / 1e9 AS spent FROM ({steps}) WHERE spent > 0 AND grown >= 0"
        )
        yield from self._measure(resource, subject, what, unit, steps)

    def _gauge(self, resource: str, what: str, unit: str, column: str) -> Iterator[Measure]:
        if column in self._columns.get("host", ()):
            yield from self._measure(
                resource, "", what, unit, f"SELECT {column} AS grown, 1 AS spent FROM host"
            )

    def _measure(
        self, resource: str, subject: str, what: str, unit: str, steps: str, scale: float = 1.0
    ) -> Iterator[Measure]:
        """Measures of steps (grown, spent); a quantity that never was anything but zero is told only of the host."""
        figures = self._one(
            f"SELECT sum(grown) / sum(spent), quantile_cont(grown / spent, 0.95), max(grown / spent) FROM ({steps})"
        )
        if figures[0] is None or (subject and not figures[2]):
            return
        mean, p95, most = (float(value) * scale for value in figures)
        yield Measure(resource, subject, what, unit, mean, p95, most)

    # The processes

    def _top(self, seconds: float) -> Iterator[tuple[str, tuple[Consumer, ...]]]:
        rate = 1 / seconds if seconds > 0 else 0.0
        yield "cpu", self._consumers("sum(user_ns + system_ns)", rate / NS_PER_S)
        yield "run_delay", self._consumers("sum(run_delay_ns)", rate / NS_PER_S)
        yield "io", self._consumers("sum(read_bytes + write_bytes)", rate)
        # A process's mean resident set, for as long as it was there: what the name held at any time, on the average.
        yield "memory", self._consumers("sum(held)", rate / NS_PER_S)

    def _consumers(self, value: str, scale: float) -> tuple[Consumer, ...]:
        """Names with the largest sums; `value` is over processes, each with what it used in all."""
        inner = ", ".join(f"sum({c}) AS {c}" for c in _SUMMED)
        rows = self._db.execute(
            f"""
            WITH ended AS (
                SELECT pid, start_ns, max(t_ns) AS ended_ns FROM process WHERE event = 2 GROUP BY pid, start_ns
            ), used AS (
                SELECT pid, start_ns, last(name ORDER BY t_ns) AS name, {inner}, min(t_ns) AS seen_ns,
                       avg(rss_bytes) AS rss, max(busiest_thread_ns / nullif(interval_ns, 0)) AS thread
                FROM process_use GROUP BY pid, start_ns
            ), each AS (
                SELECT used.*, rss * (coalesce(ended_ns, {self._end_ns}) - seen_ns) AS held
                FROM used LEFT JOIN ended USING (pid, start_ns)
            )
            SELECT name, count(*), {value} AS value, max(thread) FROM each
            GROUP BY name HAVING value > 0 ORDER BY value DESC, name LIMIT {TOP}
            """
        ).fetchall()
        return tuple(
            Consumer(
                str(name),
                int(count),
                float(total) * scale,
                None if thread is None else min(1.0, float(thread)),
            )
            for name, count, total, thread in rows
        )

    def _lateness(self) -> Lateness | None:
        if "lateness_ns" not in self._columns.get("host", ()):
            return None
        figures = self._one(
            "SELECT quantile_disc(lateness_ns, 0.5), quantile_disc(lateness_ns, 0.99), max(lateness_ns) FROM host"
        )
        return None if figures[0] is None else Lateness(*(int(value) for value in figures))
