"""Who costs a live victim what is proved by holding suspects back: a guilty one and an innocent one, planted."""

from __future__ import annotations

import os
import re
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
    began, end = time.perf_counter(), time.thread_time() + 0.005
    while time.thread_time() < end: pass
    print(f"took {1e3 * (time.perf_counter() - began):.3f} ms", flush=True)
    time.sleep(0.005)
"""


@dataclass(frozen=True)
class Planted:
    """A victim, which logs, and two tenants with groups of their own, all on one CPU; the innocent one sleeps."""

    victim: subprocess.Popen[bytes]
    log: Path
    guilty: Path
    innocent: Path

    def weights(self) -> list[str]:
        return [treatments.cpu_weight([group]).before for group in (self.guilty, self.innocent)]


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[Planted]:
    need(os.geteuid() == 0, "run as root: limits of others are changed")
    layout = cgroups.read_layout()
    two = layout.v2 is not None and "cpu" in layout.v2.controllers
    root = layout.v2.root if two and layout.v2 is not None else layout.v1["cpu"].root
    cpu = min(os.sched_getaffinity(0))
    groups = [root / f"{name}-{os.getpid()}.service" for name in ("guilty", "innocent", "victim")]
    commands = ([sys.executable, "-c", BURNS], ["sleep", "1000"], [sys.executable, "-c", SERVES])
    log, started = tmp_path / "victim.log", []
    try:
        for group, command in zip(groups, commands, strict=True):
            group.mkdir()
            with log.open("a") as out:
                process = subprocess.Popen(command, stdout=out)
            started.append(process)
            os.sched_setaffinity(process.pid, {cpu})
            (group / "cgroup.procs").write_text(str(process.pid))
        yield Planted(started[2], log, groups[0], groups[1])
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
consent: true
measure: {{target: null, blocks: 10, pilot: 0, trial: 500ms, seed: 3}}
""")
    code = cli.run(["run", str(scenario), "--json", "--runs", str(tmp_path / "runs")])
    out, err = capsys.readouterr()
    assert code == 0, err
    answer = data_in(out)
    proved = answer["proved"]
    costs = {cost["suspect"]: cost for cost in proved["suspects"]}
    guilty, innocent = costs[planted.guilty.name], costs[planted.innocent.name]
    assert guilty["verdict"] == "costs" and guilty["low"] > 0
    assert innocent["verdict"] != "costs"
    assert answer["answer"].startswith(f"{planted.guilty.name} costs shop ")
    [finding] = answer["findings"]
    assert finding["advice"].startswith(
        f"keep it so: systemctl set-property {planted.guilty.name} CPUWeight=10"
    )
    [both] = proved["together"]
    assert (
        both["suspects"] == [planted.guilty.name, planted.innocent.name]
        and both["cost"]["verdict"] == "costs"
    )
    harms = {harm["suspect"]: harm for harm in proved["held_back"]}
    assert harms[planted.guilty.name]["lost_s"] > 0.5 > abs(harms[planted.innocent.name]["lost_s"])
    assert sum(planted.guilty.name in pause["suspects"] for pause in proved["pauses"]) == 20
    assert planted.weights() == before, "all is as it was"
    [run] = (tmp_path / "runs").iterdir()
    held = [event for event in RunDirectory(run).events() if event["event"] == "held-back"]
    assert {event["suspect"] for event in held} == set(costs)


