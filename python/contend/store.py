"""One run, one directory. Readable without contend, portable, resumable.

    scenario.yaml      what was asked, resolved: mode 0600, and the only file in which secrets are not masked
    environment.json   the machine and the tools
    plan.json          cells, order, seed
    ledger.ndjson      what was made and removed (append, fsync)
    trials.ndjson      one row a trial (append, fsync, before the next trial starts)
    series/*.parquet   timelines of the host, written a block at a time
    hosts/HOST/*       of a fleet: what that host's part was made of, a run directory by itself
    hosts.json         of a fleet: how each host fared, and its clock
    outputs/TRIAL/*    files of a trial that its workload says are to stay
    findings.json      the analysis; report.html the page made from it

A recording of `contend sample` is a smaller one: sample.json (what was asked, how it ended), environment.json, series,
summary.json, report.html. One of `contend watch -o` has recording.json instead, and watch.json for its summary.

Crash guarantees: a row that `append` returned from is on the disk; a torn last line is cut off when the run
is opened again; whole files are written beside their name and renamed, so they are old or new, never half.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from contend import files
from contend.errors import BadInput, HostFailed, UnknownName
from contend.ledger import append_lines, is_locked, path_of, read_rows, truncate_torn_line
from contend.masking import mask_row, mask_value

SCHEMA_VERSION = 1
PLAN_FILE, SAMPLE_FILE, WATCH_FILE = "plan.json", "sample.json", "recording.json"
Row = dict[str, Any]


class RunDirectory:
    """Paths, whole files and trial rows of one run; knows nothing of what they mean."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.id = path.name
        self._trials = -1
        self._compact: tuple[object, tuple[Row, ...]] | None = None  # which state of the file, and its rows

    @classmethod
    def create(cls, parent: Path, name: str, stamp: str) -> RunDirectory:
        """A new directory NAME-STAMP below `parent`; a number is added when two runs start in one second."""
        for suffix in ("", *(f"-{n}" for n in range(2, 100))):
            path = parent / f"{safe_name(name)}-{stamp}{suffix}"
            try:
                path.mkdir(mode=0o755, parents=True)
            except FileExistsError:
                continue
            except OSError as error:
                raise HostFailed(
                    f"cannot make {path}: {error.strerror}", hint="choose another place with --runs DIR"
                ) from error
            return cls(path)
        raise HostFailed(
            f"{parent} holds too many runs of this second", hint="choose another place with --runs DIR"
        )

    @classmethod
    def at(cls, path: Path) -> RunDirectory:
        """The directory a user named, new or empty. Raises BadInput for another."""
        try:
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise BadInput(f"'{path}' is not empty", hint="name a new directory with -o DIR")
        except OSError as error:
            raise BadInput(
                f"cannot make '{path}': {error.strerror}", hint="choose another with -o DIR"
            ) from error
        return cls(path)

    @classmethod
    def open(cls, path: str | Path, *, samples: bool = False) -> RunDirectory:
        """An existing run; with `samples` a recording of `contend sample` or `contend watch` will do. Raises BadInput
        when it is none."""
        directory = Path(path)
        if not directory.exists():
            places = (directory.parent, Path("runs"))
            marks = (PLAN_FILE, SAMPLE_FILE, WATCH_FILE) if samples else (PLAN_FILE,)
            raise UnknownName(
                "run",
                str(path),
                {str(p.parent) for where in places for mark in marks for p in where.glob(f"*/{mark}")},
            )
        run = cls(directory)
        if not (directory / PLAN_FILE).is_file():
            if not run.is_sample and not run.is_watch:
                raise BadInput(
                    f"'{path}' is not a run directory: it has no {PLAN_FILE}",
                    hint="name a directory that `contend run` made, like runs/NAME-TIME",
                )
            if not samples:
                raise BadInput(
                    f"'{path}' is a recording of `contend {'sample' if run.is_sample else 'watch'}`: it has no trials",
                    hint=f"contend report {path}, contend sql {path} … and contend export {path} … work on it",
                )
        return run

    @property
    def is_sample(self) -> bool:
        """Whether `contend sample` made it."""
        return (self.path / SAMPLE_FILE).is_file()

    @property
    def is_watch(self) -> bool:
        """Whether `contend watch -o` made it."""
        return (self.path / WATCH_FILE).is_file()

    @property
    def trials_path(self) -> Path:
        return self.path / "trials.ndjson"

    @property
    def ledger_path(self) -> Path:
        return path_of(self.path)

    @property
    def series(self) -> Path:
        return self.path / "series"

    @property
    def work(self) -> Path:
        """Prepared inputs and the trials' raw output; removed at the end of the run."""
        return self.path / "work"

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Replace a whole JSON document, its secrets masked; otherwise as `write_text`."""
        self.write_text(
            name, json.dumps(mask_value(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        )

    def write_text(self, name: str, text: str) -> None:
        """Replace a whole file, or leave the old one. Raises HostFailed when the disk is full."""
        target = self.path / name
        temporary = target.with_name(f".{name}.part")
        try:
            with temporary.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        except BaseException as error:
            temporary.unlink(missing_ok=True)
            if not isinstance(error, OSError):
                raise
            raise HostFailed(
                f"cannot write {target}: {error.strerror}", hint="free some space, then --resume"
            ) from error

    def write_scenario(self, text: str) -> None:
        """`scenario.yaml`, for its owner alone: it keeps the secrets that `--resume` needs."""
        target = self.path / "scenario.yaml"
        try:
            files.write(target, text.encode(), mode=files.PRIVATE)
        except OSError as error:
            raise HostFailed(
                f"cannot write {target}: {error.strerror}", hint="free some space, then --resume"
            ) from error

    def read_json(self, name: str) -> dict[str, Any]:
        try:
            value = json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise BadInput(
                f"cannot read {self.path / name}: {error}", hint="is this a whole run directory?"
            ) from error
        if not isinstance(value, dict):
            raise BadInput(f"{self.path / name} holds no JSON object", hint="is this a whole run directory?")
        return mask_row(value)  # of an older contend, or of somebody else

    def append(self, row: Row) -> None:
        """Add one trial's row; it is on the disk when this returns. Raises HostFailed when the disk is full."""
        self.extend((row,))

    def extend(self, rows: Iterable[Row]) -> None:
        """Add several trials' rows at once; otherwise as `append`."""
        if self._trials < 0:
            truncate_torn_line(self.trials_path)
            self._trials = os.open(
                self.trials_path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644
            )
        versioned = ({"schema_version": SCHEMA_VERSION, **mask_row(row)} for row in rows)
        append_lines(self._trials, versioned, self.trials_path)

    def rows(self) -> list[Row]:
        return list(self.each_row())

    def each_row(self) -> Iterator[Row]:
        """The rows one by one: whoever keeps a part of them need not hold all."""
        return map(mask_row, read_rows(self.trials_path))

    def compact_rows(self) -> Sequence[Row]:
        """The rows for reading only, in a tenth of the memory (`contend.compact`). Read again only where there are more."""
        from contend.compact import compacted

        try:
            about = self.trials_path.stat()
            now = (about.st_ino, about.st_size, about.st_mtime_ns)
        except OSError:
            now = None
        if now is None or self._compact is None or self._compact[0] != now:
            self._compact = now, tuple(compacted(self.each_row()))
        return self._compact[1]

    def remove_half_files(self) -> None:
        """Remove what a kill or a full disk left half written, beside the whole files. Only while none is written."""
        from contend.probes.series import covered_files

        halves = (*self.path.glob(".*.part"), *self.series.glob("*.partial"), *covered_files(self.series))
        for path in halves:
            path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the directory of a run that never began."""
        shutil.rmtree(self.path, ignore_errors=True)

    def remove_work(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)

    def close(self) -> None:
        if self._trials >= 0:
            os.close(self._trials)
            self._trials = -1

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


def safe_name(name: str) -> str:
    """A file name from any title.

    >>> safe_name("My scenario/α v2")
    'My-scenario-v2'
    """
    return re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.")[:60] or "run"


def query(
    run: RunDirectory,
    sql: str,
    more: Mapping[str, Mapping[str, Any]] | None = None,
    others: Sequence[str] = (),
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Column names and rows of a query over the run's views (see VIEWS), and over `more` tables of columns; `others`
    are names that a query may ask for too. Raises BadInput for wrong SQL.
    """
    import duckdb

    if not is_locked(run.ledger_path):  # else the last line is being written just now
        for path in (run.trials_path, run.ledger_path):
            truncate_torn_line(path)
    connection = duckdb.connect()
    try:
        for name, text in views(run).items():
            connection.execute(f"create view {name} as {text}")
        for name, table in (more or {}).items():
            connection.register(name, dict(table))
        result = connection.execute(sql)
        columns = [d[0] for d in result.description or []]
        return columns, result.fetchall()
    except duckdb.Error as error:
        known = ", ".join(dict.fromkeys([*views(run), *others]))
        raise BadInput(
            f"DuckDB refused the query: {str(error).splitlines()[0]}",
            hint=f"tables: {known}; `describe trials` shows columns",
        ) from error
    finally:
        connection.close()


def views(run: RunDirectory) -> dict[str, str]:
    """SQL text of each view that this run's files allow."""
    from contend.probes.series import pattern, series_files

    def quoted(path: Path) -> str:
        return "'" + pattern(path).replace("'", "''") + "'"

    found: dict[str, str] = {}
    if run.trials_path.exists() and run.trials_path.stat().st_size:
        source = f"read_json({quoted(run.trials_path)}, format='newline_delimited', union_by_name=true)"
        found["trials"] = f"select * from {source}"
        keys = "trial, block, phase, cell, factors"
        for name in ("metrics", "evidence"):
            found[name] = f"select {keys}, unnest({name}, recursive := true) from {source}"
    if run.ledger_path.exists():
        found["ledger"] = (
            f"select * from read_json({quoted(run.ledger_path)}, format='newline_delimited', union_by_name=true)"
        )
    for table, parts in series_files(run.series).items():
        listed = ", ".join(quoted(path) for path in parts)
        found[table] = f"select * from read_parquet([{listed}], union_by_name=true)"
    return found
