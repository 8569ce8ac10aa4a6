"""Runs with a known truth: what calls or downloads cost, and storms of whose CPU time they take a share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from contend.engine.plan import make_plan
from contend.errors import ScenarioError
from contend.scenario.yaml_file import read_yaml
from contend.store.directory import RunDirectory
from contend.store.ledger import Ledger
from contend.studies.scenarios import parse, to_yaml

# What the two ends of a call, the broker and one answer take with the envelope, s.
CALL = {"ends_cpu": 1.2e-3, "broker_cpu": 0.3e-3, "latency_p50": 5e-3, "paced_cpu": 2.4e-3}
DOWNLOAD = {"client_cpu": 2.0, "server_cpu": 0.5, "time": 1.0}
RPC = "study: compare\nworkload: rpc\nvariants: [{name: envelope}, {name: JSON once, parameters: {envelope: false}}]"
IMAGE = (
    "study: compare\nworkload: image-download\nparameters: {size: 512M}\n"
    "variants: [{name: curl}, {name: fetch, parameters: {client: fetch}}]"
)
STORM = "study: storm\nn: [1, 20]\nparameters: {TRACES}"
HOST = {"machine": "one", "cpu": "a CPU", "cpus": 2, "memory_gib": 16, "skipped": [], "tools": {}}


def costs_run(
    place: Path,
    ratios: Mapping[str, float],
    *,
    text: str = RPC,
    base: Mapping[str, float] = CALL,
    blocks: int = 15,
    noise: float = 0.02,
    seed: int = 1,
    ended: str = "planned blocks done",
    environment: Mapping[str, Any] = HOST,
) -> RunDirectory:
    """The second variant costs `ratios` times `base`, metric by metric; blocks drift together."""
    scenario = parse(
        read_yaml(f"{text}\nmeasure: {{blocks: {blocks}, target: null}}", "mine.yaml", ScenarioError)
    )
    plan = make_plan(scenario, 5, "pairs")
    run = _run(place, "costs", scenario, plan.to_json(), environment)
    rng = np.random.default_rng(seed)
    first = plan.cells[0].id
    for trial in plan.trials:
        cell = plan.cell(trial.cell)
        drift = 1 + 0.2 * ((trial.block + 0.5) / blocks - 0.5)
        treated = cell.id != first and not cell.control
        metrics = [
            {
                "name": name,
                "value": value
                * drift
                * (ratios[name] if treated and name in ratios else 1)
                * np.exp(rng.normal(0, noise)),
                "unit": "s",
                "better": "lower",
                "loop": "open" if "latency" in name else "",
                "primary": number == 0,
            }
            for number, (name, value) in enumerate(base.items())
        ]
        run.append(row(trial.index, trial.block, trial.phase, cell.id, dict(cell.factors), metrics))
    return finished(run, ended)


def storms_run(
    place: Path,
    roles: Mapping[str, float],
    *,
    messages: float | None = 40.0,
    took_s: float = 4.0,
    storms: int = 8,
    noise: float = 0.02,
    seed: int = 2,
    ended: str = "planned blocks done",
    traces: str = "",
    began_ns: int = 10**12,
    environment: Mapping[str, Any] = HOST,
    background_per_s: float = 0.0,
) -> RunDirectory:
    """Storms of 1 and of 20. roles: CPU seconds of each that one boot of 20 takes; one alone takes half as much more."""
    text = STORM.replace("{TRACES}", f"{{traces: {traces}}}" if traces else "{}")
    scenario = parse(
        read_yaml(f"{text}\nmeasure: {{blocks: {storms}, target: null}}", "mine.yaml", ScenarioError)
    )
    plan = make_plan(scenario, 6, "pairs")
    run = _run(place, "storms", scenario, plan.to_json(), environment)
    rng = np.random.default_rng(seed)
    for trial in plan.trials:
        cell = plan.cell(trial.cell)
        n = int(cell.factors["n"])
        told = document(
            n, rng, roles, messages, took_s, noise, began_ns + trial.index * 10**10, background_per_s
        )
        out = run.path / "outputs" / f"{trial.index:06d}"
        out.mkdir(parents=True)
        (out / "storm.json").write_text(json.dumps(told), encoding="utf-8")
        metric = {
            "name": "median",
            "value": told["median_s"],
            "unit": "s",
            "better": "lower",
            "loop": "open",
            "primary": True,
        }
        run.append(row(trial.index, trial.block, trial.phase, cell.id, dict(cell.factors), [metric]))
    return finished(run, ended)


def document(
    n: int,
    rng: np.random.Generator,
    roles: Mapping[str, float],
    messages: float | None,
    took_s: float,
    noise: float,
    began_ns: int,
    background_per_s: float,
) -> dict[str, Any]:
    """One storm, of a second; all roles are dearer or cheaper together, and each for itself."""

    def near(value: float) -> float:
        return float(value * np.exp(rng.normal(0, noise)))

    together = near(1.0) * (1.0 if n > 1 else 1.5)
    median = near(took_s)
    per_boot = {} if messages is None else {"messages": [near(messages), 0.0, 0.0]}
    servers = [{"due_s": 0.0, "active_s": [median - 0.05, median + 0.05]} for _ in range(n)]
    return {
        "n": n, "served": n, "failed": 0, "problems": {}, "counts": {"requests": n}, "disagree": 0, "rate": 0.0,
        "min_s": median, "median_s": median, "p90_s": median, "max_s": median, "makespan_s": median, "accepted_s": 0.1,
        "delete_median_s": 0.2, "delete_makespan_s": 0.3, "width_s": 0.1, "client_cpu_s": 0.01, "asking_share": 0.2,
        "phases_s": {"api": median},
        "cpu_s": {role: near(cpu) * together * n for role, cpu in roles.items()},
        "counted": {
            "polls": 3, "quiet_ns": [0, 10**9], "storm_ns": [began_ns, began_ns + 1_500_000_000],
            "polled_ns": [began_ns + 1_500_000_000, began_ns + 1_600_000_000], "per_boot": per_boot,
            "per_poll": {}, "background_per_s": {"messages": background_per_s},
        },
        "servers": servers,
    }  # fmt: skip


def row(
    trial: int, block: int, phase: str, cell: str, factors: dict[str, str], metrics: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "trial": trial, "block": block, "phase": phase, "cell": cell, "factors": factors, "started_ns": trial,
        "ended_ns": trial + 1, "status": "ok", "error": "", "hint": "", "metrics": metrics, "evidence": [], "flags": [],
        "neighbours": [],
    }  # fmt: skip


def finished(run: RunDirectory, ended: str) -> RunDirectory:
    """ended: how; "" for a run that was killed."""
    ledger = Ledger(run.ledger_path)
    ledger.event("run-start")
    if ended:
        ledger.event("run-end", stopped=ended)
    ledger.close()
    run.close()
    return run


def _run(
    place: Path, name: str, scenario: Any, plan: dict[str, Any], environment: Mapping[str, Any]
) -> RunDirectory:
    run = RunDirectory.create(place, name, "20260101-000000")
    run.write_json("plan.json", plan)
    run.write_text("scenario.yaml", to_yaml(scenario))
    run.write_json("environment.json", environment)
    return run
