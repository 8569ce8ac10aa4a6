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
is taken up again; whole files are written beside their name and renamed, so they are old or new, never half.

A directory may be damaged, or a stranger's: no link in it is followed, what is read is bounded, and what cannot be used is
noted (`contend.store.damage`) and passed over. Reading never changes what was measured.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from contend.errors import BadInput, HostFailed, UnknownName
from contend.files import MOST_BYTES, PRIVATE, SHARED, read_inside, replacing, room_hint
from contend.store.damage import json_object, note, noting, uncollected, whole_rows
from contend.store.ledger import TRIAL_START, append_lines, begins_trial, open_to_append, truncate_torn_line
from contend.store.series import covered_files, half_files
from contend.store.state import ledger_of
from contend.store.trial_rows import Row as Row
from contend.store.trial_rows import TrialRows, file_state
from contend.text.masking import mask_row, mask_value, mask_yaml

SCHEMA_VERSION = 1
PLAN_FILE, SAMPLE_FILE, WATCH_FILE = "plan.json", "sample.json", "recording.json"
SCENARIO_FILE, ENVIRONMENT_FILE = "scenario.yaml", "environment.json"
SECRETIVE = frozenset({SCENARIO_FILE, ENVIRONMENT_FILE})
"""Files that may hold what is not for other users of the host: of mode 0600."""
_STUDY = re.compile(rb"""^study:\s*["']?([a-z]+)["']?\s*$""", re.MULTILINE)
_WHOLE = "is this a whole run directory?"
_NOT_MINE = "as its owner, or with a copy that this user may read and write"
DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class RunDirectory:
    """Paths, whole files and trial rows of one run; knows nothing of what they mean."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.id = path.resolve().name if path.name in ("", "..") else path.name
        self._trials = -1
        self._trial_rows = TrialRows(self.trials_path)
        self._events: tuple[object, tuple[Row, ...]] | None = None  # which state of the ledger, and its rows
        self._plan: tuple[object, dict[str, Any]] | None = None  # which state of the file, and what it holds

    @classmethod
    def create(cls, parent: Path, name: str, stamp: str) -> RunDirectory:
        """Make a directory NAME-STAMP below `parent`; a number is added when two runs start in one second."""
        for suffix in ("", *(f"-{n}" for n in range(2, 100))):
            path = parent / f"{safe_name(name)}-{stamp}{suffix}"
            try:
                path.mkdir(mode=0o755, parents=True)
            except FileExistsError:
                continue
            except OSError as error:
                hint = "choose another place with --runs DIR, or set XDG_STATE_HOME"
                raise HostFailed(f"cannot make {path}: {error.strerror}", hint=hint) from error
            return cls(path)
        raise HostFailed(
            f"{parent} holds too many runs of this second", hint="choose another place with --runs DIR"
        )

    @classmethod
    def at(cls, path: Path) -> RunDirectory:
        """Open a directory that a user named, new or empty. Raises BadInput for another."""
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
        """Open an existing run; with `samples` also a recording of `contend sample` or `contend watch`. Raises BadInput
        when it is none, and when this user may not look into it."""
        try:
            return cls._opened(path, samples=samples)
        except PermissionError as error:
            raise BadInput(
                f"cannot read {error.filename or path}: {error.strerror}", hint=_NOT_MINE
            ) from error

    @classmethod
    def _opened(cls, path: str | Path, *, samples: bool) -> RunDirectory:
        directory = Path(path)
        if not directory.exists():
            folders = (directory.parent, Path("runs"))
            marks = (PLAN_FILE, SAMPLE_FILE, WATCH_FILE) if samples else (PLAN_FILE,)
            raise UnknownName(
                "run",
                str(path),
                {str(p.parent) for where in folders for mark in marks for p in where.glob(f"*/{mark}")},
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
        """True if `contend sample` made it."""
        return (self.path / SAMPLE_FILE).is_file()

    @property
    def is_watch(self) -> bool:
        """True if `contend watch -o` made it."""
        return (self.path / WATCH_FILE).is_file()

    @property
    def trials_path(self) -> Path:
        return self.path / "trials.ndjson"

    @property
    def ledger_path(self) -> Path:
        return ledger_of(self.path)

    @property
    def series(self) -> Path:
        return self.path / "series"

    @property
    def work(self) -> Path:
        """The folder of prepared inputs and the trials' raw output; removed at the end of the run."""
        return self.path / "work"

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Replace a whole JSON document, its secrets masked; otherwise as `write_text`."""
        self._write(name, _document(mask_value(value)) + b"\n")

    def write_text(self, name: str, text: str) -> None:
        """Replace a whole file, or leave the old one. Raises HostFailed when the disk is full."""
        self._write(name, text.encode("utf-8"))

    def _write(self, name: str, data: bytes) -> None:
        target = self.path / name
        try:
            with replacing(target, mode=PRIVATE if name in SECRETIVE else SHARED) as file:
                file.write(data)
        except OSError as error:
            hint = _NOT_MINE if error.errno in DENIED else room_hint(self.path, "then --resume")
            raise HostFailed(f"cannot write {target}: {error.strerror}", hint=hint) from error

    def write_scenario(self, text: str) -> None:
        """Write `scenario.yaml`, for its owner alone: it keeps the secrets that `--resume` needs."""
        self.write_text(SCENARIO_FILE, text)

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a file that holds one JSON object. Raises BadInput naming the file."""
        path = self.path / name
        try:
            return mask_row(json_object(path))  # of an older contend, or of somebody else
        except FileNotFoundError as error:
            raise BadInput(f"there is no {path}", hint=_WHOLE) from error

    def plan(self, study: str | None = None) -> dict[str, Any]:
        """Read plan.json, and check what a reader of that study relies on. Raises BadInput.

        study: of its scenario; where it is not given, what scenario.yaml names.
        """
        from contend.store.planned import wrong_plan

        study = self._study() if study is None else study
        about = file_state(self.path / PLAN_FILE), study
        if self._plan is None or about[0] is None or self._plan[0] != about:
            plan = self.read_json(PLAN_FILE)
            if why := wrong_plan(plan, study):
                raise BadInput(f"{self.path / PLAN_FILE} is damaged: {why}", hint=_WHOLE)
            self._plan = about, plan
        return dict(self._plan[1])

    def _study(self) -> str:
        """The study that scenario.yaml names, without reading the rest of it; "" where it names none."""
        with contextlib.suppress(OSError, BadInput):
            match = _STUDY.search(read_inside(self.path / SCENARIO_FILE, most=MOST_BYTES))
            return "" if match is None else match[1].decode("ascii")
        return ""

    def sample(self) -> dict[str, Any]:
        """Read sample.json of a recording. Raises BadInput naming it."""
        from contend.store.file_shapes import SampleFile

        # What an earlier contend did not write yet, and nobody can tell apart from a file without it.
        return {"line": "", "sched": "", "notes": []} | self.shaped(SAMPLE_FILE, SampleFile)

    def watch(self) -> dict[str, Any]:
        """Read recording.json of a watch. Raises BadInput naming it."""
        from contend.store.file_shapes import WatchFile

        return self.shaped(WATCH_FILE, WatchFile)

    def shaped(self, name: str, shape: Any) -> dict[str, Any]:
        """Read a document and check its shape (see `contend.store.rows`). Raises BadInput naming the file."""
        from contend.store.rows import wrong

        document = self.read_json(name)
        if why := wrong(shape, document):
            raise BadInput(f"{self.path / name} is damaged: {why}", hint=_WHOLE)
        return document

    def environment(self) -> dict[str, Any]:
        """Read environment.json, or what of it can be read: nothing depends on the rest."""
        from contend.store.file_shapes import sound_environment

        path = self.path / ENVIRONMENT_FILE
        try:
            environment = mask_row(json_object(path))
        except FileNotFoundError:
            note(path, "", "it is missing")
            return {}
        except BadInput as error:
            note(path, "", error.message.removeprefix("cannot read ").removeprefix(str(path)).lstrip(": "))
            return {}
        environment, damaged = sound_environment(environment)
        for key, what in damaged:
            note(path, f"key {key}", what)
        return environment

    def scenario_text(self) -> str:
        """Read scenario.yaml without its secrets, to be shown. Raises BadInput naming it."""
        path = self.path / SCENARIO_FILE
        try:
            return mask_yaml(read_inside(path, most=MOST_BYTES).decode("utf-8"))
        except OSError as error:
            hint = _NOT_MINE if error.errno in DENIED else _WHOLE
            raise BadInput(f"cannot read {path}: {error.strerror}", hint=hint) from error
        except ValueError as error:
            raise BadInput(f"cannot read {path}: it is not UTF-8 text", hint=_WHOLE) from error

    def append(self, row: Row) -> None:
        """Add one trial's row; it is on the disk when this returns. Raises HostFailed when the disk is full."""
        self.extend((row,))

    def extend(self, rows: Iterable[Row]) -> None:
        """Add several trials' rows at once; otherwise as `append`."""
        if self._trials < 0:
            truncate_torn_line(self.trials_path)
            self._trials = open_to_append(self.trials_path)
        versioned = ({"schema_version": SCHEMA_VERSION, **mask_row(row)} for row in rows)
        append_lines(self._trials, versioned, self.trials_path)

    def rows(self, plan: Mapping[str, Any] | None = None) -> list[Row]:
        """Read the whole rows of trials.ndjson whose cell is in that plan; others are noted as damage."""
        return list(self.each_row(plan))

    def each_row(self, plan: Mapping[str, Any] | None = None) -> Iterator[Row]:
        """Read the rows one by one: a caller that keeps a part of them need not hold all."""
        return self._trial_rows.each(plan)

    def compact_rows(self, plan: Mapping[str, Any] | None = None) -> Sequence[Row]:
        """Read the rows, read-only, in a tenth of the memory (`contend.store.compact`)."""
        return self._trial_rows.compact(plan)

    def events(self) -> Sequence[Row]:
        """Read the whole rows of ledger.ndjson, read-only; others are noted as damage. Without those of trials, of
        which there is one a trial: what they say its row says too."""
        from contend.store.rows import wrong_event

        state = file_state(self.ledger_path)
        if self._events is None or state is None or self._events[0] != state:
            with noting() as damage, uncollected():
                whole = whole_rows(
                    self.ledger_path,
                    lambda row: "" if _begins_trial(row) else wrong_event(row),
                    skip=begins_trial,
                )
                rows = tuple(mask_row(row) for row in whole if not _begins_trial(row))
            self._events = (None if damage else state), rows
        return self._events[1]

    def remove_half_files(self) -> None:
        """Remove what a kill or a full disk left half written, beside the whole files. Only while none is written."""
        for path in (*self.path.glob(".*.part"), *half_files(self.series), *covered_files(self.series)):
            with contextlib.suppress(IsADirectoryError):
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


def _document(value: Any) -> bytes:
    """As JSON, in a fifth of the time of `json`: findings of a large run are megabytes. Raises ValueError for what JSON has
    not, like NaN."""
    from pydantic_core import PydanticSerializationError, to_json

    try:
        data = to_json(value, indent=1, inf_nan_mode="constants")
    except PydanticSerializationError:  # of a name that is no UTF-8: JSON has it in escapes
        return json.dumps(value, indent=1, allow_nan=False).encode("ascii")
    if b"NaN" in data or b"Infinity" in data:  # in a text, or for a number, which is a mistake of contend's
        return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False).encode("utf-8")
    return data


def _begins_trial(row: Any) -> bool:
    return isinstance(row, dict) and row.get("event") == TRIAL_START


def safe_name(name: str) -> str:
    """A file name from any title.

    >>> safe_name("My scenario/α v2")
    'My-scenario-v2'
    """
    return re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.")[:60] or "run"
