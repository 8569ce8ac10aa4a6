"""A finding of a run is tried by running it as advised: what was expected stands beside what came out."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.command_line import Home
from support.prerequisites import need

pytestmark = pytest.mark.system

LOOP = "#!/bin/sh\ni=0; while [ $i -lt 200000 ]; do i=$((i+1)); done\n"
FEW = ("--set", "measure.blocks=8", "--set", "measure.target=null", "--set", "measure.pilot=1")


@pytest.fixture
def mine(contend: Home) -> Home:
    """A program that burns beside stress-cpu on one CPU."""
    need(len(os.sched_getaffinity(0)) >= 2, "have two CPUs: a victim gets CPUs of its own")
    (contend.path / "mine").write_text(LOOP)
    (contend.path / "mine").chmod(0o755)
    contend("run", "noisy-neighbour", *FEW, "--beside", "stress-cpu", "--", "./mine").fine()
    return contend


def test_it_is_run_as_advised(mine: Home) -> None:
    run = str(mine.the_run())
    mine("try", f"{run}#9").error(2, "has no finding '9'")
    mine("try", f"{run}#1", "--keep", "--consent").error(2, "nothing to keep", "CPUs of its own")
    made = mine.the_run() / "environment.json"
    here = made.read_text()
    made.write_text(here.replace(json.loads(here)["boot_id"], "of another host"))
    mine("try", f"{run}#1").error(2, "only with consent: ./mine")
    made.write_text(here)
    assert "places: " in mine("try", f"{run}#F1", "--dry-run").fine().out
    assert len(mine.run_directories()) == 1
    out = mine("try", f"{run}#F1", "--for", "3m", timeout=240).fine().out
    line = re.search(
        r"mine beside stress-cpu: ([\d.]+)× .* as it was; predicted ([\d.]+)× .*; measured ([\d.]+)×", out
    )
    assert line, out
    before, predicted, measured = map(float, line.groups())
    assert predicted < before and measured < before
    assert len(mine.run_directories()) == 2
    assert all(Path(path).is_dir() for path in mine.run_directories())


def test_a_watch_is_tried_for_its_own_victim(contend: Home) -> None:
    """Two who wait for each other: whichever was watched is the victim."""
    need(
        os.geteuid() == 0, "run as root: who waits for whom is seen by BPF, and nice values are lowered again"
    )
    cpu = min(os.sched_getaffinity(0))
    burners = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"import os; os.sched_setaffinity(0, [{cpu}])\nwhile True: sum(range(1000))",
            ]
        )
        for _ in range(2)
    ]
    try:
        pids = [burner.pid for burner in burners]
        for victim, other in (pids, pids[::-1]):
            contend("watch", str(victim), "--for", "3s", "-o", f"seen-{victim}").no_traceback()
            out = contend("try", f"seen-{victim}#cpu-1", "--for", "2m", "--dry-run").fine().out
            assert f"What does {other} cost" in out and f"{other} held back: {other}:" in out, out
            assert f"{victim} held back" not in out
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    ended = contend("try", f"seen-{pids[0]}#cpu-1", "--for", "2m", "--dry-run")
    ended.error(2, "has ended", "contend watch")
