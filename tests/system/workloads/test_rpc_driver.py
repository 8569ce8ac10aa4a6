"""The native driver alone: loops, long messages, and what it says when the broker refuses, is not there or goes."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contend.errors import BadInput, HostFailed
from contend.testbed.rabbit import bed
from contend.workloads.drivers.rpc import native, payloads
from contend.workloads.drivers.rpc.options import End, Phase
from contend.workloads.drivers.rpc.processes import Process
from contend.workloads.drivers.rpc.trial import cleared
from support.rpc import broker, calling, counts, load, queues, remover, serving

S = 10**9


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bed.Bed]:
    """A broker to be killed, and started again by who killed it."""
    with broker(tmp_path_factory.mktemp("mortal")) as up:
        yield up


def whole(told: dict[str, Any]) -> dict[str, Any]:
    """Every call that was due ended in one way."""
    ways = ("ok", "refused", "broken", "timed_out", "unfinished")
    assert sum(told[way] for way in ways) == told["due"], told
    return told


def test_a_closed_loop_and_an_open_one(rabbit: bed.Bed) -> None:
    with serving(rabbit.url(), "loops") as service, calling(rabbit.url(), "loops", callers=3) as driver:
        closed = whole(load(driver, 0.25))
        assert closed["ok"] == closed["due"] > 10
        assert closed["rate_asked"] is None
        opened = whole(load(driver, 0.5, rate=100.0, seed=-5, calls=True))
        assert opened["ok"] == opened["due"]
        assert opened["lateness_s"]["max"] is not None
        assert len(opened["waited_ns"]) == len(opened["calls"]) == opened["due"]
        assert len(opened["late_ns"]) == opened["due"] - opened["queued"]
        # The driver counts its calls over all loads, as the service does.
        assert [number for number, *_ in opened["calls"]] == [closed["due"] + k for k in range(opened["due"])]
        assert counts(service)["handled"] == closed["due"] + opened["due"]
        assert driver.queues[0] in queues(rabbit)
    assert queues(rabbit) == []


def test_casts_that_the_socket_does_not_take_are_waited_for(rabbit: bed.Bed) -> None:
    """Nobody says that the broker has them: how fast it reads is all that holds the driver back."""
    options = {"semantics": "bare", "cast": True, "payloads": [{"text": "x" * 100_000}], "callers": 1}
    with (
        serving(rabbit.url(), "flood", semantics="bare") as service,
        calling(rabbit.url(), "flood", **options) as driver,
    ):
        told = whole(load(driver, 0.25))
        assert told["ok"] == told["due"] > 10
        deadline = time.monotonic() + 60
        while counts(service)["handled"] < told["due"] and time.monotonic() < deadline:
            time.sleep(0.05)
        assert counts(service)["handled"] == told["due"]


@pytest.mark.parametrize("semantics", ["oslo", "bare"])
def test_messages_longer_than_a_frame(rabbit: bed.Bed, semantics: str) -> None:
    long = {"text": 'a "long" one ' * 40_000}
    with (
        serving(rabbit.url(), "long", semantics=semantics, answer_bytes=300_000) as service,
        calling(rabbit.url(), "long", semantics=semantics, payloads=[long, {}], callers=2) as driver,
    ):
        told = whole(load(driver, 0.25))
        assert told["ok"] == told["due"] > 1
        assert counts(service)["malformed"] == 0
        assert told["bytes_received"] > told["ok"] * 300_000


def test_without_a_service_a_call_says_so_at_once(rabbit: bed.Bed) -> None:
    with calling(rabbit.url(), "nobody", callers=1) as driver:
        told = whole(load(driver, 0.1))
        assert told["refused"] == told["due"] > 0
        assert "no queue takes it" in told["last_error"]


def test_a_service_that_is_silent_costs_the_time_limit(rabbit: bed.Bed) -> None:
    """And calls that find no caller free meanwhile wait from when they were due."""
    with serving(rabbit.url(), "silent") as service:
        os.kill(service.pid, signal.SIGSTOP)
        try:
            with calling(rabbit.url(), "silent", callers=2, timeout_s=0.2) as driver:
                told = whole(load(driver, 0.1, drain_s=2))
                assert told["timed_out"] == told["due"] == 2
                assert told["latency_s"]["p50"] >= 0.2
                told = whole(load(driver, 0.2, rate=20.0, poisson=False, drain_s=10))
                assert told["timed_out"] == told["due"] == 4
                assert told["queued"] == 2
                assert told["latency_s"]["max"] >= 0.25
        finally:
            os.kill(service.pid, signal.SIGCONT)


def test_a_broker_that_dies_breaks_the_calls_and_comes_back_with_its_ports(
    mortal: bed.Bed, capfd: pytest.CaptureFixture[str]
) -> None:
    with serving(mortal.url(), "dies") as service, calling(mortal.url(), "dies", callers=4) as driver:
        killer = threading.Timer(0.3, lambda: [os.kill(pid, signal.SIGKILL) for pid in mortal.servers()])
        killer.start()
        told = whole(load(driver, 5))
        assert told["ok"] > 0
        assert 1 <= told["broken"] <= 4
        assert "broke" in told["last_error"]
        assert counts(service)["handled"] >= told["ok"], "it tells what it did even so"
        with pytest.raises(HostFailed, match="broke"):
            load(driver, 1)
    assert "the service ended" in capfd.readouterr().err
    bed.restart(mortal, 0)
    assert mortal.answers
    with serving(mortal.url(), "again"), calling(mortal.url(), "again", callers=1) as driver:
        assert whole(load(driver, 0.1))["ok"] > 0


def test_calls_that_come_while_the_broker_is_dead_are_answered_once(mortal: bed.Bed, tmp_path: Path) -> None:
    """By a service of either library. What lay in the broker's memory when it was killed may go with it: calls of the last
    moment before."""
    arguments = tmp_path / "payloads.json"
    arguments.write_text(json.dumps(payloads.documents("1000", 8, seed=1)))
    ends: list[Process] = []

    def started(role: str, library: str, topic: str) -> Process:
        one = End(role, library, f"{topic}-x", topic, "one", str(arguments), callers=400, timeout_s=5.0)
        one = replace(one, reconnect=True, keep_calls=True)
        ends.append(Process(one, mortal.url(), {}, of=bed.members(mortal.directory)))
        ends[-1].ready()
        return ends[-1]

    topics = {library: f"killed-{library}" for library in ("native", "oslo")}
    exchanges = [name for topic in topics.values() for name in (f"{topic}-x", f"{topic}_fanout")]
    with cleared(ends, remover(mortal.url()), exchanges):
        services = {library: started("service", library, topic) for library, topic in topics.items()}
        drivers = {library: started("driver", "native", topic) for library, topic in topics.items()}
        for driver in drivers.values():
            driver.tell(Phase(4.0, 50.0, drain_s=150.0, poisson=False, calls=True).to_json())
        time.sleep(1.5)
        before_ns = time.monotonic_ns()
        bed.kill(mortal, 0)
        after_ns = time.monotonic_ns()
        time.sleep(1.0)
        bed.restart(mortal, 0)
        for library, driver in drivers.items():
            told = driver.hear(200.0)
            lost = [told["start_ns"] + due for _, due, _, outcome in told["calls"] if outcome != "ok"]
            assert all(before_ns - S < due < after_ns for due in lost), (library, lost, before_ns, after_ns)
            assert len(lost) < 50
            assert told["reconnects"] >= 1
            assert told["ok"] + len(lost) == told["due"] == 200
            done = services[library].ask("counts", 30.0)["handled"]
            assert told["ok"] <= done <= told["due"]


def test_bad_days_are_told_without_the_password(rabbit: bed.Bed) -> None:
    """Each is the user's to mend: BadInput, at once."""
    port = rabbit.ports[0]
    with socket.create_server(("127.0.0.1", 0)) as other:
        elsewhere = other.getsockname()[1]

        def answer_as_http() -> None:
            peer, _ = other.accept()
            with peer:
                peer.recv(8)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        threading.Thread(target=answer_as_http, daemon=True).start()
        with socket.create_server(("127.0.0.1", 0)) as free:
            closed = free.getsockname()[1]
        cases = {
            f"rabbit://contend:secret@127.0.0.1:{port}/": "refuses the user or the password",
            f"rabbit://nobody:secret@127.0.0.1:{port}/": "refuses the user or the password",
            f"rabbit://contend:{rabbit.password}@127.0.0.1:{port}/none": "virtual host 'none'",
            f"rabbit://contend:secret@127.0.0.1:{closed}/": "cannot connect",
            f"rabbit://contend:secret@127.0.0.1:{elsewhere}/": "no AMQP 0-9-1 broker",
            f"rabbit://contend:secret@127.0.0.1:{port}/?ssl=1": "TLS with the broker",
            "redis://contend:secret@127.0.0.1/": "not RabbitMQ's",
        }
        for url, said in cases.items():
            with pytest.raises(BadInput) as raised, calling(url, "t"):
                pass
            text = f"{raised.value.message} {raised.value.hint}"
            assert said in text
            assert raised.value.hint
            assert "secret" not in text
            assert rabbit.password not in text


def test_what_makes_no_sense_is_refused(rabbit: bed.Bed) -> None:
    for options, said in (
        ({"payloads": []}, "payload"),
        ({"topic": ""}, "no name"),
        ({"topic": 'a"b'}, "no name"),
        ({"semantics": "most"}, "oslo, bare"),
    ):
        with pytest.raises(BadInput, match=said), calling(rabbit.url(), **{"topic": "t", **options}):
            pass
    for options, asked, said in (
        ({"callers": 0}, {}, "0 callers"),
        ({}, {"rate": -1.0}, "rate"),
        ({}, {"drain_s": -1.0}, "drain_s is -1"),
    ):
        with calling(rabbit.url(), "nonsense", **options) as driver, pytest.raises(BadInput, match=said):
            load(driver, 1, **asked)
    with serving(rabbit.url(), "nonsense") as service, pytest.raises(BadInput, match="cannot do 'rest'"):
        service.ask("rest", 30)
    assert queues(rabbit) == []
    native.remove(rabbit.url(), ["never-there"], ["nor-this"])
