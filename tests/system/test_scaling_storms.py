"""Real storms of several sizes: the lock that makes them grow is named, and its demand is what its holders measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend.contention.scaling import Key, Scaling, read, scale
from contend.contention.scaling_findings import scaling_findings
from support.toy_storm import MS, WORSENED, Truth, realtime, storm

pytestmark = pytest.mark.system

SIZES = (4, 10, 20)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Truth], Scaling]:
    truths, directories = [], []
    fifo = realtime()
    for n in SIZES:
        for seed in range(2):
            directory: Path = tmp_path_factory.mktemp(f"storm-{n}-{seed}")
            truths.append(storm(directory, WORSENED, jobs=n, seed=n + seed, realtime=fifo))
            directories.append(directory)
    return truths, scale(read(directories), limit_ns=1000 * MS)


def test_storms_are_what_they_were(made: tuple[list[Truth], Scaling]) -> None:
    truths, told = made
    for truth, of in zip(truths, told.storms, strict=True):
        assert of.load == "storm" and of.jobs == len(truth.started)
        assert of.times.median_ns == pytest.approx(truth.median, rel=0.02)
        assert of.times.makespan_ns == pytest.approx(truth.makespan, rel=0.02)
        assert sum(of.parts.values()) == pytest.approx(of.mean_ns, rel=0.01)


def test_demands_are_those_of_the_holders_own_clocks(made: tuple[list[Truth], Scaling]) -> None:
    truths, told = made
    for truth, of in zip(truths, told.storms, strict=True):
        measured = of.demands[Key("lock", "resource")]
        assert measured == pytest.approx(truth.held["resource"] / len(truth.started), rel=0.05)
    resource = next(demand for demand in told.demands if demand.key == Key("lock", "resource"))
    slope = told.law.demand
    assert slope.low <= resource.estimate.high and resource.estimate.low <= slope.high, (slope, resource)


def test_the_lock_is_named_and_not_claimed_without_the_alibi(made: tuple[list[Truth], Scaling]) -> None:
    _, told = made
    law, *rest = scaling_findings(told)
    assert law.resource == "resource" and "not claimed" in law.sentence
    grows = [finding for finding in rest if finding.kind == "growth"]
    assert grows[0].resource == "resource" and (grows[0].share or 0) > 0.5
    assert any(growth.key.name == "claim" and growth.share > 0.5 for growth in told.spans)
