"""HTTP/1.1 on kept-alive connections: as much of it as a cloud's APIs speak, and no more.

The libraries that do all of it cost a storm's client most of its processor time: importing them takes longer than a
storm of twenty servers, and each answer's headers go through a parser of e-mails (`http.client.parse_headers`). What is
here is RFC 9112's message syntax without trailers' values, pipelining and content codings, which nobody asked for.

Errors say how far a request came: NotSent, it never left; Untrusted, TLS refused; Lost, nobody knows.
"""

from __future__ import annotations

import re
import select
import socket
import time
import weakref
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    import ssl

MOST_HEAD = 1 << 16
MOST_BODY = 1 << 28  # a listing of a thousand servers is a few MB
_PIECE = 1 << 16
_NO_TARGET = re.compile(r"[^\x21-\x7e]")
_PORTS = {"http": 80, "https": 443}


class NotSent(Exception):
    """The request certainly never reached a server."""


class Untrusted(Exception):
    """One side's certificate, or TLS itself, was refused by the other."""


class Lost(Exception):
    """The request left; a whole answer never came."""


class Origin(NamedTuple):
    """Scheme, host and port that a URL's requests go to."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """The origin as a Host header has it.

        >>> Origin("http", "::1", 8774).authority, Origin("https", "cloud", 443).authority
        ('[::1]:8774', 'cloud')
        """
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


class Headers(dict[str, str]):
    """Headers by name, in any case."""

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name.lower(), default)

    def __getitem__(self, name: str) -> str:
        return super().__getitem__(name.lower())


class Received(NamedTuple):
    """A whole answer. `sent_ns`: CLOCK_MONOTONIC when its request was written to a connection that was up."""

    status: int
    headers: Headers
    body: bytes
    sent_ns: int


def split_url(url: str) -> tuple[Origin, str]:
    """The origin of a URL, and the request's target there. Raises NotSent for what is no URL of http or https.

    >>> split_url("http://[::1]:8774/v2.1/servers?limit=5")
    (Origin(scheme='http', host='::1', port=8774), '/v2.1/servers?limit=5')
    """
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if parts.scheme not in _PORTS or not parts.hostname or port == -1 or _NO_TARGET.search(target):
        raise NotSent(f"'{parts.scheme}://{parts.hostname}' has no URL that can be asked")
    return Origin(parts.scheme, parts.hostname, port or _PORTS[parts.scheme]), target


class Wire:
    """Connections to any number of servers, for any number of threads.

    keep: most idle connections to one server. context: made when TLS is first needed. proxy: gives a URL's proxy, ""
    for none; asked once a server.
    """

    def __init__(
        self,
        *,
        keep: int,
        connect_s: float,
        read_s: float,
        context: Callable[[], ssl.SSLContext],
        proxy: Callable[[str], str],
    ) -> None:
        self._keep, self._connect_s, self._read_s = keep, connect_s, read_s
        self._make_context, self._proxy_of = context, proxy
        self._context: ssl.SSLContext | None = None
        self._proxies: dict[Origin, str] = {}
        # Appending to and popping from a list are atomic: no lock.
        self._idle: dict[Origin, list[_Connection]] = {}
        weakref.finalize(self, _close_all, self._idle).atexit = False

    def exchange(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Received:
        """Send one request, give its answer. Raises NotSent, Untrusted, Lost."""
        origin, target = split_url(url)
        connection = self._take(origin)
        lines = [f"{method} {connection.prefix}{target} HTTP/1.1", f"Host: {origin.authority}"]
        lines += [f"{name}: {value}" for name, value in {**headers, **connection.headers}.items()]
        if body is not None or method not in ("GET", "HEAD", "DELETE"):
            lines.append(f"Content-Length: {len(body or b'')}")
        request = "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")
        try:
            sent_ns = time.monotonic_ns()
            connection.send(request)
            status, answer_headers, content = connection.receive(method == "HEAD")
        except BaseException:
            connection.close()
            raise
        idle = self._idle.setdefault(origin, [])
        if connection.reusable and len(idle) < self._keep:
            idle.append(connection)
        else:
            connection.close()
        return Received(status, answer_headers, content, sent_ns)

    def _take(self, origin: Origin) -> _Connection:
        idle = self._idle.get(origin)
        while idle:
            try:
                connection = idle.pop()
            except IndexError:  # another thread was faster
                break
            if connection.quiet():
                return connection
            connection.close()
        return self._open(origin)

    def _open(self, origin: Origin) -> _Connection:
        proxy = self._proxies.get(origin)
        if proxy is None:
            proxy = self._proxies[origin] = self._proxy_of(f"{origin.scheme}://{origin.authority}/")
        if not proxy:
            connection = self._dial(origin)
            return self._secured(connection, origin.host) if origin.scheme == "https" else connection
        return self._through(proxy if "://" in proxy else f"http://{proxy}", origin)

    def _through(self, proxy: str, origin: Origin) -> _Connection:
        """Connect by way of a proxy: RFC 9110, 9.3.6 (CONNECT) for https, the whole URL as target for http."""
        try:
            way, _ = split_url(proxy)
        except NotSent:
            raise NotSent(f"a proxy of another kind than http: {urlsplit(proxy).scheme}") from None
        if way.scheme == origin.scheme == "https":
            raise NotSent("https through a proxy that is itself asked by https is not supported")
        connection = self._dial(way)
        if way.scheme == "https":
            connection = self._secured(connection, way.host)
        secret = _credentials(proxy)
        if origin.scheme == "http":
            connection.prefix = f"http://{origin.authority}"
            connection.headers = secret
            return connection
        address = origin.authority if origin.port != 443 else f"{origin.authority}:443"
        lines = [f"CONNECT {address} HTTP/1.1", f"Host: {address}", *(f"{k}: {v}" for k, v in secret.items())]
        try:
            connection.send("\r\n".join([*lines, "", ""]).encode("latin-1"))
            status = connection.tunnel()
        except Lost as error:
            connection.close()
            raise NotSent(f"the proxy gives no answer: {error}") from error
        if not 200 <= status < 300:
            connection.close()
            raise NotSent(f"the proxy refuses the way to {address}: {status}")
        return self._secured(connection, origin.host)

    def _dial(self, origin: Origin) -> _Connection:
        try:
            made = socket.create_connection((origin.host, origin.port), self._connect_s)
        except (OSError, UnicodeError) as error:
            raise NotSent(f"no connection to {origin.authority}: {error}") from error
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.settimeout(self._read_s)
        return _Connection(made)

    def _secured(self, connection: _Connection, host: str) -> _Connection:
        import ssl

        if self._context is None:
            self._context = self._make_context()
        try:
            # Handshakes are bounded as connecting is.
            connection.socket.settimeout(self._connect_s)
            made = self._context.wrap_socket(connection.socket, server_hostname=host)
            made.settimeout(self._read_s)
        except ssl.SSLEOFError as error:
            connection.close()
            raise NotSent(f"TLS with {host} ended before it began: {error}") from error
        except (ssl.SSLError, ssl.CertificateError) as error:
            connection.close()
            raise Untrusted(f"{host}: {error}") from error
        except OSError as error:
            connection.close()
            raise NotSent(f"TLS with {host}: {error}") from error
        return _Connection(made)

    def close(self) -> None:
        """Close idle connections; those in use are closed when their requests end."""
        _close_all(self._idle)


class _Connection:
    """One, and what was read of it beyond the last answer. prefix, headers: what a proxy wants in each request."""

    __slots__ = ("_rest", "headers", "prefix", "reusable", "socket")

    def __init__(self, made: socket.socket) -> None:
        self.socket = made
        self._rest = b""
        self.reusable = True
        self.prefix = ""
        self.headers: Mapping[str, str] = {}

    def close(self) -> None:
        self.socket.close()

    def quiet(self) -> bool:
        """True if it can be used again: a server that has closed it, or says something unasked, makes it readable."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return not poll.poll(0)

    def send(self, request: bytes) -> None:
        try:
            self.socket.sendall(request)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it may have answered before it closed: reading tells
        except OSError as error:
            raise self._failed(error) from error

    def receive(self, head_only: bool) -> tuple[int, Headers, bytes]:
        """Status, headers and body of an answer (RFC 9112, 6.3: how long the body is)."""
        status, headers, keeps = self._head()
        while 100 <= status < 200:
            status, headers, keeps = self._head()
        length = headers.get("content-length")
        if head_only or status in (204, 304):
            body = b""
        elif "chunked" in (headers.get("transfer-encoding") or "").lower():
            body = self._chunked()
        elif length is not None:
            if not length.isascii() or not length.isdigit():
                raise Lost(f"an answer of the length '{length[:40]}'")
            body = self._exactly(int(length))
        else:
            body, keeps = self._all(), False
        self.reusable = keeps and not self._rest
        return status, headers, body

    def tunnel(self) -> int:
        """The status that a proxy gives for CONNECT: what follows a 2xx is the tunnel's."""
        return self._head()[0]

    def _head(self) -> tuple[int, Headers, bool]:
        data = self._rest
        while (end := data.find(b"\r\n\r\n")) < 0:
            if len(data) > MOST_HEAD:
                raise Lost("headers without an end")
            data += self._more()
        self._rest = data[end + 4 :]
        first, *lines = data[:end].decode("latin-1").split("\r\n")
        version, _, status = first.partition(" ")
        if version not in ("HTTP/1.1", "HTTP/1.0") or not (status[:3].isascii() and status[:3].isdigit()):
            raise Lost("what answers does not speak HTTP/1.1")
        headers = Headers()
        for line in lines:
            name, _, value = line.partition(":")
            name, value = name.strip().lower(), value.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        persistence = (headers.get("connection") or "").lower()
        return (
            int(status[:3]),
            headers,
            "close" not in persistence if version == "HTTP/1.1" else "keep-alive" in persistence,
        )

    def _chunked(self) -> bytes:
        """RFC 9112, 7.1; trailers are read and forgotten."""
        parts: list[bytes] = []
        total = 0
        while True:
            length = self._line().partition(b";")[0].strip()
            if not length or length.strip(b"0123456789abcdefABCDEF"):
                raise Lost("a chunk without a size")
            size = int(length, 16)
            if not size:
                while self._line():
                    pass
                return b"".join(parts)
            total += size
            if total > MOST_BODY:
                raise Lost(f"an answer of more than {MOST_BODY} bytes")
            parts.append(self._exactly(size))
            if self._exactly(2) != b"\r\n":
                raise Lost("a chunk longer than it says")

    def _line(self) -> bytes:
        while (end := self._rest.find(b"\r\n")) < 0:
            if len(self._rest) > MOST_HEAD:
                raise Lost("a line without an end")
            self._rest += self._more()
        line, self._rest = self._rest[:end], self._rest[end + 2 :]
        return line

    def _exactly(self, length: int) -> bytes:
        if length > MOST_BODY:
            raise Lost(f"an answer of more than {MOST_BODY} bytes")
        if len(self._rest) >= length:
            taken, self._rest = self._rest[:length], self._rest[length:]
            return taken
        parts, got = [self._rest], len(self._rest)
        self._rest = b""
        while got < length:
            parts.append(self._more(length - got))
            got += len(parts[-1])
        return b"".join(parts)

    def _all(self) -> bytes:
        parts, got = [self._rest], len(self._rest)
        self._rest = b""
        while piece := self._read(_PIECE):
            parts.append(piece)
            got += len(piece)
            if got > MOST_BODY:
                raise Lost(f"an answer of more than {MOST_BODY} bytes")
        return b"".join(parts)

    def _more(self, most: int = _PIECE) -> bytes:
        piece = self._read(min(most, _PIECE))
        if not piece:
            raise Lost("the connection was closed before the answer's end")
        return piece

    def _read(self, most: int) -> bytes:
        try:
            return self.socket.recv(most)
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> Exception:
        """TLS 1.3 refuses a client's certificate only after its handshake: as an alert to what is read first."""
        reason = getattr(error, "reason", None)
        if isinstance(reason, str) and "ALERT" in reason:
            return Untrusted(str(error))
        return Lost(str(error) or type(error).__name__)


def _close_all(idle: dict[Origin, list[_Connection]]) -> None:
    for connections in idle.values():
        while connections:
            connections.pop().close()


def _credentials(proxy: str) -> dict[str, str]:
    """The header that a URL with `user:password@` in it needs (RFC 7617)."""
    parts = urlsplit(proxy)
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(pair.encode()).decode('ascii')}"}
