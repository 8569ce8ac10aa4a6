"""The routes: GET and HEAD, nothing else, and nothing below the runs is ever written.

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
import signal
import socket
import sys
import threading
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from contend.errors import BadInput, ContendError
from contend.interrupts import SIGNALS
from contend.serve.access import Access, Listen
from contend.serve.answers import Answer, plain, redirect
from contend.serve.connections import GRACE_S, Connections
from contend.serve.index import Index
from contend.serve.pages import Pages
from contend.serve.requests import Request
from contend.studies.registry import whose_defect

SEND_BYTES = 256 * 1024  # of an answer that wait in the kernel for who asked
_WAKE_S = 0.5  # how long a signal may go unnoticed
BACKLOG = 256  # connections that the kernel holds before they are taken


class Server:
    """Serves the pages of one Index. Raises BadInput when it cannot listen there."""

    def __init__(self, listen: Listen, index: Index, access: Access, *, verbose: bool = False) -> None:
        self.access = access
        self.pages = Pages(index)
        try:
            self._listening = _listening(listen)
        except OSError as error:
            raise _cannot_listen(listen, error) from error
        self.server_address: tuple[Any, ...] = self._listening.getsockname()
        self._connections = Connections(self._listening, self.respond, verbose=verbose)
        self.url = listen.url(self.server_address[1])
        self.cookie = f"contend-{self.server_address[1]}"  # a browser sends it to every port of this host

    def serve_forever(self, poll_interval: float = 0.5) -> None:
        """Serve until `shutdown`, from another thread. poll_interval: unused; as of socketserver's."""
        self._connections.serve()

    def shutdown(self) -> None:
        """Take no more requests, and wait until those that are being answered are."""
        self._connections.stop()

    def serve_until_interrupted(self) -> None:
        """Serve; the main thread only waits for its signals: one that came amid an answer would cut it."""
        serves = threading.Thread(target=self.serve_forever, name="serves", daemon=True)
        try:
            # An interrupt in the midst of starting would leave a thread that does not count as alive yet: on a busy host
            # it takes a while to begin, and nobody would wait for it.
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
            try:
                serves.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            # Again and again: a signal that another thread took, for it was blocked here, interrupts no wait.
            while serves.is_alive():
                serves.join(_WAKE_S)
        except KeyboardInterrupt:
            self.shutdown()
            if serves.is_alive():
                # A thread that is left holds what DuckDB has made, of which it complains at the end.
                serves.join(GRACE_S)

    def server_close(self) -> None:
        self._listening.close()
        self._connections.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.server_close()

    def respond(self, request: Request) -> Answer:
        """Answer a request. Never raises."""
        if request.method not in ("GET", "HEAD"):
            return plain(
                405, "Only GET and HEAD are answered: nothing can be changed here.", Allow="GET, HEAD"
            )
        try:
            return self._route(request)
        except ContendError as error:
            return self.pages.message(400, error.message, error.hint)
        except Exception as error:  # noqa: BLE001 - a mistake is told, and ends neither page nor server
            whose = whose_defect(error)
            print(f"warning: {whose}, at {request.path!r}: {error!r}", file=sys.stderr)
            return plain(500, f"This is {whose}; the terminal of contend serve says more.")

    def _route(self, request: Request) -> Answer:
        hosts = request.headers.get("host", ())
        if len(hosts) != 1 or not self.access.knows(hosts[0]):
            return plain(
                421, "This is not the host that was asked for (contend serve --allow-host NAME adds a name)."
            )
        if not request.target.startswith("/"):
            return plain(400, "A request names a path.")
        try:
            url = urlsplit("//host" + request.target)
            query = parse_qs(url.query, max_num_fields=40, errors="strict")
            parts = [unquote(part, errors="strict") for part in url.path.split("/")[1:]]
        except ValueError:
            return plain(400, "The address cannot be read.")
        if parts == ["login"]:
            return self._login(query.get("token", [""])[-1])
        if not self.access.admits(request.header("authorization"), request.header("cookie"), self.cookie):
            why = "A token is needed: follow the link that contend serve printed, or send Authorization: Bearer TOKEN."
            return plain(401, why, WWW_Authenticate='Bearer realm="contend"')
        return self.pages.answer(parts, query)

    def _login(self, token: str) -> Answer:
        if self.access.token is None:
            return redirect("/")
        if not self.access.is_token(token):
            return plain(401, "That is not the token.", WWW_Authenticate='Bearer realm="contend"')
        return redirect(
            "/", Set_Cookie=f"{self.cookie}={self.access.session}; Path=/; HttpOnly; SameSite=Lax"
        )


def _listening(listen: Listen) -> socket.socket:
    listening = socket.socket(listen.family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Taken over by each connection. The kernel would else hold megabytes for each that does not read.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        listening.bind((listen.address, listen.port))
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening


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
