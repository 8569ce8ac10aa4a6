"""Sixty planted culprits among twenty cgroups: `make accept`, about three minutes. Writes docs/results/watch.*."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from contend.stats.quantiles import clopper_pearson
from results.files import save
from support import planted
from support.kills import fresh_seed
from support.prerequisites import need

pytestmark = pytest.mark.accept

DRAWS, WANTED = 60, 57


def test_the_planted_culprit_is_named_first() -> None:
    need(os.geteuid() == 0, "BPF programs and cgroups need root")
    seed = fresh_seed()
    chance = random.Random(seed)
    with planted.workers() as made:
        draws = [planted.draw(made, chance) for _ in range(DRAWS)]
    document = tally(draws)
    save("watch", document, seed=seed)
    low, high = document["bounds_95"]
    print(f"{document['right']} of {DRAWS} named first [{low:.1%}, {high:.1%}]")
    assert document["right"] >= WANTED, [draw for draw in draws if not draw.right]


def tally(draws: list[planted.Draw]) -> dict[str, Any]:
    right = sum(draw.right for draw in draws)
    return {
        "draws": len(draws),
        "right": right,
        "bounds_95": list(clopper_pearson(right, len(draws))),
        "strangers_median": sorted(draw.strangers for draw in draws)[len(draws) // 2],
        "each": [draw.to_json() for draw in draws],
    }
