"""CPU quotas that contend did not set, around it and inside its victim: named as the cause, and no neighbour blamed."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contend.platforms import cgroups
from support.command_line import Home, rows
from support.prerequisites import need

pytestmark = pytest.mark.alone

QUOTA_CPUS = 1.0
SPIN = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"
WORKLOAD = """\
name: {name}
run: {run}
neighbour: {{run: {neighbour}, burning: 0.01}}
metrics: {{wall: {{builtin: wall, unit: s, better: lower}}}}
dominant: cpu
trial: 500ms
"""
ASKED = [
    "measure.target=null",
    "measure.blocks=7",
    "measure.pilot=1",
    "measure.design=pairs",
    "placement=own-cores",
]


@pytest.fixture
def limited() -> Iterator[Path]:
    """A control group with a quota of a CPU, made by somebody else."""
    need(os.geteuid() == 0, "root")
    cpu = cgroups.read_layout().v1.get("cpu")
    need(cpu is not None, "the cpu controller of cgroup v1")
    need(len(os.sched_getaffinity(0)) >= 2, "2 CPUs")
    assert cpu is not None
    group = cpu.root / f"planted-{uuid.uuid4().hex[:8]}"
    group.mkdir()
    (group / "cpu.shares").write_text("100000")  # so that it does not wait for others on this machine
    (group / "cpu.cfs_quota_us").write_text(str(round(QUOTA_CPUS * 100_000)))
    yield group
    for directory, _, _ in os.walk(group, topdown=False):
        Path(directory).rmdir()


def findings(contend: Home) -> list[dict[str, Any]]:
    document = json.loads((contend.the_run() / "findings.json").read_text())
    found: list[dict[str, Any]] = document["findings"]
    return found


def blames_the_quota(contend: Home, group: Path) -> None:
    (finding,) = findings(contend)
    assert finding["resource"] == "throttling", finding["sentence"]
    assert f"CPU quota of 1 CPU in {group}" in finding["sentence"]
    assert finding["share"] > 0.6
    assert str(group) in finding["advice"] and "neighbour" not in finding["advice"]
    alibis = json.loads((contend.the_run() / "findings.json").read_text())["alibis"]
    assert [a["party_verdict"] for a in alibis if a["cell"] == "spin|spin"] in ([], ["throttling"])
    quotas = [quota for row in rows(contend.the_run()) for quota in row.get("quotas", ())]
    assert {quota["group"] for quota in quotas} == {str(group)}


def asked(neighbour: str) -> list[str]:
    settings = [*ASKED, "victims=spin", f"neighbours={neighbour}"]
    return ["run", "noisy-neighbour", *(word for setting in settings for word in ("--set", setting))]


def test_a_quota_of_the_group_around_contends_own(contend: Home, limited: Path) -> None:
    contend.workload(
        "spin",
        WORKLOAD.format(name="spin", run=f"\"sh -c '{SPIN}'\"", neighbour="\"sh -c 'while :; do :; done'\""),
    )

    inner = limited / "service"  # the quota is its parent's
    inner.mkdir()

    def enter() -> None:
        (inner / "cgroup.procs").write_text("0")
        os.nice(-15)

    contend(*asked("spin"), timeout=120, preexec_fn=enter).fine()
    blames_the_quota(contend, limited)


def test_a_quota_that_the_victim_itself_goes_into(contend: Home, limited: Path) -> None:
    """As under `systemd-run --scope -p CPUQuota=`, in a group of the victim's own below one with the quota."""
    inside = f"mkdir -p {limited}/job; echo $$ > {limited}/job/cgroup.procs"
    loop = f"\"sh -c 'echo $$ > {limited}/cgroup.procs; while :; do :; done'\""
    contend.workload(
        "spin", WORKLOAD.format(name="spin", run=f"\"sh -c '{inside}; {SPIN}'\"", neighbour=loop)
    )

    def prefer() -> None:
        os.nice(-15)

    contend(*asked("spin"), timeout=120, preexec_fn=prefer).fine()
    blames_the_quota(contend, limited)
