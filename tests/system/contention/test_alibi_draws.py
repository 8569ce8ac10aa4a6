"""The verdict on real loads: one draw of each kind. `make accept` draws fifty and more (tests/accept)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.alibi_loads import KINDS, scratch
from support.alibi_trials import INTERVALS_MS, NEED_IDLE, Trial, run_trial, undisturbed
from support.prerequisites import Cannot, cannot

pytestmark = [pytest.mark.slow, pytest.mark.alone]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    with scratch(tmp_path) as directory:
        yield directory


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in NEED_IDLE])
def test_names_the_resource_whatever_others_do(kind: str, place: Path) -> None:
    """On a host whose CPUs others keep busy those may lead the verdict; the resource is told all the same."""
    pick = random.Random(f"one draw of {kind}")
    trial = run_trial(KINDS[kind](pick), place, pick.choice(INTERVALS_MS), patience_s=0)
    assert trial.right_beside_others, trial.to_json()


@pytest.mark.parametrize("kind", sorted(NEED_IDLE))
def test_names_what_idle_cores_tell(kind: str, place: Path) -> None:
    """Where others did not leave the CPUs alone it may tell what they did to them; never something else."""
    disturbed: list[Trial] = []
    trial = undisturbed(
        kind, random.Random(f"one draw of {kind}"), place, disturbed, attempts=2, patience_s=10
    )
    assert all(trial.true_all_the_same for trial in disturbed), [trial.to_json() for trial in disturbed]
    if trial is None:
        cannot(Cannot.HOST_CHANGES, f"{len(disturbed)} of {len(disturbed)} tries were disturbed")
    assert trial.right, trial
