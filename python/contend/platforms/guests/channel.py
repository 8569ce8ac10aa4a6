"""The host's end of the connection to a guest's agent: requests, answers, and the output of commands inside.

One thread reads; whoever asks waits for the answer to its own number. When QEMU ends, everybody who waits is told.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from contend.errors import HostFailed
from contend.platforms.guests.agent import CHUNK, HEADER

_WITHIN_S = 120.0
_PINGS = 5


class Silent(HostFailed):
    """A guest that has neither answered nor ended in its time: it stands still, or the host has too much to do."""


@dataclass(slots=True)
class Frame:
    """A frame from the guest and when it was read, CLOCK_MONOTONIC, ns. kind "": none will follow."""

    kind: bytes
    data: bytes
    at_ns: int

    @property
    def values(self) -> dict[str, Any]:
        values: dict[str, Any] = json.loads(self.data or b"{}")
        return values


@dataclass(slots=True)
class Task:
    """A command inside. `ended` is set when `exit` holds the agent's report of its end, or None: the guest is gone.
    `gone` is set when what it has left running has ended, too."""

    number: int
    outputs: dict[bytes, int]
    lock: threading.Lock = field(default_factory=threading.Lock)
    ended: threading.Event = field(default_factory=threading.Event)
    gone: threading.Event = field(default_factory=threading.Event)
    exit: dict[str, Any] | None = None

    def write(self, kind: bytes, data: bytes) -> None:
        with self.lock:
            view = memoryview(data if kind in self.outputs else b"")
            while view:
                view = view[os.write(self.outputs[kind], view) :]

    def close(self) -> None:
        with self.lock:
            for fd in self.outputs.values():
                os.close(fd)
            self.outputs = {}


class Channel:
    """The connection. `why_gone` says what became of the guest. `listening` is called with a port once something listens
    there."""

    def __init__(
        self, connection: socket.socket, why_gone: Callable[[], str], listening: Callable[[int], None]
    ) -> None:
        self._connection, self._why_gone, self._listening = connection, why_gone, listening
        self._sending, self._lock = threading.Lock(), threading.Lock()
        self.moving_files = threading.Lock()  # held by whoever sends or asks for files
        self._next = 0
        self._answers: dict[int, queue.SimpleQueue[Frame]] = {0: queue.SimpleQueue()}
        self._tasks: dict[int, Task] = {}
        self._gone = False
        self._reader = threading.Thread(target=self._read, name="guest", daemon=True)
        self._reader.start()

    # Requests

    def hello(self, within_s: float) -> dict[str, Any]:
        """Read what the agent says of its machine when it is up. Raises HostFailed."""
        return self._wait(0, within_s).values

    def ask(self, kind: bytes, within_s: float = _WITHIN_S, **fields: Any) -> dict[str, Any]:
        """Send a request and return its answer. Raises HostFailed with what the agent could not do, or when the guest is
        gone."""
        return self.answer(self.send(kind, **fields), within_s)

    def send(self, kind: bytes, **fields: Any) -> int:
        """Send a request and return its number, for `answer`."""
        with self._lock:
            self._next += 1
            number = self._next
            self._answers[number] = queue.SimpleQueue()
        self._send(kind, number, json.dumps(fields).encode())
        return number

    def send_data(self, chunks: Iterable[bytes]) -> None:
        for chunk in chunks:
            self._send(b"D", 0, chunk)

    def answer(
        self, number: int, within_s: float = _WITHIN_S, take: Callable[[Frame], None] | None = None
    ) -> dict[str, Any]:
        """Wait for the answer to a request; `take` gets the files that come before it."""
        while True:
            frame = self._wait(number, within_s)
            if frame.kind in (b"f", b"d") and take is not None:
                take(frame)
                continue
            with self._lock:
                del self._answers[number]
            if frame.kind == b"F":
                what = frame.values
                raise HostFailed(f"the guest cannot: {what['what']}", hint=os.strerror(what["error"] or 5))
            return frame.values

    def run(
        self, argv: Iterable[str], cwd: str, env: dict[str, str], outputs: dict[bytes, int]
    ) -> tuple[Task, Frame]:
        """Start a command. The frame says that it began, or why it did not. Both outputs are closed at its end."""
        with self._lock:
            self._next += 1
            number = self._next
            self._answers[number] = queue.SimpleQueue()
            task = self._tasks[number] = Task(number, outputs)
        self._send(b"R", number, json.dumps({"argv": list(argv), "cwd": cwd, "env": env}).encode())
        frame = self._wait(number, _WITHIN_S)
        with self._lock:
            del self._answers[number]
            if frame.kind != b"B":
                self._tasks.pop(number).close()
        return task, frame

    def clock(self) -> tuple[int, int]:
        """(what to add to the guest's CLOCK_MONOTONIC to have this host's, how wrong that may be), in ns.

        By the quickest of some exchanges, as NTP does: the agent looked at its clock between asking and answer.
        """
        best: tuple[int, int] | None = None
        for _ in range(_PINGS):
            sent_ns = time.monotonic_ns()
            with self._lock:
                self._next += 1
                number = self._next
                self._answers[number] = queue.SimpleQueue()
            self._send(b"P", number)
            frame = self._wait(number, _WITHIN_S)
            with self._lock:
                del self._answers[number]
            half = (frame.at_ns - sent_ns) // 2
            if best is None or half < best[1]:
                best = sent_ns + half - int(frame.data), half
        assert best is not None
        return best

    def close(self) -> None:
        """Close the connection, after QEMU has ended. Idempotent."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._reader.join()
        self._connection.close()

    # Inside

    def _send(self, kind: bytes, number: int, data: bytes = b"") -> None:
        try:
            with self._sending:
                self._connection.sendall(HEADER.pack(kind, number, len(data)) + data)
        except OSError as error:
            raise self._failed() from error

    def _wait(self, number: int, within_s: float) -> Frame:
        with self._lock:
            answers = self._answers.get(number)
            if answers is None or (self._gone and answers.empty()):
                raise self._failed()
        try:
            frame = answers.get(timeout=within_s)
        except queue.Empty:
            raise Silent(
                f"the guest did not answer within {within_s:g} s", hint=self._why_gone() or "contend doctor"
            ) from None
        if not frame.kind:
            raise self._failed()
        return frame

    def _failed(self) -> HostFailed:
        return HostFailed("the guest is gone", hint=self._why_gone() or "contend doctor")

    def _read(self) -> None:
        buffer = bytearray()
        with contextlib.suppress(OSError):
            while data := self._connection.recv(4 * CHUNK):
                at_ns = time.monotonic_ns()
                buffer += data
                start = 0
                while len(buffer) - start >= HEADER.size:
                    kind, number, length = HEADER.unpack_from(buffer, start)
                    end = start + HEADER.size + length
                    if len(buffer) < end:
                        break
                    self._take(kind, number, bytes(buffer[start + HEADER.size : end]), at_ns)
                    start = end
                del buffer[:start]
        with self._lock:
            self._gone = True
            for answers in self._answers.values():
                answers.put(Frame(b"", b"", time.monotonic_ns()))
            for task in self._tasks.values():
                task.close()
                task.ended.set()
                task.gone.set()

    def _take(self, kind: bytes, number: int, data: bytes, at_ns: int) -> None:
        if kind in (b"o", b"e"):
            task = self._tasks.get(number)
            if task is not None:
                task.write(kind, data)
        elif kind == b"x":
            task = self._tasks[number]
            task.exit = json.loads(data)
            if task.exit["alone"]:
                task.gone.set()
            task.ended.set()
        elif kind == b"g":
            task = self._tasks.get(number)
            if task is not None:
                task.gone.set()
        elif kind == b"l":
            self._listening(number)
        else:
            answers = self._answers.get(number if kind != b"H" else 0)
            if answers is not None:
                answers.put(Frame(kind, data, at_ns))

    def forget(self, task: Task) -> None:
        """Stop taking a command's outputs."""
        with self._lock:
            self._tasks.pop(task.number, None)
        task.close()
