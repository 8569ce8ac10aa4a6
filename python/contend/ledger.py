"""The run's diary: what was about to be made, what was made, what was removed.

Guarantee: a row is on the disk (fsync) before `intend` returns, so whatever a crash leaves behind was
announced. A crash between an intention and the act leaves an intention without a thing, which removal treats
as already gone. A torn last line is cut off on opening; no earlier line is ever rewritten.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from contend.clock import Clock, SystemClock
from contend.errors import HostFailed

SCHEMA_VERSION = 1


class Ledger:
    """Append-only `ledger.ndjson`. The file is locked while a run is alive, so that `destroy` can tell."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self.path = path
        self._clock = clock or SystemClock()
        truncate_torn_line(path)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            raise HostFailed(
                f"{path.parent} is in use by another contend", hint="wait for it, or stop it"
            ) from error

    def event(self, event: str, **detail: Any) -> None:
        """Append one row and wait until it is on the disk. Raises HostFailed when the disk is full."""
        row = {
            "schema_version": SCHEMA_VERSION,
            "at_ns": self._clock.monotonic_ns(),
            "utc": self._clock.utc(),
            "event": event,
            **detail,
        }
        append_line(self._fd, row, self.path)

    def intend(self, kind: str, name: str, **detail: Any) -> None:
        self.event("intend", kind=kind, name=name, **detail)

    def created(self, kind: str, name: str, **detail: Any) -> None:
        self.event("created", kind=kind, name=name, **detail)

    def removed(self, kind: str, name: str) -> None:
        """Record a removal. A full disk does not stop the tear-down it is part of: unrecorded is retried later."""
        with contextlib.suppress(HostFailed):
            self.event("removed", kind=kind, name=name)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


class Record:
    """Rows of a program of a run, which writes them while the run holds the lock. Several names cost one fsync."""

    def __init__(self, path: Path, run: str, clock: Clock | None = None) -> None:
        self.path, self.run = path, run
        self._clock = clock or SystemClock()
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def intend(self, kind: str, wanted: Iterable[str], **detail: str) -> None:
        """On the disk when this returns: only then may they be made."""
        self._write("intend", kind, wanted, detail)

    def created(self, kind: str, name: str, **detail: str) -> None:
        self._write("created", kind, (name,), detail)

    def removed(self, kind: str, gone: Iterable[str]) -> None:
        self._write("removed", kind, gone, {})

    def _write(self, event: str, kind: str, wanted: Iterable[str], detail: Mapping[str, str]) -> None:
        row = {
            "schema_version": SCHEMA_VERSION,
            "at_ns": self._clock.monotonic_ns(),
            "utc": self._clock.utc(),
            "event": event,
            "kind": kind,
            "run": self.run,
            **detail,
        }
        append_lines(self._fd, ({**row, "name": name} for name in wanted), self.path)

    def __enter__(self) -> Record:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        os.close(self._fd)


def append_line(fd: int, row: dict[str, Any], path: Path) -> None:
    """Write one NDJSON row and fsync it; on a full disk take the torn half back, then raise HostFailed."""
    append_lines(fd, (row,), path)


def append_lines(fd: int, rows: Iterable[dict[str, Any]], path: Path) -> None:
    """Several rows with one fsync; as `append_line` otherwise."""
    lines = (
        json.dumps(row, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n" for row in rows
    )
    data = "".join(lines).encode()
    end = os.lseek(fd, 0, os.SEEK_END)
    try:
        written = os.write(fd, data)
        while written < len(data):
            written += os.write(fd, data[written:])
        os.fsync(fd)
    except OSError as error:
        os.ftruncate(fd, end)
        raise HostFailed(
            f"cannot write {path}: {error.strerror}", hint="free some space, then --resume"
        ) from error


def truncate_torn_line(path: Path) -> None:
    """Cut off a last line that a crash left without its newline. DuckDB refuses a file with one."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    keep = data.rfind(b"\n") + 1
    if keep != len(data):
        os.truncate(path, keep)


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of an NDJSON file; a torn last line is passed over, not an error."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)


def leftovers(path: Path) -> list[dict[str, Any]]:
    """Rows of the things announced and never recorded as removed, newest first: the order to remove them in."""
    standing: dict[tuple[str, str], dict[str, Any]] = {}
    for row in read_rows(path):
        key = (str(row.get("kind")), str(row.get("name")))
        if row["event"] in ("intend", "created"):
            standing[key] = {**standing.get(key, {}), **row}
        elif row["event"] == "removed":
            standing.pop(key, None)
    return sorted(standing.values(), key=lambda row: -int(row["at_ns"]))


def is_locked(path: Path) -> bool:
    """True while the run that owns this ledger is alive."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False
