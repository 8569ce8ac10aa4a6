"""A storage sweep's report as people see it, of pools made up. `CONTEND_GOLDEN=write pytest tests/golden` writes it anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from contend.report.terminal import render
from support.made_sweeps import made_report

HERE = Path(__file__).parent


@pytest.mark.parametrize("width", [80, 120])
def test_sweep_report(width: int, tmp_path: Path) -> None:
    text = render(made_report(tmp_path), width=width, verbose=width == 120)
    golden = HERE / f"sweep-{width}.txt"
    if os.environ.get("CONTEND_GOLDEN") == "write":
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
