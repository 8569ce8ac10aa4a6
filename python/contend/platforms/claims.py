"""Whose a run is, told to every contend on this host: one small file per run that may have left something.

`contend destroy --all` finds things by contend's name, whichever state directory ($XDG_STATE_HOME; of whichever user)
knows their run. A claim names that directory's pointer: while the pointer stands, what carries the run's name is left to
its owner. Claims lie where the kernel's own things lie, in memory until the next boot. They are written where that is
allowed: without one, a run is known to other state directories as long as it is alive.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from contend.platforms import names

_NAME = f"{names.PREFIX}-runs"
_ROOTS, _USERS = Path("/run"), Path("/run/user")


@dataclass(frozen=True, slots=True)
class Claim:
    """One run and its owner. `directory` is the run's, `pointer` the file that stands for it in a state directory."""

    run_id: str
    directory: Path
    pointer: Path
    ours: bool  # this user wrote it
    path: Path

    @property
    def ledger(self) -> Path:
        return self.directory / "ledger.ndjson"

    @property
    def state(self) -> Path:
        """The state directory, as XDG_STATE_HOME names it."""
        return self.pointer.parents[2]

    def has_ledger(self) -> bool:
        """Is there a run directory that can be named?"""
        return os.path.exists(self.ledger)  # noqa: PTH110 (False where Path.exists raises: another user's)

    def stands(self) -> bool:
        """Does the state directory still know the run? One that may not be looked into is taken to."""
        try:
            self.pointer.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        return True


def home() -> Path:
    """Where this user's claims are."""
    if os.geteuid() == 0:
        return _ROOTS / _NAME
    runtime = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    return Path(runtime) / f"{_NAME}-{os.getuid()}"


def make(run_id: str, directory: Path, pointer: Path) -> None:
    """Claim a run, after its pointer is written. Nothing where this user may write no claims."""
    path = _path(run_id, pointer)
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o755, exist_ok=True)
        if path.parent.is_symlink() or path.parent.stat().st_uid != os.geteuid():
            return  # a temporary directory is everybody's: another user was here first
        half = path.with_name(f".{path.name}.{os.getpid()}")
        told = {"schema_version": 1, "run": run_id, "directory": str(directory), "pointer": str(pointer)}
        half.write_text(json.dumps(told), encoding="utf-8")
        half.replace(path)


def drop(run_id: str, pointer: Path) -> None:
    """Take a claim back, before its pointer goes. Idempotent."""
    with contextlib.suppress(OSError):
        _path(run_id, pointer).unlink()


def every() -> list[Claim]:
    """All claims of this host that this user may read, by run."""
    return sorted((claim for place in _places() for claim in _in(place)), key=lambda claim: claim.run_id)


def _path(run_id: str, pointer: Path) -> Path:
    # Run directories of one name may be known to several state directories.
    return home() / f"{names.check_name('run id', run_id)}.{names.short_hash(str(pointer))}"


def _places() -> set[Path]:
    shared = (_ROOTS, Path(tempfile.gettempdir()), *_USERS.glob("*"))
    return {home(), _ROOTS / _NAME, *(path for place in shared for path in place.glob(f"{_NAME}-*"))}


def _in(place: Path) -> Iterator[Claim]:
    with contextlib.suppress(OSError):  # there is none, or it is another user's own affair
        for path in place.iterdir():
            # One that was being written; or what another user put there to be waited for.
            if path.name.startswith(".") or not path.is_file():
                continue
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # gone; or no claim
                row = json.loads(path.read_text(encoding="utf-8"))
                directory, pointer = Path(row["directory"]), Path(row["pointer"])
                if len(pointer.parents) < 3:
                    raise ValueError(f"{pointer} lies in no state directory")
                yield Claim(str(row["run"]), directory, pointer, path.stat().st_uid == os.geteuid(), path)
