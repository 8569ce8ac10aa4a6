"""Requests as they are on the wire, to a server of `contend serve`."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from contend.serve.access import Access, Listen
from contend.serve.index import Index
from contend.serve.server import Server
from support.serving import serving


@dataclass(frozen=True)
class Got:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


@contextmanager
def served(place: Path, token: str | None = None, **access: object) -> Iterator[Server]:
    """The real server, on a free port of loopback."""
    may = Access(True, token, **access)  # type: ignore[arg-type]
    index = Index(place)
    with serving(server := Server(Listen("127.0.0.1", 0), index, may)):
        yield server
    index.close()


def raw(server: Server, request: bytes) -> Got:
    """What these bytes are answered."""
    with socket.create_connection(server.server_address[:2], timeout=20) as peer:
        peer.sendall(request)
        parts = []
        while chunk := peer.recv(1 << 16):
            parts.append(chunk)
    head, _, body = b"".join(parts).partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    return Got(int(first.split()[1]), headers, body)


def ask(
    server: Server, path: str, *, method: str = "GET", host: str | None = "127.0.0.1", **headers: str
) -> Got:
    """A request of that path, exactly as written. headers: with _ for -."""
    told = {"Host": host, **{k.replace("_", "-"): v for k, v in headers.items()}}
    lines = [f"{method} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in told.items() if v is not None), "", ""]
    return raw(server, "\r\n".join(lines).encode())
