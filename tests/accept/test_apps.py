"""Whole applications beside each other, for real: a kernel build, Hadoop's sort, PostgreSQL; more of the same, and mixed.

Downloads Hadoop (Maven) and unpacks the distribution's kernel sources. CONTEND_TEST_BUDGET says how long each part may
take (10m). Writes docs/results/apps.json and .md.
"""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

import pytest

from contend import __version__
from contend.environment import cpu_model
from support.command_line import Home
from support.results import RESULTS, commit

pytestmark = pytest.mark.accept

BUDGET = os.environ.get("CONTEND_TEST_BUDGET", "10m")
MEASURE = (
    "measure.target=null",
    "measure.pilot=1",
    "measure.blocks=15",
    "measure.most=15",
    f"measure.budget={BUDGET}",
)
PARTS: dict[str, tuple[str, ...]] = {
    "build": ("victims=kernel-build", "copies=[2,3,4]", "mixes=[]", *MEASURE),
    "hadoop": ("victims=terasort", "copies=[2]", "mixes=[[terasort,kernel-build]]", *MEASURE),
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
    version = commit()
    about = {
        "schema_version": 1,
        "contend": __version__,
        "commit": version,
        "processor": cpu_model(),
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
    }
    file = RESULTS / "apps.json"
    kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    kept[name] = {
        **about,
        "what": f"contend run apps {' '.join(asked)}",
        "load_after": os.getloadavg()[0],
        "exit": said.code,
        "text": shown.out.replace(str(tmp_path), "…"),
        "analysis": {key: analysis[key] for key in ("answer", "cells", "controls", "crowds", "findings")},
    }
    file.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    pages = ["# Whole applications beside each other", ""]
    for part in kept.values():
        where = f"{part['cpus']} CPUs {part['processor']}, kernel {part['kernel']}; commit {part['commit']}"
        text = "\n".join(line.rstrip() for line in part["text"].strip().splitlines())
        pages += [
            f"`{part['what']}`",
            "",
            f"{where}; load when it ended {part['load_after']:.1f}.",
            "",
            "```",
            text,
            "```",
            "",
        ]
    file.with_suffix(".md").write_text("\n".join(pages), encoding="utf-8")
    print(shown.out)
