"""The scores of a campaign, from planted rows."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from contend.contention.whatif import doubts
from contend.contention.whatif.times import Predicted
from support.command_line import wait_for
from support.processors import awake
from zoo import campaign, scoring
from zoo.mechanisms import mechanisms
from zoo.predictions import Prediction, prediction


def edit(
    predicted: tuple[float, float] | None,
    true: tuple[float, float],
    *,
    trusted: bool = True,
    decided: bool = True,
    width: float = 0.06,
    drift: float = 0.0,
) -> dict[str, Any]:
    """One edit of a row: what was predicted of it, and its truth."""
    median, makespan = predicted or (None, None)
    ratios = {
        name: {"value": value, "low": value * (1 - width), "high": value * (1 + width)}
        for name, value in zip(("median", "makespan"), true, strict=True)
    }
    return {
        "change": {"options": ["--hold", "storm.stock=0.5"], "switch": "hold:stock=0.5", "kept": 0.5},
        "predicted": {"trusted": trusted, "median": median, "makespan": makespan, "reason": ""},
        "truth": {**ratios, "pairs": 8, "decided": decided, "drift": drift},
    }


def row(
    edits: list[dict[str, Any]],
    *findings: str,
    mechanisms: tuple[str, ...] = ("plain_lock",),
    lost: float = 0.4,
) -> dict[str, Any]:
    """A program's row, with findings of those resources."""
    known = [
        {"resource": name, "edit": "", "kind": "lock", "share": 0.3, "sentence": ""} for name in findings
    ]
    nothing = mechanisms == ("nothing_planted",)
    return {
        "seed": 1,
        "population": "development",
        "mechanisms": list(mechanisms),
        "flavour": "threads",
        "plain": {"median": 2e7, "makespan": 2e8, "lost": {"stock": lost}},
        "edits": edits,
        "culprits": [] if nothing else [{"lost": "stock", "names": ["*stock*"]}],
        "hunt": {"findings": known, "time": {"storm.stock": 40, "": 60}, "whole": 100, "error": ""},
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (edit((0.52, 0.6), (0.5, 0.6)), "right"),
        (edit((0.52, 0.8), (0.5, 0.6)), "wrong and trusted"),
        (edit((1.02, 1.0), (0.94, 1.0)), "wrong and trusted"),
        (edit((0.98, 1.0), (1.02, 1.0)), "right"),
        (edit((0.9, 0.6), (0.5, 0.6), trusted=False), "refused rightly"),
        (edit((0.5, 0.6), (0.5, 0.6), trusted=False), "refused needlessly"),
        (edit(None, (0.5, 0.6), trusted=False), "no number"),
        (edit((0.9, 0.6), (0.5, 0.6), decided=False), "wrong and trusted"),
        (edit((0.51, 0.6), (0.5, 0.6), decided=False), "right"),
        (edit((0.54, 0.6), (0.5, 0.6), decided=False), "trusted, undecided"),
        (edit((0.5, 0.6), (0.5, 0.6), decided=False, width=0.2), "trusted, undecided"),
        (edit((0.9, 0.6), (0.5, 0.6), drift=0.3), "trusted, undecided"),
        (edit((0.9, 0.6), (0.5, 0.6), drift=0.3, trusted=False), "refused, undecided"),
        (edit((0.9, 0.6), (0.5, 0.6), drift=-0.04), "wrong and trusted"),
        ({**edit((0.5, 0.6), (0.5, 0.6), trusted=False), "truth": None}, "refused, not measured"),
        ({**edit((0.5, 0.6), (0.5, 0.6)), "truth": None}, "trusted, not measured"),
    ],
)
def test_an_outcome(given: dict[str, Any], expected: str) -> None:
    assert scoring.outcome(given) == expected


