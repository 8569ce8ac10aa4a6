"""Storage sweeps made up from a known truth: the rows that such pools would give, without any fio."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from contend.engine.plan import make_plan
from contend.errors import ScenarioError
from contend.report.model import ReportInput
from contend.scenario.yaml_file import read_yaml
from contend.store.directory import RunDirectory
from contend.store.ledger import Ledger
from contend.studies.cell import ALONE, CONTROL
from contend.studies.plan import Plan, Trial
from contend.studies.scenarios import parse, to_yaml
from contend.studies.storage import cloud_pools
from contend.studies.storage.cells import by_label
from contend.studies.storage.model import Storage
from contend.studies.storage.plan import choose
from contend.studies.storage.points import Coding, Point
from support.analysed import analyse

Row = dict[str, Any]
# IOPS of a point alone, and how many times slower it is beside its neighbour.
Truth = Callable[[str, Point], tuple[float, float]]

TEXT = """
study: storage
title: Which pool?
pools: [{name: fast, direct: true}, {name: slow, direct: true}]
size: 64M
block_sizes: [4k, 16k, 64k]
depths: [8, 32, 128]
reads: [0, 70, 100]
points: POINTS
focus: 2
table: {block_sizes: [4k, 64k]}
measure: {blocks: BLOCKS, most: BLOCKS, target: null, pilot: 0, design: pairs, seed: 5}
"""


def sweep(blocks: int = 10, points: int = 30, text: str = TEXT) -> Storage:
    text = text.replace("BLOCKS", str(blocks)).replace("POINTS", str(points))
    found = parse(read_yaml(text, "mine.yaml", ScenarioError))
    assert isinstance(found, Storage)
    return found


def truth(scenario: Storage) -> Truth:
    """Second-order surfaces: fast serves four times what slow does; a neighbour costs slow more, most at small blocks."""
    codings = {pool.name: Coding(scenario, pool) for pool in scenario.named}

    def of(pool: str, point: Point) -> tuple[float, float]:
        block, depth, engine, read, pattern = codings[pool].at(point)
        level = math.log(20_000 if pool == "fast" else 5_000)
        level += -0.9 * block + 0.5 * depth - 0.2 * depth**2 - 0.15 * engine + 0.2 * read + 0.3 * pattern
        level += -0.2 * block * depth + 0.1 * read * pattern
        slower = (0.25 if pool == "fast" else 0.6) - 0.15 * block + 0.1 * depth
        return math.exp(level), math.exp(slower)

    return of


def rows_of(
    scenario: Storage,
    plan: Plan,
    trials: Iterable[Trial],
    of: Truth,
    rng: np.random.Generator,
    noise: float = 0.03,
    drift: float = 0.0,
) -> list[Row]:
    """What those trials would leave. drift: in the logarithm, over a hundred trials."""
    known = by_label(scenario)
    found = []
    for trial in trials:
        cell = plan.cell(trial.cell)
        pool, point = known[cell.factors["victim"]]
        iops, slower = of(pool.name, point)
        beside = cell.factors["neighbour"] not in (ALONE, CONTROL)
        iops *= math.exp(rng.normal(0, noise) + drift * trial.index / 100) / (slower if beside else 1)
        found.append(_row(trial, cell.factors, iops, point, beside))
    return found


def _row(trial: Trial, factors: Mapping[str, str], iops: float, point: Point, beside: bool) -> Row:
    p99 = 2.5 * point.depth / iops
    metrics = [("iops", iops, "IOPS", "higher", ""), ("latency_p99", p99, "s", "lower", "closed")]
    both = iops * (2 if beside else 1)
    evidence = [
        ("wall", 1.0, "s"),
        ("measured", 1.0, "s"),
        ("disk_iops", both, "IOPS"),
        ("disk_bytes_per_s", both * point.block, "B/s"),
        ("disk_await", 1e3 * point.depth * (2 if beside else 1) / both, "ms"),
        ("disk_queue", float(point.depth * (2 if beside else 1)), "requests"),
        ("psi_io", 0.9 if beside else 0.5, "s"),
    ]
    start = 10**9 + 2 * 10**9 * trial.index
    return {
        "trial": trial.index,
        "block": trial.block,
        "phase": trial.phase,
        "cell": trial.cell,
        "factors": dict(factors),
        "clock": "CLOCK_MONOTONIC",
        "utc": "2026-01-01T00:00:00+00:00",
        "status": "ok",
        "error": "",
        "hint": "",
        "metrics": [
            {"name": n, "value": v, "unit": u, "better": b, "loop": loop, "primary": n == "iops"}
            for n, v, u, b, loop in metrics
        ],
        "evidence": [{"name": n, "value": v, "unit": u} for n, v, u in evidence],
        "flags": [],
        "neighbours": [],
        "honoured": {},
        "started_ns": start,
        "ended_ns": start + 10**9,
        "overhead": {"wall_ns": 10**8, "cpu_ns": 10**7, "washout_ns": 10**6 if beside else 0},
    }


def experiment(
    scenario: Storage, of: Truth, seed: int, noise: float = 0.03, drift: float = 0.0
) -> tuple[Plan, list[Row]]:
    """Both steps: the screening, what it chooses, and its blocks."""
    rng = np.random.default_rng(seed)
    first = make_plan(scenario, seed)
    screening = rows_of(scenario, first, first.trials, of, rng, noise, drift)
    plan = make_plan(scenario, seed, focus=choose(scenario, screening))
    assert plan.trials[: len(first.trials)] == first.trials
    counted = [trial for trial in plan.trials if trial.phase == "counted"]
    return plan, screening + rows_of(scenario, plan, counted, of, rng, noise, drift)


FACTS = {
    "path": "/srv/pool",
    "kind": "ext4",
    "source": "/dev/vdb",
    "options": "rw",
    "direct": True,
    "memory": False,
    "written": True,
}


def made_report(
    place: Path,
    blocks: int = 10,
    points: int = 30,
    text: str = TEXT,
    event: Mapping[str, Any] | None = None,
) -> ReportInput:
    """A whole run directory, analysed. event: where instances of a cloud stood, as its ledger has it."""
    scenario = sweep(blocks, points, text)
    plan, rows = experiment(scenario, truth(scenario), seed=3)
    run = RunDirectory.create(place, "storage-sweep", "20260101-000000")
    with run:
        run.write_text("scenario.yaml", to_yaml(scenario))
        run.write_json("plan.json", plan.to_json() | {"command": "contend run storage-sweep"})
        if event is not None:
            with Ledger(run.ledger_path) as ledger:
                ledger.event("instances", **event)
        environment = {
            "cpu": "made up",
            "os": "Debian 12",
            "cpus": 2,
            "pools": cloud_pools.facts(scenario)
            if scenario.cloud
            else {
                p.name: {**FACTS, "device": f"vd{n}"} for n, p in zip("bcdefgh", scenario.named, strict=False)
            },
        }
        run.write_json("environment.json", environment)
        for row in rows:
            run.append(row)
        with Ledger(run.ledger_path) as ledger:
            ledger.event("run-end", stopped="planned blocks done")
        found = analyse(run, scenario)
        return ReportInput(
            found,
            environment,
            to_yaml(scenario),
            run.rows(),
            None,
            "contend run storage-sweep",
            "runs/storage-sweep",
        )


def one_pool(place: Path) -> ReportInput:
    """The same with one pool and two mixes: a page of few pictures."""
    text = TEXT.replace(", {name: slow, direct: true}", "").replace("reads: [0, 70, 100]", "reads: [70, 100]")
    return made_report(place, text=text.replace("size: 64M", "size: 64M\npatterns: [random]"))
