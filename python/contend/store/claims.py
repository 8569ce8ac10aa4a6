"""Whose a run is, told to every contend on this host: one small file per run that may have left something.

`contend destroy --all` finds things by contend's name, whichever state directory ($XDG_STATE_HOME; of whichever user)
knows their run. A claim names that directory's pointer: while the pointer stands, what carries the run's name is left to
its owner. Claims lie where the kernel's own things lie, in memory until the next boot. They are written where that is
allowed: without one, a run is known to other state directories as long as it is alive.

Some of these places are everybody's, so whatever lies there is read as data: bounded, and passed over where it is no claim.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contend import files, names
from contend.errors import BadInput
from contend.store import ownership

_NAME = f"{names.PREFIX}-runs"
_ROOTS, _USERS = Path("/run"), Path("/run/user")
_MOST_BYTES = 1 << 16
_MOST_CLAIMS = 10_000  # of one user
_MOST_PATH = 4096  # PATH_MAX


@dataclass(frozen=True, slots=True)
class Claim:
    """One run and its owner. `directory` is the run's, `pointer` the file that stands for it in a state directory."""

    run_id: str
    directory: Path
    pointer: Path
    own: bool  # this user wrote it, and nobody else could have
    path: Path
    uid: int

    @property
    def ledger(self) -> Path:
        return self.directory / "ledger.ndjson"

    @property
    def state(self) -> Path:
        """The state directory, as XDG_STATE_HOME names it."""
        return self.pointer.parents[2]

    def has_ledger(self) -> bool:
        """True if the claim names a run directory."""
        return os.path.exists(self.ledger)  # noqa: PTH110 (False where Path.exists raises: another user's)

    def stands(self) -> bool:
        """True if the state directory still knows the run; also where it may not be looked into."""
        try:
            self.pointer.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        return True


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file among claims that is not one. It was left as it is."""

    path: Path
    owner: str
    why: str


@dataclass(frozen=True, slots=True)
class Fields:
    """The JSON object of a pointer or claim."""

    values: Mapping[str, Any]

    def text(self, key: str) -> str:
        """Value of a text field. Raises ValueError."""
        value = self.values.get(key)
        if not isinstance(value, str) or not value or len(value) > _MOST_PATH:
            raise ValueError(f"it has no usable '{key}'")
        return value

    def path(self, key: str) -> Path:
        """Value of a field as an absolute path that the kernel can take. Raises ValueError."""
        value = self.text(key)
        if "\0" in value or not value.startswith("/"):
            raise ValueError(f"its '{key}' is no absolute path")
        os.fsencode(value)  # UnicodeEncodeError, a ValueError, for lone surrogates that stand for no byte
        return Path(value)


def parse(data: bytes) -> Fields:
    """Parse a claim or pointer. Raises ValueError for what is no JSON object, or one that is nested too deep.

    >>> parse(b'{"run": "r"}').text("run")
    'r'
    >>> parse(b"[" * 100_000)
    Traceback (most recent call last):
    ValueError: it is nested too deep
    """
    try:
        document = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if isinstance(document, dict):
        return Fields(document)
    raise ValueError("it is no JSON object")


def home() -> Path:
    """The folder of this user's claims."""
    if os.geteuid() == 0:
        return _ROOTS / _NAME
    runtime = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    return Path(runtime) / f"{_NAME}-{os.getuid()}"


def make(run_id: str, directory: Path, pointer: Path) -> None:
    """Claim a run, after its pointer is written. Nothing where this user may write no claims, or others could."""
    path = _path(run_id, pointer)
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o755, exist_ok=True)
        if path.parent.is_symlink() or ownership.why_changeable(path.parent):
            return  # a temporary directory is everybody's: another user was here first
        claim = {"schema_version": 1, "run": run_id, "directory": str(directory), "pointer": str(pointer)}
        files.write(path, json.dumps(claim).encode())


def drop(run_id: str, pointer: Path) -> None:
    """Remove a claim, before its pointer goes. Idempotent."""
    with contextlib.suppress(OSError):
        _path(run_id, pointer).unlink()


def every() -> list[Claim]:
    """Claims on this host that this user may read, by run."""
    return survey()[0]


def own(directory: Path) -> Claim | None:
    """This user's claim of that run directory."""
    return next((claim for claim in every() if claim.own and claim.directory == directory), None)


def survey() -> tuple[list[Claim], list[Skipped]]:
    """Read all claims, by run, this user's last of a run; and the files among them that are none."""
    claims: list[Claim] = []
    skipped: list[Skipped] = []
    for directory in sorted(_directories()):
        for item in _in(directory):
            if isinstance(item, Claim):
                claims.append(item)
            else:
                skipped.append(item)
    return sorted(claims, key=lambda claim: (claim.run_id, claim.own)), skipped


def _path(run_id: str, pointer: Path) -> Path:
    # Run directories of one name may be known to several state directories.
    return home() / f"{names.check_name('run id', run_id)}.{names.short_hash(str(pointer))}"


def _directories() -> set[Path]:
    directories = {home(), _ROOTS / _NAME}
    with contextlib.suppress(OSError):
        shared = (_ROOTS, Path(tempfile.gettempdir()), *_USERS.glob("*"))
        for root in shared:
            with contextlib.suppress(OSError):
                directories.update(root.glob(f"{_NAME}-*"))
    return directories


def _in(directory: Path) -> Iterator[Claim | Skipped]:
    try:
        status = directory.lstat()
        if not stat.S_ISDIR(status.st_mode):
            yield Skipped(directory, ownership.owner(status.st_uid), "it is no directory")
            return
        alone = status.st_uid == os.geteuid() and not ownership.why_changeable(directory)
        # One that begins with a dot was being written.
        entries = (path for path in directory.iterdir() if not path.name.startswith("."))
        inside = list(itertools.islice(entries, _MOST_CLAIMS + 1))
    except OSError:  # there is none, or it is another user's own affair
        return
    if len(inside) > _MOST_CLAIMS:
        yield Skipped(
            directory,
            ownership.owner(status.st_uid),
            f"it holds more than {_MOST_CLAIMS:,} files; the rest is not read",
        )
    for path in inside[:_MOST_CLAIMS]:
        try:
            yield _claim(path, status.st_uid, alone)
        except FileNotFoundError:
            continue
        except (OSError, BadInput, ValueError) as error:
            why = (
                error.message
                if isinstance(error, BadInput)
                else getattr(error, "strerror", None) or str(error)
            )
            with contextlib.suppress(OSError):
                yield Skipped(path, ownership.owner(path.lstat().st_uid), why)


def _claim(path: Path, uid: int, alone: bool) -> Claim:
    """Raises OSError, UnsafeFile, ValueError."""
    with files.open_inside(path, most=_MOST_BYTES) as file:
        status = os.fstat(file.fileno())
        if status.st_uid != uid:
            raise ValueError("it is not of the user whose directory it lies in")
        row = parse(file.read(_MOST_BYTES))
    pointer = row.path("pointer")
    if len(pointer.parents) < 3:
        raise ValueError("its pointer lies in no state directory")
    own = alone and status.st_nlink == 1
    return Claim(
        names.check_name("run id", row.text("run")), row.path("directory"), pointer, own, path, status.st_uid
    )
