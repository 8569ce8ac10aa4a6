"""A run of a forecast made up from a host whose pair table is known (`known.hosts`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from contend.engine.plan import make_plan
from contend.errors import ScenarioError
from contend.scenario.yaml_file import read_yaml
from contend.store.directory import RunDirectory
from contend.studies.scenarios import parse, to_yaml
from contend.studies.sensitivity.model import Sensitivity
from known.hosts import INTENSITIES, RESOURCES, Host, Truth, host
from support.made_runs import seconds

WORKLOADS = ("ffmpeg", "fio writes", "nginx", "redis", "sysbench-memory", "sysbench-cpu")
TEXT = """
study: sensitivity
title: Which workloads go together, and which apart?
workloads: [ffmpeg, {fio: {read: 0}}, nginx, redis, sysbench-memory, sysbench-cpu]
injectors:
  {cpu: stress-cpu, memory: stress-memory, disk: stress-disk, network: {iperf3: {network: host}}, lock: stress-switch}
measure: {target: null, blocks: BLOCKS, pilot: 0, design: pairs}
"""


def scenario(text: str = TEXT, blocks: int = 10) -> Sensitivity:
    found = parse(read_yaml(text.replace("BLOCKS", str(blocks)), "mine.yaml", ScenarioError))
    assert isinstance(found, Sensitivity)
    return found


def forecast_run(
    place: Path, truth: Truth = "form", *, seed: int = 5, blocks: int = 10
) -> tuple[RunDirectory, Host]:
    """A run directory of that host as `contend run interference-forecast` would leave it, and the host."""
    made = host(seed, truth, blocks=blocks, noise=0.02)
    asked = scenario(blocks=blocks)
    plan = make_plan(asked, 5)
    run = RunDirectory.create(place, "interference-forecast", "20260101-000000")
    run.write_json("plan.json", plan.to_json() | {"command": "contend run interference-forecast"})
    run.write_text("scenario.yaml", to_yaml(asked))
    run.write_json("environment.json", {"skipped": [], "tools": {}, "cpus": 2})
    rng = np.random.default_rng([seed, 7])
    of = made.measured
    for trial in plan.trials:
        cell = plan.cell(trial.cell)
        f, at = cell.factors, trial.block
        victim = RESOURCES.index(f["probe"]) if "probe" in f else WORKLOADS.index(f["victim"])
        slow = float(rng.normal(0, 0.005))
        if f["role"] in ("curve", "calibration"):
            level = RESOURCES.index(f["resource"]), INTENSITIES.index(float(f["intensity"]))
            slow = (of.curves if f["role"] == "curve" else of.calibration)[(victim, *level, at)]
        elif f["role"] != "alone":
            beside = WORKLOADS.index(f["neighbour"])
            slow = (
                of.pressure[beside, victim, at] if f["role"] == "pressure" else of.pairs[victim, beside, at]
            )
        value = (1 + 0.1 * at / blocks) * float(np.exp(slow))
        run.append(
            {
                "trial": trial.index, "block": at, "phase": "counted", "cell": cell.id, "factors": dict(f),
                "started_ns": trial.index, "ended_ns": trial.index + 1, "status": "ok", "error": "", "hint": "",
                "metrics": [seconds(value)], "evidence": [], "flags": [], "neighbours": [],
            }
        )  # fmt: skip
    return run, made
