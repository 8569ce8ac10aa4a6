"""The verdict on real loads: fifty trials and more with drawn intensities, a few in each run of the tests.

`pytest -m accept tests/accept/test_alibi_campaign.py` runs the campaign (about a quarter of an hour on a quiet
machine) and writes docs/results/alibi.*. CONTEND_TEST_SEED repeats the draws. Steal cannot be injected
here: tests/unit/contention has it.

A trial during which processes that are not part of it used the CPUs has another truth than the one injected. Whether
that was so is told by the loads' own accounting, without the verdict; such a trial is drawn again, and both are kept.
"""

from __future__ import annotations

import json
import os
import platform
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from contend import __version__
from contend.environment import cpu_model, os_name
from contend.stats.quantiles import clopper_pearson
from support.alibi_loads import DISTURBED_CPUS, KINDS, TOOLS, Trial, run_trial, scratch
from support.kills import fresh_seed
from support.prerequisites import need

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs/results"
EACH = 8
ATTEMPTS = 6
INTERVALS_MS = (100, 250, 500, 1000)
WANTED = 0.9


@pytest.fixture
def place(tmp_path: Path) -> Any:
    need(os.geteuid() == 0, "cgroups and network namespaces need root")
    for tool in TOOLS:
        need(shutil.which(tool), tool)
    # Direct I/O needs a real file system: /tmp may be one in memory.
    with scratch(Path(os.environ.get("CONTEND_TEST_DISK", tmp_path)) / "alibi") as directory:
        yield directory


@pytest.mark.accept
def test_fifty_trials(place: Path) -> None:
    seed = fresh_seed()
    pick = random.Random(seed)
    order = [kind for kind in KINDS for _ in range(EACH)]
    pick.shuffle(order)
    counted: list[Trial] = []
    disturbed: list[Trial] = []
    for number, kind in enumerate(order):
        trial = attempt(kind, pick, place, disturbed)
        if trial is not None:
            counted.append(trial)
            print(f"{number + 1}/{len(order)} {trial.what}: {trial.verdict} {trial.subject}", flush=True)
        document = tally(counted, disturbed, seed)
        write(document)
    print(json.dumps({k: document[k] for k in ("right", "trials", "bounds_95", "kinds")}, indent=1))
    assert document["trials"] >= 50
    assert document["right"] >= WANTED * document["trials"], [t.to_json() for t in counted if not t.right]


def attempt(kind: str, pick: random.Random, place: Path, disturbed: list[Trial]) -> Trial | None:
    """One undisturbed trial of a kind; None when others never left the CPUs alone."""
    for _ in range(ATTEMPTS):
        trial = run_trial(KINDS[kind](pick), place, pick.choice(INTERVALS_MS))
        if not trial.disturbed:
            return trial
        disturbed.append(trial)
    return None


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_one_draw_of_each_kind(kind: str, place: Path) -> None:
    """With the draws of one seed; on a busy machine a trial whose truth others changed says nothing."""
    pick = random.Random(f"one draw of {kind}")
    disturbed: list[Trial] = []
    trial = attempt(kind, pick, place, disturbed)
    if trial is None:
        pytest.skip(f"other processes used {disturbed[-1].foreign_cpus:.1f} CPUs in every attempt")
    assert trial.right, trial.to_json()


def tally(counted: list[Trial], disturbed: list[Trial], seed: int) -> dict[str, Any]:
    def of(trials: list[Trial]) -> dict[str, Any]:
        right = sum(t.right for t in trials)
        return {
            "right": right,
            "trials": len(trials),
            "bounds_95": list(clopper_pearson(right, max(1, len(trials)))),
        }

    return {
        "schema_version": 1,
        "what": "one resource put to its limit for real, and the verdict on that phase",
        "command": f"CONTEND_TEST_SEED={seed} make accept",
        "commit": os.environ.get("CONTEND_TEST_COMMIT") or commit(),
        "contend": __version__,
        "processor": cpu_model(),
        "cpus": os.cpu_count(),
        "os": os_name(),
        "kernel": f"{platform.system()} {platform.release()}",
        "seed": seed,
        **of(counted),
        "kinds": {kind: of([t for t in counted if t.kind == kind]) for kind in KINDS},
        "drawn_again": len(disturbed),
        "drawn_again_right": sum(t.right for t in disturbed),
        "disturbed_beyond_cpus": DISTURBED_CPUS,
        "counted": [t.to_json() for t in counted],
        "disturbed": [t.to_json() for t in disturbed],
    }


def commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def write(d: dict[str, Any]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "alibi.json").write_text(json.dumps(d, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def share(k: dict[str, Any]) -> str:
        low, high = k["bounds_95"]
        return f"{k['right']} of {k['trials']} | {low:.0%} – {high:.0%}"

    low, high = d["bounds_95"]
    wrong = [t for t in d["counted"] if not t["right"]]
    lines = [
        "# The hardware's alibi",
        "",
        "One resource is put to its limit for real (stress-ng on all cores; one busy thread, or several behind a GIL; fio"
        " at depth;",
        "iperf3 over a veth pair that tbf limits; a CPU quota; a working set above a memory limit), or none is (threads"
        " that hand",
        "a lock around and sleep while they hold it). Kind, intensity and sampling interval are drawn; the verdict on"
        " four seconds",
        "of it has to name the resource, or say idle.",
        "",
        f"**{d['right']} of {d['trials']}** verdicts were right (95 % bounds, Clopper–Pearson: {low:.1%} – {high:.1%}).",
        f"{d['drawn_again']} trials in which processes that were not part of it used more than"
        f" {d['disturbed_beyond_cpus']} CPUs were drawn again: then the injected",
        "resource is not the truth, or not all of it. That was decided by the accounting of the loads' cgroup, without"
        " the verdict,",
        f"which named the injected resource in {d['drawn_again_right']} of them too. Steal was not injected: a guest cannot"
        " make it; it is tested on",
        "series made up from a known truth (tests/unit/contention).",
        "",
        *(f"- {key}: {d[key]}" for key in ("command", "commit", "processor", "cpus", "os", "kernel")),
        "",
        "| injected | right | 95 % bounds |",
        "|---|--:|--:|",
        *(f"| {kind} | {share(k)} |" for kind, k in d["kinds"].items() if k["trials"]),
        "",
        *(["| wrong | verdict | others' CPUs |", "|---|---|--:|"] if wrong else []),
        *(f"| {t['what']} | {t['verdict']} {t['subject']} | {t['foreign_cpus']:.2f} |" for t in wrong),
        *([""] if wrong else []),
    ]
    (RESULTS / "alibi.md").write_text("\n".join(lines), encoding="utf-8")
