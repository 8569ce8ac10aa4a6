"""Is a wait's recorded holder the real one? In ≥ 99.9 % of contended waits, by programs that know. About two minutes.

Writes docs/results/trace-holders.*; the bound is Clopper–Pearson's.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from contend.stats.quantiles import clopper_pearson
from results.files import save
from support.holders import Tally, campaign
from support.prerequisites import need

pytestmark = pytest.mark.accept

RUNS, ROUNDS, SHARE = 12, {"threads": 2500, "greenlets": 700}, 0.999


def test_holders(tmp_path: Path) -> None:
    need(importlib.util.find_spec("greenlet"), "pip install greenlet")
    rows = []
    for kind, rounds in ROUNDS.items():
        tallies: list[Tally] = []
        for seed in range(RUNS):
            directory = tmp_path / f"{kind}-{seed}"
            directory.mkdir()
            tallies.append(campaign(kind, seed, rounds, directory))
        waits = sum(tally.waits for tally in tallies)
        wrong = [told for tally in tallies for told in tally.wrong]
        low, high = clopper_pearson(waits - len(wrong), waits)
        rows.append(
            {
                "kind": kind,
                "runs": RUNS,
                "waits": waits,
                "certain": sum(tally.certain for tally in tallies),
                "right": waits - len(wrong),
                "low": low,
                "high": high,
                "wrong": wrong[:20],
            }
        )
    save("trace-holders", {"rows": rows})
    assert all(row["low"] >= SHARE for row in rows), rows
