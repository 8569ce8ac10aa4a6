"""What people see of a forecast, and of advice by it. `CONTEND_GOLDEN=write pytest tests/golden` writes the files anew."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from contend.cli.advise_ import advise
from contend.cli.common import load_report
from contend.report.advise_terminal import show_advice
from contend.report.terminal import render
from known.hosts import Truth
from support.made_forecast import forecast_run

HERE = Path(__file__).parent
CASES: dict[str, Truth] = {"forecast": "form", "forecast-refused": "interaction"}


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_forecast(name: str, tmp_path: Path) -> None:
    run, _ = forecast_run(tmp_path, CASES[name])
    report = load_report(run)
    console = Console(file=io.StringIO(), width=100, no_color=True, force_terminal=False)
    _, advice = advise(report, hosts=None, worst=False)
    show_advice(report, advice, console)
    assert isinstance(console.file, io.StringIO)
    text = render(report, width=100) + "\n$ contend advise RUN\n" + console.file.getvalue()
    text = text.replace(report.run_dir, "RUN")
    text = "".join(line.rstrip() + "\n" for line in text.splitlines())
    golden = HERE / f"{name}.txt"
    if os.environ.get("CONTEND_GOLDEN") == "write":
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
