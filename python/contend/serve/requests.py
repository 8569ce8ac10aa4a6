"""A request as its head says it, and the head of an answer. Small on purpose: GET and HEAD, one request a connection."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus

MOST_BYTES = 32 * 1024  # of a head; browsers send one or two thousand
MOST_HEADERS = 100


class BadRequest(Exception):
    """A request that is malformed. `status`: of its answer."""

    def __init__(self, status: int) -> None:
        super().__init__(HTTPStatus(status).phrase)
        self.status = status


@dataclass(frozen=True, slots=True)
class Request:
    """method and target as they came; headers by their names in small letters, each with all its values."""

    method: str
    target: str
    headers: Mapping[str, tuple[str, ...]]
    client: str

    def header(self, name: str) -> str | None:
        """The header's first value."""
        return next(iter(self.headers.get(name, ())), None)

    @property
    def path(self) -> str:
        """The target without its query, which may hold a token."""
        return self.target.partition("?")[0]


def parse(head: bytes, client: str = "") -> Request:
    """Parse a request's head, with the empty line that ends it. Raises BadRequest.

    >>> parse(b"GET /run?x=1 HTTP/1.1\\r\\nHost: a\\r\\nHOST: b\\r\\n\\r\\n").headers["host"]
    ('a', 'b')
    """
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\n")
    words = first.rstrip("\r").split(" ")
    if len(words) != 3 or not words[0] or not words[1]:
        raise BadRequest(HTTPStatus.BAD_REQUEST)
    method, target, version = words
    if not version.startswith("HTTP/"):
        raise BadRequest(HTTPStatus.BAD_REQUEST)
    if not version.startswith("HTTP/1."):
        raise BadRequest(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
    if len(lines) > MOST_HEADERS:
        raise BadRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    headers: dict[str, tuple[str, ...]] = {}
    for line in lines:
        name, colon, value = line.rstrip("\r").partition(":")
        if (
            not colon or not name or name != name.strip()
        ):  # RFC 9112, 5.1 and 5.2: neither folded nor blank before the colon
            raise BadRequest(HTTPStatus.BAD_REQUEST)
        headers[name.lower()] = (*headers.get(name.lower(), ()), value.strip())
    return Request(method, target, headers, client)


def answer_head(status: int, headers: Mapping[str, str]) -> bytes:
    """Write the head of an answer, after which the connection is closed."""
    fields = {
        "Server": "contend",
        "Date": formatdate(time.time(), usegmt=True),
        "Connection": "close",
        **headers,
    }
    lines = [
        f"HTTP/1.0 {status} {HTTPStatus(status).phrase}",
        *(f"{name}: {value}" for name, value in fields.items()),
    ]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a header of more than one line")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
