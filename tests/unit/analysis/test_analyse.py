"""Rows with a known truth, written to disk, and what the analysis and the advice say of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contend.analysis.comparisons import _block_s
from contend.analysis.run import _describe_intervals, target_reached
from contend.report import words
from contend.report.words import undecided
from contend.stats.compare import compare
from support.made_runs import TEXT, Made


def test_slowdowns_are_above_one_for_times_and_for_rates(tmp_path: Path) -> None:
    truth = {"ffmpeg|stress-cpu": 2.0, "ffmpeg|stress-memory": 1.3, "fio|stress-cpu": 1.1}
    found = Made(tmp_path, 15, truth, {}).analyse()
    by_cell = {c.cell: c for c in found.cells}
    assert set(by_cell) == {
        "ffmpeg|stress-cpu",
        "ffmpeg|stress-memory",
        "fio|stress-cpu",
        "fio|stress-memory",
    }
    for cell, result in by_cell.items():
        wanted = truth.get(cell, 1.0)
        assert result.estimate.low <= wanted <= result.estimate.high, cell
        assert result.estimate.verdict == ("higher" if wanted > 1 else "unaffected"), cell
        assert result.estimate.n == 15
    # The drift of 30 % over the run is shared by all cells of a block and must not widen the interval.
    assert by_cell["ffmpeg|stress-cpu"].estimate.relative_half_width < 0.03
    assert not any(c.alarm for c in found.controls)
    assert {c.factors["victim"] for c in found.controls} == {"ffmpeg", "fio"}
    assert found.answer.startswith("ffmpeg takes 2.0")
    assert found.answer.endswith("The other pairs: 2 slower, 1 unaffected (within ±3 %).")
    assert found.skipped == ("victim nginx: not here",)
    assert found.flags == {"steal": 2}
    assert found.design.blocks == 15


def test_the_pilot_does_not_count(tmp_path: Path) -> None:
    found = Made(tmp_path, 8, {}, {}).analyse()
    assert all(len(c.baseline.values) == 8 for c in found.cells)


def test_too_few_blocks_give_no_verdict_and_no_finding(tmp_path: Path) -> None:
    found = Made(tmp_path, 3, {"ffmpeg|stress-cpu": 2.0}, {}).analyse()
    assert {c.estimate.verdict for c in found.cells} == {"too few"}
    assert found.findings == ()
    assert "too few" in found.answer


def test_an_unfinished_run_can_be_analysed(tmp_path: Path) -> None:
    made = Made(tmp_path, 10, {"ffmpeg|stress-cpu": 2.0}, {})
    lines = made.run.trials_path.read_text().splitlines(keepends=True)
    made.run.trials_path.write_text("".join(lines[: len(lines) * 3 // 4]) + lines[-1][:40])
    found = made.analyse()
    assert 0 < found.design.blocks < 10
    assert found.design.stopped == "not finished"


def test_a_repeated_trial_counts_once_as_its_last_row(tmp_path: Path) -> None:
    made = Made(tmp_path, 8, {}, {})
    row = next(r for r in made.run.rows() if r["phase"] == "counted")
    made.run.append({**row, "metrics": [], "status": "failed", "error": "it broke"})
    found = made.analyse()
    assert found.failed == (f"trial {row['trial']}, {row['cell']}: it broke",)
    assert found.design.blocks == 7


def test_looks_see_the_target(tmp_path: Path) -> None:
    quiet = Made(tmp_path / "a", 15, {}, {}, noise=0.003)
    noisy = Made(tmp_path / "b", 15, {}, {}, noise=0.1)
    assert target_reached(quiet.run, quiet.scenario)
    assert not target_reached(noisy.run, noisy.scenario)
    assert all(quiet.analyse().design.target_reached.values())
    assert not any(noisy.analyse().design.target_reached.values())


EVIDENCE = {
    # Alone nothing waits; beside the CPU neighbour half of the time is run queue, beside memory the work costs more.
    "ffmpeg|none": {"wall": 1.0, "cpu": 1.0, "run_delay": 0.0, "own_psi_cpu": 0.0, "throttled": 0.0},
    "ffmpeg|stress-cpu": {"run_delay": 0.98, "own_psi_cpu": 0.98, "throttled": 0.0, "wall": 2.0, "cpu": 1.0},
    "ffmpeg|stress-memory": {"run_delay": 0.0, "own_psi_cpu": 0.0, "throttled": 0.0, "wall": 1.3, "cpu": 1.3},
    "fio|none": {"disk_await": 0.35, "disk_iops": 90_000, "disk_queue": 32.0},
    "fio|stress-memory": {"disk_await": 0.70, "disk_iops": 90_000, "disk_queue": 64.0, "cpu": 0.5},
    "fio|stress-cpu": {"cpu": 0.6},  # fewer requests, and less CPU time with them: nothing explains it
}


def test_work_that_is_done_when_the_program_ends_is_the_unit_not_what_its_own_figure_tells(
    tmp_path: Path,
) -> None:
    """As of a program that sorts the same rows in each trial, and tells how fast it sorted them."""
    alone = {"wall": 0.4, "cpu": 0.38, "run_delay": 0.0, "throttled": 0.0}
    beside = {"wall": 0.912, "cpu": 0.4655, "run_delay": 0.4, "throttled": 0.0}  # 22.5 % more CPU time
    truth = {"ffmpeg|stress-cpu": 2.46}
    evidence = {"ffmpeg|none": alone, "ffmpeg|stress-cpu": beside}
    (finding, *_) = Made(tmp_path / "a", 15, truth, evidence).analyse().findings
    assert "(78 % of the slowdown)" in finding.sentence, "of the 0.512 s that a trial took more it waited 0.4"
    assert "took 22 % more CPU time" in finding.sentence and "(17 % of the slowdown)" in finding.sentence
    # Not known is whether it did the same where it took neither as long as alone nor as much longer as it says.
    halfway = {**beside, "wall": 0.55}
    (finding, *_) = (
        Made(tmp_path / "b", 15, truth, {**evidence, "ffmpeg|stress-cpu": halfway}).analyse().findings
    )
    assert "CPU time, which" not in finding.sentence


def test_findings_name_what_was_waited_for_and_leave_the_rest_unexplained(tmp_path: Path) -> None:
    truth = {
        "ffmpeg|stress-cpu": 2.0,
        "ffmpeg|stress-memory": 1.3,
        "fio|stress-memory": 2.0,
        "fio|stress-cpu": 1.5,
    }
    found = Made(tmp_path, 15, truth, EVIDENCE).analyse()
    by_pair = {(f.subject, f.sentence.split(" beside ")[1].split(":")[0]): f for f in found.findings}
    cpu = by_pair["ffmpeg", "stress-cpu"]
    assert cpu.resource == "run queue"
    assert cpu.share == pytest.approx(0.98, abs=0.03)
    assert "not throttled" in cpu.sentence
    assert cpu.verify.endswith("--set placement=own-cores")
    dearer = by_pair["ffmpeg", "stress-memory"]
    assert dearer.resource == "dearer execution"
    assert "30 % more CPU time" in dearer.sentence
    assert "bandwidth" not in dearer.sentence, "memory bandwidth is not named without positive evidence"
    disk = by_pair["fio", "stress-memory"]
    assert disk.resource == "disk queue"
    assert "limit.iops" in disk.verify
    unknown = by_pair["fio", "stress-cpu"]
    assert unknown.resource == "unexplained"
    assert unknown.share is None
    assert "unexplained 100 %" in unknown.sentence
    assert [f.estimate.value for f in found.findings] == sorted(
        (f.estimate.value for f in found.findings), reverse=True
    )
    for finding in found.findings:
        assert any("burnt" in e.what for e in finding.evidence)


def test_shares_never_sum_to_more_than_the_slowdown(tmp_path: Path) -> None:
    greedy = {
        "ffmpeg|stress-cpu": {"own_psi_cpu": 5.0, "throttled": 3.0, "steal": 4.0, "wall": 2.0, "cpu": 9.0}
    }
    found = Made(tmp_path, 12, {"ffmpeg|stress-cpu": 2.0}, greedy).analyse()
    assert found.findings[0].share is not None
    assert found.findings[0].share <= 1.0 + 1e-9


def test_a_finding_of_an_alarmed_victim_says_so(tmp_path: Path) -> None:
    found = Made(tmp_path, 15, {"ffmpeg|stress-cpu": 2.0, "ffmpeg|none (control)": 1.2}, EVIDENCE).analyse()
    assert [c.alarm for c in found.controls if c.factors["victim"] == "ffmpeg"] == [True]
    assert "raised an alarm" in found.findings[0].sentence


def test_a_metric_of_zero_has_no_ratio_and_spoils_no_other(tmp_path: Path) -> None:
    made = Made(tmp_path, 10, {"ffmpeg|stress-cpu": 2.0}, {})
    rows = made.run.rows()
    made.run.close()
    made.run.trials_path.unlink()
    for row in rows:
        row["metrics"].append(
            {"name": "errors", "value": 0.0, "unit": "count", "better": "lower", "loop": "", "primary": False}
        )
        made.run.append(row)
    found = {(c.cell, c.metric.name): c.estimate for c in made.analyse().cells}
    assert found["ffmpeg|stress-cpu", "wall"].verdict == "higher"
    assert found["ffmpeg|stress-cpu", "errors"].verdict == "refused"
    assert "0 has no ratio" in found["ffmpeg|stress-cpu", "errors"].warnings[0]


def test_what_is_undecided_says_what_would_decide_it(tmp_path: Path) -> None:
    noisy = Made(tmp_path / "noisy", 10, {"ffmpeg|stress-cpu": 2.0}, {}, noise=0.05).analyse()
    by_cell = {c.cell: c for c in noisy.cells}
    slowed, other = by_cell["ffmpeg|stress-cpu"], by_cell["ffmpeg|stress-memory"]
    assert slowed.decision is None
    assert other.estimate.verdict == "undecided" and other.decision is not None
    assert other.decision.blocks > 10
    rows = [1e-9 * row["ended_ns"] for row in noisy_rows(tmp_path / "noisy")]
    assert other.decision.seconds == pytest.approx(other.decision.blocks * max(rows) / 10, rel=0.2)
    assert "3 undecided" in noisy.answer
    assert "3 comparisons are undecided: --budget" in undecided(noisy)
    quiet = Made(tmp_path / "quiet", 15, {"ffmpeg|stress-cpu": 2.0}, {}).analyse()
    assert undecided(quiet) == "" and all(c.decision is None for c in quiet.cells)


def noisy_rows(place: Path) -> list[dict[str, Any]]:
    (path,) = place.glob("*/trials.ndjson")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_what_matters_is_the_scenarios_to_say(tmp_path: Path) -> None:
    truth = {"ffmpeg|stress-cpu": 1.05, "fio|stress-cpu": 1.6}
    found = {
        matters: Made(
            tmp_path / str(matters),
            15,
            truth,
            EVIDENCE,
            text=TEXT.replace("target: 2%", f"target: 2%, matters: {matters}"),
        ).analyse()
        for matters in ("3%", "10%")
    }
    names = {
        matters: [(f.subject, "stress-cpu" in f.sentence) for f in of.findings]
        for matters, of in found.items()
    }
    assert names == {"3%": [("fio", True), ("ffmpeg", True)], "10%": [("fio", True)]}
    verdicts = {
        matters: {c.cell: c.estimate.verdict for c in of.cells}["ffmpeg|stress-cpu"]
        for matters, of in found.items()
    }
    assert verdicts == dict.fromkeys(found, "higher"), "an effect stays one; only a cause it has none"
    assert found["10%"].design.matters == 0.1


def test_a_comparison_without_a_clean_trial_is_shown_as_that(tmp_path: Path) -> None:
    made = Made(tmp_path, 8, {"ffmpeg|stress-cpu": 0.5}, {})
    for row in list(made.run.rows()):
        if row["cell"] == "ffmpeg|stress-cpu":
            made.run.append({**row, "flags": ["others busy"]})
    found = made.analyse()
    by_cell = {c.cell: words.effect(c, found) for c in found.cells}
    assert by_cell["ffmpeg|stress-cpu"] == "flagged", "no green of half the time"
    assert by_cell["fio|stress-cpu"] != "flagged"
    assert "every trial was flagged in 1 of 4 comparisons" in words.all_flagged(found)


def trials_of(begins_s: list[float], first: int = 0) -> list[dict[str, Any]]:
    """Two trials of 1 s a block, which begin so many seconds after the run, and 2 s later."""
    return [
        {"block": first + block, "started_ns": round(at * 1e9), "ended_ns": round((at + 1) * 1e9)}
        for block, begin in enumerate(begins_s)
        for at in (begin, begin + 2)
    ]


def test_a_block_is_as_long_as_it_takes_to_the_next_and_a_pause_is_none_of_it() -> None:
    assert _block_s(trials_of([100, 105, 110, 115, 120, 125])) == 5.0
    day = 86_400
    assert _block_s(trials_of([100, 105, 110, day + 115, day + 120, day + 125])) == 5.0
    # The clock begins again with the host.
    assert _block_s(trials_of([day, day + 5, day + 10]) + trials_of([30, 35, 40], first=3)) == 5.0
    assert _block_s(trials_of([100])) == 3.0
    assert _block_s([{"block": 0, "started_ns": None, "ended_ns": None}]) is None


def test_the_design_says_by_which_method_its_intervals_were_made(tmp_path: Path) -> None:
    many, few = (Made(tmp_path / str(n), n, {}, {}).analyse().design for n in (15, 6))
    assert many.intervals == (
        "95 % simultaneous over 4 headline comparisons: Hodges–Lehmann median of within-block log ratios, exact signed-rank"
        " interval; 4 intervals hold together (Bonferroni)"
    )
    assert many.estimand == "Hodges–Lehmann estimate of the log ratio within blocks, shown as a ratio", (
        "of pairs, and of blocks of 8"
    )
    assert "studentised; 4 intervals hold together (largest statistic under randomisation" in few.intervals
    text = TEXT.replace("measure: {", "measure: {level: 99.9%, ")
    strict = Made(tmp_path / "strict", 20, {}, {}, text=text).analyse().design
    assert strict.intervals.startswith("99.9 % simultaneous over 4")
    runs = [np.exp(np.random.default_rng(n).normal(0, 0.01, 8)) for n in (1, 2)]
    of_8 = compare(*runs, blocks=[1] * 4 + [2] * 4)
    assert _describe_intervals(0.95, [of_8]) == (f"95 %: {of_8.method}")
    assert _describe_intervals(0.95, []) == "95 %"
