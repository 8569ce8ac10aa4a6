"""A finding's prediction beside what came out, and how its suspect is held back for good."""

from __future__ import annotations

from pathlib import Path

from contend.platforms.treatments import GroupLimit, Switch
from contend.stats.estimate import Estimate
from contend.studies.prove import trying


def estimate(value: float, half: float = 0.02, verdict: str = "lower") -> Estimate:
    return Estimate(value, value - half, value + half, "ratio", 20, 0.95, "", verdict)


def test_a_prediction_that_does_not_come_true_differs() -> None:
    assert trying.outcome(estimate(0.8), estimate(0.82)).endswith("they agree")
    assert trying.outcome(estimate(0.8), estimate(0.95)).endswith("they differ")
    undecided = estimate(0.9, 0.4, "undecided")
    assert trying.outcome(estimate(0.8), undecided).endswith("undecided, for it may cost nothing")
    assert trying.outcome(estimate(1.0, 0.02, "unaffected"), undecided).endswith("they agree")
    assert "predicts nothing" in trying.outcome(None, estimate(0.8))
    assert trying.outcome(estimate(0.8), estimate(0.8, verdict="too few")) == "measured: too few"


def test_what_is_kept_can_be_taken_back(tmp_path: Path) -> None:
    file = tmp_path / "cpu.weight"
    file.write_text("100\n")
    switch = Switch(GroupLimit(file), "100", "10")
    done, back = trying.keep("/batch", [switch])
    assert (done, back) == (f"echo 10 > {file}", f"echo 100 > {file}")
    assert file.read_text() == "10"
