"""The terminal report as people see it. `CONTEND_GOLDEN=write pytest tests/golden` writes the files anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from contend.report.terminal import render
from support import report_samples as samples
from support.hosts_run import hosts_run
from support.made_placement import MadePlacement

HERE = Path(__file__).parent
CASES = {
    "interference": lambda: samples.interference(failing="exit code 1: No such file"),
    "compare": samples.compare_study,
    "too-few": samples.too_few,
    "matrix-8x8": samples.matrix_8x8,
    "hostile": samples.hostile,
}
HOSTS, PLACEMENT = "overhead-hosts", "placement"


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", sorted((*CASES, HOSTS, PLACEMENT)))
def test_terminal_report(name: str, width: int, tmp_path: Path) -> None:
    of_runs = {HOSTS: hosts_run, PLACEMENT: lambda place: MadePlacement(place).report()}
    report = of_runs[name](tmp_path) if name in of_runs else CASES[name]()
    text = render(report, width=width, verbose=width == 120)
    golden = HERE / f"{name}-{width}.txt"
    if os.environ.get("CONTEND_GOLDEN") == "write":
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