def test_the_table_counts_outcomes_and_naive_answers_beside_them() -> None:
    right, bad = edit((0.8, 0.8), (0.8, 0.8)), edit((0.5, 0.5), (1.0, 1.0))
    text = scoring.table([row([right]), row([bad], mechanisms=("two_locks",)), row([right, bad])])
    heads, _, whole, _, lock, two = (line.strip("| ").split(" | ") for line in text.splitlines())
    cells = dict(zip(heads, whole, strict=True))
    assert (cells["mechanism"], cells["edits"]) == ("all", "4")
    assert cells["right"].startswith("2 of 4 (7–93 %)")
    assert cells["wrong and trusted"].startswith("2 of 4")
    assert cells["wrong: no change"].startswith("2 of 4")
    assert cells["wrong: its share goes"].startswith("2 of 4"), "0.8 is what a share of 0.4 halved leaves"
    assert (lock[0], lock[1]) == (f"plain_lock: {mechanisms()['plain_lock'].about}", "3")
    assert two[0].startswith("two_locks: ") and two[1] == "1"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (row([edit((0.8, 0.8), (0.8, 0.8))], "storm.stock", "GIL"), "first"),
        (row([edit((0.8, 0.8), (0.8, 0.8))], "GIL", "storm.stock"), "named"),
        (row([edit((0.8, 0.8), (0.8, 0.8))], "GIL"), "missed"),
        (row([], "storm.stock", lost=0.09), "not judged"),
        (row([], mechanisms=("nothing_planted",)), "silent"),
        (row([], "GIL", mechanisms=("nothing_planted",)), "false alarm"),
    ],
)
def test_a_hunt(given: dict[str, Any], expected: str) -> None:
    assert scoring.heard(given) == expected


def test_the_worst_comes_first() -> None:
    rows = [
        row([edit((0.5, 0.5), (0.7, 0.5))]),
        row([edit((0.2, 0.5), (0.7, 0.5)), edit((0.5, 0.5), (0.5, 0.5))]),
    ]
    first, second = scoring.worst(rows, 5)
    assert "×0.20, true ×0.70" in first and "×0.50, true ×0.70" in second


def test_a_line_that_was_cut_off_is_left_out_and_written_over(tmp_path: Path) -> None:
    campaign.add(tmp_path, {"seed": 1})
    with (tmp_path / campaign.ROWS).open("a", encoding="utf-8") as file:
        file.write('{"seed": 2')
    assert campaign.rows(tmp_path) == [{"seed": 1}]
    campaign.add(tmp_path, {"seed": 3})
    assert campaign.rows(tmp_path) == [{"seed": 1}, {"seed": 3}]


def test_a_campaign_goes_on_only_as_it_was_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_LOOPS_PER_S", "2e7")
    given = ["--count", "0", "-o", str(tmp_path)]
    assert campaign.main([*given, "--without", "plain_lock"]) == 0
    assert campaign.main([*given, "--without", "plain_lock"]) == 0
    with pytest.raises(SystemExit, match=r"was begun with .*plain_lock"):
        campaign.main(given)


def test_seeds_of_acceptance_are_drawn_once_and_kept(tmp_path: Path) -> None:
    drawn = campaign.seeds(tmp_path, "acceptance", 1, 3)
    assert len(set(drawn)) == 3 and min(drawn) > 100
    assert campaign.seeds(tmp_path, "acceptance", 1, 5)[:3] == drawn
    assert json.loads((tmp_path / "seeds.json").read_text(encoding="utf-8"))[:3] == drawn
    assert campaign.seeds(tmp_path, "development", 4, 3) == [4, 5, 6]


def test_a_prediction_is_predicted_over_recorded_and_trusted_by_the_exit_code() -> None:
    answer = {
        "headline": "…",
        "data": {
            "gate": {"reason": None, "self_replay_error": 0.01},
            "regime": {"kind": "blocked"},
            "baseline": {"median_ns": 200, "makespan_ns": 400},
            "predicted": {"median_ns": {"value": 100}, "makespan_ns": {"value": 300}},
        },
    }
    trusted = prediction(answer, 0)
    assert (trusted.trusted, trusted.median, trusted.makespan) == (True, 0.5, 0.75)
    assert not prediction(answer, 5).trusted


def test_processors_are_kept_awake_by_who_gives_way() -> None:
    with awake() as pids:
        assert len(pids) == len(os.sched_getaffinity(0))
        gives_way = lambda: all(os.sched_getscheduler(pid) == os.SCHED_IDLE for pid in pids)  # noqa: E731
        wait_for(gives_way, "their policy", 20)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_refusal_that_asks_for_more_storms_is_known() -> None:
    wide = doubts.too_wide({"median_ns": Predicted(100, 80, 120), "makespan_ns": Predicted(100, 99, 101)})
    assert Prediction(False, 0.5, 0.5, str(wide)).asks_for_storms
    assert not Prediction(True, 0.5, 0.5).asks_for_storms
    assert not Prediction(False, 0.5, 0.5, "events were lost").asks_for_storms
