"""The estimate of the time left is a promise; these are its terms."""

from __future__ import annotations

import io
import random
from dataclasses import replace

import pytest
from rich.console import Console

from contend.report.progress import ConsoleProgress, PlanSummary, TimeLeft
from support.report_samples import interference

S = 1_000_000_000


class ManualClock:
    def __init__(self) -> None:
        self.now_ns = 10 * S

    def monotonic_ns(self) -> int:
        return self.now_ns

    def utc(self) -> str:
        return ""

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * S)


def test_a_fixed_plan_is_within_a_fifth_at_half_way() -> None:
    rng = random.Random(3)
    lengths = {"a": 1.0, "b": 2.1, "c": 0.4, "d": 7.0}
    cells: list[str] = []
    for _ in range(10):
        cells += rng.sample(sorted(lengths), 4)
    clock = ManualClock()
    time_left = TimeLeft(PlanSummary("", tuple(cells), 10), clock)
    spent = [lengths[c] * rng.uniform(0.8, 1.25) + 0.3 for c in cells]
    for cell, seconds in list(zip(cells, spent, strict=True))[:20]:
        clock.sleep(seconds)
        time_left.ended(cell)
    truth = sum(spent[20:])
    assert time_left.left_ns() == pytest.approx(truth * S, rel=0.2)
    for cell, seconds in list(zip(cells, spent, strict=True))[20:]:
        clock.sleep(seconds)
        time_left.ended(cell)
    assert time_left.left_ns() == 0
    assert time_left.share() == 1.0


def test_cells_not_seen_yet_count_as_the_mean_cell() -> None:
    clock = ManualClock()
    time_left = TimeLeft(PlanSummary("", ("a", "b", "c", "c"), 1), clock)
    assert time_left.left_ns() is None
    for cell, seconds in (("a", 1), ("b", 3)):
        clock.sleep(seconds)
        time_left.ended(cell)
    assert time_left.left_ns() == 4 * S


def test_the_budget_is_the_answer_where_it_ends_the_run() -> None:
    clock = ManualClock()
    time_left = TimeLeft(PlanSummary("", ("a",) * 1000, 1000, budget_ns=60 * S), clock)
    assert time_left.left_ns() == 60 * S
    clock.sleep(2)
    time_left.ended("a")
    assert time_left.left_ns() == 58 * S
    clock.sleep(100)
    assert time_left.left_ns() == 0


def test_a_plan_that_ends_before_its_budget_says_so() -> None:
    clock = ManualClock()
    time_left = TimeLeft(PlanSummary("", ("a",) * 4, 4, budget_ns=600 * S), clock)
    clock.sleep(2)
    time_left.ended("a")
    assert time_left.left_ns() == 6 * S


def test_time_passes_while_a_trial_runs() -> None:
    clock = ManualClock()
    time_left = TimeLeft(PlanSummary("", ("a", "a"), 1), clock)
    clock.sleep(4)
    time_left.ended("a")
    clock.sleep(3)
    assert time_left.left_ns() == 1 * S
    clock.sleep(9)
    assert time_left.left_ns() == 0


def run(progress: ConsoleProgress, clock: ManualClock) -> None:
    progress.started(PlanSummary("noisy-neighbour: 1 victim × 1 neighbour", ("v|none", "v|n") * 2, 2))
    for block in (1, 2):
        progress.block(block)
        for cell, label in (("v|none", "v alone"), ("v|n", "v beside n")):
            progress.trial(cell, label)
            clock.sleep(2)
            progress.result(cell, "2.13 s")
    progress.note("one trial [failed]: \x1b[31mboom")
    progress.finished()


def test_without_a_terminal_there_is_one_line_a_block() -> None:
    clock, stream = ManualClock(), io.StringIO()
    run(ConsoleProgress(Console(file=stream, width=100), clock), clock)
    assert stream.getvalue().splitlines() == [
        "noisy-neighbour: 1 victim × 1 neighbour",
        " block 1/2",
        " block 2/2   50 %  4 s left",
        " one trial [failed]: \\x1b[31mboom",
    ]


def test_on_a_terminal_the_line_is_redrawn_and_leaves_nothing_behind() -> None:
    clock, stream = ManualClock(), io.StringIO()
    run(ConsoleProgress(Console(file=stream, width=100, force_terminal=True), clock), clock)
    text = stream.getvalue()
    assert "block 2/2  ━━" in text
    assert "v beside n  2.13 s" in text
    assert text.endswith("\r\x1b[2K")
    assert max(len(part) for part in text.split("\r\x1b[2K")) < 115


