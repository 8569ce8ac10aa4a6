"""Whole applications beside each other, for real: a kernel build, Hadoop's sort, PostgreSQL; more of the same, and mixed.

Downloads Hadoop (Maven) and unpacks the distribution's kernel sources. CONTEND_TEST_BUDGET says how long each part may
take (10m), Hadoop's twice as long: a block of it takes two minutes. Writes docs/results/apps.json and .md.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from results.files import save
from support.command_line import Home

pytestmark = pytest.mark.accept

BUDGET_M = int(os.environ.get("CONTEND_TEST_BUDGET", "10m").removesuffix("m"))
MEASURE = (
    "measure.target=null",
    "measure.pilot=1",
    "measure.blocks=15",
    "measure.most=15",
    f"measure.budget={BUDGET_M}m",
)
TWICE = f"measure.budget={2 * BUDGET_M}m"
PARTS: dict[str, tuple[str, ...]] = {
    "build": ("victims=kernel-build", "copies=[2,3,4]", "mixes=[]", *MEASURE),
    "hadoop": ("victims=terasort", "copies=[2]", "mixes=[[terasort,kernel-build]]", *MEASURE, TWICE),
    "database": ("victims=pgbench", "copies=[2,4]", "mixes=[[pgbench,kernel-build]]", *MEASURE),
}


@pytest.mark.parametrize("name", PARTS)
def test_whole_applications_beside_each_other(tmp_path: Path, name: str) -> None:
    contend = Home(tmp_path)
    asked = [word for setting in PARTS[name] for word in ("--set", setting)]
    said = contend("run", "apps", *asked, "--json", timeout=5400).no_traceback()
    assert said.code in (0, 3), said
    analysis: dict[str, Any] = said.json()
    run = contend.the_run()
    shown = contend("report", str(run), env={"COLUMNS": "110"}).fine()
    contend.nothing_left()
    (crowd,) = analysis["crowds"]
    assert crowd["application"] == PARTS[name][0].partition("=")[2] and crowd["points"]
    text = "\n".join(line.rstrip() for line in shown.out.replace(str(tmp_path), "…").strip("\n").splitlines())
    kept = {key: analysis[key] for key in ("answer", "cells", "controls", "crowds", "findings")}
    command = shlex.join(["contend", "run", "apps", *asked])
    save(f"apps-{name}", {"exit": said.code, "shown": text, "analysis": kept}, command=command)
    print(shown.out)
