"""How long the tasks of each cell waited for a CPU and ran at a stretch: scheduler histograms, trial by trial.

From a run's series of histograms by control group (`contend sample --sched cgroup` has the same of a whole host). A party
has groups of its own, and does nothing in them between its trials, so that a sample is of the trial that went on in its
interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from contend.store.series import open_series
from contend.text.shape import Count, Shape, Through

WITHIN = (
    2**0.125 - 1
)  # how far a quantile may be off: buckets are a quarter of a doubling, and it is told by their middle


def _pairs(counts: Mapping[str, Mapping[int, int]]) -> dict[str, list[tuple[Count, Count]]]:
    return {kind: sorted(of.items()) for kind, of in counts.items()}


@dataclass(frozen=True, slots=True)
class CellSchedule(Shape):
    """How long a cell's tasks ran and waited for a CPU: all its counted trials together. Absent without histograms.

    `counts` are by kind {lower edge of the bucket in ns: count}.
    """

    cell: str
    factors: Mapping[str, str]
    trials: Annotated[Count, "counted trials that were seen"]
    window_ns: Annotated[Count, "time of these trials"]
    on_cpu_ns: Annotated[Count, "of all tasks together, like the next"]
    run_queue_ns: Annotated[Count, "runnable without a CPU"]
    switches: Count
    migrations: Count
    counts: Annotated[
        Mapping[str, Mapping[int, int]],
        Through(_pairs),
        "by kind (on_cpu, off_cpu, run_queue): [least ns of a bucket, how many times were that long]",
    ]

    def quantile_ns(self, kind: str, share: float) -> float | None:
        """Quantile of the histogram of that kind, ns, within 9 %; None where it is empty.

        >>> counts = {"run_queue": {0: 50, 1024: 49, 1048576: 1}}
        >>> of = CellSchedule("x", {}, 1, 10**9, 1, 1, 100, 0, counts)
        >>> of.quantile_ns("run_queue", 0.5), round(of.quantile_ns("run_queue", 0.99)), of.quantile_ns("on_cpu", 0.5)
        (0.0, 1117, None)
        """
        buckets = sorted(self.counts.get(kind, {}).items())
        wanted, seen = share * sum(count for _, count in buckets), 0
        for edge, count in buckets:
            seen += count
            if seen >= wanted:
                return edge * (1 + WITHIN)
        return None

    def a_second(self, count: int) -> float:
        """Rate of a count per second of the trials."""
        return 1e9 * count / self.window_ns if self.window_ns else 0.0


def cell_schedules(rows: Iterable[Mapping[str, Any]], series: Path) -> tuple[CellSchedule, ...]:
    """Read one schedule for each cell whose trials were seen, in the order of first trials; none without histograms.

    rows: of trials.ndjson, the latest of each trial. series: the run's directory of them.
    """
    trials = [row for row in rows if row["status"] == "ok" and row["phase"] == "counted"]
    import duckdb

    with duckdb.connect() as database:
        tables = open_series(database, series)
        if not {"sched_hist", "sched_total"} <= tables.keys() or not trials:
            return ()
        rows_of_subjects = database.execute("SELECT DISTINCT subject FROM sched_total").fetchall()
        subjects = [str(row_of_subject[0]) for row_of_subject in rows_of_subjects]
        mine = [
            (int(row["trial"]), int(row["started_ns"]), int(row["ended_ns"]), subject)
            for row in trials
            for subject in _subjects(row["honoured"].get("groups", ()), subjects)
        ]
        if not mine:
            return ()
        database.execute("CREATE TABLE mine (number BIGINT, began BIGINT, ended BIGINT, subject VARCHAR)")
        database.executemany("INSERT INTO mine VALUES (?, ?, ?, ?)", mine)
        # Up to the sample in whose interval it ended; where two trials share one, it is the later one's.
        database.execute(
            """CREATE TABLE trial AS SELECT m.*, coalesce(s.t_ns, ended) AS until FROM mine m
            ASOF LEFT JOIN (SELECT DISTINCT t_ns FROM sched_total) s ON m.ended <= s.t_ns"""
        )
        of_trial = """FROM {} s ASOF JOIN trial ON s.subject = trial.subject AND s.t_ns > trial.began
            WHERE s.t_ns <= trial.until"""
        totals = database.execute(
            "SELECT number, sum(on_cpu_ns), sum(run_queue_ns), sum(switches), sum(migrations) "
            f"{of_trial.format('sched_total')} GROUP BY 1"
        ).fetchall()
        counts = database.execute(
            f"SELECT number, kind, bucket_ns, sum(count) {of_trial.format('sched_hist')} GROUP BY 1, 2, 3"
        ).fetchall()
    return _by_cell(trials, totals, counts)


def _subjects(groups: Sequence[str], known: Iterable[str]) -> list[str]:
    """The groups, of those with histograms, that are a workload's or below one of its own.

    groups: whole paths. known: paths below where version 2 is mounted, which may be another place on each host; its root
    holds everybody.

    >>> _subjects(["/sys/fs/cgroup/unified/a/b", "/sys/fs/cgroup/cpu/a/b"], ["/", "/a", "/a/b", "/a/b/c", "/a/bc"])
    ['/a/b', '/a/b/c']
    """
    own = []
    for subject in known:
        steps = subject.strip("/").split("/")
        above = ("/" + "/".join(steps[: n + 1]) for n in range(len(steps)))
        # A party's group has a name of its own; the ends of two paths are alike only where they are the same group.
        if (
            subject.startswith("/")
            and steps != [""]
            and any(g.endswith(path) for path in above for g in groups)
        ):
            own.append(subject)
    return own


def _by_cell(
    trials: Sequence[Mapping[str, Any]], totals: Iterable[Sequence[Any]], counts: Iterable[Sequence[Any]]
) -> tuple[CellSchedule, ...]:
    cell_of = {int(row["trial"]): str(row["cell"]) for row in trials}
    sums: dict[str, list[int]] = {}
    seen: dict[str, set[int]] = {}
    for number, *values in totals:
        cell = cell_of[number]
        seen.setdefault(cell, set()).add(number)
        before = sums.setdefault(cell, [0] * len(values))
        sums[cell] = [a + int(b) for a, b in zip(before, values, strict=True)]
    buckets: dict[str, dict[str, dict[int, int]]] = {}
    for number, kind, edge, count in counts:
        of = buckets.setdefault(cell_of[number], {}).setdefault(str(kind), {})
        of[int(edge)] = of.get(int(edge), 0) + int(count)
    schedules: dict[str, CellSchedule] = {}
    for row in trials:
        cell = str(row["cell"])
        if cell in sums and cell not in schedules:
            own = [r for r in trials if int(r["trial"]) in seen[cell]]
            window_ns = sum(int(r["ended_ns"]) - int(r["started_ns"]) for r in own)
            on_cpu, waited, switches, migrations = sums[cell]
            schedules[cell] = CellSchedule(
                cell,
                row["factors"],
                len(own),
                window_ns,
                on_cpu,
                waited,
                switches,
                migrations,
                buckets.get(cell, {}),
            )
    return tuple(schedules.values())