def test_a_figure_stands_beside_its_own_trial() -> None:
    """While a trial runs, the last one's figure is not taken for its own."""
    clock = ManualClock()
    for width in (100, 40):
        progress = ConsoleProgress(Console(file=io.StringIO(), width=width, force_terminal=True), clock)
        progress.started(PlanSummary("", ("v|none", "v|n") * 2, 2))
        progress.block(1)
        progress.trial("v|none", "v alone")
        assert progress.line(bar=True).endswith("v alone")
        clock.sleep(2)
        progress.result("v|none", "2.13 s")
        assert progress.line(bar=True).endswith("v alone  2.13 s")
        progress.trial("v|n", "v beside n")
        line = progress.line(bar=True)
        assert line.endswith("v beside n  (v alone: 2.13 s)" if width == 100 else "v beside n"), line
        clock.sleep(2)
        progress.result("v|n", "4.50 s")
        assert progress.line(bar=True).endswith("v beside n  4.50 s")


def test_who_waits_long_sees_the_comparisons_fill() -> None:
    """After 20 s, on a terminal alone; once all are decided it is said, once."""
    cells = [cell for cell in interference().analysis.cells if cell.metric.primary]
    assert cells and all(cell.estimate.known for cell in cells)
    clock, stream = ManualClock(), io.StringIO()
    progress = ConsoleProgress(Console(file=stream, width=100, force_terminal=True), clock)
    progress.started(PlanSummary("", ("v|none", "v|n") * 2, 2))
    assert not progress.wants_comparisons
    clock.sleep(21)
    assert progress.wants_comparisons
    assert not ConsoleProgress(Console(file=io.StringIO(), width=100), clock).wants_comparisons
    undecided = [replace(cells[0], estimate=replace(cells[0].estimate, verdict="undecided")), *cells[1:]]
    progress.comparisons(undecided)
    text = stream.getvalue()
    for cell in cells[:3]:
        assert f"{cell.factors['victim']} beside {cell.factors['neighbour']}" in text
    assert "decided: more blocks" not in text
    decided = [replace(cell, estimate=replace(cell.estimate, verdict="higher")) for cell in cells]
    progress.comparisons(decided)
    progress.comparisons(decided)
    assert stream.getvalue().count("every comparison is decided: more blocks only narrow the intervals") == 1
    progress.finished()
    assert stream.getvalue().endswith("\x1b[2K"), "nothing is left of it"


def test_a_reader_that_went_away_does_not_end_the_run() -> None:
    clock, stream = ManualClock(), io.StringIO()
    progress = ConsoleProgress(Console(file=stream, width=100, force_terminal=True), clock)
    stream.close()
    run(progress, clock)


def test_a_plan_that_grew_unannounced_gets_no_invented_figure() -> None:
    clock = ManualClock()
    time_left = TimeLeft(PlanSummary("", ("a", "a"), 1), clock)
    for _ in range(3):
        clock.sleep(1)
        time_left.ended("a")
    assert time_left.left_ns() == 0, "a pilot may go on for a few rounds"
    for _ in range(30):
        clock.sleep(1)
        time_left.ended("a")
    assert time_left.left_ns() is None
    time_left.replan(PlanSummary("", ("a",) * 5, 1))
    assert time_left.left_ns() == 5 * S


def test_the_line_of_a_pilot_says_that_it_is_no_result() -> None:
    progress = ConsoleProgress(Console(file=io.StringIO(), width=100), ManualClock())
    progress.started(PlanSummary("", ("a",) * 4, 2))
    assert "pilot, not a result" in progress.line(bar=True)
    progress.block(1)
    assert "pilot" not in progress.line(bar=True)


def test_preparing_shows_its_steps_and_what_is_left_where_that_is_known() -> None:
    clock, stream = ManualClock(), io.StringIO()
    progress = ConsoleProgress(Console(file=stream, width=100), clock)
    progress.started(PlanSummary("", ("a",) * 4, 2))
    progress.preparing(1, 2, "ffmpeg", 0.0)
    clock.sleep(48)
    progress.preparing(2, 2, "redis in a container", 12.4)
    assert stream.getvalue().splitlines() == [
        " preparing 1/2  ffmpeg",
        " preparing 2/2  redis in a container  48 s so far  about 12 s left",
    ]
