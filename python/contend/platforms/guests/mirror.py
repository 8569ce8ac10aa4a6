"""Files inside a guest, kept the same as the host's: what the host sends is written, what has changed is sent back.

Part of the agent, so nothing of contend is imported here either.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from typing import Any

CHUNK = 1 << 16


class Mirror:
    """The guest's side of the shared directories. `send` sends a frame: its kind, the request's number, and its bytes."""

    def __init__(self, send: Callable[[bytes, int, bytes], None]) -> None:
        self.send = send
        self.known: dict[str, tuple[int, ...]] = {}  # as both sides have them
        self.writing: tuple[int, int, dict[str, Any]] | None = None

    def say(self, kind: bytes, number: int, **fields: Any) -> None:
        self.send(kind, number, json.dumps(fields).encode())

    def begin_write(self, number: int, request: dict[str, Any]) -> None:
        """Make a directory or a link, or begin a file whose bytes follow; another kind of thing under that path is
        removed."""
        path, mode = request["path"], request["mode"]
        os.makedirs(os.path.dirname(path), exist_ok=True)
        there = os.lstat(path).st_mode if os.path.lexists(path) else 0
        if stat.S_IFMT(there) != stat.S_IFMT(mode) or stat.S_ISLNK(mode):
            self.forget(path)
        if stat.S_ISDIR(mode):
            os.makedirs(path, exist_ok=True)
            os.chmod(path, stat.S_IMODE(mode))
        elif stat.S_ISLNK(mode):
            os.symlink(request["to"], path)
        else:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            self.writing = (fd, number, request)
            self.write(b"")
            return
        self.known[path] = signature(os.lstat(path))
        self.say(b"a", number)

    def write(self, data: bytes) -> None:
        """Write bytes of the file that was begun."""
        if self.writing is None:
            return  # it could not be opened or written, and that was said
        fd, number, request = self.writing
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
        except OSError as error:  # the disk is full
            self.writing = None
            os.close(fd)
            self.say(b"F", number, error=error.errno, what=request["path"])
            return
        request["size"] -= len(data)
        if request["size"] > 0:
            return
        self.writing = None
        os.fchmod(fd, stat.S_IMODE(request["mode"]))
        os.close(fd)
        os.utime(request["path"], ns=(request["ns"], request["ns"]))
        self.known[request["path"]] = signature(os.lstat(request["path"]))
        self.say(b"a", number)

    def forget(self, path: str) -> None:
        """Remove a path, whatever it is."""
        self.known.pop(path, None)
        try:
            if stat.S_ISDIR(os.lstat(path).st_mode):
                for name in os.listdir(path):
                    self.forget(os.path.join(path, name))
                os.rmdir(path)
            else:
                os.unlink(path)
        except FileNotFoundError:
            pass

    def changes(self, number: int, roots: list[str], largest: int) -> None:
        """Send what is below the roots and has changed since both sides had the same; then what has gone."""
        entries: dict[str, os.stat_result] = {}
        for root in roots:
            walk(root, entries)
        kept = []
        for path, now in sorted(entries.items()):
            if self.known.get(path) == signature(now):
                continue
            if stat.S_ISREG(now.st_mode) and now.st_size > largest:
                kept.append(path)
                continue
            self.known[path] = signature(now)
            try:
                self.send_file(number, path, now)
            except FileNotFoundError:
                self.known.pop(path)
        below = tuple(root.rstrip("/") + "/" for root in roots)
        gone = [path for path in self.known if path.startswith(below) and path not in entries]
        for path in gone:
            del self.known[path]
        self.say(b"a", number, gone=gone, kept=kept)

    def send_file(self, number: int, path: str, now: os.stat_result) -> None:
        header = {"path": path, "mode": now.st_mode, "ns": now.st_mtime_ns, "to": "", "size": 0}
        if not stat.S_ISREG(now.st_mode):
            header["to"] = os.readlink(path) if stat.S_ISLNK(now.st_mode) else ""
            self.say(b"f", number, **header)
            return
        with open(path, "rb", buffering=0) as file:
            size = header["size"] = os.fstat(file.fileno()).st_size
            self.say(b"f", number, **header)
            while size > 0:
                length = min(CHUNK, size)
                data = (file.read(length) or b"").ljust(length, b"\0")  # cut off meanwhile
                self.send(b"d", number, data)
                size -= length


def signature(now: os.stat_result) -> tuple[int, ...]:
    """A value that changes when a file was written again."""
    if stat.S_ISDIR(now.st_mode):
        return (now.st_mode,)
    return (now.st_mode, now.st_size, now.st_mtime_ns, now.st_ino)


def walk(root: str, entries: dict[str, os.stat_result]) -> None:
    """Directories, files and links below `root`, but nothing that is of one side alone: sockets, devices."""
    try:
        names = os.listdir(root)
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        path = os.path.join(root, name)
        try:
            now = os.lstat(path)
        except FileNotFoundError:
            continue
        if stat.S_ISDIR(now.st_mode):
            entries[path] = now
            walk(path, entries)
        elif stat.S_ISREG(now.st_mode) or stat.S_ISLNK(now.st_mode):
            entries[path] = now
