"""A made placement study: what a host, a subnet and vxlan change is known, for every metric and number of pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from contend.document import Analysis
from contend.engine.plan import make_plan
from contend.errors import ScenarioError
from contend.report.model import ReportInput
from contend.scenario.yaml_file import read_yaml
from contend.store.directory import RunDirectory
from contend.studies.model import Scenario
from contend.studies.placement.cells import ENDS
from contend.studies.plan import Plan
from contend.studies.scenarios import parse, to_yaml
from support.analysed import analyse

TEXT = """
study: placement
title: Where should two instances stand?
protocols: [tcp, udp]
messages: [1400]
pairs: [1, 2, 4]
measure: {blocks: BLOCKS, target: null, most: BLOCKS}
"""
# Throughput: a different subnet costs 9 % within a host and 12 % between hosts, another host 20 %, vxlan 15 % more.
SUBNET, SUBNET_TWO, HOST, VXLAN = 0.91, 0.88, 0.80, 0.85
# CPU seconds for 10^9 bytes: of the ends, and what routing, another host and vxlan add.
CPU, ROUTING, OTHER_HOST, ENCAPSULATING = 0.60, 0.15, 0.10, 0.20
# Of the aggregate: two pairs are 1.8 of one, four no more than two.
PAIRS = {1: 1.0, 2: 1.8, 4: 1.82}
LATENCY_S = 40e-6
DROPPED = 0.02


def figures(factors: dict[str, str]) -> dict[str, float]:
    """The truth of a cell, by metric."""
    far, routed = factors["host"] == "different", factors["subnet"] == "different"
    vxlan = factors["encapsulation"] == "vxlan"
    rate = 1000.0 * PAIRS[int(factors["pairs"])] * (HOST if far else 1) * (VXLAN if vxlan else 1)
    if routed:
        rate *= SUBNET_TWO if far else SUBNET
    cpu = CPU + ROUTING * routed + OTHER_HOST * far + ENCAPSULATING * vxlan
    latency = LATENCY_S * (1.2 if routed else 1) * (1.1 if far else 1) * (1.25 if vxlan else 1)
    found = {
        "throughput": rate,
        "cpu_per_gb": cpu,
        "ends_cpu_per_gb": 0.8 * cpu,
        "softirq_per_gb": 0.3 * cpu,
        "latency_p50": latency,
        "latency_p99": 4 * latency,
        "answered": 1.0,
        "busy_before": 0.02,
        "lateness_p99": 60e-6,
    }
    if factors["ends"] == ENDS["instances"]:  # who count their own CPU time, and see no other
        found["guests_cpu_per_gb"] = found.pop("cpu_per_gb")
        del found["ends_cpu_per_gb"], found["softirq_per_gb"]
        found["emulated"] = 1.0
    return found | ({"delivered": 1 - DROPPED} if factors["protocol"] == "udp" else {})


UNITS = {
    "emulated": "ratio",
    "throughput": "MB/s",
    "answered": "ratio",
    "delivered": "ratio",
    "busy_before": "CPUs",
}
HIGHER = {"throughput", "answered", "delivered"}


class MadePlacement:
    """A run directory as `contend run network-placement` leaves it, from the truth above."""

    def __init__(self, place: Path, blocks: int = 15, noise: float = 0.01, text: str = TEXT) -> None:
        self.scenario: Scenario = parse(
            read_yaml(text.replace("BLOCKS", str(blocks)), "mine.yaml", ScenarioError)
        )
        self.plan: Plan = make_plan(self.scenario, 5, "pairs")
        self.run = RunDirectory.create(place, "made", "20260101-000000")
        self.run.write_json("plan.json", self.plan.to_json() | {"command": "contend run network-placement"})
        self.run.write_text("scenario.yaml", to_yaml(self.scenario))
        skipped = ["encapsulation ovs: ovs-vswitchd not found (apt-get install openvswitch-switch)"]
        self.run.write_json("environment.json", {"skipped": skipped, "tools": {}})
        rng = np.random.default_rng(7)
        for trial in self.plan.trials:
            factors = dict(self.plan.cell(trial.cell).factors)
            drift = 1 + 0.3 * trial.block / blocks  # shared by all cells of a block
            self.run.append(self._row(trial, factors, drift, rng, noise))

    @staticmethod
    def _row(
        trial: Any, factors: dict[str, str], drift: float, rng: np.random.Generator, noise: float
    ) -> dict[str, Any]:
        def metric(name: str, value: float) -> dict[str, Any]:
            steady = name in ("answered", "delivered", "emulated")
            return {
                "name": name,
                "value": value if steady else value * drift * float(np.exp(rng.normal(0, noise))),
                "unit": UNITS.get(name, "s/GB" if name.endswith("per_gb") else "s"),
                "better": "higher" if name in HIGHER else "lower",
                "loop": "open" if name.startswith("latency") else "",
                "primary": name == "throughput",
            }

        return {
            "trial": trial.index, "block": trial.block, "phase": trial.phase, "cell": trial.cell, "factors": factors,
            "started_ns": trial.index, "ended_ns": trial.index + 1, "status": "ok", "error": "", "hint": "",
            "metrics": [metric(name, value) for name, value in figures(factors).items()],
            "evidence": [{"name": "wall", "value": 2.0, "unit": "s"}], "flags": [], "neighbours": [],
        }  # fmt: skip

    def analyse(self) -> Analysis:
        return analyse(self.run, self.scenario)

    def report(self) -> ReportInput:
        return ReportInput(
            self.analyse(),
            self.run.read_json("environment.json"),
            TEXT,
            self.run.rows(),
            None,
            "contend run network-placement",
            "runs/made",
        )
