"""Requests and answers of a stated size over TCP or UDP, at a stated rate: an open loop.

Requests are due at Poisson times that are fixed beforehand. Each is timed from when it was due to the last byte of its
answer, so a stall shows in every request that it delayed. The answer is the request, sent back. An unanswered datagram is
counted, not timed.

This file is a program too, for the ends of a pair that have nothing of contend: it needs Python 3.8 and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import random
import select
import signal
import socket
import sys
import time
from typing import Literal, NamedTuple

Protocol = Literal["tcp", "udp"]
DRAIN_S = 0.5
_NUMBER = 8
_BUFFER = 4 * 2**20


class Timed(NamedTuple):
    """Figures of one pacer. latencies_s: of answered requests, from when each was due; lateness_s: of all requests sent."""

    due: int
    latencies_s: list[float]
    lateness_s: list[float]


def schedule(rate: float, seconds: float, seed: int) -> list[int]:
    """When requests are due, ns from the start: Poisson arrivals.

    >>> due = schedule(1000.0, 1.0, 3)
    >>> 900 < len(due) < 1100, due == sorted(due), due == schedule(1000.0, 1.0, 3)
    (True, True, True)
    """
    chance = random.Random(seed)
    due_ns, at = [], chance.expovariate(rate)
    while at < seconds:
        due_ns.append(int(at * 1e9))
        at += chance.expovariate(rate)
    return due_ns


def listen(protocol: Protocol, address: str, port: int = 0) -> socket.socket:
    """Bind a socket; one of TCP also listens."""
    kind = socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM
    served = socket.socket(socket.AF_INET, kind)
    if protocol == "tcp":
        served.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    else:
        _roomy(served)
    served.bind((address, port))
    if protocol == "tcp":
        served.listen(1)
    return served


def answer(served: socket.socket, message: int) -> None:
    """Answer one client of a socket of `listen` until it hangs up; of UDP until an empty datagram comes."""
    if served.type == socket.SOCK_DGRAM:
        while True:
            data, client = served.recvfrom(65536)
            if not data:
                return
            served.sendto(data, client)
    connection, _ = served.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        # Whole messages only: an answer begins when its request is there.
        held = bytearray()
        while data := connection.recv(65536):
            held += data
            whole = len(held) - len(held) % message
            if whole:
                connection.sendall(held[:whole])
                del held[:whole]


def pace(
    protocol: Protocol, address: str, port: int, *, message: int, due_ns: list[int], seconds: float
) -> Timed:
    """Send a message of so many bytes at each of `due_ns` and time its answer. Raises OSError where nothing listens."""
    kind = socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM
    with socket.socket(socket.AF_INET, kind) as to:
        if protocol == "tcp":
            to.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            _roomy(to)
        to.settimeout(5.0)
        to.connect((address, port))
        to.setblocking(False)
        return _paced(to, _Answers(message, stream=protocol == "tcp"), due_ns, seconds)


def _roomy(of: socket.socket) -> None:
    """Room for a burst of large datagrams; the kernel gives as much of it as it allows."""
    of.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
    of.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)


class _Answers:
    """Requests that what was received answers."""

    def __init__(self, message: int, *, stream: bool) -> None:
        self._message, self._stream = message, stream
        self._bytes, self._whole = 0, 0
        self._seen: set[int] = set()

    def of(self, data: bytes) -> list[int]:
        if not self._stream:
            number = int.from_bytes(data[:_NUMBER], "big")
            if number in self._seen:
                return []
            self._seen.add(number)
            return [number]
        self._bytes += len(data)
        first, self._whole = self._whole, self._bytes // self._message
        return list(range(first, self._whole))

    def message(self, number: int) -> bytes:
        return number.to_bytes(_NUMBER, "big") + bytes(self._message - _NUMBER)

    @property
    def stream(self) -> bool:
        return self._stream


def _paced(to: socket.socket, answers: _Answers, due_ns: list[int], seconds: float) -> Timed:
    latencies: dict[int, float] = {}
    lateness: list[float] = []
    waiting = bytearray()  # of a stream: what the socket had no room for
    began = time.monotonic_ns()
    end = began + int((seconds + DRAIN_S) * 1e9)
    sent = 0
    while True:
        now = time.monotonic_ns()
        while sent < len(due_ns) and began + due_ns[sent] <= now:
            lateness.append((now - began - due_ns[sent]) / 1e9)
            if answers.stream:
                waiting += answers.message(sent)
                _flush(to, waiting)
            else:
                _send(to, answers.message(sent))
            sent += 1
            now = time.monotonic_ns()
        if (sent == len(due_ns) and len(latencies) == sent) or now >= end:
            return Timed(len(due_ns), list(latencies.values()), lateness)
        until = min(end, began + due_ns[sent]) if sent < len(due_ns) else end
        readable, writable, _ = select.select(
            [to], [to] if waiting else [], [], max(0.0, (until - now) / 1e9)
        )
        if writable:
            _flush(to, waiting)
        if readable:
            for number in _received(to, answers):
                latencies[number] = (time.monotonic_ns() - began - due_ns[number]) / 1e9


def _flush(to: socket.socket, waiting: bytearray) -> None:
    try:
        while waiting:
            del waiting[: to.send(waiting)]
    except BlockingIOError:
        pass


def _send(to: socket.socket, message: bytes) -> None:
    """A datagram that finds no room is lost, as one that finds none on its way is."""
    with contextlib.suppress(BlockingIOError, ConnectionRefusedError):
        to.send(message)


def _received(to: socket.socket, answers: _Answers) -> list[int]:
    numbers: list[int] = []
    try:
        while True:
            data = to.recv(65536)
            if not data:
                raise ConnectionResetError("the server hung up")
            numbers += answers.of(data)
            if answers.stream and len(data) < 65536:
                return numbers
    except BlockingIOError:
        return numbers


def hang_up(address: str, port: int) -> None:
    """Send a UDP server the empty datagram that ends it; a few times, since it may be lost."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to, contextlib.suppress(ConnectionRefusedError):
        to.connect((address, port))
        for _ in range(3):
            to.send(b"")
            time.sleep(0.02)


def main(arguments: list[str]) -> None:
    """`serve PROTOCOL ADDRESS PORT MESSAGE SECONDS`, or `pace … SECONDS RATE SEED`, which prints what it saw as JSON."""
    verb, protocol, address = arguments[0], arguments[1], arguments[2]
    port, message, seconds = int(arguments[3]), int(arguments[4]), float(arguments[5])
    of: Protocol = "udp" if protocol == "udp" else "tcp"
    if verb == "serve":
        signal.alarm(max(1, round(seconds)))  # whoever asked may be gone by then
        with listen(of, address, port) as served:
            print("listening", flush=True)
            # A client whose time is up goes without what it has not read.
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                answer(served, message)
        return
    due = schedule(float(arguments[6]), seconds, int(arguments[7]))
    seen = pace(of, address, port, message=message, due_ns=due, seconds=seconds)
    print(json.dumps(seen._asdict()))
    if of == "udp":
        hang_up(address, port)


if __name__ == "__main__":
    main(sys.argv[1:])
