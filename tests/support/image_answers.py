"""Answers about 256,000 bytes, word by word: for servers that are not as they should be."""

from __future__ import annotations

import hashlib

CONTENT = bytes(range(256)) * 1000
TAGGED = b'HTTP/1.1 200 OK\r\nETag: "a"\r\nContent-Length: 256000\r\n\r\n'
UNTAGGED = b"HTTP/1.1 200 OK\r\nContent-Length: 256000\r\n\r\n"
SUM = "sha256:" + hashlib.sha256(CONTENT).hexdigest()
NOTHING_LEFT = b"HTTP/1.1 416 R\r\nContent-Range: bytes */256000\r\nContent-Length: 0\r\n\r\n"


def first_byte(request: bytes) -> int | None:
    """Which byte is asked for first; None: all of them."""
    for line in request.split(b"\r\n"):
        if line.startswith(b"Range: bytes="):
            return int(line[13:].rstrip(b"-"))
    return None


def part(start: int, end: int, whole: str = "256000", tag: bytes = b'ETag: "a"\r\n') -> bytes:
    """The bytes from start up to, and without, end."""
    said = f"Content-Range: bytes {start}-{end - 1}/{whole}\r\nContent-Length: {end - start}\r\n\r\n"
    return b"HTTP/1.1 206 Partial Content\r\n" + tag + said.encode() + CONTENT[start:end]
