"""All directories below one place, in DuckDB: read once, and again only where one has changed.

A refresh lists the place, and each directory in it, and opens no file of one that is as it was. The database is in memory
and cannot touch files. Nothing is ever written there; what was read is kept in the user's cache for the next start (`kept`).
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import duckdb

from contend.analysis.comparisons import tabulate
from contend.analysis.two_runs import UNREADABLE
from contend.serve import files, kept, reading
from contend.serve.files import Fingerprint
from contend.serve.reading import FOREIGN, RUN, RUNNING, Entry
from contend.stats.estimate import Estimate
from contend.stats.levels import METHOD
from contend.store.directory import RunDirectory
from contend.store.rows import latest

PAGE = 50
RECENT = 20  # runs in a sparkline
MANY, SAVE_S = (
    50,
    60.0,
)  # directories that changed, after which the list is kept anew; or so long after the last time
RUNS = {
    "name": "VARCHAR", "kind": "VARCHAR", "study": "VARCHAR", "scenario": "VARCHAR", "question": "VARCHAR",
    "host": "VARCHAR", "host_name": "VARCHAR", "began": "VARCHAR", "text": "VARCHAR", "whole": "BOOLEAN",
    "title": "VARCHAR", "state": "VARCHAR", "size_bytes": "BIGINT", "blocks": "BIGINT", "version": "VARCHAR",
}  # fmt: skip
LEVELS = {
    "run": "VARCHAR", "cell": "VARCHAR", "metric": "VARCHAR", "unit": "VARCHAR", "better": "VARCHAR", "n": "BIGINT",
    "value": "DOUBLE", "low": "DOUBLE", "high": "DOUBLE", "level": "DOUBLE", "verdict": "VARCHAR", "flagged": "BIGINT",
    "headline": "BOOLEAN",
}  # fmt: skip
_RUN = "case when began = '' then name else began end"
"""What copies of a run share: when it began, to the millisecond."""
ORDERS = {
    "when": "began desc, name desc",
    "title": "lower(title), began desc",
    "host": "host_name, began desc",
    "blocks": "blocks desc nulls last, began desc",
    "size": "size_bytes desc",
    "state": "state, began desc",
}


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of the list; "" asks for nothing. since and until are days, YYYY-MM-DD, both included, UTC."""

    study: str = ""
    scenario: str = ""
    host: str = ""
    metric: str = ""
    text: str = ""
    since: str = ""
    until: str = ""
    order: str = "when"
    page: int = 1

    @property
    def narrowed(self) -> bool:
        given = (self.study, self.scenario, self.host, self.metric, self.text, self.since, self.until)
        return any(given)


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of the list: its entries, how many there are in all, and what can be chosen."""

    entries: tuple[Entry, ...]
    matches: int
    total: int
    choices: Mapping[str, Sequence[tuple[str, str]]]  # by name of the filter: value and label
    wrong: str = ""  # why the place itself could not be listed

    @property
    def pages(self) -> int:
        return max(1, -(-self.matches // PAGE))


@dataclass(frozen=True, slots=True)
class SessionLevel:
    """One run's level of one metric of one cell. `flagged` counts values whose surroundings were contaminated."""

    entry: Entry
    estimate: Estimate
    better: str
    flagged: int


@dataclass(frozen=True, slots=True)
class Sessions:
    """Runs of one question on one host, oldest first; `unread` are those without that figure, and why."""

    levels: tuple[SessionLevel, ...]
    unread: tuple[tuple[Entry, str], ...]


@dataclass(frozen=True, slots=True)
class Recent:
    """The values of one figure in the last runs of a question on a host, oldest first."""

    cell: str
    metric: str
    unit: str
    values: tuple[float, ...]


@dataclass
class _Known:
    fingerprint: Fingerprint
    entry: Entry
    levelled: bool = False
    unreadable: str = ""


