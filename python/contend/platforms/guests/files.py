"""Directories that a guest shares with its host: changes are copied before and after each command.

Which directories is told by the commands: where they run, where their output goes, and what of the party's directory
they name. Nothing else of the host is seen inside.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from contend.platforms.base import Command
from contend.platforms.guests.channel import Channel, Frame
from contend.platforms.guests.mirror import CHUNK, signature, walk

# A larger file that a command makes stays in the guest, where the commands after it find it: a benchmark's gigabytes
# are no result of its.
LARGEST_BYTES = 64 << 20
_PART = ".contend-part"


def named_directories(command: Command, below: Path) -> list[Path]:
    """The directories that a command needs: its own, its outputs', and what it names below `below`.

    >>> command = Command(("cp", "/r/work/a/x", "/r/work/b"), Path("/w"), Path("/r/o/out"), Path("/r/o/err"))
    >>> [str(p) for p in named_directories(command, Path("/r"))]
    ['/w', '/r/o', '/r/work/a', '/r/work']
    """
    directories = [command.cwd, command.stdout.parent, command.stderr.parent]
    pattern = re.compile(re.escape(str(below)) + r"/[^\s'\":,;=]+")
    for word in (*command.argv, *command.env.values()):
        for text in pattern.findall(word):
            path = Path(text)
            directories.append(path if path.is_dir() else path.parent)
    return [path for path in dict.fromkeys(directories) if path != below or path in directories[:3]]


class Shared:
    """The host's side of the shared directories. `hidden`: directories of the host that the guest never sees."""

    def __init__(self, channel: Channel, hidden: Iterable[Path]) -> None:
        self._channel = channel
        self._hidden = tuple(str(path) for path in hidden)
        self._known: dict[str, tuple[int, ...]] = {}
        self._roots: list[str] = []
        self.kept: tuple[str, ...] = ()  # files too large to be fetched

    def add(self, directories: Iterable[Path]) -> None:
        for path in map(str, directories):
            if path != "/" and not any(_within(path, root) for root in self._roots):
                self._roots = [root for root in self._roots if not _within(root, path)] + [path]

    def push(self, leave_out: Collection[Path]) -> None:
        """Copy what is new here into the guest. `leave_out`: outputs, which are the host's alone. Raises HostFailed."""
        skipped = {str(path) for path in leave_out}
        with self._channel.moving_files:
            requests = []
            entries: dict[str, os.stat_result] = {}
            for root in [root for root in self._roots if Path(root).is_dir()]:
                entries[root] = Path(root).stat()
                walk(root, entries)
            for path, now in sorted(entries.items()):
                if self._known.get(path) == signature(now) or path in skipped or self._is_hidden(path):
                    continue
                if (number := self._send(path, now)) is not None:
                    requests.append(number)
                    self._known[path] = signature(now)
            gone = [path for path in self._known if path not in entries]
            for path in gone:
                del self._known[path]
            if gone:
                requests.append(self._channel.send(b"M", paths=gone))
            for number in requests:
                self._channel.answer(number)

    def _send(self, path: str, now: os.stat_result) -> int | None:
        header: dict[str, Any] = {
            "path": path,
            "mode": now.st_mode,
            "ns": now.st_mtime_ns,
            "to": "",
            "size": 0,
        }
        try:
            if stat.S_ISLNK(now.st_mode):
                header["to"] = str(Path(path).readlink())
            if not stat.S_ISREG(now.st_mode):
                return self._channel.send(b"W", **header)
            with Path(path).open("rb", buffering=0) as file:
                header["size"] = os.fstat(file.fileno()).st_size
                number = self._channel.send(b"W", **header)
                self._channel.send_data(_chunks(file, header["size"]))
                return number
        except FileNotFoundError:  # it went while we looked
            return None

    def fetch(self, leave_out: Collection[Path]) -> None:
        """Copy what is new in the guest to here, and remove here what was removed there. Raises HostFailed."""
        if not self._roots:
            return
        skipped = {str(path) for path in leave_out}
        with self._channel.moving_files:
            number = self._channel.send(b"L", roots=self._roots, largest=LARGEST_BYTES)
            with contextlib.closing(_Taker(self._roots, skipped, self._known)) as taker:
                answer = self._channel.answer(number, take=taker.take)
        self.kept = tuple(answer["kept"])
        for path in sorted(answer["gone"], reverse=True):
            self._known.pop(path, None)
            if path not in skipped and any(_within(path, root) for root in self._roots):
                _remove(Path(path))

    def _is_hidden(self, path: str) -> bool:
        return any(_within(path, hidden) for hidden in self._hidden)


class _Taker:
    """Writes the files that come: each is whole under its name, or not there."""

    def __init__(self, roots: list[str], skipped: Collection[str], known: dict[str, tuple[int, ...]]) -> None:
        self._roots, self._skipped, self._known = roots, skipped, known
        self._file: Any = None
        self._header: dict[str, Any] = {}
        self._left = 0

    def take(self, frame: Frame) -> None:
        if frame.kind == b"d":
            if self._file is not None:
                self._file.write(frame.data)
            self._left -= len(frame.data)
            if self._left <= 0:
                self._done()
            return
        self._header = values = frame.values
        path = Path(values["path"])
        self._left = values["size"]
        if str(path) in self._skipped or not any(_within(str(path), root) for root in self._roots):
            self._header = {}
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if stat.S_ISDIR(values["mode"]):
            if path.is_symlink() or path.is_file():
                _remove(path)
            path.mkdir(exist_ok=True)
            path.chmod(stat.S_IMODE(values["mode"]))
            self._known[str(path)] = signature(path.lstat())
        elif stat.S_ISLNK(values["mode"]):
            _remove(path)
            path.symlink_to(values["to"])
            self._known[str(path)] = signature(path.lstat())
        else:
            self._file = path.with_name(path.name + _PART).open("wb")
            if not self._left:
                self._done()

    def _done(self) -> None:
        if self._file is None:
            return
        self._file.close()
        self._file = None
        path, part = Path(self._header["path"]), Path(self._header["path"] + _PART)
        part.chmod(stat.S_IMODE(self._header["mode"]))
        os.utime(part, ns=(self._header["ns"], self._header["ns"]))
        if path.is_dir() and not path.is_symlink():
            _remove(path)
        part.replace(path)
        self._known[str(path)] = signature(path.lstat())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            Path(self._header["path"] + _PART).unlink(missing_ok=True)


def _chunks(file: Any, size: int) -> Iterator[bytes]:
    """Exactly so many bytes, whatever becomes of the file meanwhile."""
    while size > 0:
        length = min(CHUNK, size)
        yield (file.read(length) or b"").ljust(length, b"\0")
        size -= length


def _within(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
