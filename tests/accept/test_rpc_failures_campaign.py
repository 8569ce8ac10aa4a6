"""Every fault with either library, over one node and over a cluster: each call accounted for, and the way back known.

Each trial goes into docs/results/rpc-failures.json as it ends. Half an hour; `-k oslo` and `-k native` may run beside each
other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contend.testbed.rabbit import bed
from support.rpc import broker, suffer
from support.rpc_failures import keep

pytestmark = pytest.mark.accept
LIBRARIES = pytest.mark.parametrize("library", ["oslo", "native"])
# A node takes its time to come up, the longer the busier the host; oslo.messaging tries ever more seldom.
KILLED_S = 90.0
# A node is cut off by rabbitmqctl, which takes a second, or a minute where the host is busy.
CUT_S = 45.0 if os.getloadavg()[0] < 4 else 150.0


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bed.Bed]:
    with broker(tmp_path_factory.mktemp("one")) as up:
        yield up


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bed.Bed]:
    with broker(tmp_path_factory.mktemp("three"), 3) as up:
        yield up


def trial(up: bed.Bed, library: str, fault: str, out: Path, seed: int, **options: Any) -> dict[str, Any]:
    """One trial, kept if the fault came while the load went on."""
    options = {"seconds": 45.0, **options}
    told = suffer(up, library, fault, out, seed=seed, **options)
    came_s = told["fault_s"]["began"][1]
    assert came_s < options["seconds"] - 15, f"the fault came after {came_s:.0f} s: this host is too busy"
    keep(told, len(up.ports), seed)
    return told


@LIBRARIES
@pytest.mark.parametrize("seed", range(5))
def test_a_broker_that_dies_alone(one: bed.Bed, library: str, seed: int, tmp_path: Path) -> None:
    told = trial(one, library, "kill", tmp_path, seed, seconds=KILLED_S)
    assert told["recovery_s"]["recovered"]
    assert told["late"]["count"] > 0
    assert told["failed"]["count"] == told["duplicated"]["count"] == 0
    began, undone = told["fault_s"]["began"], told["fault_s"]["undone"]
    assert told["recovery_s"]["high"] > undone[0] - began[1] > 4.9  # so long it was down
    if library == "native":
        # One that lay in the broker's memory when it died goes with it, with either library.
        assert told["lost"]["count"] <= 1


@LIBRARIES
@pytest.mark.parametrize("fault", ["none", "stop", "slow"])
def test_a_service_that_takes_nothing_or_less(one: bed.Bed, library: str, fault: str, tmp_path: Path) -> None:
    told = trial(one, library, fault, tmp_path, 3, seconds=25.0)
    assert told["recovery_s"]["recovered"]
    assert told["lost"]["count"] == told["failed"]["count"] == 0  # shorter than the timeout
    assert told["duplicated"]["count"] == 0
    if fault == "stop":
        assert told["backlog"] >= 0.8 * 20 * 5
    if fault == "slow":
        # Half of 20 a second for 5 s stays behind.
        assert told["backlog"] == pytest.approx(50, abs=25)


@LIBRARIES
@pytest.mark.parametrize("fault", ["kill", "partition"])
@pytest.mark.parametrize("seed", range(3))
def test_any_node_of_a_cluster(three: bed.Bed, library: str, fault: str, seed: int, tmp_path: Path) -> None:
    told = trial(three, library, fault, tmp_path, seed, seconds=CUT_S if fault == "partition" else 45.0)
    assert told["recovery_s"]["recovered"]
    began = told["fault_s"]["began"]
    if told["recovery_s"]["low"] > 0:
        width = told["recovery_s"]["high"] - told["recovery_s"]["low"]
        assert width == pytest.approx(1 / 20 + began[1] - began[0], abs=1e-6)
    if fault == "partition":
        assert began[1] - began[0] < 1
