"""Runs made up from a known truth: a run directory as `contend run` would leave it, without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from contend.document import Analysis
from contend.engine.plan import make_plan
from contend.errors import ScenarioError
from contend.scenario.yaml_file import read_yaml
from contend.store.directory import RunDirectory
from contend.studies.model import Scenario
from contend.studies.plan import Plan
from contend.studies.scenarios import parse, to_yaml
from support.analysed import analyse

TEXT = """
study: interference
title: Who?
victims: [ffmpeg, fio]
neighbours: [stress-cpu, stress-memory]
measure: {blocks: BLOCKS, target: 2%, most: BLOCKS}
"""


def seconds(value: float) -> dict[str, Any]:
    return {"name": "wall", "value": value, "unit": "s", "better": "lower", "loop": "", "primary": True}


def rate(value: float) -> dict[str, Any]:
    return {"name": "iops", "value": value, "unit": "IOPS", "better": "higher", "loop": "", "primary": True}


class Made:
    """A run directory filled from a truth: level and slowdown of each cell, and each cell's evidence."""

    def __init__(
        self,
        place: Path,
        blocks: int,
        slow: dict[str, float],
        evidence: dict[str, dict[str, float]],
        noise: float = 0.01,
        *,
        level: float = 1.0,
        seed: int = 12,  # a control alarms once in 20; with this seed none does
        environment: dict[str, Any] | None = None,
        text: str = TEXT,
    ) -> None:
        """level: of the whole run, as of a slower day; environment: beside what every run has; text: the scenario's,
        with BLOCKS where they are said. What is not fio is work of a fixed amount."""
        self.scenario: Scenario = parse(
            read_yaml(text.replace("BLOCKS", str(blocks)), "mine.yaml", ScenarioError)
        )
        self.plan: Plan = make_plan(self.scenario, 5, "pairs")
        self.run = RunDirectory.create(place, "made", "20260101-000000")
        self.run.write_json("plan.json", self.plan.to_json())
        self.run.write_text("scenario.yaml", to_yaml(self.scenario))
        self.run.write_json(
            "environment.json", {"skipped": ["victim nginx: not here"], "tools": {}} | (environment or {})
        )
        rng = np.random.default_rng(seed)
        for trial in self.plan.trials:
            cell = self.plan.cell(trial.cell)
            drift = 1 + 0.3 * trial.block / max(1, blocks)  # shared by all cells of a block
            factor = level * slow.get(cell.id, 1.0) * drift * float(np.exp(rng.normal(0, noise)))
            fixed_work = not cell.victim.label.startswith("fio")
            metric = seconds(factor) if fixed_work else rate(90_000 / factor)
            wall = factor if fixed_work else 1.0
            seen = {"wall": wall, "cpu": min(wall, 1.0)} | evidence.get(cell.id, {})
            self.run.append(
                {
                    "trial": trial.index, "block": trial.block, "phase": trial.phase, "cell": cell.id,
                    "factors": dict(cell.factors), "started_ns": trial.index, "ended_ns": trial.index + 1, "status": "ok",
                    "error": "", "hint": "", "metrics": [metric],
                    "evidence": [{"name": k, "value": v, "unit": "s"} for k, v in seen.items()],
                    "flags": ["steal"] if trial.index % 50 == 0 else [],
                    "neighbours": [{"name": n.label, "during": 0.5, "unit": "CPUs"} for n in cell.neighbours],
                }
            )  # fmt: skip

    def analyse(self) -> Analysis:
        return analyse(self.run, self.scenario)
