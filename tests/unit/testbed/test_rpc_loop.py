"""Payloads, loops and addresses of RPC trials, without a broker."""

from __future__ import annotations

import json
import os
import random
import statistics
import threading
import time
from pathlib import Path

import pytest

from contend.errors import BadInput, HostFailed
from contend.workloads.drivers.rpc import loop, oslo, payloads, remote, trial
from contend.workloads.drivers.rpc.options import End, Phase
from contend.workloads.drivers.rpc.processes import cpu_ns
from contend.workloads.load import load


def test_lengths_of_a_boot_have_the_published_quantiles() -> None:
    made = payloads.documents("boot", 400, seed=3)
    lengths = sorted(payloads.envelope_free_length(json.dumps(one)) for one in made)
    assert statistics.median(lengths) == pytest.approx(2450, rel=0.01)
    assert lengths[359] == pytest.approx(6480, rel=0.01)
    assert lengths[-1] == pytest.approx(11292, rel=0.01)
    other = payloads.documents("boot", 400, seed=4)
    assert sorted(payloads.envelope_free_length(json.dumps(one)) for one in other) == lengths
    assert other != made
    assert payloads.documents("boot", 400, seed=3) == made


@pytest.mark.parametrize("length", [25, 26, 100, 250, 1000, 65_537])
def test_a_document_has_the_length_asked_for(length: int) -> None:
    made = payloads.document(length, random.Random(length))
    assert len(json.dumps(made)) == length
    assert length < 1000 or len(made["items"]) > 1


def test_a_closed_loop_sends_when_the_last_call_has_ended() -> None:
    at_once, most, lock = 0, 0, threading.Lock()

    def call(number: int) -> str:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.002)
        with lock:
            at_once -= 1
        return {3: "timed out: no answer", 4: "KeyError: no"}.get(number, "")

    told = loop.run(call, 3, Phase(0.1))
    assert most == 3
    assert (told["timed_out"], told["refused"], told["unfinished"]) == (1, 1, 0)
    assert told["ok"] == told["due"] - 2 > 0
    assert told["service_s"]["p50"] >= 0.002


def test_a_closed_loop_calls_though_its_time_was_over_before_it_began() -> None:
    told = loop.run(lambda _number: "", 3, Phase(1e-9))
    assert told["ok"] == told["sent"] == 3


def test_an_open_loop_counts_from_when_a_call_was_due() -> None:
    """One caller, and each call takes three times as long as there is between two."""
    told = loop.run(lambda _: time.sleep(0.03) or "", 1, Phase(0.3, rate=100, seed=1))
    due = loop.arrivals(100, 0.3, seed=1)
    assert told["ok"] == told["due"] == len(due)
    assert told["queued"] > told["due"] / 2
    assert told["latency_s"]["max"] >= 0.03 * len(due) - 0.3
    assert len(told["waited_ns"]) == len(due)
    assert len(told["late_ns"]) == told["due"] - told["queued"]


@pytest.mark.parametrize(("calls", "has"), [(200, False), (999, False), (1000, True)])
def test_p999_is_of_a_thousand_calls_and_more(calls: int, has: bool) -> None:
    """Of fewer it would be the largest, which is another figure from trial to trial."""
    assert ("p99.9" in trial.latency_s(range(calls))) is has


@pytest.mark.parametrize("name", ["rpc", "rpc-elsewhere"])
def test_a_trial_of_fewer_calls_is_no_failure(name: str) -> None:
    assert load(name).metrics["latency_p999"].optional


def test_calls_that_never_end_are_unfinished() -> None:
    told = loop.run(lambda _: (threading.Event().wait(5) and "") or "", 2, Phase(0.1, rate=100, drain_s=0.1))
    assert told["ok"] == 0
    assert told["unfinished"] == told["due"] > 2
    assert len(told["waited_ns"]) == told["due"], "who never got a caller has waited most"


def test_what_goes_to_the_ends_comes_back() -> None:
    end = End("driver", "oslo", "x", "t", "s", envelope=False, callers=3)
    assert End.from_json(end.to_json()) == end
    phase = Phase(1.5, 20.0, 7)
    assert Phase.from_json(phase.to_json()) == phase


@pytest.mark.parametrize("name", ["orjson", "msgpack", "msgspec"])
def test_serialisers_give_back_what_they_were_given(name: str) -> None:
    encode, decode, content_type, encoding = oslo._codec(name)
    written = encode(payloads.documents("2450", 1, seed=1)[0])
    given = written if encoding == "binary" else written.decode(encoding)  # as kombu does
    assert decode(given) == payloads.documents("2450", 1, seed=1)[0]
    assert (content_type == "application/json") == (name != "msgpack")


def test_a_process_tells_its_cpu_time_to_others() -> None:
    before = time.process_time_ns()
    told = cpu_ns(os.getpid())
    assert before <= told <= time.process_time_ns()
    with pytest.raises(HostFailed, match="has ended"):
        cpu_ns(2**22 + 1)


@pytest.mark.parametrize(
    "url",
    [
        "secret",
        "http://me:secret@host/",
        "rabbit:///",
        "rabbit://me:secret@host:port/",
        "rabbit://me:secret@:1/",
    ],
)
def test_wrong_addresses_are_told_without_the_password(url: str) -> None:
    with pytest.raises(BadInput) as raised:
        remote.Url.parse(url)
    assert "secret" not in f"{raised.value.message} {raised.value.hint}"
    assert raised.value.hint


def test_a_broker_elsewhere_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    for url, said in (
        ("rabbit://me:secret@127.0.0.1:1/", "cannot connect"),
        (f"rabbit://me:secret@127.0.0.1:1/?ssl=1&ssl_ca_file={tmp_path}/none.pem", "ssl_ca_file"),
    ):
        with pytest.raises(BadInput, match=said) as raised:
            remote.check(url)
        assert "secret" not in f"{raised.value.message} {raised.value.hint}"
