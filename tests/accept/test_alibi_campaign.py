"""The verdict on real loads, 56 trials with drawn intensities: `make accept`, about ten minutes on a quiet machine.

Writes docs/results/alibi.*; CONTEND_TEST_SEED repeats the draws. On a machine that others use it ends after LIMIT_S.
Steal cannot be injected here: tests/unit/contention has it.

A trial during which processes that are not part of it used the CPUs has another truth than the one injected. Whether
that was so is told by the loads' own accounting, without the verdict; such a trial is drawn again, and both are kept.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contend.stats.quantiles import clopper_pearson
from results.files import save
from support.alibi_loads import KINDS, scratch
from support.alibi_trials import DISTURBED_CPUS, Trial, undisturbed
from support.kills import fresh_seed

pytestmark = pytest.mark.accept

EACH = 8
WANTED = 0.9
LIMIT_S = 45 * 60.0


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    with scratch(tmp_path) as directory:
        yield directory


def test_fifty_trials(place: Path) -> None:
    seed = fresh_seed()
    pick = random.Random(seed)
    order = [kind for kind in KINDS for _ in range(EACH)]
    pick.shuffle(order)
    document = campaign(order, pick, seed, place)
    assert document["trials"] >= 50, (
        f"others kept the CPUs busy: {document['trials']} undisturbed trials within {LIMIT_S / 60:.0f} minutes"
    )
    wrong = [t for t in document["counted"] if not t["right"]]
    assert document["right"] >= WANTED * document["trials"], wrong


def campaign(order: list[str], pick: random.Random, seed: int, place: Path) -> dict[str, Any]:
    """One undisturbed trial for each kind in `order`, as many as LIMIT_S allows; written after each."""
    counted: list[Trial] = []
    disturbed: list[Trial] = []
    deadline = time.monotonic() + LIMIT_S
    for number, kind in enumerate(order, 1):
        trial = undisturbed(kind, pick, place, disturbed)
        if trial is not None:
            counted.append(trial)
            print(f"{number}/{len(order)} {trial.what}: {trial.verdict} {trial.subject}", flush=True)
        save("alibi", tally(counted, disturbed), seed=seed)
        if time.monotonic() > deadline:
            break
    document = tally(counted, disturbed)
    low, high = document["bounds_95"]
    print(f"{document['right']} of {document['trials']} right [{low:.1%}, {high:.1%}]")
    return document


def tally(counted: list[Trial], disturbed: list[Trial]) -> dict[str, Any]:
    def of(trials: list[Trial]) -> dict[str, Any]:
        right = sum(t.right for t in trials)
        return {
            "right": right,
            "trials": len(trials),
            "bounds_95": list(clopper_pearson(right, max(1, len(trials)))),
        }

    return {
        **of(counted),
        "kinds": {kind: of([t for t in counted if t.kind == kind]) for kind in KINDS},
        "drawn_again": len(disturbed),
        "drawn_again_right": sum(t.right for t in disturbed),
        "disturbed_beyond_cpus": DISTURBED_CPUS,
        "counted": [t.to_json() for t in counted],
        "disturbed": [t.to_json() for t in disturbed],
    }
