"""The native driver and oslo.messaging: either is understood by the other, over a real broker, and nothing stays on it."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import amqp
import pytest

from contend.testbed.rabbit.bed import USER, Bed
from contend.workloads.drivers.rpc import payloads, trial
from contend.workloads.drivers.rpc.options import End, Phase
from contend.workloads.drivers.rpc.processes import Process
from support.rpc import end, over, queues, remover


def measured(rabbit: Bed, out: Path, driver: End, service: End, **options: Any) -> dict[str, Any]:
    asked = trial.CallOptions(driver, service, **{"seconds": 0.4, "warm_s": 0.1, **options})
    told = trial.run(over(rabbit), asked, out, remover(rabbit.url()))
    assert queues(rabbit) == []
    return told


@pytest.mark.parametrize(
    ("driver", "service", "envelope"),
    [("native", "oslo", True), ("oslo", "native", False), ("native", "native", True)],
)
def test_each_answers_the_other(
    rabbit: Bed, tmp_path: Path, driver: str, service: str, envelope: bool
) -> None:
    ends = end("driver", driver, envelope=envelope), end("service", service, envelope=envelope)
    told = measured(rabbit, tmp_path, *ends, rate=50.0)
    for phase in ("saturation", "open"):
        counted = told[phase]
        assert counted["ok"] == counted["sent"] == counted["handled"] == counted["due"] > 0
        assert counted["last_error"] == ""
        cpu = counted["cpu_s_per_call"]
        assert min(cpu["client"], cpu["service"], cpu["broker"]) > 0
        assert cpu["ends"] == pytest.approx(cpu["client"] + cpu["service"])
        # What the client sends, the service gets, with some bytes of its own for each message.
        wire = counted["bytes_per_call"]
        assert wire["service_received"] == pytest.approx(wire["client_sent"], rel=0.15)
        assert wire["client_sent"] > 0.3 * told["message_bytes"]  # of a few calls a few lengths
    waits = told["open"]["latency_s"]
    assert 0 < waits["p50"] <= waits["p99"] <= waits["max"]
    assert "p99.9" not in waits, "of so few calls it would be the largest"
    assert told["open"]["lateness_s"]["p50"] >= 0


def test_an_envelope_costs_bytes(rabbit: Bed, tmp_path: Path) -> None:
    sent = {}
    for envelope in (True, False):
        ends = (end(role, "native", envelope=envelope) for role in ("driver", "service"))
        told = measured(rabbit, tmp_path, *ends, payload="2450")
        sent[envelope] = told["saturation"]["bytes_per_call"]["client_sent"]
    assert sent[True] - sent[False] > 100  # each quote of the message is escaped


@pytest.mark.parametrize(
    "options",
    [
        {"executor": "greenlets", "cast": True},
        {"envelope": False, "serialiser": "msgpack"},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_every_way_of_oslo_messaging_works(rabbit: Bed, tmp_path: Path, options: dict[str, Any]) -> None:
    ends = end("driver", "oslo", callers=4, **options), end("service", "oslo", callers=4, **options)
    counted = measured(rabbit, tmp_path, *ends, payload="1000")["saturation"]
    assert counted["ok"] == counted["sent"] == counted["handled"] > 0


def test_casts_and_nothing_promised(rabbit: Bed, tmp_path: Path) -> None:
    for options in ({"cast": True}, {"semantics": "bare"}, {"semantics": "bare", "cast": True}):
        ends = end("driver", "native", **options), end("service", "native", **options)
        counted = measured(rabbit, tmp_path, *ends, pairs=2)["saturation"]
        assert counted["ok"] == counted["sent"] == counted["handled"] > 0


def first_request(rabbit: Bed, library: str, tmp_path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Properties and outer JSON of the first message that a driver of that library sends; nobody answers it."""
    made = payloads.documents("500", 1, seed=1)
    (tmp_path / "payloads.json").write_text(json.dumps(made))
    topic = f"wire-{library}"
    names = {"exchange": "wire", "topic": topic, "server": "s", "payloads": str(tmp_path / "payloads.json")}
    driver = Process(End("driver", library, **names, callers=1, timeout_s=1.0), rabbit.url(), {})
    port = rabbit.ports[0]
    with amqp.Connection(f"127.0.0.1:{port}", userid=USER, password=rabbit.password) as connection:
        try:
            driver.ready()
            channel = connection.channel()
            channel.exchange_declare("wire", "topic", durable=False, auto_delete=True)
            channel.queue_declare(topic, auto_delete=False)
            channel.queue_bind(topic, "wire", topic)
            asker = threading.Thread(
                target=driver.ask, args=(Phase(0.2, drain_s=2.0).to_json(), 20.0), daemon=True
            )
            asker.start()
            message = None
            while message is None:
                message = channel.basic_get(topic, no_ack=True)
            asker.join()
            channel.queue_delete(topic)
        finally:
            driver.close()
            remover(rabbit.url())(driver.queues, ["wire"])  # oslo.messaging leaves its queue for replies
    return dict(message.properties), json.loads(message.body)


def test_what_goes_over_the_wire_is_the_same(rabbit: Bed, tmp_path: Path) -> None:
    """Byte for byte but for ids, by an AMQP library that is neither's."""
    (theirs, their_body), (ours, our_body) = (
        first_request(rabbit, library, tmp_path) for library in ("oslo", "native")
    )
    assert ours == theirs
    assert our_body.keys() == their_body.keys()
    assert our_body["oslo.version"] == their_body["oslo.version"] == "2.0"
    inner, of_oslo = json.loads(our_body["oslo.message"]), json.loads(their_body["oslo.message"])
    assert inner.keys() == of_oslo.keys()
    varied = {"_msg_id", "_reply_q", "_unique_id"}
    assert {k: v for k, v in inner.items() if k not in varied} == {
        k: v for k, v in of_oslo.items() if k not in varied
    }
    assert {k: len(inner[k]) for k in varied} == {k: len(of_oslo[k]) for k in varied}
    assert len(our_body["oslo.message"]) == len(their_body["oslo.message"]) == 500
