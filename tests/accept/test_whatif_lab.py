"""Does what-if say what a change brings? Five edits on the storm laboratory, each made for real. About six minutes.

For each edit, storms as they are and with the change made, in turns, all under trace; the prediction of `contend whatif`
from those as they are, against the others' mean. A refusal counts as passed where its gate or regime says why, but not
all may be refused; an answer that is trusted must have the right sign and be at most 10 % off. Writes
docs/results/whatif-lab.*.
`CONTEND_STORM_TRACES=2` for a short look, which writes nothing.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from contend.testbed.rabbit import node
from results.files import save
from support.answers import data_in
from support.command_line import CONTEND
from support.prerequisites import need

pytestmark = pytest.mark.accept

LAB = [sys.executable, "-P", "-m", "contend.workloads.generators.storm_lab"]
TRACES, MOST_ERROR = 5, 0.1
FIGURES = ("median", "p90", "makespan")


@dataclass(frozen=True)
class Case:
    """An edit in the words of whatif, and the same change in those of the laboratory."""

    name: str
    edit: tuple[str, ...]
    before: str
    after: str


COMMON = "jobs=16 image_ms=150 network_ms=150 send_noops=true noops=0 progress=2 hypervisor_calls=4 queues=shared workers=16"
CASES = (
    Case(
        "half the time under the hypervisor's lock",
        ("--hold", "Hypervisor.lock=0.5"),
        "hold_across_rpc=false updates=2 hypervisor_calls=15 hypervisor_ms=6",
        "hypervisor_ms=3",
    ),
    Case(
        "no image to fetch, where four builders build",
        ("--remove", "storm_lab.compute:Compute.fetch_image"),
        "hold_across_rpc=false updates=2 builders=4 image_ms=200",
        "image_ms=0",
    ),
    Case(
        "eight updates under the lock in one call",
        ("--coalesce", "rpc call instance_update=8"),
        "hold_across_rpc=true updates=8 progress=0 update_ms=0 item_ms=8",
        "coalesce=8",
    ),
    Case(
        "one queue for the conductor's workers",
        ("--global-queue", "Worker.updates"),
        "hold_across_rpc=false updates=5 queues=hashed workers=4 update_ms=12",
        "queues=shared",
    ),
    Case(
        "eight builders instead of three",
        ("--workers", "Compute.builders=8"),
        "hold_across_rpc=false updates=2 builders=3",
        "builders=8",
    ),
)


def test_predictions(tmp_path: Path) -> None:
    need(node.server(), "RabbitMQ: apt-get install rabbitmq-server")
    need(importlib.util.find_spec("oslo_messaging"), "pip install oslo.messaging")
    traces = int(os.environ.get("CONTEND_STORM_TRACES", TRACES))
    lab = tmp_path / "lab"
    subprocess.run([*LAB, "--lab", str(lab), "up"], check=True, capture_output=True, timeout=100)
    try:
        rows = [row(case, lab, tmp_path / f"{number}", traces) for number, case in enumerate(CASES)]
    finally:
        subprocess.run([*LAB, "--lab", str(lab), "down"], check=True, capture_output=True, timeout=60)
    for told in rows:
        print(json.dumps(told))
    if traces == TRACES:
        save("whatif-lab", {"traces": TRACES, "rows": rows})
    trusted = [told for told in rows if told["trusted"]]
    errors = [abs(told["error"][figure]) for told in trusted for figure in ("median", "makespan")]
    assert all(told["sign_right"] for told in trusted), rows
    assert all(told["reason"] for told in rows if not told["trusted"]), rows
    assert trusted and max(errors) <= MOST_ERROR, rows


def row(case: Case, lab: Path, place: Path, traces: int) -> dict[str, Any]:
    """An edit's prediction and what came of the change; in seconds, errors as parts of what was measured."""
    measured: dict[str, list[dict[str, float]]] = {"before": [], "after": []}
    for number in range(traces):
        for side in ("before", "after") if number % 2 else ("after", "before"):
            words = merged(COMMON, case.before, case.after if side == "after" else "", f"seed={number + 1}")
            measured[side].append(storm(lab, place / f"{side}-{number}", words))
    sources = [str(place / f"before-{number}") for number in range(traces)]
    line = [CONTEND, "whatif", *sources, "--job", "rpc call boot", *case.edit, "--json"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 5), done.stderr
    answer = data_in(done.stdout)
    before, after = (
        {figure: statistics.fmean(one[figure] for one in measured[side]) for figure in FIGURES}
        for side in ("before", "after")
    )
    predicted = answer["predicted"]
    return {
        "name": case.name,
        "edit": " ".join(case.edit),
        "trusted": done.returncode == 0,
        "reason": answer["gate"]["reason"],
        "self_replay_error": answer["gate"]["self_replay_error"],
        "before_s": before,
        "after_s": after,
        "predicted_s": {figure: seconds(predicted, figure) for figure in FIGURES},
        "error": {figure: seconds(predicted, figure) / after[figure] - 1 for figure in FIGURES},
        "sign_right": all(
            (seconds(predicted, figure) < before[figure]) == (after[figure] < before[figure])
            for figure in ("median", "makespan")
        ),
        "host_cpu_share": max(one["host_cpu_share"] for side in measured.values() for one in side),
    }


def seconds(predicted: dict[str, Any], figure: str) -> float:
    """Of the shape {median_ns: {value, low, high}} or {median_ns: value, …}."""
    value = predicted[f"{figure}_ns"]
    return float(value["value"] if isinstance(value, dict) else value) / 1e9


def merged(*parts: str) -> list[str]:
    """NAME=VALUE words, the last of a name counts."""
    words = dict(word.partition("=")[::2] for part in parts for word in part.split())
    return [f"{name}={value}" for name, value in words.items()]


def storm(lab: Path, trace: Path, words: list[str]) -> dict[str, float]:
    """Under trace; what the driver's own stamps say."""
    out = trace.with_suffix(".json")
    trace.parent.mkdir(parents=True, exist_ok=True)
    line = [*LAB, "--lab", str(lab), "storm", *words, "-o", str(out)]
    asked = ["trace", "--cpu-times", "--run-delay", "-o", str(trace), "--include", "storm_lab.*"]
    subprocess.run([CONTEND, *asked, "--", *line], check=True, capture_output=True, timeout=120)
    told = json.loads(out.read_text(encoding="utf-8"))
    return {**{f: told[f"{f}_s"] for f in FIGURES}, "host_cpu_share": told["host_cpu_share"]}
