"""Does attaching harm the process? A thousand times attached to and let go, and contend-probe killed at every moment.

`make accept`, about ten minutes. Writes docs/results/attach.*; bounds are Clopper–Pearson's, of 95 %.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contend.probes.client import installed
from contend.stats.quantiles import clopper_pearson
from results.files import load, path_of, save
from support.attach_lives import life
from support.attach_targets import BUSY, STRESSED, WAITING, target
from support.kills import fresh_seed
from support.sudden_ends import end_at

pytestmark = [
    pytest.mark.accept,
    pytest.mark.needs(os.uname().machine == "x86_64", "attaching is made for x86-64"),
]

TARGETS = int(os.environ.get("CONTEND_ATTACH_TARGETS", "100"))
ATTACHES = 10  # to each: the first loads contend there, and maps memory


def test_attached_to_a_thousand_times_it_goes_on(tmp_path: Path) -> None:
    seed = fresh_seed()
    draw = random.Random(seed)
    lives: list[dict[str, Any]] = []
    for number in range(TARGETS):
        with target(tmp_path / str(number), STRESSED, "-X", "faulthandler") as child:
            lives.append(life(child, tmp_path / str(number), draw, ATTACHES))
        shutil.rmtree(tmp_path / str(number))
    attaches = sum(len(life["stopped_ns"]) for life in lives)
    harmed = [life for life in lives if life["ended"] is not None]
    stopped = {
        "the first": [life["stopped_ns"][0] for life in lives if life["stopped_ns"]],
        "later": [ns for life in lives for ns in life["stopped_ns"][1:]],
    }
    tell(
        seed,
        attaches={
            "targets": len(lives),
            "attaches": attaches,
            "refused": [error for life in lives for error in life["errors"]],
            "harmed": len(harmed),
            "bounds_95": clopper_pearson(len(harmed), attaches),
            "stood_still_median_us": {
                when: round(statistics.median(all_ns) / 1000, 1) for when, all_ns in stopped.items()
            },
        },
    )
    assert not harmed, harmed
    assert attaches >= TARGETS * ATTACHES * 0.98, lives


def moments() -> Iterator[tuple[str, str, bool]]:
    for name, code in (("busy", BUSY), ("waiting", WAITING)):
        for again in (False, True):
            yield name, code, again


def test_killed_at_every_moment_it_harms_nothing(tmp_path: Path) -> None:
    rows = []
    for name, code, again in moments():
        harmed, number, killed = [], 0, True
        while killed:
            with target(tmp_path / f"{name}-{again}-{number}", code) as child:
                order = (str(installed()), "inject", json.dumps({"pid": child.pid, "script": "pass"}))

                def attached(order: tuple[str, ...] = order) -> bool:
                    done = subprocess.run(order, capture_output=True, text=True, timeout=60, check=True)
                    return "error" not in done.stdout

                assert not again or (attached() and child.goes_on(1))
                killed = end_at(order, number)
                if not (child.goes_on(2) and attached() and child.goes_on(1)):
                    harmed.append(number)
            number += killed
        rows.append({"process": name, "attached_to_before": again, "moments": number, "harmed": harmed})
    tell(kills=rows)
    assert not any(row["harmed"] for row in rows), rows


def tell(seed: int | None = None, **found: Any) -> None:
    """Add it to the results."""
    before = load("attach") if path_of("attach").exists() else {}
    kept = {key: before[key] for key in ("attaches", "kills") if key in before}
    save("attach", {**kept, **found}, seed=seed)
