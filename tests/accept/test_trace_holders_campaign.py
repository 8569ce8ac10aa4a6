"""Is a wait's recorded holder the real one? In ≥ 99.9 % of contended waits, by programs that know. About two minutes.

Writes docs/results/trace-holders.*; the bound is Clopper–Pearson's.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
from pathlib import Path

import pytest

from contend import __version__
from contend.environment import cpu_model
from contend.stats.quantiles import clopper_pearson
from support.holders import Tally, campaign
from support.prerequisites import need
from support.results import RESULTS

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
    write(rows)
    assert all(row["low"] >= SHARE for row in rows), rows


def write(rows: list[dict[str, object]]) -> None:
    machine = f"{len(os.sched_getaffinity(0))} CPUs {cpu_model()}, CPython {platform.python_version()}"
    document = {"schema_version": 1, "contend": __version__, "machine": machine, "rows": rows}
    (RESULTS / "trace-holders.json").write_text(json.dumps(document, indent=1) + "\n")
    lines = [
        "# Is a wait's recorded holder the real one?",
        "",
        f"{machine}. Programs whose threads, or greenlets of three threads, fight for three locks and write down",
        "with the clock of the trace when each was asked for, taken, about to be let go and gone; every recorded",
        "contended wait is then compared with the notes. *Certain* are waits at which the notes leave one holder only;",
        "of the rest, who just took the lock or is just letting it go, the recorded one must be possible.",
        "",
        "| program | runs | contended waits | certain | right | share, 95 % bounds |",
        "|---|---:|---:|---:|---:|---|",
        *(
            "| {kind} | {runs} | {waits} | {certain} | {right} | [{low:.6f}, {high:.6f}] |".format(**row)
            for row in rows
        ),
        "",
    ]
    (RESULTS / "trace-holders.md").write_text("\n".join(lines))
