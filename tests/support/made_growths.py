"""Runs of control-plane-growth, of known content."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from contend.engine.plan import make_plan
from contend.store.directory import RunDirectory
from contend.studies.scenarios import load, to_yaml


def growth_run(place: Path) -> RunDirectory:
    """Two passes over networks, whose listing grows, and ports, whose listing does not."""
    chance = random.Random(1)
    scenario = load(
        "control-plane-growth", ("kinds=[network,port]", "modes=[quiet,mixed]", "measure.blocks=2")
    )
    plan = make_plan(scenario, 5, "pairs")
    run = RunDirectory.create(place, "growth", "20260101-000000")
    run.write_json("plan.json", plan.to_json())
    run.write_scenario(to_yaml(scenario))
    run.write_json("environment.json", {"cpus": 2, "skipped": [], "tools": {}})
    for trial in plan.trials:
        kind = plan.cell(trial.cell).factors["kind"]
        out = run.path / "outputs" / f"{trial.index:06d}"
        out.mkdir(parents=True)
        told = document(kind, chance, each_s=0.0005 if kind == "network" else 0.0, counted=1.0)
        (out / "growth.json").write_text(json.dumps(told), encoding="utf-8")
        run.append(
            {
                "trial": trial.index, "block": trial.block, "phase": trial.phase, "cell": trial.cell,
                "factors": dict(plan.cell(trial.cell).factors), "started_ns": trial.index, "ended_ns": trial.index + 1,
                "status": "ok", "error": "", "hint": "", "evidence": [], "flags": [], "neighbours": [], "honoured": {},
                "metrics": [
                    {"name": "reached", "value": 121.0, "unit": "count", "better": "higher", "loop": "", "primary": True}
                ],
            }
        )  # fmt: skip
    run.close()
    return run


def document(
    kind: str, chance: random.Random, *, each_s: float, counted: float | None = None
) -> dict[str, Any]:
    """A pass whose listing takes 20 ms and so much more for each entity, beside calls that take what they take."""
    levels = [1, 31, 61, 91, 121]
    visits = []
    for at, (way, made) in enumerate([("up", n) for n in levels] + [("down", n) for n in reversed(levels)]):
        for mode, slower in (("quiet", 1.0), ("mixed", 1.5)):
            took = {"list": 0.02 + each_s * made, "show": 0.01}
            calls = {
                name: {
                    "median_s": s * slower * chance.uniform(0.98, 1.02),
                    "took_s": [s],
                    "counted": {"SQL": 4 + counted * made} if counted is not None and name == "list" else {},
                    "entities": made,
                    "bytes": 100 + 300 * made,
                }
                for name, s in took.items()
            }
            visits.append(
                {
                    "mode": mode,
                    "way": way,
                    "made": made,
                    "population": made,
                    "at_s": 3.0 * at,
                    "flooded_per_s": 0.0 if mode == "quiet" else 4.0,
                    "control_s": 0.004 * chance.uniform(0.98, 1.02),
                    "calls": calls,
                }
            )
    return {
        "kind": kind,
        "reached": levels[-1],
        "left_out": "",
        "modes_left_out": {"neighbour": "403 not an administrator"},
        "stopped": "as many as asked",
        "visits": visits,
        "problems": {},
        "requests": {"requests": 400},
    }
