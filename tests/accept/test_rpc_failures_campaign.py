"""Every fault with either library, over one node and over a cluster: each call accounted for, and the way back known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from contend.testbed.rabbit import bed
from contend.testbed.rpc import faults
from support.rpc import broker, suffer

pytestmark = pytest.mark.accept


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bed.Bed]:
    with broker(tmp_path_factory.mktemp("one")) as up:
        yield up


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bed.Bed]:
    with broker(tmp_path_factory.mktemp("three"), 3) as up:
        yield up


@pytest.mark.parametrize("library", ["oslo", "native"])
@pytest.mark.parametrize("fault", faults.NAMES)
def test_each_fault_with_each_library(
    one: bed.Bed, three: bed.Bed, library: str, fault: str, tmp_path: Path
) -> None:
    up = three if fault == "partition" else one
    told = suffer(up, library, fault, tmp_path, seed=3)
    assert told["recovery_s"]["recovered"]
    harmed = told["lost"]["count"] + told["failed"]["count"] + told["late"]["count"]
    if fault == "none":
        assert told["answered"]["count"] == told["sent"]
        assert told["duplicated"]["count"] == 0
    began, undone = told["fault_s"]["began"], told["fault_s"]["undone"]
    if told["recovery_s"]["low"] > 0:
        width = told["recovery_s"]["high"] - told["recovery_s"]["low"]
        assert width == pytest.approx(1 / 20 + began[1] - began[0], abs=1e-6)
    if fault == "kill":
        assert harmed > 0
        assert told["recovery_s"]["high"] > undone[0] - began[1] > 4.9  # so long it was down
    if fault == "partition":
        assert began[1] - began[0] < 1
    if fault == "stop":
        assert told["lost"]["count"] == told["failed"]["count"] == 0  # shorter than the timeout
        assert told["backlog"] >= 0.8 * 20 * 5
    if fault == "slow":
        # Half of 20 a second for 5 s stays behind.
        assert told["backlog"] == pytest.approx(50, abs=25)


@pytest.mark.parametrize("library", ["oslo", "native"])
def test_a_cluster_survives_the_death_of_any_node(three: bed.Bed, library: str, tmp_path: Path) -> None:
    for seed in range(3):
        told = suffer(three, library, "kill", tmp_path / str(seed), seed=seed)
        assert told["recovery_s"]["recovered"]


@pytest.mark.parametrize("library", ["oslo", "native"])
def test_any_node_may_be_cut_off(three: bed.Bed, library: str, tmp_path: Path) -> None:
    for seed in range(3):
        told = suffer(three, library, "partition", tmp_path / str(seed), seed=seed)
        assert told["recovery_s"]["recovered"]
