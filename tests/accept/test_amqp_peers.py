"""lapin and amqprs in bench/amqp_peers: they do what contend's own driver does, so that a comparison with it is one."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from contend.errors import BadInput
from contend.testbed.rabbit.bed import Bed
from contend.workloads.downloads.built import find_cargo
from contend.workloads.drivers.rpc import payloads, trial
from contend.workloads.drivers.rpc.options import End, Phase
from contend.workloads.drivers.rpc.processes import Process
from support.command_line import wait_for
from support.prerequisites import need
from support.rpc import broker, end, listed, over, queues, remover

pytestmark = pytest.mark.accept  # the first on a host builds them, which takes minutes

BENCH = Path(__file__).parents[2] / "bench" / "amqp_peers.py"
PEERS = ("lapin", "amqprs")


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with broker(tmp_path_factory.mktemp("rabbit")) as up:
        yield up


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    need(find_cargo(), "cargo (https://rustup.rs)")
    spec = importlib.util.spec_from_file_location("amqp_peers_bench", BENCH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def programs(bench: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Sequence[str]]:
    found: Mapping[str, Sequence[str]] = bench.programs(tmp_path_factory.mktemp("answer"))
    return found


@pytest.mark.parametrize("executor", ["threads", "one-thread"])
@pytest.mark.parametrize(
    ("driver", "service"),
    [(peer, peer) for peer in PEERS]
    + [(peer, other) for peer in PEERS for other in ("native", "oslo")]
    + [(other, peer) for peer in PEERS for other in ("native", "oslo")],
)
def test_each_understands_the_others(
    rabbit: Bed,
    tmp_path: Path,
    programs: Mapping[str, Sequence[str]],
    driver: str,
    service: str,
    executor: str,
) -> None:
    def one(role: str, library: str) -> End:
        return end(role, library, executor=executor if library in PEERS else "threads")

    asked = trial.CallOptions(
        one("driver", driver),
        one("service", service),
        payload="1000",
        seconds=0.4,
        warm_s=0.1,
        programs=programs,
    )
    told = trial.run(over(rabbit), asked, tmp_path, remover(rabbit.url()))
    assert queues(rabbit) == []
    counted = told["saturation"]
    assert counted["ok"] == counted["sent"] == counted["handled"] == counted["due"] > 0
    assert counted["refused"] == counted["unfinished"] == 0
    assert counted["last_error"] == ""
    cpu = counted["cpu_s_per_call"]
    assert min(cpu["client"], cpu["service"], cpu["broker"]) > 0
    wire = counted["bytes_per_call"]
    assert wire["service_received"] == pytest.approx(wire["client_sent"], rel=0.15)
    assert wire["client_sent"] > told["message_bytes"]
    waits = counted["service_s"]
    assert 0 < waits["p50"] <= waits["p99"] <= waits["max"]


@contextmanager
def ends(
    rabbit: Bed, programs: Mapping[str, Sequence[str]], tmp_path: Path, *made: End
) -> Iterator[list[Process]]:
    """Of one topic, each started when the last is ready."""
    (tmp_path / "payloads.json").write_text(json.dumps(payloads.documents("1000", 8, 1)))
    broker, started = over(rabbit), list[Process]()
    with trial.cleared(started, remover(rabbit.url()), ["peers-x"]):
        for one in made:
            named = replace(
                one, exchange="peers-x", topic="peers", server="one", payloads=str(tmp_path / "payloads.json")
            )
            started.append(Process(named, broker.urls[0], {}, programs.get(one.library, ()), broker.bed))
            started[-1].ready()
        yield started
    assert queues(rabbit) == []


@pytest.mark.parametrize("library", [*PEERS, "native"])
def test_what_is_promised_is_what_the_broker_sees(
    library: str, rabbit: Bed, tmp_path: Path, programs: Mapping[str, Sequence[str]]
) -> None:
    """An end has one channel, on which publishes are confirmed and deliveries acknowledged; replies have a named queue."""
    with ends(rabbit, programs, tmp_path, end("service", library), end("driver", library)) as (
        service,
        driver,
    ):
        said = driver.ask(Phase(0.3).to_json(), 30)
        assert said["ok"] == said["sent"] > 0
        channel = "confirm", "messages_unacknowledged", "messages_unconfirmed"
        # A moment after the last call, nothing is under way any more.
        quiet = [["true", "0", "0"]] * 2
        wait_for(lambda: listed(rabbit, "list_channels", *channel) == quiet, "two quiet channels", 20)
        if library in PEERS:  # of each reply the broker's word was heard
            wait_for(
                lambda: service.ask("counts", 30)["confirmed"] == said["ok"], "confirm of each reply", 20
            )
        counts = service.ask("counts", 30)
        assert counts["handled"] == said["ok"]
        assert counts["undelivered"] == counts["malformed"] == 0
        consumers = listed(rabbit, "list_consumers", "queue_name", "ack_required")
        (replies,) = driver.queues
        assert replies.startswith("reply_")
        assert sorted(consumers) == sorted([[name, "true"] for name in ("peers", "peers.one", replies)])
        kinds = listed(rabbit, "list_queues", "name", "durable", "auto_delete", "arguments")
        kept = {
            name: (durable, auto_delete, "x-expires" in given) for name, durable, auto_delete, given in kinds
        }
        assert kept == {
            "peers": ("false", "true", False),
            "peers.one": ("false", "true", False),
            replies: ("false", "false", True),
        }


@pytest.mark.parametrize("library", PEERS)
def test_a_call_that_nobody_takes_comes_back(
    library: str, rabbit: Bed, tmp_path: Path, programs: Mapping[str, Sequence[str]]
) -> None:
    """It is mandatory: the caller is told at once, and does not wait for its time to run out."""
    with ends(rabbit, programs, tmp_path, end("driver", library)) as (driver,):
        said = driver.ask(Phase(0.2).to_json(), 30)
    assert said["ok"] == 0
    assert said["refused"] == said["sent"] > 1
    assert said["last_error"] == "returned: NO_ROUTE"


@pytest.mark.parametrize(
    "wish", [{"cast": True}, {"quorum": True}, {"semantics": "bare"}, {"serialiser": "orjson"}]
)
def test_what_a_peer_does_not_do_is_refused(
    wish: dict[str, Any], rabbit: Bed, tmp_path: Path, programs: Mapping[str, Sequence[str]]
) -> None:
    (name,) = wish
    with (
        pytest.raises(BadInput, match=f"no such '{name}'"),
        ends(rabbit, programs, tmp_path, end("driver", "lapin", **wish)),
    ):
        pass


def test_all_in_one_run(bench: ModuleType, tmp_path: Path) -> None:
    written = tmp_path / "peers"
    words = [sys.executable, str(BENCH), "--blocks=6", "--seconds=0.3", "--write", str(written)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    told = json.loads(written.with_suffix(".json").read_text())
    assert set(told["versions"]) == set(PEERS)
    assert len(told["blocks"]) == 6
    assert set(told["ratios"]) == set(bench.DRIVERS) - {"native"}
    assert len({tuple(row["order"]) for row in told["blocks"]}) > 1, "in random order"
    for row in told["blocks"]:
        for name in bench.DRIVERS:
            assert row[name]["ok"] == row[name]["handled"] > 0
    for ratios in told["ratios"].values():
        for ratio in ratios.values():
            assert 0 < ratio["low"] <= ratio["value"] <= ratio["high"]
    assert told["ratios"]["oslo"]["cpu_ends"]["low"] > 1, "the one that is known: tens of times"
    for name in bench.DRIVERS:
        assert f"\n{name} " in done.stdout
