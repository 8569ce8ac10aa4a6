"""What the guard's question to a URL of others says, where the answer is slow, wrong or none."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from contend.engine.guard import ask


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server of one connection, and its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                connection, _ = listening.accept()
                with connection:
                    connection.recv(4096)
                    answer(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    thread.join(10)


def drops(connection: socket.socket) -> None:
    """An answer that is always about to end: no single wait for it is long."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    for _ in range(400):
        connection.sendall(b"x")
        time.sleep(0.02)


def test_an_answer_in_drops_is_waited_for_no_longer_than_stated() -> None:
    with answering(drops) as url:
        seconds, why = ask(url, 0.3)
    assert why == "timed out" and 0.3 <= seconds < 4


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", ""),
        (b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 3_000_000, ""),
        (b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", ""),
        (b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", "status 503"),
        (b"nonsense\r\n", "nonsense"),
    ],
    ids=["whole", "longer than is read", "not there", "unwell", "no HTTP"],
)
def test_what_is_wrong_with_an_answer(said: bytes, why: str) -> None:
    def at_once(connection: socket.socket) -> None:
        with suppress(ConnectionError):
            connection.sendall(said)

    with answering(at_once) as url:
        assert ask(url, 5.0)[1].strip() == why
