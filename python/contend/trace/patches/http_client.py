"""HTTP clients: urllib3, requests, urllib.request and http.client. A request that goes out is a span of kind remote."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from types import ModuleType
from typing import Any

from contend._native import TraceSpan as Span
from contend._native import Waits, trace_digest, trace_on
from contend.trace import flow, locks
from contend.trace.patches.http_names import flow as known_by
from contend.trace.patches.http_names import requested, requested_whole

# A library above http.client has a span open that tells of the request.
_inside: ContextVar[bool] = ContextVar("contend_http_told", default=False)


def _request(
    name: str, to_digest: tuple[Any, ...], body: object, call: Callable[..., Any], *args: Any, **options: Any
) -> Any:
    """A call that is one request, `requested` by method and address, from its connection to the answer's head or more."""
    attributes = {"sent_bytes": len(body)} if isinstance(body, (bytes, bytearray, str)) else {}
    attributes |= _digest(*to_digest, body)
    before = _inside.set(True)
    try:
        with Span(name, kind="remote", **attributes) as span:
            response = call(*args, **options)
            span.end(**_answer(response))
            return response
    finally:
        _inside.reset(before)


def _digest(*parts: object) -> dict[str, int]:
    digest = trace_digest(*parts)
    return {} if digest is None else {"arguments": digest}


def _answer(response: Any) -> dict[str, int]:
    """Status, and how much follows where the head says so."""
    attributes = {}
    status = getattr(response, "status", None) or getattr(response, "status_code", None)
    if isinstance(status, int):
        attributes["status"] = status
    headers = getattr(response, "headers", None)
    size = headers.get("Content-Length") if headers is not None else None
    if isinstance(size, str) and size.isascii() and size.isdigit():
        attributes["received_bytes"] = int(size)
    return attributes


def patch_urllib3(module: ModuleType) -> None:
    """A redirect or another try is a span inside."""
    pool = module.HTTPConnectionPool
    original = pool.urlopen

    @functools.wraps(original)
    def urlopen(self: Any, method: Any, url: Any, body: Any = None, *args: Any, **options: Any) -> Any:
        if not trace_on():
            return original(self, method, url, body, *args, **options)
        name = requested(method, self.host, self.port, url)
        return _request(name, (method, url), body, original, self, method, url, body, *args, **options)

    pool.urlopen = urlopen
    begin = pool.__init__

    @functools.wraps(begin)
    def initialise(self: Any, *args: Any, **options: Any) -> None:
        begin(self, *args, **options)
        if hasattr(self.pool, "_waits"):
            # The queue of its connections; who may not open more (block=True) waits for one.
            name = f"connections to {self.host}:{self.port}"
            self.pool._waits = waits = Waits(locks.QUEUE, name, located=False)
            for condition in (self.pool.not_empty, self.pool.not_full, self.pool.all_tasks_done):
                condition._waits = waits

    pool.__init__ = initialise


def patch_requests(module: ModuleType) -> None:
    """From the call to the answer's body; what goes out is urllib3's to tell."""
    session = module.Session
    original = session.send

    @functools.wraps(original)
    def send(self: Any, request: Any, **options: Any) -> Any:
        if not trace_on():
            return original(self, request, **options)
        with Span(f"requests {requested_whole(request.method, request.url)}"):
            return original(self, request, **options)

    session.send = send


def patch_urllib(module: ModuleType) -> None:
    """urllib.request."""
    handler = module.AbstractHTTPHandler
    original = handler.do_open

    @functools.wraps(original)
    def do_open(self: Any, http_class: Any, req: Any, **options: Any) -> Any:
        if not trace_on():
            return original(self, http_class, req, **options)
        name = f"HTTP {requested_whole(req.get_method(), req.full_url)}"
        method_and_url = (req.get_method(), req.full_url)
        return _request(name, method_and_url, req.data, original, self, http_class, req, **options)

    handler.do_open = do_open


def patch_standard(module: ModuleType) -> None:
    """http.client: who is answered where, and without a library above it the wait for the answer."""
    connection = module.HTTPConnection
    ask, send, answer = connection.putrequest, connection.send, connection.getresponse
    # In the class, for those that nobody has asked yet: see sql.patch_pool.
    connection._contend_request, connection._contend_unsent = None, False

    @functools.wraps(ask)
    def putrequest(self: Any, method: str, url: str, *args: Any, **options: Any) -> Any:
        self._contend_request = (method, url)
        self._contend_unsent = True
        return ask(self, method, url, *args, **options)

    @functools.wraps(send)
    def _send(self: Any, data: Any) -> Any:
        if self._contend_unsent and trace_on():
            if self.sock is None and self.auto_open:
                self.connect()  # as it does itself, first of all
            self._contend_unsent = False
            _leaves(self.sock)
        return send(self, data)

    @functools.wraps(answer)
    def getresponse(self: Any, *args: Any, **options: Any) -> Any:
        request = self._contend_request
        if request is None or _inside.get() or not trace_on():
            return answer(self, *args, **options)
        # A body went out before, in parts: of a request that may have one it is not known.
        same = _digest(*request) if request[0] in ("GET", "HEAD") else {}
        with Span(requested(request[0], self.host, self.port, request[1]), kind="remote", **same) as span:
            response = answer(self, *args, **options)
            span.end(**_answer(response))
            return response

    connection.putrequest, connection.send, connection.getresponse = putrequest, _send, getresponse


def _leaves(socket: Any) -> None:
    """An arrow to the server, if it is on this machine: both ends know the connection by its ports."""
    try:
        own, peer = socket.getsockname(), socket.getpeername()
    except (AttributeError, OSError):
        return  # no socket of the system's, or closed: what follows will say so
    if isinstance(own, tuple) and isinstance(peer, tuple):
        known = known_by((own[0], own[1]), peer[1])
        if known is not None:
            flow.sent("http", known)
