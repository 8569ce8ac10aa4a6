"""Runs on several hosts, made up: each host's true slowdown is known."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

from contend.engine.plan import make_plan
from contend.fleet.clocks import Offset, clock_record
from contend.fleet.record import host_seed, write_environment
from contend.store.directory import RunDirectory
from contend.studies.scenarios import load, to_yaml

SCENARIO = """\
study: interference
victims: [fio]
neighbours: [stress-cpu]
measure: {{target: null, blocks: {blocks}, pilot: 0, seed: 7, design: pairs}}
hosts: [{hosts}]
"""


MACHINE: dict[str, Any] = {
    "cpu": "AMD EPYC 9R14",
    "cpus": 2,
    "memory_gib": 23.53,
    "os": "Debian GNU/Linux 12 (bookworm)",
}
MACHINE |= {"kernel": "6.1.0-44-cloud-amd64", "virtualised": True, "skipped": []}


def made_run(
    tmp_path: Path,
    ratios: dict[str, float],
    *,
    blocks: int = 8,
    lost: tuple[str, ...] = (),
    clocks: bool = False,
) -> RunDirectory:
    """A run whose hosts have those true slowdowns; `lost` have ended after half of it."""
    text = SCENARIO.format(blocks=blocks, hosts=", ".join(ratios))
    (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
    scenario = load(str(tmp_path / "s.yaml"))
    run = RunDirectory.create(tmp_path, "made", "20261120-000000")
    plan = make_plan(scenario, 7)
    fleet = {"hosts": list(ratios), "way": {"contend": "contend", "config": ""}, "address": "", "seeds": {}}
    run.write_text("scenario.yaml", to_yaml(scenario))
    run.write_json(
        "plan.json", plan.to_json() | {"scenario": "s.yaml", "command": "contend run s.yaml", "fleet": fleet}
    )
    run.write_json("environment.json", {"cpus": 2, "skipped": []})
    chance = random.Random(3)
    told = {}
    for host, ratio in ratios.items():
        own = RunDirectory(run.path / "hosts" / host)
        own.path.mkdir(parents=True)
        part = scenario.model_copy(update={"hosts": None})
        order = make_plan(part, host_seed(7, host))
        own.write_text("scenario.yaml", to_yaml(part))
        own.write_json("plan.json", order.to_json() | {"scenario": "s.yaml", "command": "x"})
        own.write_json("environment.json", MACHINE)
        for trial in order.trials[: len(order.trials) // (2 if host in lost else 1)]:
            cell = order.cell(trial.cell)
            value = math.exp(chance.gauss(0, 0.01)) * (ratio if cell.neighbours else 1)
            run.append(row(host, trial, cell, 1000 / value))
        state = "given up" if host in lost else "ended"
        told[host] = {
            "state": state,
            "why": "lost for 120 s" if host in lost else "",
            "failures": 0,
            "losses": 0,
        }
        told[host] |= {"clock": clock(len(told)) if clocks else None, "part": "p", "stopped": ""}
        told[host] |= {"start_late_ns": 180_000 * (1 + len(told)) if clocks else None}
    run.write_json("hosts.json", {"schema_version": 1, "hosts": told})
    write_environment(run)
    return run


def clock(number: int) -> dict[str, Any]:
    first = Offset(10**9 * (7 - 3 * number), 80_000 + 1000 * number, 0)
    last = Offset(first.offset_ns + 2000 * number, 90_000, 600 * 10**9)
    return clock_record(first, last)


def row(host: str, trial: Any, cell: Any, value: float) -> dict[str, Any]:
    metric = {"name": "iops", "value": value, "unit": "IOPS", "better": "higher", "loop": "", "primary": True}
    return {
        "host": host, "attempt": 1, "trial": trial.index, "block": trial.block, "phase": trial.phase, "cell": cell.id,
        "factors": dict(cell.factors), "status": "ok", "error": "", "hint": "", "metrics": [metric], "evidence": [],
        "flags": [], "neighbours": [], "honoured": {}, "started_ns": 1, "ended_ns": 2,
    }  # fmt: skip
