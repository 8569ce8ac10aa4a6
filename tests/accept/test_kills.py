"""A hundred kills over the whole life of a run: `make accept`, about twenty minutes. Writes docs/results/kills.*.

The tally's bound is Clopper–Pearson's for the share of moments from which a run recovers.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from contend.stats.quantiles import clopper_pearson
from results.files import save
from support.command_line import Home
from support.kills import ENDED, Life, duration, fresh_seed, kill_and_recover, moments
from support.prerequisites import need

pytestmark = pytest.mark.accept

KILLS = {"bare": 56, "network pair": 16, "container podman": 18, "container runc": 18}


def test_a_hundred_kills(tmp_path: Path) -> None:
    need(os.geteuid() == 0, "network namespaces and containers need root")
    for tool in ("podman", "runc", "iperf3", "ip"):
        need(shutil.which(tool), tool)
    seed = fresh_seed()
    lives: list[Life] = []
    too_late = 0
    for name, count in KILLS.items():
        whole_s = duration(Home(tmp_path / name.replace(" ", "-")), name)
        drawn = itertools.chain(moments(seed, count, whole_s), again(seed, whole_s))
        killed = 0
        for number, moment in enumerate(drawn):
            home = Home(tmp_path / f"{name.replace(' ', '-')}-{number}")
            life = kill_and_recover(home, name, moment)
            shutil.rmtree(home.path)
            if life.phase == ENDED and life.recovered:  # no kill: another moment is drawn in its stead
                too_late += 1
                continue
            lives.append(life)
            killed += 1
            if killed == count:
                break
    document = tally(lives, too_late)
    save("kills", document, seed=seed)
    assert document["recovered"] == len(lives), [asdict(life) for life in lives if not life.recovered]


def again(seed: int, whole_s: float) -> Iterator[float]:
    """Moments anywhere in the run's life, for those that came after its end."""
    chance = random.Random(f"{seed} again")
    while True:
        yield chance.random() * whole_s


def tally(lives: list[Life], too_late: int) -> dict[str, Any]:
    recovered = sum(life.recovered for life in lives)
    low, high = clopper_pearson(recovered, len(lives))
    return {
        "kills": len(lives),
        "moments_after_the_end": too_late,
        "recovered": recovered,
        "bounds_95": [low, high],
        "left_behind": sum(bool(life.left) for life in lives),
        "rows_lost_or_repeated": sum(bool(life.lost) for life in lives),
        "files_torn": sum(bool(life.torn) for life in lives),
        "by_phase": dict(Counter(life.phase for life in lives)),
        "by_scenario": dict(Counter(life.scenario for life in lives)),
        "lives": [asdict(life) for life in lives],
    }
