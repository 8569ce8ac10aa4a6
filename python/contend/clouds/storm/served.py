"""When guests first serve: a TCP connection or an HTTP answer from each one's own address, one prober for all of them.

To each address an attempt is made every `period_s`, whatever became of the one before. The first that is answered ends
it: the guest served by then, and did not when the last was made that failed. A SYN that was dropped would be sent
again by the kernel after a second (RFC 6298); attempts are given up before, so that an answer is to their own time.
"""

from __future__ import annotations

import os
import re
import resource
import selectors
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from contend.clouds.storm.stamps import NS, Interval
from contend.errors import BadInput

_TCP_S, _HTTP_S = 0.9, 5.0  # how long an attempt may take
_SPARE = 256  # descriptors that the rest of the process may need
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)? ([1-4])\d\d")


@dataclass(frozen=True, slots=True)
class Service:
    """How a guest is probed: a TCP connection, or `path` by HTTP where it is not empty. Any answer below 500 counts."""

    port: int
    path: str = ""

    @classmethod
    def parse(cls, text: str) -> Service:
        """Parse `tcp:PORT` or `http:PORT/PATH`. Raises BadInput.

        >>> Service.parse("tcp:22"), Service.parse("http:80/health")
        (Service(port=22, path=''), Service(port=80, path='/health'))
        """
        match = re.fullmatch(r"tcp:(\d{1,5})|http:(\d{1,5})(/[!-~]*)", text)
        port = int(match[1] or match[2]) if match else 0
        if match is None or not 0 < port < 65536:
            raise BadInput(f"served: '{text}' is no service", hint="tcp:22, or http:80/path")
        return cls(port, match[3] or "")


def address_of(server: Mapping[str, Any]) -> str:
    """The address at which to reach a server of a detailed listing: floating before fixed, IPv4 before IPv6; "" none
    yet.

    >>> address_of({"addresses": {"net": [{"addr": "10.0.0.3", "version": 4, "OS-EXT-IPS:type": "fixed"}]}})
    '10.0.0.3'
    """
    addresses = [one for of in (server.get("addresses") or {}).values() for one in of]
    best: Mapping[str, Any] = min(
        addresses, key=lambda a: (a.get("OS-EXT-IPS:type") != "floating", a.get("version") != 4), default={}
    )
    return str(best.get("addr", ""))


@dataclass
class _Guest:
    name: str
    address: tuple[int, tuple[Any, ...]]  # family, and what connect() takes
    due_ns: int
    failed_ns: int = 0  # the last attempt that failed began then
    pending: set[int] = field(default_factory=set)  # descriptors of attempts


@dataclass
class _Attempt:
    guest: _Guest
    socket: socket.socket
    began_ns: int
    requested: bool = False  # the request has been sent
    received: bytes = b""


