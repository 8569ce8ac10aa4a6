"""A hundred kills over the whole life of a run: `make accept`, about twenty minutes. Writes docs/results/kills.*.

The tally's bound is Clopper–Pearson's for the share of moments from which a run recovers.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import random
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from contend import __version__
from contend.environment import cpu_model, os_name
from contend.stats.quantiles import clopper_pearson
from support.command_line import Home
from support.kills import ENDED, Life, duration, fresh_seed, kill_and_recover, moments
from support.prerequisites import need
from support.results import RESULTS, commit

pytestmark = pytest.mark.accept

KILLS = {"bare": 56, "network pair": 16, "container podman": 18, "container runc": 18}
PHASES = ("start", "preparation", "pilot", "blocks", "tear-down", "analysis", "report")


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
    document = tally(lives, seed, too_late)
    write(document)
    assert document["recovered"] == len(lives), [asdict(life) for life in lives if not life.recovered]


def again(seed: int, whole_s: float) -> Iterator[float]:
    """Moments anywhere in the run's life, for those that came after its end."""
    chance = random.Random(f"{seed} again")
    while True:
        yield chance.random() * whole_s


def tally(lives: list[Life], seed: int, too_late: int) -> dict[str, Any]:
    recovered = sum(life.recovered for life in lives)
    low, high = clopper_pearson(recovered, len(lives))
    return {
        "schema_version": 1,
        "what": "contend killed by SIGKILL, then `contend destroy --all`, then `contend run --resume`",
        "command": f"CONTEND_TEST_SEED={seed} make accept",
        "commit": commit(),
        "contend": __version__,
        "processor": cpu_model(),
        "cpus": os.cpu_count(),
        "os": os_name(),
        "kernel": f"{platform.system()} {platform.release()}",
        "seed": seed,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
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


def write(d: dict[str, Any]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "kills.json").write_text(json.dumps(d, indent=1) + "\n", encoding="utf-8")
    low, high = d["bounds_95"]
    phases = [p for p in PHASES if p in d["by_phase"]] + [p for p in d["by_phase"] if p not in PHASES]
    lines = [
        "# Kills",
        "",
        "contend is killed with SIGKILL at a random moment of a run's life; then `contend destroy --all` has to"
        " leave no",
        "process, cgroup, network namespace, container, mount or work file, and `contend run --resume` has to"
        " finish the run",
        "without losing or repeating a finished trial, with every file whole.",
        "",
        f"**{d['recovered']} of {d['kills']}** recovered so"
        f" (95 % bounds for the share of moments, Clopper–Pearson: {low:.1%} – {high:.1%}).",
        f"Something left behind: {d['left_behind']}; rows lost or run again: {d['rows_lost_or_repeated']};"
        f" files torn: {d['files_torn']}. Moments that came after the run's end are not counted:"
        f" {d['moments_after_the_end']}.",
        "",
        *(f"- {key}: {d[key]}" for key in ("command", "date", "commit", "processor", "cpus", "os", "kernel")),
        "",
        "| killed during | kills |",
        "|---|--:|",
        *(f"| {phase} | {d['by_phase'][phase]} |" for phase in phases),
        "",
        "| scenario | kills |",
        "|---|--:|",
        *(f"| {name} | {count} |" for name, count in d["by_scenario"].items()),
        "",
    ]
    (RESULTS / "kills.md").write_text("\n".join(lines), encoding="utf-8")
