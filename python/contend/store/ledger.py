"""The run's diary: what was about to be made, what was made, what was removed.

Guarantee: a row is on the disk (fsync) before `intend` returns, so whatever a crash leaves behind was
announced. A crash between an intention and the act leaves an intention without a thing, which removal treats
as already gone. A torn last line is cut off on opening; no earlier line is ever rewritten.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, BinaryIO, Self

from contend.clock import Clock, SystemClock
from contend.errors import HostFailed
from contend.files import room_hint
from contend.text.masking import mask_row

SCHEMA_VERSION = 1
_LEAVING_S = 2.0
_UNTOLD = 5  # looks, a hundredth of a second apart, at which /proc/locks tells of nobody who has a lock
TRIAL_START = "trial-start"  # there is one a trial
_OF_RESOURCES = frozenset({"intend", "created", "removed"})
_BEGINS_TRIAL = re.compile(
    rb'\{"schema_version":1,"at_ns":\d{1,18},"utc":"[0-9T:.+Z-]{1,40}","event":"trial-start","trial":\d{1,9}\}\n?'
)
_STEP = 1 << 16


class _Rows:
    """Who appends rows to a ledger."""

    def __init__(self, path: Path, clock: Clock | None) -> None:
        self.path = path
        self._clock = clock or SystemClock()
        self._fd = open_to_append(path)

    def _begin(self, event: str) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "at_ns": self._clock.monotonic_ns(),
            "utc": self._clock.utc(),
            "event": event,
        }

    def close(self) -> None:
        """Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


class Ledger(_Rows):
    """Append-only `ledger.ndjson`. The file is locked while a run is alive, so that `destroy` can tell."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        super().__init__(path, clock)
        if not _take(self._fd):
            os.close(self._fd)
            raise HostFailed(f"{path.parent} is in use by another contend", hint="wait for it, or stop it")
        truncate_torn_line(path)  # of a crash: whoever writes holds the lock

    def event(self, event: str, **detail: Any) -> None:
        """Append one row and wait until it is on the disk. Raises HostFailed when the disk is full."""
        # A resource's name is what it is found by; what happened is told in texts of others.
        masked = detail if event in _OF_RESOURCES else mask_row(detail)
        append_line(self._fd, {**self._begin(event), **masked}, self.path)

    def intend(self, kind: str, name: str, **detail: Any) -> None:
        self.event("intend", kind=kind, name=name, **detail)

    def created(self, kind: str, name: str, **detail: Any) -> None:
        self.event("created", kind=kind, name=name, **detail)

    def removed(self, kind: str, name: str) -> None:
        """Record a removal. A full disk does not stop the tear-down it is part of: unrecorded is retried later."""
        with contextlib.suppress(HostFailed):
            self.event("removed", kind=kind, name=name)


class Record(_Rows):
    """Rows of a program of a run, which writes them while the run holds the lock. Several names cost one fsync."""

    def __init__(self, path: Path, run: str, clock: Clock | None = None) -> None:
        super().__init__(path, clock)
        self.run = run
        self._lock = threading.Lock()  # rows of one write stay together

    def intend(self, kind: str, wanted: Iterable[str], **detail: str) -> None:
        """Write names of things to be made; on the disk when this returns: only then may they be made."""
        self.write("intend", kind, ({"name": name} for name in wanted), detail)

    def created(self, kind: str, name: str, **detail: str) -> None:
        self.write("created", kind, ({"name": name},), detail)

    def removed(self, kind: str, gone: Iterable[str]) -> None:
        self.write("removed", kind, ({"name": name} for name in gone))

    def write(
        self,
        event: str,
        kind: str,
        rows: Iterable[Mapping[str, str]],
        detail: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Rows with what all of them have."""
        row = {**self._begin(event), "kind": kind, "run": self.run, **detail}
        with self._lock:
            append_lines(self._fd, ({**row, **of} for of in rows), self.path)


def open_to_append(path: Path) -> int:
    """Open a file for appending. Raises HostFailed for a link or a device in its way; OSError."""
    try:
        fd = os.open(
            path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644
        )
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise HostFailed(f"{path} is a symbolic link", hint="contend writes only into its own run") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise HostFailed(f"{path} is not a regular file", hint="contend writes only into its own run")
    return fd


def append_line(fd: int, row: dict[str, Any], path: Path) -> None:
    """Write one NDJSON row and fsync it; on a full disk take the torn half back, then raise HostFailed. Others may append
    to the file meanwhile: what they have written is not cut off."""
    append_lines(fd, (row,), path)


