"""What people see of a component's cost in context. `CONTEND_GOLDEN=write pytest tests/golden` writes the files anew."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from contend.cli.common import load_report
from contend.context.choose import put
from contend.report.terminal import show_in_context
from support.made_context import CALL, DOWNLOAD, IMAGE, RPC, costs_run, storms_run

HERE = Path(__file__).parent
ROLES = {"API": 0.5, "conductor": 0.37, "broker": 0.03, "glance": 0.1}
CASES: dict[str, dict[str, Any]] = {
    "context-rpc": {
        "ratios": {"ends_cpu": 0.85, "broker_cpu": 0.95, "latency_p50": 0.9},
        "text": RPC,
        "base": CALL,
    },
    "context-image": {
        "ratios": {"client_cpu": 0.5, "server_cpu": 0.9, "time": 0.8},
        "text": IMAGE,
        "base": DOWNLOAD,
    },
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_cost_in_context(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    run = costs_run(tmp_path, case["ratios"], text=case["text"], base=case["base"])
    storm = storms_run(tmp_path, ROLES)
    text = ""
    for image in (None, 2**31) if "image" in name else (None,):
        report = load_report(run, put(run, storm.path, image=image))
        out = io.StringIO()
        show_in_context(report, Console(file=out, width=80, no_color=True, force_terminal=False))
        # Where the page lies is the machine's.
        kept = [line for line in out.getvalue().splitlines() if "report.html" not in line]
        text += "".join(f"{line.rstrip()}\n" for line in kept)
    golden = HERE / f"{name}.txt"
    if os.environ.get("CONTEND_GOLDEN") == "write":
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
