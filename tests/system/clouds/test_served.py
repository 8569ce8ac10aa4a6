"""The prober of guests, on services that come up at known times."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from contend.clouds.storm.served import Prober, Service
from contend.clouds.storm.stamps import NS, Interval

PERIOD_S = 0.02
Came = tuple[int, int]
"""Before and after the service came up, CLOCK_MONOTONIC."""


def port() -> int:
    """A free one below those that connections get, which would meet themselves on it."""
    for number in range(21000, 32000):
        with socket.socket() as probe:
            try:
                probe.bind(("0.0.0.0", number))
            except OSError:
                continue
            return number
    raise AssertionError("no free port")


@contextmanager
def prober(service: Service) -> Iterator[Prober]:
    one = Prober(service, PERIOD_S)
    one.start()
    try:
        yield one
    finally:
        one.stop()


def holds(seen: Interval, came: Came) -> bool:
    return seen.low <= came[1] and came[0] <= seen.high


def wait_for_attempts(one: Prober, more: int) -> None:
    wanted = one.attempts + more
    while one.attempts < wanted:
        time.sleep(PERIOD_S)


def test_each_guest_is_seen_when_it_comes_up_and_one_never_does() -> None:
    service = Service(port())
    addresses = {f"guest-{k}": f"127.0.77.{k}" for k in range(1, 9)}
    came: dict[str, Came] = {}
    sockets = []
    with prober(service) as one:
        for name, address in addresses.items():
            one.watch(name, address)
        for name, address in list(addresses.items())[:-1]:
            wait_for_attempts(one, 10)
            listener = socket.socket()
            sockets.append(listener)
            listener.bind((address, service.port))
            before = time.monotonic_ns()
            listener.listen(64)
            came[name] = before, time.monotonic_ns()
        while len(one.served) < len(came):
            time.sleep(PERIOD_S)
        until = time.monotonic_ns() + round(5 * PERIOD_S * NS)
        one.wait(until)
        assert time.monotonic_ns() >= until, "it waits for the one that does not come"
        assert one.served.keys() == came.keys()
    for name, seen in one.served.items():
        assert holds(seen, came[name]), (name, seen, came[name])
    for listener in sockets:
        listener.close()


def test_who_answers_the_first_attempt_is_not_known_to_be_the_guest() -> None:
    service = Service(port())
    with socket.create_server(("127.0.0.1", service.port)), prober(service) as one:
        one.watch("guest", "127.0.0.1")
        one.wait(time.monotonic_ns() + 60 * NS)
        assert one.at_once == {"guest"}
        assert one.served == {}


def test_a_guest_that_drops_what_it_is_sent_is_seen_when_it_answers() -> None:
    """With its queue of connections full, a listener's kernel drops SYNs in silence, as a guest that is not up does."""
    service = Service(port())
    with socket.socket() as listener, prober(service) as one:
        listener.bind(("127.0.0.1", service.port))
        listener.listen(0)
        full = []
        for _ in range(2):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
            full.append(filler)
        one.watch("guest", "127.0.0.1")
        wait_for_attempts(one, 10)
        assert one.served == {}
        before = time.monotonic_ns()
        while not one.served:
            listener.accept()[0].close()
        one.wait(time.monotonic_ns() + 60 * NS)
        assert one.served["guest"].high >= before
        for filler in full:
            filler.close()


def test_an_answer_by_http_counts_once_it_is_no_error_of_the_server() -> None:
    service = Service(port(), "/health")
    up = threading.Event()
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", service.port)) as listener, prober(service) as one:
        _serve(listener, lambda: b"204 No Content" if up.is_set() else b"503 Starting", asked)
        one.watch("guest", "127.0.0.1")
        wait_for_attempts(one, 10)
        assert one.served == {}
        before = time.monotonic_ns()
        up.set()
        came = before, time.monotonic_ns()
        one.wait(time.monotonic_ns() + 60 * NS)
        assert holds(one.served["guest"], came)
    assert asked[0].startswith(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n")


def _serve(listener: socket.socket, status: Callable[[], bytes], asked: list[bytes]) -> None:
    def work() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    asked.append(connection.recv(4096))
                    connection.sendall(b"HTTP/1.1 " + status() + b"\r\nContent-Length: 0\r\n\r\n")
                except OSError:  # given up meanwhile
                    continue

    threading.Thread(target=work, daemon=True).start()
