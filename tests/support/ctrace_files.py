"""Trace files made from chunks, by docs/reference/ctrace.md and without the code under test."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

BEGIN, END, INSTANT, COUNTER, SWITCH, FLOW_OUT, FLOW_IN, JOB_BEGIN, JOB_END = range(1, 10)
LOCK_WAIT, LOCK_ACQUIRED, LOCK_RELEASED, LOCK_GIVEN_UP, QUEUE_PUT, QUEUE_GOT, LOCK_PASSED = range(16, 23)
ARG, INT, FLOAT, CPU = range(32, 36)
PROCESS, THREAD, GREENLET, TASK, LOOP = range(5)
LOCK, REENTRANT, SEMAPHORE, CONDITION, QUEUE, INTERPRETER = range(1, 7)

_MASK = (1 << 64) - 1


def fnv(payload: bytes) -> int:
    """FNV-1a over words of eight bytes."""
    total = 0xCBF29CE484222325
    padded = payload + bytes(-len(payload) % 8)
    for (word,) in struct.iter_unpack("<Q", padded):
        total = ((total ^ word) * 0x100000001B3) & _MASK
    return total


def event(ticks: int, kind: int, ident: int = 0, value: int = 0) -> bytes:
    return struct.pack("<QQ", ticks & _MASK, kind | ident << 8 | value << 32)


def number(value: float, ident: int = 0) -> bytes:
    """INT or FLOAT: of the event before, or with a name an argument."""
    if isinstance(value, int):
        return event(value, INT, ident)
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    return event(bits, FLOAT, ident)


class Made:
    """A file in the making. Names are told by text; ids are given as they come."""

    def __init__(
        self, pid: int, *, clock: int = 0, ticks: int = 0, ns: int = 0, ticks_per_s: int = 10**9
    ) -> None:
        self.pid = pid
        self._data = bytearray(b"CTRACE\0\0")
        self._data += struct.pack("<IIIIQQQQQ", 1, pid, 1, clock, 77, ticks, ns, 0, ticks_per_s)
        self._strings: dict[str, int] = {}

    def chunk(self, kind: int, payload: bytes) -> None:
        self._data += struct.pack("<IIQ", kind, len(payload), fnv(payload)) + payload
        self._data += bytes(-len(payload) % 8)

    def string(self, text: str) -> int:
        """Its id; told before it is used."""
        if text not in self._strings:
            self._strings[text] = len(self._strings) + 1
            data = text.encode()
            self.chunk(2, struct.pack("<II", self._strings[text], len(data)) + data + bytes(-len(data) % 4))
        return self._strings[text]

    def track(self, ident: int, kind: int, name: str, *, parent: int = 0, tid: int = 0) -> None:
        self.chunk(3, struct.pack("<IIIIQQ", ident, kind, parent, self.string(name), tid, 0))

    def lock(self, ident: int, kind: int, name: str, site: str = "", *, shared: int = 0) -> None:
        where = self.string(site) if site else 0
        self.chunk(4, struct.pack("<IIIIQ", ident, kind, self.string(name) if name else 0, where, shared))

    def events(self, ring: int, events: Sequence[bytes]) -> None:
        self.chunk(1, struct.pack("<II", ring, len(events)) + b"".join(events))

    def sync(self, ticks: int, ns: int) -> None:
        self.chunk(5, struct.pack("<QQ", ticks, ns))

    def dropped(self, ring: int, count: int, first: int, last: int) -> None:
        self.chunk(6, struct.pack("<IIQQQ", ring, 0, count, first, last))

    def end(self, ticks: int) -> None:
        self.chunk(7, struct.pack("<Q", ticks))

    def bytes(self) -> bytes:
        return bytes(self._data)

    def save(self, directory: Path) -> Path:
        path = directory / f"{self.pid}-77.ctrace"
        path.write_bytes(self._data)
        return path


def save_all(directory: Path, files: Iterable[Made]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for file in files:
        file.save(directory)
    return directory
