"""A watch on disk: its rows as series, and what else it takes to say of them later what was said at the end.

    recording.json     what was asked, and where the figures came from: written first, and again at the end
    environment.json   the machine
    series/*.parquet   the probe's tables: blame and blame_total; process, process_use and cgroup_use without BPF
    watch.json         the document; report.html the page

`contend sql`, `report` and `export` work on it. A disk that is full ends the series with a warning, not the watch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import duckdb

from contend.contention.groups import Namer, matches
from contend.contention.watch import Watched
from contend.errors import HostFailed
from contend.probes.base import Cost
from contend.probes.series import SeriesWriter
from contend.store.directory import SCHEMA_VERSION, WATCH_FILE, RunDirectory
from contend.store.series import open_series, read_series

if TYPE_CHECKING:
    from contend.probes.base import Coded, Table

TICKS = 256  # read back at a time
_TABLES = {"blame": ("blame", "blame_total"), "correlation": ("process_use", "cgroup_use")}


class WatchRecord:
    """Writer of a watch's rows and recording.json. `about`: what else `contend report` needs (see `cli/watch_.py`)."""

    def __init__(self, run: RunDirectory, about: Mapping[str, Any], warn: Callable[[str], None]) -> None:
        """Open an empty directory. Raises HostFailed where it cannot be written to."""
        self._run, self._warn = run, warn
        self._document = {"schema_version": SCHEMA_VERSION, **about}
        self._writer: SeriesWriter | None = SeriesWriter(run.series)

    def keep(self, tables: Mapping[str, Coded]) -> None:
        """Write the rows of one drain."""
        if self._writer is None:
            return
        try:
            self._writer.add(tables)
        except HostFailed as error:
            self._give_up(error)

    def begin(self, watched: Watched) -> None:
        """Write recording.json, so that a watch that is killed can be read. Raises HostFailed."""
        self._document |= {
            "kind": watched.kind,
            "by": watched.by,
            "interval_ns": watched.interval_ns,
            "source": watched.source,
            "note": watched.note,
            "began_ns": watched.last_ns,
            "cpus": watched.cpus,
        }
        self._run.write_json(WATCH_FILE, self._document)

    def close(self, watched: Watched) -> None:
        """Write all rows that are left, and what the watch cost."""
        if self._writer is not None:
            try:
                self._writer.close()
            except HostFailed as error:
                self._give_up(error)
        self._document |= {
            "cost": dataclasses.asdict(watched.cost),
            "loading_ns": watched.loading_ns,
            "names": watched.namer.by_pid,
            "machines": sorted(watched.namer.machines),
            "niced": watched.namer.niced,
        }
        try:
            self._run.write_json(WATCH_FILE, self._document)
        except HostFailed as error:
            self._give_up(error)

    def _give_up(self, error: HostFailed) -> None:
        self._writer = None
        self._warn(f"warning: the recording ends here: {error.message}\n  hint: {error.hint}")


def scoped(record: Mapping[str, Any], watched: Watched) -> Callable[[str], bool]:
    """Choose the victims that are shown, judged and tried: those in the scope that was given. Machines may be found while it
    goes on."""
    scope, machines = str(record.get("scope", "")), record.get("asked_by") == "vm"

    def keep(name: str) -> bool:
        return (not scope or matches(scope, name)) and (not machines or name in watched.namer.machines)

    return keep


def read_watched(run: RunDirectory) -> Watched:
    """Read a watch from its rows. Raises BadInput for a directory that is none."""
    return read_series(run.series, lambda: _read_watched(run))


def _read_watched(run: RunDirectory) -> Watched:
    record = run.watch()
    watched = Watched(record["kind"], record["by"], record["interval_ns"], record["source"], record["note"])
    watched.last_ns = record["began_ns"]
    if isinstance(cpus := record.get("cpus"), int) and cpus > 0:  # a recording of an earlier version has none
        watched.cpus = cpus
    watched.namer = Namer(
        dict(record.get("names", {})),
        set(record.get("machines", ())),
        dict(record.get("niced", {})),
        asks=False,
    )
    watched.cost = Cost(**record.get("cost", {"cpu_ns": 0, "samples": 0}))
    watched.loading_ns = record.get("loading_ns", 0)
    with duckdb.connect() as connection:
        names = [name for name in open_series(connection, run.series) if name in _TABLES[watched.kind]]
        if names:
            for part in _parts(connection, names):
                for _ in watched.take(part):
                    pass  # all it has to do is to be added
    return watched


def _parts(connection: duckdb.DuckDBPyConnection, tables: list[str]) -> Iterator[dict[str, Table]]:
    """The rows of so many ticks at a time: a day of them need not be in memory at once."""
    every = " UNION ".join(f"SELECT t_ns FROM {name}" for name in tables)
    ticks = [int(row[0]) for row in connection.execute(f"SELECT t_ns FROM ({every}) ORDER BY 1").fetchall()]
    for at in range(0, len(ticks), TICKS):
        first, last = ticks[at], ticks[min(at + TICKS, len(ticks)) - 1]
        within = f"WHERE t_ns BETWEEN {first} AND {last}"
        yield {
            name: connection.execute(f"SELECT * FROM {name} {within} ORDER BY t_ns").fetchnumpy()
            for name in tables
        }
