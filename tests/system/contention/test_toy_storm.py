"""The storm that other tests take for their known answer does what it says, and its trace says the same."""

from __future__ import annotations

import statistics
from collections import defaultdict
from pathlib import Path

import pytest

from support.ctrace_events import (
    JOB_BEGIN,
    JOB_END,
    LOCK_ACQUIRED,
    LOCK_RELEASED,
    LOCK_WAIT,
    Event,
    Trace,
    read_all,
)
from support.toy_storm import MS, WORSENED, WORSENING, Truth, realtime, storm


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Truth, Trace]:
    directory = tmp_path_factory.mktemp("storm")
    # They queue for both locks.
    truth = storm(directory, WORSENED, jobs=24, **WORSENING)
    (told,) = read_all(directory)
    return truth, told


def intervals(told: Trace, lock: str, begin: int, end: int) -> list[int]:
    """ns from each event of the one kind to the next of the other, on its track."""
    open_: dict[int, Event] = {}
    found = []
    for event in told.of(begin, end):
        if event.name != lock:
            continue
        if event.kind == begin:
            open_[event.track] = event
        elif event.track in open_:
            found.append(event.ticks - open_.pop(event.track).ticks)
    return found


def test_jobs_are_on_record_as_they_were(made: tuple[Truth, Trace]) -> None:
    truth, told = made
    begun = {e.args["number"]: e.ticks for e in told.of(JOB_BEGIN)}
    number = {e.value: e.args["number"] for e in told.of(JOB_BEGIN)}
    ended = {number[e.value]: e.ticks for e in told.of(JOB_END)}
    for job, (start, end) in enumerate(zip(truth.started, truth.ended, strict=True)):
        assert begun[job] >= start and ended[job] <= end
    recorded = statistics.median(ended[job] - begun[job] for job in begun)
    assert recorded == pytest.approx(truth.median, rel=0.02)


@pytest.mark.parametrize("lock", ["resource", "hypervisor"])
def test_holds_and_waits_are_those_of_its_own_clocks(made: tuple[Truth, Trace], lock: str) -> None:
    truth, told = made
    held = sum(intervals(told, lock, LOCK_ACQUIRED, LOCK_RELEASED))
    waited = sum(intervals(told, lock, LOCK_WAIT, LOCK_ACQUIRED))
    assert 0.99 * truth.held[lock] <= held <= 1.01 * truth.held_most[lock]
    assert 0.99 * truth.waited_least[lock] <= waited <= 1.01 * truth.waited[lock]


def test_calls_cost_what_they_were_told_to(made: tuple[Truth, Trace]) -> None:
    truth, _ = made
    by_items = defaultdict(list)
    for _, items, ns in truth.served:
        by_items[items].append(ns)
    assert set(by_items) == {1, 2}
    assert len(truth.served) == 24 * (1 + 1 + 1)
    p = truth.parameters
    for items, took in by_items.items():
        assert statistics.median(took) >= (p.call_ms + p.item_ms * items) * MS * 0.9


def test_a_shorter_hold_can_make_the_median_worse(tmp_path: Path) -> None:
    fifo = realtime()  # both without others of this host
    before = storm(tmp_path / "before", WORSENED, realtime=fifo)
    after = storm(tmp_path / "after", WORSENED, realtime=fifo, **WORSENING)
    assert after.held["resource"] < before.held["resource"]
    assert after.median > before.median