@pytest.mark.slow
@pytest.mark.alone
def test_one_without_a_group_of_its_own_is_moved_into_one_for_moments(
    planted: Planted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a program of a login session beside a service: no nice value and no weight of its own counts there."""
    (pid,) = (planted.guilty / "cgroup.procs").read_text().split()
    home = planted.guilty.parent / f"session-{os.getpid()}"
    home.mkdir()
    idle = subprocess.Popen(["sleep", "1000"])
    try:
        for one in (pid, str(idle.pid)):
            (home / "cgroup.procs").write_text(one)
        words = ("prove", str(planted.victim.pid), "--against", pid, "--consent", "--json", "--seed", "3")
        options = ("--trial", "500ms", "--for", "40s", "--runs", str(tmp_path / "runs"))
        assert cli.run([*words, "--by", "nice", *options]) == 2
        assert "--by group" in capsys.readouterr().err
        assert cli.run([*words[:5], "--dry-run", *options]) == 0
        shown = capsys.readouterr().out
        assert "contend-moved-" in shown and "with a weight of cpu." in shown
        policy = tmp_path / "policy.yaml"
        policy.write_text('{allow: [{suspects: ["*"], by: [auto, nice]}]}')
        assert cli.run([*words[:4], *options, "--policy", str(policy)]) == 2
        assert "not by group, but by auto, nice" in capsys.readouterr().err
        assert cli.run([*words, *options]) == 0, "without --by it is chosen"
        answer = data_in(capsys.readouterr().out)
        [cost] = answer["proved"]["suspects"]
        assert cost["verdict"] == "costs" and cost["low"] > 0
        [finding] = answer["findings"]
        assert finding["advice"].startswith("keep it so: mkdir -p ")
        assert f"take it back: echo {pid} > {home}/cgroup.procs; rmdir " in finding["advice"]
        assert pid in (home / "cgroup.procs").read_text().split(), "it is back"
        assert not list(home.parent.glob("contend-moved-*"))
    finally:
        idle.kill()
        idle.wait()
        (planted.guilty / "cgroup.procs").write_text(pid)
        home.rmdir()


@pytest.mark.slow
@pytest.mark.alone
def test_a_watch_names_who_is_proved_by_the_log_and_then_kept_back(
    planted: Planted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody said who it is; the finding is tried again, and stays."""
    before = planted.weights()
    short = ("--for", "40s", "--seed", "3", "--consent", "--runs", str(tmp_path / "runs"))
    figure = ("--log", str(planted.log), "--pattern", "took ([0-9.]+) ms", "--unit", "ms")
    code = cli.run(
        ["prove", str(planted.victim.pid), *figure, "--watch", "3s", "--trial", "500ms", *short, "--json"]
    )
    out, err = capsys.readouterr()
    assert code == 0, err
    answer = data_in(out)
    [cost] = answer["proved"]["suspects"]
    pids = (planted.guilty / "cgroup.procs").read_text().split()
    assert planted.guilty.name in cost["suspect"] or cost["suspect"] in pids
    assert cost["verdict"] == "costs" and cost["metric"] == "mean"
    assert planted.weights() == before
    [run] = (tmp_path / "runs").iterdir()
    assert cli.run(["try", f"{run}#1", "--keep", *short]) == 0
    out, err = capsys.readouterr()
    assert "predicted: it costs " in out and "measured: " in out, err
    assert "\nkept: " in out and "\ntake it back: " in out
    guilty, innocent = planted.weights()
    assert int(guilty) < int(before[0]) and innocent == before[1], "a part of its weight, for good"
    back = re.search(r"^take it back: echo (\d+) > (.*cpu.*)$", out, re.MULTILINE)
    if back is not None:  # a group that systemd knows nothing of is written to
        Path(back[2].split("; ")[0]).write_text(back[1])
        assert planted.weights() == before


def test_nothing_is_changed_without_consent_or_on_oneself(
    planted: Planted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    victim = str(planted.victim.pid)
    before = planted.weights()
    for words, code, text in (
        ((victim, "--against", planted.guilty.name), 2, "only with consent"),
        ((victim, "--by", "freeze", "--against", planted.guilty.name), 2, "`allow_freeze: true` allows that"),
        ((victim, "--by", "cpuset", "--against", planted.guilty.name), 2, "`apart` says which"),
        ((victim, "--watch", "1ms"), 2, "too short"),
        ((victim, "--figure", "p50", "--against", planted.guilty.name), 2, "no figure 'p50'"),
        ((victim, "--against", str(os.getpid()), "--consent"), 2, "contend itself runs in"),
        ((victim, "--against", victim, "--consent"), 2, "itself runs in"),
        ((victim, "--against", "nobody-is-this.service", "--consent"), 2, "no unit called"),
        (("--against", planted.guilty.name, "--consent"), 2, "no victim is named"),
        (("--against", planted.guilty.name, "--", "true"), 2, "whom does the command ask?"),
        (
            (victim, "--against", planted.guilty.name, "--log", str(planted.log), "--", "true"),
            2,
            "are two figures",
        ),
        ((victim, "--against", planted.guilty.name, "--rate", "5"), 2, "goes with --url"),
        ((victim, "--log", str(planted.log), "--url", "http://127.0.0.1:1/"), 2, "are two figures"),
        ((victim, "--against", planted.guilty.name, "--log", str(planted.log)), 2, "needs a pattern"),
        (
            (victim, "--against", planted.guilty.name, "--metrics", "http://127.0.0.1:1/m"),
            2,
            "needs a series",
        ),
        ((victim, "--against", planted.guilty.name, "--log", "/none", "--pattern", "a"), 2, "is no file"),
        (
            (victim, "--against", planted.guilty.name, "--metrics", "http://127.0.0.1:1/m", "--series", "a"),
            2,
            "exports nothing",
        ),
    ):
        assert cli.run(["prove", *words, "--runs", str(tmp_path / "runs")]) == code
        assert text in capsys.readouterr().err
    assert cli.run(["prove", victim, "--against", planted.guilty.name, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert (
        cli.run(["prove", victim, "--against", planted.guilty.name, "--dry-run", "--", "sleep", "0.1"]) == 0
    )
    assert "a command does not say how long it takes" in capsys.readouterr().out
    switch = treatments.cpu_weight([planted.guilty])
    assert f"{planted.guilty.name} held back: {switch.setting.name}: {switch.before} → {switch.during}" in out
    assert planted.weights() == before and not (tmp_path / "runs").exists()


HOLDS = """
import fcntl, sys, time
with open(sys.argv[1], "w") as file:
    while True:
        fcntl.flock(file, fcntl.LOCK_EX)
        time.sleep(0.01)
        fcntl.flock(file, fcntl.LOCK_UN)
        time.sleep(0.01)
"""
WAITS = """
import fcntl, sys, time
with open(sys.argv[1], "w") as file:
    while True:
        fcntl.flock(file, fcntl.LOCK_EX)
        end = time.thread_time() + 0.001
        while time.thread_time() < end: pass
        fcntl.flock(file, fcntl.LOCK_UN)
        time.sleep(0.002)
"""


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A victim, and who holds the lock that it needs half of the time, in a group that can be frozen."""
    need(os.geteuid() == 0, "run as root: somebody is frozen")
    layout = cgroups.read_layout()
    roots = [layout.v1["freezer"].root] if "freezer" in layout.v1 else [layout.v2.root] if layout.v2 else []
    group = roots[0] / f"holds-{os.getpid()}"
    group.mkdir()
    lock = tmp_path / "lock"
    started = [subprocess.Popen([sys.executable, "-c", code, str(lock)]) for code in (HOLDS, WAITS)]
    try:
        (group / "cgroup.procs").write_text(str(started[0].pid))
        yield started[1], group
    finally:
        for process in started:
            process.kill()
            process.wait()
        group.rmdir()


@pytest.mark.slow
@pytest.mark.alone
def test_who_holds_what_the_victim_waits_for_is_let_go_at_once(
    locked: tuple[subprocess.Popen[bytes], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    victim, group = locked
    name = f"/{group.name}"
    words = ("prove", str(victim.pid), "--against", name, "--by", "freeze", "--allow-freeze", "--consent")
    code = cli.run([*words, "--for", "90s", "--trial", "1s", "--seed", "5", "--runs", str(tmp_path / "runs")])
    err = capsys.readouterr().err
    [run] = (tmp_path / "runs").iterdir()
    rows = RunDirectory(run).rows()
    stalled = [row for row in rows if "stood still for" in row["error"]]
    assert stalled and code in (1, 3), err
    for row in stalled:
        assert row["treated"]["held"] == [name]
        still = re.search(r"for (\d+) ms", row["error"])
        assert still and int(still[1]) < 500, "0.2 s, and what a busy host adds"
    assert treatments.freeze([group]).before in ("0", "THAWED"), "it runs again"
    assert "the victim stood still" in err
