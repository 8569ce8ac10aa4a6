"""A made overhead study on hosts of two sizes, in which a small share of the host costs a container under a quota."""

from __future__ import annotations

from pathlib import Path

from contend.platforms.topology import Cpu, Topology
from contend.report.model import ReportInput
from contend.studies.overhead.model import Overhead
from contend.studies.platform_settings import wired
from support.made_runs import Made

SMT = Topology(tuple(Cpu(n, n % 4, node=n % 4 // 2, cache=n % 4 // 2) for n in range(8)))
FOUR = Topology(tuple(Cpu(n, n // 2) for n in range(4)))

# By the label of the place. The share alone costs 1.4 at a quarter of the host, and nothing from half of it on.
SLOW = {
    "bare 1 CPU of 4": 2.0,
    "container vanilla 1 CPU of 4": 2.0 * 1.05 * 1.4,
    "container pinned 1 CPU of 4": 2.0 * 1.05,
    "bare 1 CPU of 2": 2.1,
    "container vanilla 1 CPU of 2": 2.1 * 1.05,
    "container pinned 1 CPU of 2": 2.1 * 1.05,
}
EVIDENCE = {"wall": 2.9, "throttled": 0.9, "cpu": 1.0}


def text(by: str) -> str:
    return f"""
study: overhead
title: What does a share of the host cost?
apps: [mpi-prime]
sizes: [1, 2]
hosts: [2, 4]
hosts_by: {by}
measure: {{blocks: BLOCKS, target: null, most: BLOCKS}}
"""


def hosts_run(place: Path, by: str = "offline", blocks: int = 20) -> ReportInput:
    """The run, with the CPUs of its sets as if the kernel had told them."""
    names = {name: name.replace("of 2", "of 2 confined") if by == "confined" else name for name in SLOW}
    slow = {f"mpi-prime|{names[name]}": value for name, value in SLOW.items()}
    evidence = {"mpi-prime|container vanilla 1 CPU of 4": EVIDENCE}
    environment = {"cpus": 4, "topology": FOUR.to_json()}
    made = Made(place, blocks, slow, evidence, environment=environment, text=text(by))
    assert isinstance(made.scenario, Overhead)
    of = wired(made.scenario, FOUR, [0])
    rows = []
    for row in made.run.rows():
        asked = made.plan.cell(row["cell"]).victim.platform
        assert asked is not None
        rows.append({**row, "honoured": {"cpus": list(asked.cpus(of[asked.host]))}})
    return ReportInput(
        made.analyse(),
        made.run.read_json("environment.json"),
        text(by),
        rows,
        None,
        "contend run platform-overhead --set hosts=[2,4]",
        "runs/made",
    )
