"""Sixty planted culprits among twenty cgroups: `make accept`, about three minutes. Writes docs/results/watch.*."""

from __future__ import annotations

import json
import os
import platform
import random
from typing import Any

import pytest

from contend import __version__
from contend.environment import cpu_model, os_name
from contend.stats.quantiles import clopper_pearson
from support import planted
from support.kills import fresh_seed
from support.prerequisites import need
from support.results import RESULTS, commit

pytestmark = pytest.mark.accept

DRAWS, WANTED = 60, 57


def test_the_planted_culprit_is_named_first() -> None:
    need(os.geteuid() == 0, "BPF programs and cgroups need root")
    seed = fresh_seed()
    chance = random.Random(seed)
    with planted.workers() as made:
        draws = [planted.draw(made, chance) for _ in range(DRAWS)]
    document = tally(draws, seed)
    write(document)
    low, high = document["bounds_95"]
    print(f"{document['right']} of {DRAWS} named first [{low:.1%}, {high:.1%}]")
    assert document["right"] >= WANTED, [draw for draw in draws if not draw.right]


def tally(draws: list[planted.Draw], seed: int) -> dict[str, Any]:
    right = sum(draw.right for draw in draws)
    return {
        "schema_version": 1,
        "what": "a culprit planted among 20 cgroups, named by contend watch",
        "command": f"CONTEND_TEST_SEED={seed} make accept",
        "commit": commit(),
        "contend": __version__,
        "processor": cpu_model(),
        "cpus": os.cpu_count(),
        "os": os_name(),
        "kernel": f"{platform.system()} {platform.release()}",
        "seed": seed,
        "draws": len(draws),
        "right": right,
        "bounds_95": list(clopper_pearson(right, len(draws))),
        "strangers_median": sorted(draw.strangers for draw in draws)[len(draws) // 2],
        "each": [draw.to_json() for draw in draws],
    }


def write(d: dict[str, Any]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "watch.json").write_text(json.dumps(d, indent=1) + "\n", encoding="utf-8")
    low, high = d["bounds_95"]
    wrong = [each for each in d["each"] if not each["right"]]
    lines = [
        "# Planted culprits",
        "",
        "Twenty cgroups, one worker each. In every draw two of them, chosen at random, share a CPU, also chosen: a victim",
        "that wants 10–90 % of it and a culprit that wants 30–100 %. Two others burn 80–100 % of another CPU, more than",
        "the culprit; the other 16 are idle or want 0.2–2 % of any. `contend watch` looks for 1.6 s and ranks whom",
        "the victim waited for. It is right when the culprit comes first of the twenty.",
        "",
        f"**{d['right']} of {d['draws']}** right (95 % bounds, Clopper–Pearson: {low:.1%} – {high:.1%}).",
        "",
        "Other programs on the host, in no such group, ran as well: of the victims' waits for neighbours they had",
        f"{d['strangers_median']:.0%} in the median draw. They are not among the twenty and were not ranked.",
        "",
        *(f"- {key}: {d[key]}" for key in ("command", "commit", "processor", "cpus", "os", "kernel")),
        "",
    ]
    if wrong:
        lines += [
            "| victim wants | culprit wants | named | its part | strangers' part |",
            "|--:|--:|---|--:|--:|",
        ]
        lines += [
            f"| {w['victim_duty']:.0%} | {w['culprit_duty']:.0%} | {w['named']} | {w['share']:.0%} | {w['strangers']:.0%} |"
            for w in wrong
        ]
        lines.append("")
    (RESULTS / "watch.md").write_text("\n".join(lines), encoding="utf-8")
