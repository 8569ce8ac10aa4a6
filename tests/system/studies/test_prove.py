"""Who costs a live victim what is proved by holding suspects back: a guilty one and an innocent one, planted."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from contend import cli
from contend.platforms import cgroups, treatments
from contend.store.directory import RunDirectory
from support.answers import data_in
from support.prerequisites import need

BURNS = "while True: sum(range(1000))"
SERVES = """
import time
while True:
    end = time.thread_time() + 0.005
    while time.thread_time() < end: pass
    time.sleep(0.005)
"""


@dataclass(frozen=True)
class Planted:
    """A victim and two tenants with groups of their own, all on one CPU; the innocent one sleeps."""

    victim: subprocess.Popen[bytes]
    guilty: Path
    innocent: Path

    def weights(self) -> list[str]:
        return [treatments.cpu_weight([group]).before for group in (self.guilty, self.innocent)]


@pytest.fixture
def planted() -> Iterator[Planted]:
    need(os.geteuid() == 0, "run as root: limits of others are changed")
    layout = cgroups.read_layout()
    two = layout.v2 is not None and "cpu" in layout.v2.controllers
    root = layout.v2.root if two and layout.v2 is not None else layout.v1["cpu"].root
    cpu = min(os.sched_getaffinity(0))
    groups = [root / f"{name}-{os.getpid()}.service" for name in ("guilty", "innocent", "victim")]
    commands = ([sys.executable, "-c", BURNS], ["sleep", "1000"], [sys.executable, "-c", SERVES])
    started = []
    try:
        for group, command in zip(groups, commands, strict=True):
            group.mkdir()
            process = subprocess.Popen(command)
            started.append(process)
            os.sched_setaffinity(process.pid, {cpu})
            (group / "cgroup.procs").write_text(str(process.pid))
        yield Planted(started[2], groups[0], groups[1])
    finally:
        for process in started:
            process.kill()
            process.wait()
        for group in groups:
            group.rmdir()


@pytest.mark.slow
@pytest.mark.alone  # who else takes the CPU is a third suspect
def test_the_guilty_one_is_proved_and_the_innocent_one_is_not(
    planted: Planted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = planted.weights()
    scenario = tmp_path / "prove.yaml"
    scenario.write_text(f"""
study: prove
victim: {{process: {{pid: {planted.victim.pid}}}}}
called: shop
suspects: [{planted.guilty.name}, {planted.innocent.name}]
measure: {{target: null, blocks: 10, pilot: 0, trial: 500ms, seed: 3}}
""")
    code = cli.run(["run", str(scenario), "--json", "--runs", str(tmp_path / "runs")])
    out, err = capsys.readouterr()
    assert code == 0, err
    answer = data_in(out)
    costs = {cost["suspect"]: cost for cost in answer["suspects"]}
    guilty, innocent = costs[planted.guilty.name], costs[planted.innocent.name]
    assert guilty["verdict"] == "costs" and guilty["low"] > 0
    assert innocent["verdict"] != "costs"
    assert answer["answer"].startswith(f"{planted.guilty.name} costs shop ")
    [finding] = answer["findings"]
    assert (
        finding["advice"]
        == f"keep it so: systemctl set-property {planted.guilty.name} CPUWeight=10 IOWeight=10"
    )
    assert planted.weights() == before, "all is as it was"
    [run] = (tmp_path / "runs").iterdir()
    held = [event for event in RunDirectory(run).events() if event["event"] == "held-back"]
    assert {event["suspect"] for event in held} == set(costs)


def test_nothing_is_changed_without_consent_or_on_oneself(
    planted: Planted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    victim = str(planted.victim.pid)
    before = planted.weights()
    for words, code, text in (
        ((victim, "--against", planted.guilty.name), 2, "only with consent"),
        ((victim,), 2, "nobody is suspected"),
        ((victim, "--against", str(os.getpid()), "--consent"), 2, "contend itself runs in"),
        ((victim, "--against", victim, "--consent"), 2, "itself runs in"),
        ((victim, "--against", "nobody-is-this.service", "--consent"), 2, "no unit called"),
        (("--against", planted.guilty.name, "--consent"), 2, "no victim is named"),
        ((victim, "--against", planted.guilty.name, "--rate", "5"), 2, "goes with --url"),
    ):
        assert cli.run(["prove", *words, "--runs", str(tmp_path / "runs")]) == code
        assert text in capsys.readouterr().err
    assert cli.run(["prove", victim, "--against", planted.guilty.name, "--dry-run"]) == 0
    out = capsys.readouterr().out
    switch = treatments.cpu_weight([planted.guilty])
    assert f"{planted.guilty.name} held back: {switch.setting.name}: {switch.before} → {switch.during}" in out
    assert planted.weights() == before and not (tmp_path / "runs").exists()