@dataclass
class Index:
    """Index of the directories in `folder`. Safe to be used from several threads. keep: from one process to the
    next."""

    folder: Path
    keep: bool = False
    _known: dict[str, _Known] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _wrong: str = ""
    _unsaved: int = 0
    _saved_at: float = 0.0
    _db: Any = None

    def __post_init__(self) -> None:
        config = {
            "enable_external_access": "false",
            "threads": "1",
        }  # it is handed rows, and reads no file itself
        self._db = duckdb.connect(":memory:", config=config)  # type: ignore[arg-type]
        for table, columns in (("runs", RUNS), ("levels", LEVELS)):
            self._db.execute(f"create table {table} ({', '.join(f'{k} {v}' for k, v in columns.items())})")
        self._db.execute("create table metrics (run VARCHAR, metric VARCHAR)")
        if self.keep:
            before = kept.load(self.folder)
            self._known = {name: _Known(of.fingerprint, of.entry) for name, of in before.items()}
            self._replace([], [of.entry for of in before.values()])

    def close(self) -> None:
        with self._lock:
            if self._unsaved:
                self._save()
            self._db.close()

    def refresh(self) -> None:
        """Take up directories that appeared, changed or went. A folder that cannot be listed any more counts as empty,
        and says so."""
        with self._lock:
            try:
                listed = {p.name for p in self.folder.iterdir() if _is_name(p.name) and _shown(p)}
                names = {name for name in listed if name.isprintable()}
                odd = len(listed - names)
                self._wrong = f"{odd} of a name that cannot be shown" if odd else ""
            except OSError as error:
                names, self._wrong = set(), f"cannot list {self.folder}: {error.strerror}"
            gone = [name for name in self._known if name not in names]
            changed = [entry for name in sorted(names) if (entry := self._look(name)) is not None]
            if gone or changed:
                self._replace(gone, changed)
                self._unsaved += len(gone) + len(changed)
            # Runs that go on change all the time: what is read of those costs little to read again.
            if self._unsaved >= MANY or (self._unsaved and time.monotonic() - self._saved_at > SAVE_S):
                self._save()

    def _save(self) -> None:
        self._unsaved, self._saved_at = 0, time.monotonic()
        if self.keep:
            kept.save(self.folder, {n: kept.Kept(k.fingerprint, k.entry) for n, k in self._known.items()})

    def entry(self, name: str) -> Entry | None:
        """One directory as it is now; None where there is none."""
        with self._lock:
            if not (_is_name(name) and name.isprintable() and _shown(self.folder / name)):
                if name in self._known:
                    self._replace([name], [])
                return None
            if (changed := self._look(name)) is not None:
                self._replace([], [changed])
            known = self._known.get(name)
            return None if known is None else known.entry

    def page(self, query: Filter) -> Listing:
        """The page of the list that a filter selects, after a refresh."""
        with self._lock:
            self.refresh()
            where, values = _where(query)
            order = ORDERS.get(query.order, ORDERS["when"])
            matches = self._db.execute(f"select count(*) from runs {where}", values).fetchone()[0]
            offset = (max(1, query.page) - 1) * PAGE
            names = self._db.execute(
                f"select name from runs {where} order by {order} limit {PAGE} offset {offset}", values
            ).fetchall()
            entries = tuple(self._known[name].entry for (name,) in names)
            return Listing(entries, int(matches), len(self._known), self._choices(), self._wrong)

    def alike(self, entry: Entry) -> tuple[Entry, ...]:
        """Runs of the same question on the same host as a run, itself included, oldest first."""
        with self._lock:
            self.refresh()
            names = self._db.execute(
                "select name from runs where kind = ? and question = ? and host = ? and question <> '' order by began, name",
                [RUN, entry.question, entry.host],
            ).fetchall()
            return tuple(self._known[name].entry for (name,) in names)

    def groups(self) -> tuple[tuple[Entry, int], ...]:
        """The newest run of each question and host, and how many runs that has; the largest first."""
        with self._lock:
            self.refresh()
            rows = self._db.execute(
                f"select arg_max(name, (began, name)), count(distinct {_RUN}) from runs where whole group by question, host"
                " order by 2 desc, 1"
            ).fetchall()
            return tuple((self._known[name].entry, int(count)) for name, count in rows)

    def sessions(self, question: str, host: str, cell: str, metric: str) -> Sessions:
        """Levels of one metric of one cell, over the runs of a question on a host, each once however often it was
        copied. Rows of a run are read once.
        """
        with self._lock:
            self.refresh()
            rows = self._db.execute(
                "select name from runs where whole and question = ? and host = ? order by began, name",
                [question, host],
            ).fetchall()
            names = [name for (name,) in rows]
            self._level(names)
            wanted = self._db.execute(
                f"select {', '.join(LEVELS)} from levels where cell = ? and metric = ? and list_contains(?, run)",
                [cell, metric, names],
            ).fetchall()
            by_run = {row[0]: dict(zip(LEVELS, row, strict=True)) for row in wanted}
            once: dict[str, str] = {}  # names by run: the first of its copies that can be read
            for name in names:
                if name in by_run:
                    once.setdefault(self._known[name].entry.began or name, name)
            levels = tuple(_session(self._known[name].entry, by_run[name]) for name in once.values())
            unread = tuple(
                (self._known[name].entry, self._known[name].unreadable or f"it has no {metric} of {cell}")
                for name in names
                if name not in by_run
            )
            return Sessions(levels, unread)

    def recent(self, entry: Entry) -> tuple[Recent, ...]:
        """Each figure of a run over the last runs up to it, where there are two or more; its headline figure first."""
        with self._lock:
            if not (entry.whole and entry.question and entry.name in self._known):
                return ()
            rows = self._db.execute(
                "select arg_min(name, (name <> ?, name)) from runs where whole and question = ? and host = ?"
                f" and (began, name) <= (?, ?) group by {_RUN}, began order by began desc, max(name) desc limit {RECENT}",
                [entry.name, entry.question, entry.host, entry.began, entry.name],
            ).fetchall()
            names = [name for (name,) in reversed(rows)]
            if len(names) < 2:
                return ()
            self._level(names)
            wanted = self._db.execute(
                "select run, cell, metric, unit, headline, value from levels where list_contains(?, run) order by rowid",
                [names],
            ).fetchall()
        series: dict[tuple[str, str], dict[str, float]] = {}
        own: dict[tuple[str, str], tuple[str, bool]] = {}
        for run, cell, metric, unit, headline, value in wanted:
            series.setdefault((cell, metric), {})[run] = value
            if run == entry.name:
                own[cell, metric] = unit, headline
        controls = {cell.id for cell in entry.cells if cell.control}
        ranked = sorted(own, key=lambda key: (key[0] in controls, not own[key][1]))
        figures = (
            Recent(*key, own[key][0], tuple(series[key][name] for name in names if name in series[key]))
            for key in ranked
        )
        return tuple(one for one in figures if len(one.values) > 1)

    def figures(self, entry: Entry) -> list[tuple[str, str]]:
        """Cell and metric of everything that a run has values of."""
        with self._lock:
            if not entry.whole or entry.name not in self._known:
                return []
            self._level([entry.name])
            figures = self._db.execute(
                "select cell, metric from levels where run = ?", [entry.name]
            ).fetchall()
            return [(str(cell), str(metric)) for cell, metric in figures]

    def _look(self, name: str) -> Entry | None:
        """The directory as it is now, if it is not as it was."""
        known = self._known.get(name)
        try:
            with files.opened(self.folder, name) as directory:
                now = files.fingerprint(directory)
            if known is not None and known.fingerprint == now and not self._stirred(known.entry):
                return None
            entry = reading.read(self.folder, name)
        except OSError as error:
            why = (
                "a link, which is not followed"
                if (self.folder / name).is_symlink()
                else error.strerror or str(error)
            )
            now, entry = ((name, 0, 0, 0),), Entry(name, FOREIGN, wrong=(f"it cannot be read: {why}",))
            if known is not None and known.entry == entry:
                return None
        self._known[name] = _Known(now, entry)
        return entry

    def _stirred(self, entry: Entry) -> bool:
        """True if a run has ended, or was taken up, without a file that says so."""
        return entry.unsettled and reading.is_run_by_somebody(self.folder, entry.name) != (
            entry.state == RUNNING
        )

    def _replace(self, gone: Sequence[str], changed: Sequence[Entry]) -> None:
        stale = [*gone, *(entry.name for entry in changed)]
        for table, key in (("runs", "name"), ("metrics", "run"), ("levels", "run")):
            self._db.execute(f"delete from {table} where list_contains(?, {key})", [stale])
        for name in gone:
            self._known.pop(name, None)
        self._insert("runs", RUNS, [{key: getattr(entry, key) for key in RUNS} for entry in changed])
        rows = [{"run": entry.name, "metric": metric} for entry in changed for metric in entry.metrics]
        self._insert("metrics", {"run": "VARCHAR", "metric": "VARCHAR"}, rows)

    def _insert(self, table: str, columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> None:
        """All rows in one statement: one a row takes a thousand times as long."""
        if rows:
            shape = json.dumps([dict(columns)])
            text = json.dumps(rows, allow_nan=False)
            self._db.execute(
                f"insert into {table} select {', '.join(columns)} from"
                f" (select unnest(from_json(?::JSON, '{shape}'), recursive := true))",
                [text],
            )

    def _level(self, names: Sequence[str]) -> None:
        """Levels of all that these runs measured, from their rows, of those that have none yet."""
        rows = []
        for name in names:
            known = self._known[name]
            if not known.levelled:
                known.levelled = True
                try:
                    rows += _levels(self.folder / name)
                except UNREADABLE as error:
                    lines = str(error).splitlines() or [repr(error)]
                    known.unreadable = f"its rows cannot be read: {lines[0]}"
        self._insert("levels", LEVELS, rows)

    def _choices(self) -> dict[str, list[tuple[str, str]]]:
        def distinct(sql: str) -> list[tuple[str, str]]:
            return [(str(a), str(b)) for a, b in self._db.execute(sql).fetchall()]

        return {
            "study": distinct("select distinct study, study from runs where study <> '' order by 1"),
            "scenario": distinct(
                "select distinct scenario, scenario from runs where scenario <> '' order by 1"
            ),
            "host": distinct("select distinct host, host_name from runs where host <> '' order by 2"),
            "metric": distinct("select distinct metric, metric from metrics order by 1"),
        }


def _shown(path: Path) -> bool:
    """Directories, and links to some: those are listed as what is not followed."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _is_name(name: str) -> bool:
    return bool(name) and not name.startswith(".") and "/" not in name and "\0" not in name


def _where(query: Filter) -> tuple[str, list[Any]]:
    clauses: list[str] = []
    values: list[Any] = []
    for column in ("study", "scenario", "host"):
        if wanted := getattr(query, column):
            clauses.append(f"{column} = ?")
            values.append(wanted)
    if query.metric:
        clauses.append("exists (select 1 from metrics m where m.run = runs.name and m.metric = ?)")
        values.append(query.metric)
    for word in query.text.lower().split():
        clauses.append("contains(text, ?)")
        values.append(word)
    if query.since:
        clauses.append("substr(began, 1, 10) >= ?")
        values.append(query.since)
    if query.until:
        clauses.append("substr(began, 1, 10) <= ? and began <> ''")
        values.append(query.until)
    return ("where " + " and ".join(clauses) if clauses else ""), values


def _levels(run: Path) -> list[dict[str, Any]]:
    """A row for each metric of each cell, as DuckDB keeps it: an end that an interval does not have is none.

    Raises UNREADABLE for rows that are none of a run's.
    """
    rows = RunDirectory(run).rows()
    if any("host" in row for row in rows):
        return []  # of several hosts, which are not pooled: each is a run by itself
    table = tabulate(row for row in latest(rows) if row["phase"] == "counted")
    levels = []
    for cell, of in table.items():
        for metric, series in of.items():
            e = series.level(0.95).estimate
            known = e.verdict == "level"
            if not math.isfinite(
                e.value
            ):  # of a file that others wrote: no figure, as where it is not at all
                continue
            levels.append(
                {
                    "run": run.name, "cell": _clean(cell), "metric": _clean(metric), "unit": _clean(e.unit),
                    "better": _clean(series.info.better), "n": e.n, "value": e.value, "low": e.low if known else None,
                    "high": e.high if known else None, "level": e.level, "verdict": e.verdict,
                    "flagged": len(series.flagged), "headline": series.info.primary,
                }
            )  # fmt: skip
    return levels


def _clean(text: str) -> str:
    """Without what the database cannot hold: half characters and NUL. Raises TypeError for what is no text."""
    if not isinstance(text, str):
        raise TypeError(f"{text!r} is no name")
    return text.encode("utf-8", "replace").decode().replace("\0", "")


def _session(entry: Entry, row: Mapping[str, Any]) -> SessionLevel:
    low = -float("inf") if row["low"] is None else row["low"]
    high = float("inf") if row["high"] is None else row["high"]
    estimate = Estimate(row["value"], low, high, row["unit"], row["n"], row["level"], METHOD, row["verdict"])
    return SessionLevel(entry, estimate, row["better"], row["flagged"])


FILTERS = tuple(f.name for f in fields(Filter))
