"""The figures of the overhead study on this machine: kept, with what was seen and what nobody could tell.

Needs root, a container engine and a quiet machine: containers take eight minutes (fifteen blocks of FFmpeg and MPI at
a half, one and two CPUs), guests as long as CONTEND_TEST_BUDGET says (10m), and servers three times as long: a block of
those takes more than two minutes. `-k` picks one. Writes docs/results/platform-overhead-NAME.json and .md.
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
EXACTLY = ("measure.target=null", "measure.pilot=1", "measure.blocks=15", "measure.most=15")
LONG = f"measure.budget={3 * BUDGET_M}m"
SHORT = f"measure.budget={BUDGET_M}m"
STUDIES: dict[str, tuple[str, ...]] = {
    "containers": ("sizes=[0.5,1,2]", *EXACTLY),
    "periods": ("apps=mpi-prime", "sizes=[0.5,1]", "provisioning=vanilla", "periods=[5ms,100ms]", *EXACTLY),
    "hosts": ("apps=[mpi-prime,mpi-search]", "sizes=[0.5,1]", "hosts=[1,2]", *EXACTLY),
    "guests": ("apps=mpi-prime", "platforms=[vm,container-in-vm]", "sizes=[1]", *EXACTLY, SHORT),
    "servers": ("apps=[wordpress,cassandra]", "sizes=[1,2]", "provisioning=vanilla", *EXACTLY, LONG),
}


@pytest.mark.parametrize("name", STUDIES)
def test_what_platforms_cost_here(tmp_path: Path, name: str) -> None:
    contend = Home(tmp_path)
    asked = [word for setting in STUDIES[name] for word in ("--set", setting)]
    said = contend("run", "platform-overhead", *asked, "--json", timeout=3600).no_traceback()
    # 3: fewer blocks fitted the budget than an interval needs, which the page says of each cell.
    assert said.code in ((0, 3) if {SHORT, LONG} & {*STUDIES[name]} else (0,)), said
    analysis: dict[str, Any] = said.json()
    run = contend.the_run()
    shown = contend("report", str(run), "--verbose", env={"COLUMNS": "110"}).no_traceback()
    contend.nothing_left()
    primary = [cell for cell in analysis["cells"] if cell["metric"]["primary"]]
    assert primary and analysis["overhead"]["decompositions"]
    if name == "containers":
        assert {cell["factors"]["cpus"] for cell in primary} == {"0.5", "1", "2"}
        told = [d for d in analysis["overhead"]["decompositions"] if d["provisioning"] == "vanilla"]
        assert all(d["refused"] or d["pso"] for d in told)
    if name == "hosts":
        by = {host["cpus"]: host["by"] for host in analysis["overhead"]["hosts"]}
        kinds = [effect["kind"] for effect in analysis["overhead"]["effects"]]
        assert by[2] == "whole" and kinds.count("CHR") == 8 and kinds.count("CHR × pinning") == 4
    text = "\n".join(line.rstrip() for line in shown.out.replace(str(tmp_path), "…").strip("\n").splitlines())
    kept = {key: analysis[key] for key in ("answer", "cells", "controls", "overhead", "findings")}
    command = shlex.join(["contend", "run", "platform-overhead", *asked])
    save(f"platform-overhead-{name}", {"exit": said.code, "shown": text, "analysis": kept}, command=command)
    print(text)