def append_lines(fd: int, rows: Iterable[dict[str, Any]], path: Path) -> None:
    """Write several rows with one fsync; as `append_line` otherwise."""
    lines = (
        json.dumps(row, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n" for row in rows
    )
    # A name of a file or a process may hold bytes that are no UTF-8 (PEP 383): as JSON's escapes it is the same when read.
    data = "".join(lines).encode(errors="backslashreplace")
    end, written = os.lseek(fd, 0, os.SEEK_END), 0
    try:
        while written < len(data):
            written += os.write(fd, data[written:])
        os.fsync(fd)
    except OSError as error:
        if os.fstat(fd).st_size == end + written:
            os.ftruncate(fd, end)
        raise HostFailed(
            f"cannot write {path}: {error.strerror}", hint=room_hint(path, "then --resume")
        ) from error


def truncate_torn_line(path: Path) -> None:
    """Cut off a last line that a crash left without its newline. Only for who goes on writing the file."""
    if not path.exists() and not path.is_symlink():
        return
    fd = open_to_append(path)
    try:
        end = at = os.lseek(fd, 0, os.SEEK_END)
        while at > 0:
            start = max(0, at - _STEP)
            newline = os.pread(fd, at - start, start).rfind(b"\n")
            at = start
            if newline >= 0:
                at = start + newline + 1
                break
        if at != end:
            os.ftruncate(fd, at)
    finally:
        os.close(fd)


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Read objects of an NDJSON file of a run that may be anybody's; other lines are noted as damage and passed
    over."""
    from contend.store.damage import (
        whole_rows,  # here and below: brings what a generator's short life need not wait for
    )

    return whole_rows(path, lambda row: "" if isinstance(row, dict) else "it is not an object")


def begins_trial(line: bytes) -> bool:
    """True if a line is, byte for byte, as contend notes that a trial begins: of 100,000 there is no need to parse them.

    >>> begins_trial(b'{"schema_version":1,"at_ns":5,"utc":"2026-01-01T00:00:00+00:00","event":"trial-start","trial":7}\\n')
    True
    """
    return _BEGINS_TRIAL.fullmatch(line) is not None


def parse(data: bytes, *, trials: bool = True) -> tuple[list[dict[str, Any]], list[int]]:
    """Parse a ledger's bytes: rows, and the numbers of lines that are none. A torn last line is neither.

    trials: with those that say that a trial begins.

    >>> parse(b'{"event": "run-start"}\\n[1]\\n{"event"')
    ([{'event': 'run-start'}], [2])
    """
    return _parsed(enumerate(data.split(b"\n")[:-1], start=1), trials)


def parse_without_trials(file: BinaryIO, most: int) -> tuple[list[dict[str, Any]], list[int]]:
    """As `parse`, of a file that may have any number of rows of trials. Raises ValueError where the others are of more
    than `most` bytes.

    >>> import io
    >>> parse_without_trials(io.BytesIO(b'{"event": "run-start"}\\n[1]\\n{"event"'), 100)
    ([{'event': 'run-start'}], [2])
    """
    return _parsed(_lines_without_trials(file, most), True)


def _lines_without_trials(file: BinaryIO, most: int) -> Iterator[tuple[int, bytes]]:
    held = 0
    for number, line in enumerate(iter(partial(file.readline, most + 1), b""), start=1):
        if begins_trial(line):
            continue
        held += len(line)
        if held > most:
            raise ValueError(f"it holds more than {most:,} bytes, without those of trials")
        if line.endswith(b"\n"):
            yield number, line


def _parsed(lines: Iterable[tuple[int, bytes]], trials: bool) -> tuple[list[dict[str, Any]], list[int]]:
    from contend.store.damage import row_parser, uncollected

    rows: list[dict[str, Any]] = []
    damaged: list[int] = []
    read = row_parser(json.loads)
    with uncollected():
        for number, line in lines:
            if not trials and begins_trial(line):
                continue
            try:
                row = read(line)
            except (ValueError, RecursionError):
                row = None
            if isinstance(row, dict) and isinstance(row.get("event"), str):
                rows.append(row)
            else:
                damaged.append(number)
    return rows, damaged


def leftovers(path: Path) -> list[dict[str, Any]]:
    """Rows of the things announced and never recorded as removed, newest first: the order to remove them in."""
    from contend.store.damage import whole_rows
    from contend.store.rows import wrong_event

    return standing(whole_rows(path, wrong_event))


def standing(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """As `leftovers`, for rows that have been read."""
    left: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        key = (str(row.get("kind")), str(row.get("name")))
        if row["event"] in ("intend", "created"):
            left[key] = {**left.get(key, {}), **row}
        elif row["event"] == "removed":
            left.pop(key, None)
    return sorted(left.values(), key=_newest_first)


def _newest_first(row: Mapping[str, Any]) -> int:
    at_ns = row.get("at_ns")
    return -at_ns if isinstance(at_ns, int) else 0


def is_locked(path: Path) -> bool:
    """True while the run that owns this ledger is alive. A lock that a stranger holds on it says nothing of that."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:  # there is none, or it is a link, or not to be opened: no run of this user's holds it
        return False
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode) or _take(fd):
            return False
        return not _is_a_strangers(_holder(fd), os.fstat(fd))
    finally:
        os.close(fd)


def _take(fd: int) -> bool:
    """Lock a ledger; False while another has it.

    Who was killed is waited for: what it was about to start has its lock for a moment more, between the clone and execve.
    """
    until, untold = time.monotonic() + _LEAVING_S, 0
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = _holder(fd)
            # A lock that nobody has was let go of while we looked, or none is told of here.
            untold = untold + 1 if holder is None else 0
            if untold > _UNTOLD or (holder is not None and not _is_gone(holder)) or time.monotonic() > until:
                return False
            time.sleep(0.01)
        else:
            return True


def _holder(fd: int) -> int | None:
    """Who took the lock on a file: a pid, 0 for one that is not to be seen from here any more. None: it is not told."""
    status = os.fstat(fd)
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/locks").read_text(encoding="ascii", errors="replace").splitlines():
            fields = line.split()  # proc(5): `1: FLOCK  ADVISORY  WRITE 712 08:02:1835 0 EOF`
            if len(fields) > 5 and fields[1] == "FLOCK" and fields[5] == file:
                return int(fields[4])
    return None


def _is_gone(pid: int) -> bool:
    """Has it ended? Read here: a storm's client imports this module, and `procfs` would double what it imports."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes() if pid > 0 else b""
    except OSError:
        stat = b""
    return stat.rpartition(b")")[2].split()[:1] in ([], [b"Z"], [b"X"])


def _is_a_strangers(pid: int | None, status: os.stat_result) -> bool:
    """Is it a process of neither root, nor this user, nor the file's owner? Whoever may read may lock."""
    with contextlib.suppress(OSError):
        if pid:
            return Path(f"/proc/{pid}").stat().st_uid not in (0, os.geteuid(), status.st_uid)
    return False
