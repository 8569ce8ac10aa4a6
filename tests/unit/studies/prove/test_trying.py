"""Which finding is tried, what is said of its prediction, and how it is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend.advice.finding import Finding, Treatment
from contend.errors import BadInput
from contend.platforms.treatments import GroupLimit, Switch
from contend.stats.estimate import Estimate
from contend.studies.prove import trying


def estimate(value: float, half: float = 0.02, verdict: str = "lower") -> Estimate:
    return Estimate(value, value - half, value + half, "ratio", 20, 0.95, "", verdict)


def finding(name: str, suspect: str = "") -> Finding:
    treatment = Treatment("shop", suspect, "auto") if suspect else None
    return Finding(
        name,
        "a rule",
        "shop",
        "a resource",
        "",
        None,
        estimate(0.8),
        (),
        "advice",
        "contend watch",
        treatment=treatment,
    )


FINDINGS = (finding("quota-1"), finding("cpu-2", "a.service"), finding("cpu-3", "b.service"))


def test_it_is_meant_by_its_number_its_id_or_as_the_only_one() -> None:
    assert trying.chosen(FINDINGS, "2", "seen").id == "cpu-2"
    assert trying.chosen(FINDINGS, "cpu-3", "seen").id == "cpu-3"
    assert trying.chosen(FINDINGS[:2], "", "seen").id == "cpu-2"


@pytest.mark.parametrize(
    ("which", "error"),
    [("", "which finding of seen?"), ("9", "has no finding '9'"), ("1", "seen#1 holds nobody back: advice")],
)
def test_any_other_is_refused_with_those_that_there_are(which: str, error: str) -> None:
    with pytest.raises(BadInput) as refused:
        trying.chosen(FINDINGS, which, "seen")
    assert error in refused.value.message
    assert "seen#2 (shop, a.service), seen#3 (shop, b.service)" in refused.value.hint


def test_where_none_can_be_tried_its_own_command_is_the_hint() -> None:
    with pytest.raises(BadInput, match="holds a neighbour back") as refused:
        trying.chosen(FINDINGS[:1], "", "seen")
    assert refused.value.hint == "contend watch"


def test_a_prediction_that_does_not_come_true_is_said_to() -> None:
    assert trying.outcome(estimate(0.8), estimate(0.82)).endswith("they agree")
    assert trying.outcome(estimate(0.8), estimate(0.95)).endswith("they differ")
    assert "predicts nothing" in trying.outcome(None, estimate(0.8))
    assert trying.outcome(estimate(0.8), estimate(0.8, verdict="too few")) == "measured: too few"


def test_what_is_kept_can_be_taken_back(tmp_path: Path) -> None:
    file = tmp_path / "cpu.weight"
    file.write_text("100\n")
    switch = Switch(GroupLimit(file), "100", "10")
    done, back = trying.keep("/batch", [switch])
    assert (done, back) == (f"echo 10 > {file}", f"echo 100 > {file}")
    assert file.read_text() == "10"
