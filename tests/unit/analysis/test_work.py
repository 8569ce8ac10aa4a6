"""What a unit of work cost, and how sure a cause's share of it is: against truths that are drawn."""

from __future__ import annotations

import random
from typing import Any

import pytest

from contend.analysis.work import Trials, worked
from contend.document import CellResult, Level, MetricInfo, Worked
from contend.probes.observed import Observations, Observed
from contend.stats.estimate import Estimate
from contend.studies.causes.cause import Cause
from contend.studies.causes.explain import explain

METRIC = MetricInfo("wall", "s", "lower", "", True)
ESTIMATE = Estimate(1.5, 1.4, 1.6, "ratio", 10, 0.95, "HL", "higher")
LEVEL = Level(ESTIMATE, (1.0,), (0,), ())
SEEN = Observations(dict.fromkeys(("wall", "run_delay"), (1.0, "s")))


def trial(block: int, wall: float, waited: float) -> dict[str, Any]:
    """A row of a trial that took so long, and waited for a CPU for a part of it."""
    evidence = [
        {"name": name, "value": value, "unit": "s"}
        for name, value in (("wall", wall), ("run_delay", waited), ("cpu", wall - waited))
    ]
    return {"block": block, "trial": 0, "metrics": [{"name": "wall"}], "evidence": evidence}


def side(waits: list[float], works: list[float]) -> Trials:
    """A cell's trials, a block each."""
    rows = [
        trial(block, work + wait, wait) for block, (wait, work) in enumerate(zip(waits, works, strict=True))
    ]
    return Trials(rows, [wait + work for wait, work in zip(waits, works, strict=True)], "wall")


def drawn(blocks: int, chance: random.Random) -> Worked:
    """Of 1 s alone, 0.5 s more beside: 0.3 s of waits, which come and go, and 0.2 s of computing."""
    beside = side(
        [0.1 + chance.expovariate(1 / 0.3) for _ in range(blocks)],
        [chance.gauss(1.1, 0.05) for _ in range(blocks)],
    )
    alone = side([0.1] * blocks, [chance.gauss(0.9, 0.05) for _ in range(blocks)])
    made = worked(beside, alone, timed=True)
    assert made is not None
    return made


def queue(of: Worked) -> Cause:
    """What is said about waiting for a CPU."""
    result = CellResult("a|b", {"victim": "a"}, METRIC, LEVEL, LEVEL, ESTIMATE, SEEN, SEEN, worked=of)
    return next(cause for cause in explain(result) if cause.resource == "run queue")


@pytest.mark.parametrize(("blocks", "least"), [(8, 0.90), (20, 0.92), (60, 0.93)])
def test_the_interval_of_a_share_holds_it(blocks: int, least: float) -> None:
    """Waits are as skewed as an exponential: of few blocks a little less than 95 % hold."""
    chance = random.Random(blocks)
    causes = [queue(drawn(blocks, chance)) for _ in range(400)]
    held = [cause.low is not None and cause.low <= 0.6 <= (cause.high or 0.0) for cause in causes]
    assert sum(held) >= least * len(held)
    # And it is no wider than it has to be: the shares themselves differ by about as much.
    shares = sorted(cause.share for cause in causes)
    half = sorted((cause.high or 0.0) - cause.share for cause in causes)[200]
    assert half <= 1.5 * (shares[390] - shares[10]) / 2


def test_what_stands_without_each_block_is_made_of_the_others() -> None:
    waits, works = [0.1, 0.2, 0.3, 0.4], [1.0, 1.1, 1.0, 1.1]
    made = worked(side(waits, works), side([0.0] * 4, works), timed=True)
    assert made is not None and len(made.without) == 4
    for left, (beside, alone) in enumerate(made.without):
        kept = [number for number in range(4) if number != left]
        assert beside.time == pytest.approx(sum(waits[n] + works[n] for n in kept) / 3)
        assert alone.time == pytest.approx(sum(works[n] for n in kept) / 3)
        assert beside.seen.value(Observed.RUN_DELAY) == pytest.approx(sum(waits[n] for n in kept) / 3)


def test_too_few_blocks_have_no_interval() -> None:
    made = worked(side([0.5, 0.6], [1.0, 1.0]), side([0.0] * 2, [1.0, 1.0]), timed=True)
    assert made is not None and made.without == ()
    cause = queue(made)
    assert (cause.low, cause.high) == (None, None)
    assert cause.words.endswith("(100 % of the slowdown)")


def test_a_share_of_what_is_no_slowdown_without_one_block_may_be_any() -> None:
    """All of the slowdown is in one block."""
    works = [1.0] * 6
    made = worked(side([3.0, *[0.0] * 5], works), side([0.01] * 6, works), timed=True)
    assert made is not None
    cause = queue(made)
    assert (cause.low, cause.high) == (0.0, 1.0)
    assert "(100 % of the slowdown, 0–100 %)" in cause.words
