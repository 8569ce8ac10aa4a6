"""Advice, taken: the command that a finding names is run, and the slowdown is what it promised, or less."""

from __future__ import annotations

import shlex

import pytest

from contend.stats.estimate import Estimate
from support.command_line import Home

CASES = {
    # victim, neighbour, the resource that must be named, least slowdown before, most after
    "cpu": ("ffmpeg", "stress-cpu", "run queue", 1.6, 1.25),
    "disk": ("fio", "{fio: {read: 0, depth: 256}}", "disk queue", 1.3, 1.25),
}


def headline(document: dict) -> Estimate:
    found = next(c["estimate"] for c in document["cells"] if c["metric"]["primary"])
    return Estimate(**{k: v for k, v in found.items() if k != "warnings"})


@pytest.mark.accept
@pytest.mark.parametrize("case", CASES)
def test_the_command_that_verifies_a_finding_shows_less(case: str, contend: Home) -> None:
    victim, neighbour, resource, before, after = CASES[case]
    budget = ("--set", "measure.blocks=12", "--set", "measure.target=null", "--budget", "5m", "--json")
    placement = ("--set", "placement=own-cores") if case == "disk" else ()
    arguments = (
        "noisy-neighbour",
        "--set",
        f"victims={victim}",
        "--set",
        f"neighbours=[{neighbour}]",
        *placement,
    )
    first = contend("run", *arguments, *budget, timeout=400).fine().json()
    assert headline(first).high > before
    (finding,) = first["findings"]
    assert finding["resource"] == resource, finding["sentence"]
    verify = shlex.split(finding["verify"])
    assert verify[0] == "contend"
    second = contend(*verify[1:], "--json", timeout=400).fine().json()
    print(f"{case}: {headline(first)} → {headline(second)} by {finding['verify']}")
    assert headline(second).low < after
    assert headline(second).high < headline(first).low
