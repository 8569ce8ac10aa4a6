"""Connections that are slow, silent or many, and the next one, which is none of that."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contend.serve import connections
from contend.serve.access import Access, Listen
from contend.serve.answers import Answer
from contend.serve.index import Index
from contend.serve.requests import BadRequest, Request, parse
from contend.serve.server import Server
from support.asking import ask, raw, served

LARGE = 64 * 2**20  # more than the kernel takes for a reader that does not read


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Of one directory that holds nothing but a report, larger than any buffer."""
    (tmp_path / "runs/large").mkdir(parents=True)
    with (tmp_path / "runs/large/report.html").open("wb") as file:
        file.truncate(LARGE)
    with served(tmp_path / "runs") as started:
        yield started


@contextlib.contextmanager
def many(server: Server, count: int, first: bytes) -> Iterator[list[socket.socket]]:
    """So many connections that have sent that, and go on with a byte each tenth of a second, whether or not it is taken."""
    with contextlib.ExitStack() as stack:
        peers = [
            stack.enter_context(socket.create_connection(server.server_address[:2], 20)) for _ in range(count)
        ]
        for peer in peers:
            peer.sendall(first)
        ended = threading.Event()

        def drip() -> None:
            while not ended.wait(0.1):
                for peer in peers:
                    with contextlib.suppress(OSError):
                        peer.send(b"x")

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            yield peers
        finally:
            ended.set()
            thread.join()


SLOW = {
    "silent": b"",
    "amid its request": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
    "not reading": b"GET /run/large/report.html HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
}


@pytest.mark.parametrize("first", SLOW.values(), ids=SLOW)
def test_two_hundred_that_are_slow_do_not_stop_the_next(
    server: Server, first: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for deadline in ("REQUEST_S", "TAKE_S"):
        monkeypatch.setattr(connections, deadline, 60.0)  # longer than who asks waits
    # On a busy host all two hundred may still wait to be answered: the next one would be told to come again.
    monkeypatch.setattr(connections, "MOST_QUEUED", 201)
    with many(server, 200, first):
        assert ask(server, "/").status == 200


def test_more_than_are_held_lose_the_slowest(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 20)
    with many(server, 60, b"GET") as peers:
        assert ask(server, "/").status == 200
        peers[0].settimeout(5)
        with contextlib.suppress(ConnectionResetError):
            assert peers[0].recv(1) == b""


def test_a_request_has_a_deadline(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_S", 0.3)
    assert raw(server, b"GET / HT").status == 408


def test_an_answer_that_is_not_taken_has_a_deadline(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "TAKE_S", 0.2)
    monkeypatch.setattr(connections, "LEAST_BYTES_S", 2**40)
    with socket.create_connection(server.server_address[:2], 20) as peer:
        peer.sendall(SLOW["not reading"])
        time.sleep(1)
        got = 0
        with contextlib.suppress(ConnectionResetError):
            while chunk := peer.recv(1 << 20):
                got += len(chunk)
    assert 0 < got < LARGE


def test_working_an_answer_out_has_a_deadline(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "ANSWER_S", 0.3)
    ended = threading.Event()
    real = server.pages.answer

    def slow(parts: list[str], query: dict[str, list[str]]) -> Answer:
        if parts == ["slow"]:
            ended.wait(20)
        return real(parts, query)

    monkeypatch.setattr(server.pages, "answer", slow)
    try:
        got = ask(server, "/slow")
        assert (got.status, got.headers["retry-after"]) == (503, "5")
        assert ask(server, "/assets/page.css").status == 200
    finally:
        ended.set()


def test_what_waits_is_bounded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_QUEUED", 3)
    ended = threading.Event()
    monkeypatch.setattr(server.pages, "answer", lambda parts, query: Answer(b"x" * ended.wait(20)))
    request = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with contextlib.ExitStack() as stack:
        peers = [
            stack.enter_context(socket.create_connection(server.server_address[:2], 20)) for _ in range(3)
        ]
        for peer in peers:
            peer.sendall(request)
        until = time.monotonic() + 10
        while server._connections._queued < 3 and time.monotonic() < until:
            time.sleep(0.01)
        assert raw(server, request).status == 503
        ended.set()
        assert all(peer.recv(1 << 16).startswith(b"HTTP/1.0 200") for peer in peers)
    assert raw(server, request).status == 200


def test_a_request_of_any_size_is_refused_early(server: Server) -> None:
    with socket.create_connection(server.server_address[:2], 20) as peer:
        sent = 0
        with contextlib.suppress(OSError):
            for _ in range(2000):
                sent += peer.send(b"GET /" + b"a" * 2**16)
        assert sent < 2000 * 2**16 or b" 431 " in peer.recv(100)
    assert ask(server, "/").status == 200


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost\r\n\r\n", 400),
        (b"GET  / HTTP/1.1\r\n\r\n", 400),
        (b"GET / FTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 101 + b"\r\n", 431),
    ],
)
def test_what_is_no_head(head: bytes, status: int) -> None:
    with pytest.raises(BadRequest) as caught:
        parse(head)
    assert caught.value.status == status


def test_a_head() -> None:
    assert parse(b"GET /a?b=c HTTP/1.0\nA: 1\n\n", "::1") == Request("GET", "/a?b=c", {"a": ("1",)}, "::1")


def test_an_interrupt_while_its_thread_begins_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that outlives `serve` keeps what DuckDB has made, which that complains of when the process ends."""
    begin = threading.Thread._bootstrap  # type: ignore[attr-defined]

    def late(self: threading.Thread) -> None:
        if self.name == "serves":
            time.sleep(0.5)  # as on a busy host
        begin(self)

    monkeypatch.setattr(threading.Thread, "_bootstrap", late)
    (tmp_path / "runs").mkdir()
    where = Listen.parse("127.0.0.1:0")
    with Server(where, Index(tmp_path / "runs"), Access(where.loopback)) as server:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        server.serve_until_interrupted()
    assert [thread.name for thread in threading.enumerate() if thread.name == "serves"] == []


def test_an_interrupt_that_another_thread_takes_ends_it(tmp_path: Path) -> None:
    """Where the main thread blocks it, the kernel gives it to any other, which interrupts no wait of the main one."""

    def take() -> None:
        time.sleep(0.3)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    (tmp_path / "runs").mkdir()
    where = Listen.parse("127.0.0.1:0")
    with Server(where, Index(tmp_path / "runs"), Access(where.loopback)) as server:
        threading.Thread(target=take, daemon=True).start()
        late = threading.Timer(20, server.shutdown)  # what is wrong shall fail, not hang
        late.start()
        began = time.monotonic()
        server.serve_until_interrupted()
        late.cancel()
    assert time.monotonic() - began < 15