class Prober:
    """Probes guests in a thread of its own. `served` has those that answered, by name, CLOCK_MONOTONIC ns.

    `at_once` are those whose first attempt was answered: when they began to cannot be told, nor whether it was the guest
    at all. A proxy or gateway may answer for any address.
    """

    def __init__(self, service: Service, period_s: float = 0.1) -> None:
        self.service = service
        self.served: dict[str, Interval] = {}
        self.at_once: set[str] = set()
        self.attempts = 0
        self._period_ns = round(period_s * NS)
        self._life_ns = round((_HTTP_S if service.path else _TCP_S) * NS)
        self._room = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _SPARE
        self._selector = selectors.DefaultSelector()
        self._wake_out, self._wake_in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wake_out, selectors.EVENT_READ)
        self._lock = threading.Lock()
        self._new: dict[str, str] = {}
        self._known: set[str] = set()
        self._guests: dict[str, _Guest] = {}
        self._attempts: dict[int, _Attempt] = {}
        self._stopped = False
        self._failure: BaseException | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="prober", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def watch(self, name: str, address: str) -> None:
        """Probe a guest from now on; one that is watched already is not watched twice."""
        if name in self._known:
            return
        self._known.add(name)
        with self._lock:
            self._done.clear()
            self._new[name] = address
        self._nudge()

    def wait(self, until_ns: int) -> None:
        """Wait until all watched guests have answered, or until that moment."""
        self._done.wait(max(0.0, (until_ns - time.monotonic_ns()) / NS))
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Give up on guests that have not answered. Idempotent."""
        self._stopped = True
        if self._thread.is_alive():
            self._nudge()
            self._thread.join()

    def _nudge(self) -> None:
        os.write(self._wake_in, b"x")

    def _run(self) -> None:
        try:
            while not self._stopped:
                self._take_new()
                self._make_attempts()
                for key, _ in self._selector.select(self._until_due()):
                    if key.fd == self._wake_out:
                        os.read(self._wake_out, 4096)
                    elif key.fd in self._attempts:
                        self._look(self._attempts[key.fd])
        except BaseException as error:  # noqa: BLE001 - raised in `wait`
            self._failure = error
        finally:
            self._done.set()
            for attempt in list(self._attempts.values()):
                self._close(attempt)
            self._selector.close()
            os.close(self._wake_out)
            os.close(self._wake_in)

    def _take_new(self) -> None:
        with self._lock:
            new, self._new = self._new, {}
        for name, address in new.items():
            family, _, _, _, where = socket.getaddrinfo(
                address, self.service.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )[0]
            self._guests[name] = _Guest(name, (family, where), time.monotonic_ns())

    def _until_due(self) -> float | None:
        """Seconds until something is to be begun or given up; None: only when told."""
        nexts = [guest.due_ns for guest in self._guests.values()]
        nexts += [attempt.began_ns + self._life_ns for attempt in self._attempts.values()]
        return max(0.0, (min(nexts) - time.monotonic_ns()) / NS) if nexts else None

    def _make_attempts(self) -> None:
        now = time.monotonic_ns()
        for attempt in [a for a in self._attempts.values() if now - a.began_ns >= self._life_ns]:
            self._failed(attempt)
        for guest in list(self._guests.values()):
            if guest.due_ns <= now:
                guest.due_ns = now + self._period_ns
                if len(self._attempts) < self._room:
                    self._begin(guest)

    def _begin(self, guest: _Guest) -> None:
        family, where = guest.address
        connection = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        attempt = _Attempt(guest, connection, time.monotonic_ns())
        self.attempts += 1
        if connection.connect_ex(where) not in (0, 115):  # EINPROGRESS; else no route, say
            connection.close()
            guest.failed_ns = attempt.began_ns
            return
        guest.pending.add(connection.fileno())
        self._attempts[connection.fileno()] = attempt
        self._selector.register(connection, selectors.EVENT_WRITE)

    def _look(self, attempt: _Attempt) -> None:
        now = time.monotonic_ns()
        try:
            answered = self._go_on(attempt)
        except BlockingIOError:
            return
        except OSError:  # refused, reset, unreachable
            self._failed(attempt)
            return
        if answered:
            self._answered(attempt, now)

    def _go_on(self, attempt: _Attempt) -> bool:
        """True if it has been answered. Raises OSError where it has failed."""
        connection, path = attempt.socket, self.service.path
        if not attempt.requested:
            if error := connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(error, os.strerror(error))
            attempt.requested = True
            if not path:
                return True
            host = attempt.guest.address[1][0]
            host = f"[{host}]" if ":" in host else host
            request = (
                f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: contend\r\nConnection: close\r\n\r\n"
            )
            connection.send(request.encode())
            self._selector.modify(connection, selectors.EVENT_READ)
            return False
        data = connection.recv(4096)
        attempt.received += data
        if _STATUS.match(attempt.received):
            return True
        if not data or len(attempt.received) > 64:
            raise OSError("no answer")
        return False

    def _answered(self, attempt: _Attempt, now_ns: int) -> None:
        guest = attempt.guest
        before = guest.failed_ns
        if not self.service.path:  # older ones still wait: what they sent was dropped
            older = (self._attempts[fd].began_ns for fd in guest.pending)
            before = max([before, *(at for at in older if at < attempt.began_ns)])
        if before:
            self.served[guest.name] = Interval(before, now_ns)
        else:
            self.at_once.add(guest.name)
        del self._guests[guest.name]
        for fd in list(guest.pending):
            self._close(self._attempts[fd])
        with self._lock:
            if not self._guests and not self._new:
                self._done.set()

    def _failed(self, attempt: _Attempt) -> None:
        attempt.guest.failed_ns = max(attempt.guest.failed_ns, attempt.began_ns)
        self._close(attempt)

    def _close(self, attempt: _Attempt) -> None:
        fd = attempt.socket.fileno()
        self._selector.unregister(attempt.socket)
        self._attempts.pop(fd, None)
        attempt.guest.pending.discard(fd)
        attempt.socket.close()
