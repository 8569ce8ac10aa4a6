"""A proxy before a real API that turns requests away: a limit of their rate, errors of a gateway, answers that get lost.

What it lets through is answered by the API itself.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from support.bad_api import Fault
from support.serving import serving


@dataclass
class Limit:
    """A bucket of so many requests, which fills at that rate."""

    rate: float
    burst: float
    _left: float = -1.0
    _at: float = 0.0

    def take(self) -> float:
        """0 where it may pass, else seconds until the next may."""
        now = time.monotonic()
        left = self.burst if self._left < 0 else min(self.burst, self._left + (now - self._at) * self.rate)
        self._at = now
        self._left = left - 1 if left >= 1 else left
        return 0.0 if left >= 1 else (1 - left) / self.rate


@dataclass
class BadProxy:
    url: str
    limits: dict[str, Limit] = field(default_factory=dict)  # by method
    fault: Callable[[str, str, bytes], Fault | None] = lambda _method, _path, _body: None
    """What happens to a request, by its method, path and body; one at a time."""
    before: Callable[[str, bytes, str], None] = lambda _method, _body, _token: None
    """Is called before any is worked on: method, body, token."""
    turned_away: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def bad_proxy(upstream: str) -> Iterator[BadProxy]:
    """One before that URL, on a free port of the loopback device."""
    host = urlsplit(upstream).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            proxy.before(self.command, body, self.headers.get("X-Auth-Token", ""))
            with proxy.lock:
                limit = proxy.limits.get(self.command)
                wait = limit.take() if limit is not None else 0.0
                fault = None if wait else proxy.fault(self.command, self.path, body)
                proxy.turned_away += bool(wait)
            if wait:
                self.send(429, [("Retry-After", f"{wait:.3f}")], b"too many")
                return
            if fault is not None and not fault.act:
                self.fail(fault)
                return
            status, headers, content = self.forward(body)
            if fault is None:
                self.send(status, headers, content)
            else:
                self.fail(fault)

        do_GET = do_POST = do_DELETE = do_PUT = answer  # noqa: N815 - the names that http.server calls

        def forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            connection = http.client.HTTPConnection(host, timeout=120)
            try:
                connection.request(self.command, self.path, body or None, dict(self.headers))
                got = connection.getresponse()
                return got.status, got.getheaders(), got.read()
            finally:
                connection.close()

        def fail(self, fault: Fault) -> None:
            if fault.status:
                self.send(fault.status, list(fault.headers.items()), b"told to fail")
            else:
                self.close_connection = True
                self.connection.shutdown(2)

        def send(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as url:
        proxy = BadProxy(url + urlsplit(upstream).path)
        yield proxy
