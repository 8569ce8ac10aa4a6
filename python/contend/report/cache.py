"""Files that can be made again, kept below $XDG_CACHE_HOME/contend: for this user alone, believed only when whole.

A file there begins with the digest of the rest. It is used only where it is a regular file of this user's that nobody else
can write to, in a directory of the same kind; any other is as if it were not there.
"""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path

from contend.errors import ContendError
from contend.files import HALF, PRIVATE, open_inside, write


def path_of(name: str) -> Path | None:
    """The path of a cached file; None for a user without a home. A name may have one folder: `lists/a.json`."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        # The XDG specification: a relative path there is to be ignored.
        root = Path(base) if base.startswith("/") else Path.home() / ".cache"
    except RuntimeError:
        return None
    return root / "contend" / name


def read(path: Path) -> bytes | None:
    """Read a cached file; None where there is none, and for one that is damaged or may be somebody else's."""
    try:
        if not _own(path.parent.lstat()):
            return None
        with open_inside(path) as file:
            if not _own(os.fstat(file.fileno())):
                return None
            digest, _, content = file.read().partition(b"\n")
    except (OSError, ContendError):
        return None
    return content if digest == hashlib.sha256(content).hexdigest().encode() else None


def keep(path: Path, content: bytes) -> None:
    """Write a cached file, whole or not at all. Where that fails, as on a full disk, the content is made again next time."""
    with suppress(OSError, ContendError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if _own(path.parent.lstat()):
            _sweep(path)
            write(path, hashlib.sha256(content).hexdigest().encode() + b"\n" + content, mode=PRIVATE)


def _own(about: os.stat_result) -> bool:
    regular = stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)
    return regular and about.st_uid == os.geteuid() and not about.st_mode & 0o022


def _sweep(path: Path) -> None:
    """Remove halves that a kill left of it."""
    for half in path.parent.glob(f".{path.name}.*{HALF}"):
        half.unlink(missing_ok=True)
