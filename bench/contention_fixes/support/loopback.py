"""Small servers on the loopback device that stand for what a service talks to: they answer late, as a network does.

Each runs in daemon threads of the workload and ends with it. Answers are late by a sleep, so that they cost no CPU time.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Answer = Callable[[socket.socket, bytes], bytes | None]
"""Given the connection and one line without its end; the bytes to send, or None to close."""


def serve_lines(answer: Answer, *, late_s: float = 0.0) -> int:
    """Start a server with a thread a connection that answers line by line. Returns its port.

    `late_s` is how long a network would take: what arrives together is late once.
    """

    def serve(peer: socket.socket) -> None:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        rest = b""
        with peer:
            while received := peer.recv(65536):
                if late_s:
                    time.sleep(late_s)
                *lines, rest = (rest + received).split(b"\n")
                replies = []
                for line in lines:
                    reply = answer(peer, line.rstrip(b"\r"))
                    if reply is None:
                        return
                    replies.append(reply)
                if any(replies):
                    peer.sendall(b"".join(replies))

    return _listen(serve)


def serve_http(
    seconds_of: Callable[[str], float], body_of: Callable[[str], bytes], *, at_once: bool = True
) -> int:
    """Start a server of GET requests that answers a path after `seconds_of(path)`. Returns its port.

    Without `at_once` it does one request at a time, as a service with one worker does.
    """
    worker = threading.Lock()

    def work(path: str) -> bytes:
        time.sleep(seconds_of(path))
        return body_of(path)

    def serve(peer: socket.socket) -> None:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with peer, peer.makefile("rb") as lines:
            while request := lines.readline():
                path = request.split(b" ")[1].decode()
                while lines.readline() not in (b"\r\n", b""):
                    pass
                if at_once:
                    body = work(path)
                else:
                    with worker:
                        body = work(path)
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                peer.sendall(head.encode() + body)

    return _listen(serve)


@contextmanager
def connect_lines(port: int) -> Iterator[Callable[[bytes], bytes]]:
    """A connection to `serve_lines`: a function that sends a line and returns its answer."""
    with socket.create_connection(("127.0.0.1", port)) as peer, peer.makefile("rb") as lines:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def ask(line: bytes) -> bytes:
            peer.sendall(line + b"\n")
            return lines.readline().rstrip(b"\n")

        yield ask


def free_port() -> int:
    """A port that nobody has now, for a server that must be told one."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def wait_for(port: int) -> None:
    """Return when a server accepts connections there. Raises TimeoutError after 10 s."""
    for _ in range(1000):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.01)
        else:
            return
    raise TimeoutError(f"no server on port {port} after 10 s")


def _listen(serve: Callable[[socket.socket], None]) -> int:
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)

    def quietly(peer: socket.socket) -> None:
        try:
            serve(peer)
        except OSError:
            peer.close()  # the client went away

    def accept() -> None:
        while True:
            peer, _ = listener.accept()
            threading.Thread(target=quietly, args=(peer,), daemon=True).start()

    threading.Thread(target=accept, name="loopback", daemon=True).start()
    return int(listener.getsockname()[1])
