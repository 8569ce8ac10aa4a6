"""Whom a nice value counts against: sessions of their own, where the kernel makes a group of each, and control groups."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from contend.cli.prove_ import scenario_of
from contend.errors import CannotHonour
from contend.platforms import cgroups, treatments, weighed
from contend.studies.prove import holding
from support.prerequisites import need

pytestmark = pytest.mark.system

OPTIONS = {"url": None, "rate": None, "length": "1m", "by": "nice", "cpus": None, "trial": "1s", "seed": None}


@pytest.fixture
def three() -> Iterator[list[int]]:
    """Two processes of one session, and one of another."""
    words = [
        sys.executable,
        "-c",
        "import subprocess, sys, time; subprocess.Popen(['sleep', '60']); print(flush=True); time.sleep(60)",
    ]
    started = [subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) for _ in range(2)]
    try:
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()
        (child,) = Path(f"/proc/{started[0].pid}/task/{started[0].pid}/children").read_text().split()
        yield [started[0].pid, int(child), started[1].pid]
    finally:
        for process in started:
            os.killpg(process.pid, 9)
            process.communicate()


def test_sessions_are_apart_where_the_kernel_groups_them(three: list[int]) -> None:
    first, child, other = three
    assert weighed.apart([first], [child]) is None
    need(
        weighed.ENABLED.exists() and weighed.ENABLED.read_text().strip() == "1", "a kernel with autogroups on"
    )
    if weighed.group_of(first).startswith("/autogroup"):
        groups = weighed.apart([first], [other])
        assert groups is not None and len(set(groups)) == 2
        with pytest.raises(CannotHonour, match="means nothing to"):
            holding.switches(scenario_of(str(other), (str(first),), **OPTIONS))
    assert weighed.group_of(2**22 + 1) == ""


def groups_of_cpus() -> Path:
    """The root of the control groups with weights of CPUs."""
    layout = cgroups.read_layout()
    if layout.v2 is not None and "cpu" in layout.v2.controllers:
        return layout.v2.root
    return layout.v1["cpu"].root


@pytest.fixture
def nested(three: list[int]) -> Iterator[tuple[list[int], Path]]:
    """A folder of groups with one for the first process; where the others are is for the test to say."""
    need(os.geteuid() == 0, "run as root: control groups are made")
    folder = groups_of_cpus() / f"contend-nested-{os.getpid()}"
    made = [folder, folder / "suspect", folder / "beside", folder.with_name(f"{folder.name}-else")]
    try:
        for group in made:
            group.mkdir()
            if group == folder and (folder / "cgroup.subtree_control").exists():
                (folder / "cgroup.subtree_control").write_text("+cpu")
        for pid in three[:2]:
            (made[1] / "cgroup.procs").write_text(str(pid))
        yield three, folder
    finally:
        for pid in three:
            (folder.parent / "cgroup.procs").write_text(str(pid))
        for group in reversed(made):
            group.rmdir()


def test_a_weight_counts_among_what_is_below_one_group(nested: tuple[list[int], Path]) -> None:
    """A suspect alone in its folder loses nothing to a victim elsewhere: to say that it costs nothing would be wrong."""
    (*_, victim), folder = nested
    suspect, elsewhere = f"/{folder.name}/suspect", folder.with_name(f"{folder.name}-else")
    for by in ("weight", "auto"):
        options = {**OPTIONS, "by": by}
        for home in (folder.parent, elsewhere):
            (home / "cgroup.procs").write_text(str(victim))
            with pytest.raises(CannotHonour, match="means nothing to") as refused:
                holding.switches(scenario_of(str(victim), (suspect,), **options))
            assert "--by quota" in refused.value.hint
        (folder / "beside" / "cgroup.procs").write_text(str(victim))
        [[switch]] = holding.switches(scenario_of(str(victim), (suspect,), **options)).values()
        assert switch.setting.name.startswith(str(folder / "suspect"))
    (elsewhere / "cgroup.procs").write_text(str(victim))
    [[quota]] = holding.switches(scenario_of(str(victim), (suspect,), **{**OPTIONS, "by": "quota"})).values()
    assert quota.setting.name.startswith(str(folder / "suspect"))


def test_who_cannot_be_held_back_on_the_cpu_is_not_judged_by_disks_alone(
    nested: tuple[list[int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else "it takes no CPU time" would be said of one that could take all."""
    (*_, victim), folder = nested
    (folder / "beside" / "cgroup.procs").write_text(str(victim))
    weight = next(
        file for name in ("cpu.weight", "cpu.shares") if (file := folder / "suspect" / name).exists()
    )
    weight.write_text("1" if weight.name == "cpu.weight" else "2")
    disks = treatments.Switch(treatments.GroupLimit(folder / "suspect" / "io.weight"), "100", "10")
    monkeypatch.setattr(treatments, "io_weight", lambda groups: disks)
    with pytest.raises(CannotHonour, match="at its least already"):
        suspects = (f"/{folder.name}/suspect",)
        holding.switches(scenario_of(str(victim), suspects, **{**OPTIONS, "by": "auto"}))


def test_nothing_lighter_holds_back_a_real_time_process(three: list[int]) -> None:
    suspect, child, victim = three
    assert weighed.of_real_time([suspect, child]) is None
    try:
        os.sched_setscheduler(child, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        need(False, "a right to real-time priorities")
    assert weighed.of_real_time([suspect, child]) == child
    for by in ("auto", "weight", "nice", "quota"):
        with pytest.raises(CannotHonour, match="real-time priority"):
            holding.switches(scenario_of(str(victim), (str(suspect),), **{**OPTIONS, "by": by}))


def test_most_disks_go_by_no_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = tmp_path / "8:0" / "queue"
    queue.mkdir(parents=True)
    monkeypatch.setattr(weighed, "BLOCK_DEVICES", tmp_path)
    for text, weighing in (("none [mq-deadline] bfq\n", set()), ("none mq-deadline [bfq]\n", {"bfq"})):
        (queue / "scheduler").write_text(text)
        assert weighed.disk_schedulers(["8:0"]) == weighing
    assert weighed.disk_schedulers(["8:1"]) == set()
