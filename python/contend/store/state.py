"""Where this user's runs are: one small file per run that may have left something, found from anywhere.

Written before anything else of a run and removed when its last thing is gone, so `contend destroy --all`
finds what a crash left, wherever the run directory lies: $XDG_STATE_HOME/contend/runs. Contends of other state
directories are told of it by a claim (`contend.store.claims`).

The directory is this user's alone (0700): that a run is pointed at here is what makes its ledger one to obey
(`contend.platforms.obedience`). Where others could change the run directory (`sudo contend run` in a user's home), the
ledger itself is kept here too, and copied into the run directory as data when the run ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
from dataclasses import dataclass
from pathlib import Path

from contend import files, names
from contend.errors import BadInput, HostFailed
from contend.files import user_home
from contend.store import claims, ownership
from contend.store.ledger import Record, parse

LEDGER = "ledger.ndjson"
MOST_BYTES = 1 << 16  # of a pointer or claim
MOST_LEDGER_BYTES = 1 << 26
_DATA_ONLY = ("intend", "created", "removed")  # never taken over from a ledger that others could write


@dataclass(frozen=True, slots=True)
class Pointer:
    """The entry of a run that may have left something. `kept`: the ledger's own path, where others can write the run
    directory."""

    run_id: str
    directory: Path
    kept: Path | None = None

    @property
    def ledger(self) -> Path:
        return self.kept or self.directory / LEDGER


@dataclass(frozen=True, slots=True)
class Damaged:
    """A pointer that cannot be read. The run that its name tells of may have left something."""

    path: Path
    why: str


def folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME", "")
    # The XDG specification: a relative path there is to be ignored.
    root = Path(base) if base.startswith("/") else _home() / ".local/state"
    return root / names.PREFIX / "runs"


def _home() -> Path:
    """Home of the user whose rights these are. `sudo -E` and some sudoers leave the caller's, who could write there."""
    home = user_home()
    with contextlib.suppress(OSError, KeyError):
        if home.stat().st_uid not in (0, os.geteuid()):
            return Path(pwd.getpwuid(os.geteuid()).pw_dir)
    return home


def cache() -> Path:
    """Folder of what can be had again and is kept between runs: kernels, images of guests, what was found out about KVM."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else _home() / ".cache") / names.PREFIX


def private(name: str) -> Path:
    """A directory beside `folder()`, readable by this user only; made where it is missing. Raises HostFailed."""
    path = folder().with_name(name)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for own in (path, path.parent):
            if own.stat().st_uid == os.geteuid():
                own.chmod(0o700)
    except OSError as error:
        raise HostFailed(f"cannot make {path}: {error.strerror}", hint="set XDG_STATE_HOME") from error
    if why := ownership.why_changeable(path):
        raise HostFailed(
            f"contend's state directory is not yours alone: {why}",
            hint="set XDG_STATE_HOME to a directory that only you can write",
        )
    return path


def ledger_of(directory: Path) -> Path:
    """Where the ledger of a run directory is: in it, unless this user's pointer of that run says otherwise."""
    with contextlib.suppress(OSError, BadInput, ValueError, RuntimeError):
        pointer = _read(folder() / names.check_name("run id", directory.resolve().name))
        if pointer.directory == directory.resolve():
            return pointer.ledger
    return directory / LEDGER


def record_of(run: Path) -> Record:
    """Rows of the ledger of a run directory, to be entered."""
    return Record(ledger_of(run), run.name)


def register(run_id: str, directory: Path) -> Path:
    """Write the pointer of a run, on the disk when this returns. Raises HostFailed."""
    path = private("runs") / names.check_name("run id", run_id)
    directory = directory.resolve()
    pointer = {"schema_version": 1, "run": run_id, "directory": str(directory)}
    try:
        if ownership.why_changeable(directory):
            kept = private("ledgers") / run_id / LEDGER
            kept.parent.mkdir(mode=0o700, exist_ok=True)
            if not kept.exists():
                files.write(kept, _as_data(directory / LEDGER), mode=files.PRIVATE)
            pointer["ledger"] = str(kept)
        files.write(path, json.dumps(pointer).encode(), mode=files.PRIVATE)
    except OSError as error:
        raise HostFailed(f"cannot write {path}: {error.strerror}", hint="set XDG_STATE_HOME") from error
    claims.make(run_id, directory, path.resolve())
    return path


def unregister(run_id: str) -> None:
    """Forget a run that has left nothing; a ledger that was kept here becomes data of its directory. Idempotent."""
    path = folder() / names.check_name("run id", run_id)
    claims.drop(run_id, path.resolve())
    kept = folder().with_name("ledgers") / run_id
    if kept.exists():
        from contend.store.damage import MOST_ROWS_BYTES

        with contextlib.suppress(OSError, BadInput, ValueError):
            directory = _read(path).directory
            if directory.is_dir():
                files.write(directory / LEDGER, files.read_inside(kept / LEDGER, most=MOST_ROWS_BYTES))
        shutil.rmtree(kept, ignore_errors=True)
    folder().with_name("processes").joinpath(run_id).unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def pointers() -> list[Pointer]:
    """Every run that may have left something, by name. See `survey` for those that cannot be read."""
    return survey()[0]


def survey() -> tuple[list[Pointer], list[Damaged]]:
    """Every run that may have left something, and the pointers that are damaged."""
    pointers, damaged = [], []
    if not folder().is_dir():
        return [], []
    for path in sorted(folder().iterdir()):
        if path.name.startswith("."):  # a pointer that was being written
            continue
        try:
            pointers.append(_read(path))
        except FileNotFoundError:
            continue
        except (OSError, BadInput, ValueError) as error:
            damaged.append(Damaged(path, error.message if isinstance(error, BadInput) else str(error)))
    return pointers, damaged


def _read(path: Path) -> Pointer:
    """Raises OSError, UnsafeFile, ValueError."""
    row = claims.parse(files.read_inside(path, most=MOST_BYTES))
    run_id = row.text("run")
    if run_id != path.name:
        raise ValueError(f"it is of run '{run_id}'")
    kept = row.path("ledger") if "ledger" in row.values else None
    if kept is not None and kept != folder().with_name("ledgers") / run_id / LEDGER:
        raise ValueError(f"it names the ledger {kept}")
    return Pointer(run_id, row.path("directory"), kept)


def _as_data(ledger: Path) -> bytes:
    """A resumed run's past from its ledger, without anything to act on: others could have written it."""
    try:
        rows, _ = parse(files.read_inside(ledger, most=MOST_LEDGER_BYTES))
    except (OSError, BadInput):
        return b""
    past = (row for row in rows if row.get("event") not in _DATA_ONLY)
    return "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in past).encode()
