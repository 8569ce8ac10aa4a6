"""Names of HTTP requests: method, host and path, ids folded; never a query, a user or a password."""

from __future__ import annotations

import re

_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"))
# A word, at most one digit at its end; or a version. What else is in a path tells things apart, or is nobody's business.
_WORD = re.compile(r"[A-Za-z_.][A-Za-z_.-]{0,31}\d?|v\d{1,2}(?:\.\d{1,3})*|")
_LETTERS_OF_AN_ID = re.compile(r"[A-Za-z]{25}|[a-f-]{12}")
_HOST = re.compile(r"(?:[\w.-]*|\[[\da-fA-F:.]*\])(?::\d*)?")
_MOST_SEGMENTS = 12
_MOST_NAMES = 1024

known: dict[tuple[object, object], str] = {}
"""What `served` said, by method and path."""


def folded(path: str) -> str:
    """A path with * in place of ids, tokens and numbers.

    >>> folded("/v2.1/servers/6a0f3c1e-0c1b-4b62-b1ce-2f8a33a1c2d4/os-volume_attachments?x=secret")
    '/v2.1/servers/*/os-volume_attachments'
    """
    path = path.partition("?")[0].partition("#")[0]
    segments = path.split("/")
    kept = [_kept(segment.partition(";")[0]) for segment in segments[: _MOST_SEGMENTS + 1]]
    return "/".join(kept) + ("/…" if len(segments) > _MOST_SEGMENTS + 1 else "")


def _kept(segment: str) -> str:
    return segment if _WORD.fullmatch(segment) and not _LETTERS_OF_AN_ID.search(segment) else "*"


def served(method: str, path: str) -> str:
    """Name of a request that comes in.

    >>> served("GET", "/users/17")
    'GET /users/*'
    """
    name = known.get((method, path))
    if name is None:
        name = f"{_method(method)} {folded(path)}"
        if len(known) >= _MOST_NAMES:
            known.clear()
        known[method, path] = name
    return name


def requested(method: object, host: object, port: object, url: object) -> str:
    """Name of a request that goes out to that host; `url` a path or whole.

    >>> requested("GET", "db.example", 8080, "/items/3?key=secret")
    'HTTP GET db.example:8080/items/*'
    """
    text = str(url)
    scheme, whole, rest = text.partition("://")
    path = "/" + rest.partition("/")[2] if whole and scheme.isalnum() else text
    where = host if port in (None, 80, 443) else f"{host}:{port}"
    return f"HTTP {_method(method)} {where}{folded(path)}"


def requested_whole(method: object, url: object) -> str:
    """Name of a request by method, host and path of a whole URL.

    >>> requested_whole("GET", "http://me:secret@db.example:8080/items/3?key=secret")
    'GET db.example:8080/items/*'
    """
    rest = re.split(r"[?#]", str(url).partition("://")[2], maxsplit=1)[0]
    where, _, path = rest.partition("/")
    where = where.rpartition("@")[2]
    return f"{_method(method)} {where if _HOST.fullmatch(where) else '*'}{folded('/' + path)}"


def _method(method: object) -> str:
    known = str(method).upper()
    return known if known in _METHODS else "other"


def flow(client: tuple[str, int], port: object) -> str | None:
    """The key by which both ends know a connection over the loopback device; None for others."""
    address = client[0]
    if not (address.startswith("127.") or address == "::1"):
        return None
    return f"http {address}:{client[1]}>{port}"
