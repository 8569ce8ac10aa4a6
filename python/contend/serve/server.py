"""The routes, over Python's own http.server: GET and HEAD, nothing else, and nothing is ever written.

    /                          the list, filtered by its query
    /run/NAME                  what one directory is, and its figures' trends
    /run/NAME/report.html      its report, as it is
    /compare?first=A&second=B  as `contend compare A B` says it
    /trend                     scenarios with several runs; with question, host, cell and metric: one trend
    /login?token=…             takes the token for a cookie
    /assets/…                  style, script, the Vega runtime

A request is refused before it is looked at when it names another host (421) or comes without the token (401).
"""

from __future__ import annotations

import errno
import os
import socket
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from contend.errors import BadInput, ContendError
from contend.serve.access import Access, Listen
from contend.serve.answers import COMMON, Answer, plain, redirect
from contend.serve.index import Index
from contend.serve.pages import Pages

TIMEOUT_S = 30  # for a request to arrive, and for an answer to be taken
AT_ONCE = 64  # connections; more wait
GRACE_S = 10  # for what is being answered, at the end


class Server(ThreadingHTTPServer):
    """Serves the pages of one Index. Raises BadInput when it cannot listen there."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, listen: Listen, index: Index, access: Access, *, verbose: bool = False) -> None:
        self.address_family = listen.family
        self.access = access
        self.verbose = verbose
        self.pages = Pages(index)
        self._free = threading.BoundedSemaphore(AT_ONCE)
        self._ending = False
        self._connections: set[socket.socket] = set()
        self._working, self._changed = 0, threading.Condition()
        try:
            super().__init__((listen.address, listen.port), Handler)
        except OSError as error:
            raise _cannot_listen(listen, error) from error
        self.url = listen.url(self.server_address[1])
        self.cookie = f"contend-{self.server_address[1]}"  # a browser sends it to every port of this host

    def server_bind(self) -> None:
        """Without the look-up of its own name that http.server does, which may ask a name server."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def serve_until_interrupted(self) -> None:
        """For the main thread, which does nothing but wait for its signals. An interrupt between a connection and the start
        of its thread would leave open whose the two are: what is being answered would be cut, or the interrupt be lost."""
        accepts = threading.Thread(target=self.serve_forever, name="accepts", daemon=True)
        accepts.start()
        try:
            accepts.join()
        except KeyboardInterrupt:
            self._ending = True
            self.shutdown()

    def process_request(self, request: Any, client_address: Any) -> None:
        while not self._free.acquire(timeout=0.2):
            if self._ending:
                self.shutdown_request(request)
                return
        with self._changed:
            self._connections.add(request)
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started
            self._forget(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._forget(request)

    def _forget(self, connection: socket.socket) -> None:
        self._free.release()
        with self._changed:
            self._connections.discard(connection)
            self._changed.notify_all()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """While a request is answered, which `server_close` waits for."""
        with self._changed:
            self._working += 1
        try:
            yield
        finally:
            with self._changed:
                self._working -= 1
                self._changed.notify_all()

    def server_close(self) -> None:
        """Listen no more, and let what is being answered come to its end: a thread that is still in DuckDB or in the
        compiler of charts when the interpreter ends takes the process with it. Who asks nothing is let go."""
        super().server_close()
        with self._changed:
            self._changed.wait_for(lambda: self._working == 0, GRACE_S)
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._changed.wait_for(lambda: not self._connections, GRACE_S)

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exception()
        if not isinstance(error, ConnectionError | TimeoutError):
            print(f"warning: a request failed: {error!r}", file=sys.stderr)


def _cannot_listen(listen: Listen, error: OSError) -> BadInput:
    where = f"{listen.address}:{listen.port}"
    if error.errno == errno.EADDRINUSE:
        return BadInput(f"{where} is in use", hint=f"--listen {listen.address}:0 takes a port that is free")
    if error.errno == errno.EADDRNOTAVAIL:
        return BadInput(
            f"{listen.address} is no address of this host", hint="`ip address` shows those there are"
        )
    if error.errno == errno.EACCES:
        return BadInput(f"this user may not listen on {where}", hint="choose a port from 1024 on")
    return BadInput(
        f"cannot listen on {where}: {error.strerror}", hint="choose another with --listen ADDRESS:PORT"
    )


class Handler(BaseHTTPRequestHandler):
    """One request, one connection."""

    server: Server
    server_version, sys_version = "contend", ""
    timeout = TIMEOUT_S

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        with self.server.at_work():
            self._answered(body)

    def _answered(self, body: bool) -> None:
        try:
            answer = self._route()
        except ContendError as error:
            answer = self.server.pages.message(400, error.message, error.hint)
        except Exception as error:  # noqa: BLE001 - a mistake of ours is told, and ends neither page nor server
            print(
                f"warning: a mistake in contend itself, at {self.path.partition('?')[0]!r}: {error!r}",
                file=sys.stderr,
            )
            answer = plain(500, "This is a mistake in contend itself; its terminal says more.")
        self._send(answer, body)

    def _route(self) -> Answer:
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or not self.server.access.knows(hosts[0]):
            return plain(
                421, "This is not the host that was asked for (contend serve --allow-host NAME adds a name)."
            )
        if not self.path.startswith("/"):
            return plain(400, "A request names a path.")
        url = urlsplit("//host" + self.path)
        try:
            query = parse_qs(url.query, max_num_fields=40, errors="strict")
            parts = [unquote(part, errors="strict") for part in url.path.split("/")[1:]]
        except ValueError:
            return plain(400, "The address cannot be read.")
        if parts == ["login"]:
            return self._login(query.get("token", [""])[-1])
        access = self.server.access
        if not access.admits(
            self.headers.get("Authorization"), self.headers.get("Cookie"), self.server.cookie
        ):
            why = "A token is needed: follow the link that contend serve printed, or send Authorization: Bearer TOKEN."
            return plain(401, why, WWW_Authenticate='Bearer realm="contend"')
        return self.server.pages.answer(parts, query)

    def _login(self, token: str) -> Answer:
        access = self.server.access
        if access.token is None:
            return redirect("/")
        if not access.is_token(token):
            return plain(401, "That is not the token.", WWW_Authenticate='Bearer realm="contend"')
        return redirect(
            "/", Set_Cookie=f"{self.server.cookie}={access.session}; Path=/; HttpOnly; SameSite=Lax"
        )

    def _send(self, answer: Answer, body: bool) -> None:
        try:
            length = os.fstat(answer.file).st_size if answer.file >= 0 else len(answer.body)
            self.send_response(answer.status)
            given = {"Content-Type": answer.content_type, "Content-Length": str(length)}
            given["Content-Security-Policy"] = answer.policy
            for name, value in {**COMMON, **given, **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if not body:
                return
            if answer.file >= 0:
                self._send_file(answer.file, length)
            else:
                self.wfile.write(answer.body)
        finally:
            if answer.file >= 0:
                os.close(answer.file)

    def _send_file(self, fd: int, length: int) -> None:
        """As many bytes as were announced, of a file that may grow or be cut meanwhile."""
        while length > 0:
            chunk = os.read(fd, min(length, 1 << 18))
            if not chunk:
                return
            self.wfile.write(chunk)
            length -= len(chunk)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Of what is no request at all, and of methods nobody knows: short, with the same headers."""
        self.close_connection = True
        if self.request_version == "HTTP/0.9":
            return
        if code == HTTPStatus.NOT_IMPLEMENTED:
            told = plain(
                405, "Only GET and HEAD are answered: nothing can be changed here.", Allow="GET, HEAD"
            )
        else:
            told = plain(code, message or HTTPStatus(code).phrase)
        self._send(told, True)

    def log_message(self, format: str, *args: Any) -> None:
        """Asked for only; and never the query, which may hold the token."""
        if self.server.verbose:
            path = getattr(self, "path", "").partition("?")[0]
            status = args[1] if len(args) > 1 else ""
            told = f"{self.client_address[0]} {self.command or '-'} {path} {status}"
            print("".join(c if c.isprintable() else "?" for c in told), file=sys.stderr, flush=True)
