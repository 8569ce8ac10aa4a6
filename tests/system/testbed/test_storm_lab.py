"""The storm laboratory: each switch does what it says, its processes are linked in a trace, and nothing is left of it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contend.testbed.rabbit import bed, node
from contend.workloads.drivers.storm_lab.options import Storm
from contend.workloads.generators import storm_lab
from support.command_line import CONTEND, wait_for
from support.ctrace_events import FLOW_IN, FLOW_OUT, read_all
from support.prerequisites import need
from support.traced_program import begun

LAB = [sys.executable, "-P", "-m", "contend.workloads.generators.storm_lab"]
# Nothing but the calls of a claim, by as many workers as can be used: no boot waits for another.
FIXED = (
    "jobs=8 image_ms=0 network_ms=0 claim_ms=0 progress=0 updates=6 noops=5 send_noops=false hold_across_rpc=false"
    " hypervisor_calls=0 queues=shared workers=16 update_ms=20 item_ms=0"
)
FAULTS = {
    "lock across RPC": "hold_across_rpc=true send_noops=true update_ms=15",
    "no-op updates": "updates=12 noops=11 send_noops=true update_ms=40",
    "hypervisor lock": "hypervisor_calls=20 hypervisor_ms=5",
    "hashed queue": "queues=hashed send_noops=true update_ms=15",
    "too few builders": "builders=1 image_ms=150",
}
# The same work, without what makes it wait.
MENDED = "hypervisor_lock=instance hypervisor_calls=20 hypervisor_ms=5"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    need(node.server(), "RabbitMQ: apt-get install rabbitmq-server")
    need(importlib.util.find_spec("oslo_messaging"), "pip install oslo.messaging")
    place = tmp_path_factory.mktemp("lab")
    subprocess.run([*LAB, "--lab", str(place), "up"], check=True, capture_output=True, timeout=100)
    try:
        yield place
    finally:
        subprocess.run([*LAB, "--lab", str(place), "down"], check=True, capture_output=True, timeout=60)
        assert not bed.pids(place)


def storm(lab: Path, *words: str) -> dict[str, Any]:
    return storm_lab.storm(lab, Storm.parse(" ".join(words).split()))


@pytest.fixture(scope="module")
def mended(lab: Path) -> dict[str, Any]:
    # The better of two: what others on the host do meanwhile only makes it longer.
    return min((storm(lab, FIXED, MENDED) for _ in range(2)), key=lambda told: told["makespan_s"])


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_makes_the_storm_longer(fault: str, lab: Path, mended: dict[str, Any]) -> None:
    """By construction half a second to a second and a half, where without it a tenth is enough."""
    slow = storm(lab, FIXED, FAULTS[fault])
    assert len(slow["boots"]) == len(mended["boots"]) == 8
    assert all(boot["due_ns"] <= boot["sent_ns"] < boot["answered_ns"] for boot in slow["boots"])
    assert slow["makespan_s"] > 1.5 * mended["makespan_s"], (slow["makespan_s"], mended["makespan_s"])


def test_an_open_loop_times_boots_from_when_they_were_due(lab: Path) -> None:
    told = storm(lab, FIXED, "jobs=5 rate=20")
    first = min(boot["due_ns"] for boot in told["boots"])
    assert [boot["due_ns"] - first for boot in told["boots"]] == [n * 50_000_000 for n in range(5)]
    assert told["makespan_s"] > 0.2


def test_a_trace_links_the_processes_of_a_storm(lab: Path, tmp_path: Path) -> None:
    options = [*FIXED.split(), "jobs=4", "database=sqlite"]
    line = [*LAB, "--lab", str(lab), "storm", *options, "-o", str(tmp_path / "storm.json")]
    asked = ["trace", "-o", str(tmp_path / "trace"), "--include", "storm_lab.*"]
    subprocess.run([CONTEND, *asked, "--", *line], check=True, capture_output=True, timeout=100)
    assert json.loads((tmp_path / "storm.json").read_text())["jobs"] == 4
    traces = read_all(tmp_path / "trace")
    (driver,) = [told for told in traces if begun(told, "rpc call boot")]
    (compute,) = [told for told in traces if begun(told, "rpc serve boot")]
    (conductor,) = [told for told in traces if begun(told, "storm_lab.conductor:Database.update")]
    assert len(begun(driver, "rpc call boot")) == len(begun(compute, "rpc serve boot")) == 4
    for sender, receiver in (
        (driver, compute),
        (compute, conductor),
        (conductor, compute),
        (compute, driver),
    ):
        sent, received = (
            {e.args[""] for e in told.of(kind) if e.name == "rpc"}
            for told, kind in ((sender, FLOW_OUT), (receiver, FLOW_IN))
        )
        assert len(sent & received) >= 4
    assert "compute_resources" in {lock.name for lock in compute.locks.values()}


def test_services_end_with_a_storm_that_is_killed(lab: Path) -> None:
    before = bed.pids(lab)
    line = [*LAB, "--lab", str(lab), "storm", *FIXED.split(), "image_ms=60000"]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: len(bed.pids(lab) - before) >= 3, "services")
        # RabbitMQ starts and ends helpers, such as those that ask for free space: what stays is what is there each time.
        staying = bed.pids(lab)
        for _ in range(4):
            time.sleep(0.5)
            staying &= bed.pids(lab)
    finally:
        process.kill()
        process.wait()
    services, broker = staying - before, staying & before
    assert services and broker
    wait_for(lambda: not services & bed.pids(lab), "end of the services", 20)
    assert broker <= bed.pids(lab), "and of nothing else"


@pytest.mark.parametrize("after_s", [0.3, 2.0])
def test_nothing_is_left_of_a_storm_that_was_killed_while_its_broker_started(
    after_s: float, tmp_path: Path
) -> None:
    need(node.server(), "RabbitMQ: apt-get install rabbitmq-server")
    line = [*LAB, "--lab", str(tmp_path), "storm", *FIXED.split()]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(after_s)
    process.kill()
    process.wait()
    subprocess.run([*LAB, "--lab", str(tmp_path), "down"], check=True, capture_output=True, timeout=60)
    assert not bed.pids(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["jobs=many"], "jobs=many is not a whole number"),
        (["queue=shared"], "no option is called 'queue'"),
        (["queues=one"], "queues=one is not one of: hashed, shared"),
        (["noops=6"], "noops=6 must be less than updates=6"),
        (["jobs=0"], "jobs=0 is not from 1 to 1000"),
    ],
)
def test_what_cannot_be_is_said(words: list[str], said: str, tmp_path: Path) -> None:
    line = [*LAB, "--lab", str(tmp_path), "storm", *words]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 2 and said in done.stderr and "hint: " in done.stderr
