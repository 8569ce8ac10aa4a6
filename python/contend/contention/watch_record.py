"""A watch on disk: its rows as series, and what else it takes to say of them later what was said at the end.

    recording.json     what was asked, and where the figures came from: written first, and again at the end
    environment.json   the machine
    series/*.parquet   the probe's tables: blame and blame_total; process and process_use without BPF
    watch.json         the document; report.html the page

`contend sql`, `report` and `export` work on it. A disk that is full ends the series with a warning, not the watch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import duckdb

from contend.contention.groups import Namer
from contend.contention.watch import Watched
from contend.errors import HostFailed
from contend.probes.base import Cost
from contend.probes.series import SeriesWriter
from contend.store.directory import SCHEMA_VERSION, WATCH_FILE, RunDirectory
from contend.store.series import open_series, read_series

if TYPE_CHECKING:
    from contend.probes.base import Coded, Table

TICKS = 256  # read back at a time
_TABLES = {"blame": ("blame", "blame_total"), "correlation": ("process_use",)}


class WatchRecord:
    """Writes one. `told` is what else `contend report` needs: see `cli/watch_.py`."""

    def __init__(self, run: RunDirectory, told: Mapping[str, Any], warn: Callable[[str], None]) -> None:
        """Open an empty directory. Raises HostFailed where it cannot be written to."""
        self._run, self._warn = run, warn
        self._told = {"schema_version": SCHEMA_VERSION, **told}
        self._writer: SeriesWriter | None = SeriesWriter(run.series)

    def keep(self, tables: Mapping[str, Coded]) -> None:
        """Rows of one drain."""
        if self._writer is None:
            return
        try:
            self._writer.add(tables)
        except HostFailed as error:
            self._give_up(error)

    def begin(self, watched: Watched) -> None:
        """Write recording.json, so that a watch that is killed can be read. Raises HostFailed."""
        self._told |= {
            "kind": watched.kind,
            "by": watched.by,
            "interval_ns": watched.interval_ns,
            "source": watched.source,
            "note": watched.note,
            "began_ns": watched.last_ns,
        }
        self._run.write_json(WATCH_FILE, self._told)

    def close(self, watched: Watched) -> None:
        """All rows on disk, and what the watch cost."""
        if self._writer is not None:
            try:
                self._writer.close()
            except HostFailed as error:
                self._give_up(error)
        self._told |= {
            "cost": dataclasses.asdict(watched.cost),
            "loading_ns": watched.loading_ns,
            "names": watched.namer.by_pid,
            "machines": sorted(watched.namer.machines),
        }
        try:
            self._run.write_json(WATCH_FILE, self._told)
        except HostFailed as error:
            self._give_up(error)

    def _give_up(self, error: HostFailed) -> None:
        self._writer = None
        self._warn(f"warning: the recording ends here: {error.message}\n  hint: {error.hint}")


def read_watched(run: RunDirectory) -> Watched:
    """The watch as it was, from its rows. Raises BadInput for a directory that is none."""
    return read_series(run.series, lambda: _read_watched(run))


def _read_watched(run: RunDirectory) -> Watched:
    told = run.watch()
    watched = Watched(told["kind"], told["by"], told["interval_ns"], told["source"], told["note"])
    watched.last_ns = told["began_ns"]
    watched.namer = Namer(dict(told.get("names", {})), set(told.get("machines", ())), asks=False)
    watched.cost = Cost(**told.get("cost", {"cpu_ns": 0, "samples": 0}))
    watched.loading_ns = told.get("loading_ns", 0)
    with duckdb.connect() as connection:
        found = [name for name in open_series(connection, run.series) if name in _TABLES[watched.kind]]
        if found:
            for part in _parts(connection, found):
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
