"""The choice of a finding to try, and its prediction beside what came out."""

from __future__ import annotations

import pytest

from contend.advice import tried
from contend.advice.finding import Expected, Finding, Treatment
from contend.errors import BadInput
from contend.stats.estimate import Estimate


def estimate(value: float, half: float = 0.02, verdict: str = "higher") -> Estimate:
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
    assert tried.chosen(FINDINGS, "2", "seen").id == "cpu-2"
    assert tried.chosen(FINDINGS, "cpu-3", "seen").id == "cpu-3"
    assert tried.chosen(FINDINGS[:2], "", "seen").id == "cpu-2"


@pytest.mark.parametrize(
    ("which", "error"),
    [
        ("", "which finding of seen?"),
        ("9", "has no finding '9'"),
        ("1", "seen#1 has an advice that contend cannot follow: advice"),
    ],
)
def test_any_other_is_refused_with_those_that_there_are(which: str, error: str) -> None:
    with pytest.raises(BadInput) as refused:
        tried.chosen(FINDINGS, which, "seen")
    assert error in refused.value.message
    assert "seen#2 (shop, a.service), seen#3 (shop, b.service)" in refused.value.hint


def test_where_none_can_be_tried_its_own_command_is_the_hint() -> None:
    with pytest.raises(BadInput, match="an advice that contend itself can follow") as refused:
        tried.chosen(FINDINGS[:1], "", "seen")
    assert refused.value.hint == "contend watch"


def test_one_that_is_measured_again_is_meant_too() -> None:
    again = Finding(**TEXTS, share=1.0, estimate=estimate(1.8), evidence=(), expected=EXPECTED)
    assert tried.chosen((FINDINGS[0], again), "", "run") is again
    with pytest.raises(BadInput) as refused:
        tried.chosen((FINDINGS[0], again), "1", "run")
    assert refused.value.hint == "try run#2 (redis, fio and stress-cpu)"


TEXTS = {
    "id": "F1",
    "kind": "",
    "subject": "redis",
    "resource": "",
    "sentence": "",
    "advice": "",
    "verify": "",
}
EXPECTED = Expected(("fio", "stress-cpu"), estimate(1.1))


@pytest.mark.parametrize(
    ("measured", "ends"),
    [
        (
            estimate(1.13),
            "1.80× [1.78, 1.82] as it was; predicted 1.10× [1.08, 1.12]; measured 1.13× [1.11, 1.15]: they agree",
        ),
        (estimate(1.5), "measured 1.50× [1.48, 1.52]: they differ"),
        (estimate(1.05, 0.1), "measured 1.05× [0.95, 1.15]: undecided, for it may be no slowdown"),
        (estimate(1.0), "measured 1.00× [0.98, 1.02]: they differ"),
        (
            estimate(1.1, verdict="too few"),
            "redis beside fio and stress-cpu: predicted 1.10× [1.08, 1.12]; measured: too few",
        ),
        (None, "measured: nothing"),
    ],
)
def test_what_came_out_stands_beside_what_was_expected(measured: Estimate | None, ends: str) -> None:
    finding = Finding(**TEXTS, share=1.0, estimate=estimate(1.8), evidence=(), expected=EXPECTED)
    assert tried.outcome(finding, measured).endswith(ends)


def test_a_forecast_has_no_figure_of_before() -> None:
    finding = Finding(**TEXTS, share=1.0, estimate=EXPECTED.estimate, evidence=(), expected=EXPECTED)
    assert tried.outcome(finding, estimate(1.1)).startswith(
        "redis beside fio and stress-cpu: predicted 1.10×"
    )
