"""The recording beside a trace: the host's timelines and what each traced process used, as counters.

Both are on CLOCK_MONOTONIC. A recording of another boot or host is put on the trace's clock by the time of day.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from contend.report.counters import EVERY_SAMPLE, Own, Trial, chrome_events, perfetto, read_trials
from contend.report.sample_series import SampleLines, read_sample
from contend.store.directory import SAMPLE_FILE, WATCH_FILE, RunDirectory
from contend.store.series import open_series, read_series
from contend.units import NS_PER_S

SAME_BOOT_NS = NS_PER_S  # as for trace files: what setting a clock right moves it by while a machine runs
# A process began at this moment for two sources that round the kernel's time differently (its tick is 10 ms).
SAME_START_NS = 20_000_000
_FIRST_UUID = 1 << 40  # above all that a trace has
_HOST_PID = (1 << 31) - 1  # in Chrome's JSON the host is a process; downwards, one a recording
_JSON_END = b"\n]}\n"

_GAUGE = "memory"  # what a process has whether it does anything or not
# Counter: its unit, and its value out of a row of process_use.
_OWN: Mapping[str, tuple[str, str]] = {
    "CPU use": ("CPUs", "(user_ns + system_ns) / interval_ns"),
    "run delay": ("threads waiting", "run_delay_ns / interval_ns"),
    _GAUGE: ("MiB", "rss_bytes / 1048576"),
    "disk": ("MB/s", "(read_bytes + write_bytes) * 1e3 / interval_ns"),
}


def boot_ns(run: RunDirectory) -> int:
    """The time at which the host's CLOCK_MONOTONIC began, ns since 1970; 0 where the recording does not say."""
    for name in (SAMPLE_FILE, WATCH_FILE):
        if (run.path / name).is_file():
            recording = run.sample() if name == SAMPLE_FILE else run.watch()
            return _boot(recording.get("began_ns"), recording.get("began_utc"))
    for row in run.rows():
        if boot := _boot(row.get("started_ns"), row.get("utc")):
            return boot
    return 0


def _boot(t_ns: object, utc: object) -> int:
    if not isinstance(t_ns, int) or not isinstance(utc, str) or not utc:
        return 0
    try:
        return round(datetime.fromisoformat(utc).timestamp() * NS_PER_S) - t_ns
    except (ValueError, OverflowError):  # of a row that says no moment
        return 0


def _same_boot(one: int, other: int) -> bool:
    """As far as is known."""
    return not one or not other or abs(one - other) <= SAME_BOOT_NS


def append_recordings(
    part: Path, form: str, runs: Sequence[RunDirectory], files: Mapping[str, Any], began_ns: int
) -> list[str]:
    """Add recordings to an exported trace. Returns a sentence for each that could not be added.

    `files`: the columns of the trace's processes; `began_ns`: when its clock began (`boot_ns`), 0 where unknown.
    """
    problems: list[str] = []
    for number, run in enumerate(runs):
        boot = boot_ns(run)
        shift = 0 if _same_boot(boot, began_ns) else boot - began_ns
        lines, trials = moved(
            read_series(run.series, partial(read_sample, run.series, EVERY_SAMPLE)), read_trials(run), shift
        )
        if not lines.charts and not trials:
            problems.append(f"'{run.path}' holds no timelines")
            continue
        own = list(own_counters(run, boot, files))
        if shift:
            problems.append(
                f"'{run.path}' is of another boot or host: put beside the trace by the time of day"
            )
        if form == "perfetto":
            with part.open("ab") as file:
                file.write(perfetto(lines, run.id, trials, own, _FIRST_UUID * (number + 1)))
        else:
            events = chrome_events(lines, run.id, trials, own, _HOST_PID - number)
            _append_json(part, events)
    return problems


def moved(lines: SampleLines, trials: list[Trial], shift: int) -> tuple[SampleLines, list[Trial]]:
    """Move lines and trials by `shift` ns."""
    return (
        replace(lines, origin_ns=lines.origin_ns + shift),
        [t._replace(start_ns=t.start_ns + shift, end_ns=t.end_ns + shift) for t in trials],
    )


def _append_json(part: Path, events: Iterator[dict[str, object]]) -> None:
    """Before the end of the document, which has events already."""
    with part.open("r+b") as file:
        file.seek(-len(_JSON_END), 2)
        assert file.read() == _JSON_END
        file.seek(-len(_JSON_END), 2)
        file.truncate()
        for event in events:
            file.write(b",\n" + json.dumps(event, separators=(",", ":")).encode())
        file.write(_JSON_END)


def own_counters(run: RunDirectory, boot: int, files: Mapping[str, Any]) -> Iterator[Own]:
    """Counters of each process that is both traced and sampled: what it used in each interval, drawn at its middle."""
    with duckdb.connect() as connection:
        columns = open_series(connection, run.series).get("process_use", set())
        if not {"pid", "start_ns", "interval_ns"} <= columns:
            return
        processes = zip(*(files[key] for key in ("pid", "shown_pid", "start_ns", "boot_ns")), strict=True)
        drawn: set[tuple[int, int]] = set()
        for track, (pid, shown, start_ns, booted) in enumerate(processes, start=1):
            # It may have executed another program: the counters are the process's.
            if (shown, start_ns) in drawn or not _same_boot(boot, booted):
                continue
            drawn.add((shown, start_ns))
            rows = _rows(connection, pid, start_ns)
            for at, (name, (unit, _)) in enumerate(_OWN.items(), start=2):
                own = [(row[0], row[1], row[at]) for row in rows]
                points = list(_steps(own, idle_is_zero=name != _GAUGE))
                if any(value for _, value in points):
                    yield Own(shown, track, name, unit, points)


def _rows(connection: duckdb.DuckDBPyConnection, pid: int, start_ns: int) -> list[tuple[Any, ...]]:
    values = ", ".join(f"({value})::DOUBLE" for _, value in _OWN.values())
    return connection.execute(
        f"""SELECT t_ns, interval_ns, {values} FROM process_use
            WHERE pid = {pid} AND abs(start_ns::BIGINT - {start_ns}) <= {SAME_START_NS} AND interval_ns > 0
            ORDER BY t_ns"""
    ).fetchall()


def _steps(
    rows: Sequence[tuple[int, int, float]], *, idle_is_zero: bool = True
) -> Iterator[tuple[int, float]]:
    """A point an interval; who did nothing has no row, and used nothing until the next.

    >>> list(_steps([(100, 10, 0.5), (110, 10, 1.0), (200, 10, 0.25)]))
    [(95, 0.5), (105, 1.0), (115, 0.0), (195, 0.25)]
    """
    ended = None
    for t_ns, interval_ns, value in rows:
        middle = t_ns - interval_ns // 2
        if idle_is_zero and ended is not None and t_ns - interval_ns > ended + interval_ns // 4:
            yield ended + interval_ns // 2, 0.0
        ended = t_ns
        yield middle, float(f"{value:.4g}")
