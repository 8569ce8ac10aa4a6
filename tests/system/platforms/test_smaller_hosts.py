"""A host made smaller for real: CPUs go offline and come back whatever ends the run, and others get back what they had."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contend.platforms import hotplug, masks
from contend.platforms.topology import Topology
from support.command_line import Home, check_files, rows, wait_for
from support.prerequisites import need

pytestmark = pytest.mark.alone


@pytest.fixture
def contend(tmp_path: Path) -> Iterator[Home]:
    need(os.geteuid() == 0, "root")
    need(shutil.which("podman") or shutil.which("runc"), "podman or runc")
    need(len(Topology.read().cpus) >= 2, "two CPUs")
    home = Home(tmp_path)
    try:
        yield home
    finally:  # whatever became of the test, and of contend: the machine is others' too
        if list(tmp_path.glob(f"**/{hotplug.FILE}")):
            home("destroy", "--all", "--force")
    home.nothing_left()


@pytest.fixture
def going() -> tuple[int, ...]:
    """The CPUs that a host of one loses; there may be machines whose CPUs stay."""
    topology = Topology.read()
    gone = set(topology.ids) - set(hotplug.staying(topology, 1, hotplug.fixed(topology.ids)))
    why = hotplug.why_not(gone, cpusets=masks.cpuset_root())
    need(not why, why)
    return tuple(sorted(gone))


@pytest.fixture
def bystander(going: tuple[int, ...]) -> Iterator[int]:
    """Somebody else's process, busy on a CPU that goes: the kernel moves it, and does not move it back."""
    with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as process:
        os.sched_setaffinity(process.pid, {going[0]})
        yield process.pid
        process.kill()


@pytest.fixture
def group(going: tuple[int, ...]) -> Iterator[Path | None]:
    """Somebody else's group, which version 1 of cgroups narrows for good."""
    root = masks.cpuset_root()
    if root is None:
        yield None
        return
    made = Path(tempfile.mkdtemp(prefix="somebody-elses-", dir=root))
    for name in ("cpuset.cpus", "cpuset.mems"):
        (made / name).write_text((root / name).read_text())
    yield made
    made.rmdir()


def words(blocks: int, *settings: str) -> list[str]:
    asked = [
        "sizes=1",
        "hosts=1",
        "measure.target=null",
        f"measure.blocks={blocks}",
        "measure.pilot=0",
    ]
    asked += ["measure.design=pairs", *settings]
    return ["run", "platform-overhead", *(word for setting in asked for word in ("--set", setting))]


def test_the_host_is_as_small_as_asked(
    contend: Home, going: tuple[int, ...], bystander: int, group: Path | None
) -> None:
    """And containers, groups, sets and what stands beside are as asked on either, and as before in the end."""
    before = hotplug.online(), group and (group / "cpuset.cpus").read_text()
    said = contend.anew(*words(1, "apps=tiny, burner"), timeout=240).fine()
    run = contend.the_run()
    check_files(run)
    assert (hotplug.online(), group and (group / "cpuset.cpus").read_text()) == before
    assert os.sched_getaffinity(bystander) == {going[0]}
    every = list(Topology.read().ids)
    left = [cpu for cpu in every if cpu not in going]
    given = {row["cell"].partition("|")[2]: row["honoured"] for row in rows(run)}
    assert {name: got["host"]["cpus"] for name, got in given.items()} == {
        f"{place} 1 CPU of {n}": cpus
        for place in ("bare", "container vanilla", "container pinned")
        for n, cpus in ((len(every), every), (1, left))
    } | {f"bare 1 CPU of {len(every)} (control)": every}
    for name, got in given.items():
        small = name.endswith("of 1")
        assert got["host"]["by"] == ("offline" if small else "whole")
        assert got["host"]["online"] == ("0" if small and left == [0] else got["host"]["online"])
        if small:
            assert got["cpus"] == left, name
    assert given["container vanilla 1 CPU of 1"]["quota_cpus"] == 1
    assert "the host of 1 CPU is this one with the others taken offline" in " ".join(said.out.split())
    document = json.loads((run / "findings.json").read_text())
    assert {e["kind"] for e in document["overhead"]["effects"]} >= {"CHR", "CHR × pinning"}
    probe = [json.loads(line) for line in (run / "ledger.ndjson").read_text().splitlines()]
    (cost,) = (row for row in probe if row["event"] == "probe-cost")
    assert cost["samples"] > 0 and cost["errors"] == 0, "who samples goes on with the CPUs that are left"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_cpus_come_back_after_any_end(
    contend: Home, going: tuple[int, ...], bystander: int, group: Path | None, how: signal.Signals
) -> None:
    need(set(Topology.read().ids) - set(going) == {0}, "another CPU than 0 stays here")
    before = hotplug.online(), group and (group / "cpuset.cpus").read_text()
    process = contend.start(*words(40, "app=sleep 0.2"))
    try:
        # Long enough for containers to stand on what is left.
        wait_for(lambda: hotplug.online() == (0,), "smaller host")
        time.sleep(0.5)
        os.kill(process.pid, how)
        process.communicate(timeout=60)
        wait_for(lambda: hotplug.online() == before[0], "CPU that is back by itself")
        wait_for(lambda: not list(contend.the_run().glob(hotplug.FILE)), "groups and threads as before")
        if how == signal.SIGKILL:
            contend("destroy", "--all").fine()
    finally:
        process.kill()
        contend("destroy", "--all", "--force")
    assert (hotplug.online(), group and (group / "cpuset.cpus").read_text()) == before
    assert os.sched_getaffinity(bystander) == {going[0]}
    assert not list(contend.the_run().glob(hotplug.FILE))


def test_a_killed_run_goes_on_with_the_whole_host(contend: Home, going: tuple[int, ...]) -> None:
    process = contend.start(*words(2, "app=sleep 0.2", "provisioning=pinned"))
    try:
        wait_for(lambda: len(hotplug.online()) == 1, "smaller host")
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        contend("run", "--resume", str(contend.the_run()), timeout=240).fine()
    finally:
        contend("destroy", "--all", "--force")
    assert set(hotplug.online()) >= set(going)
    done = [row for row in rows(contend.the_run()) if row["phase"] == "counted"]
    assert len(done) == 2 * 5 and all(row["status"] == "ok" for row in done)


def test_confined_where_no_cpu_is_to_go(contend: Home) -> None:
    said = contend(*words(1, "hosts_by=confined", "app=nproc"), timeout=240).fine()
    small = {row["cell"].partition("|")[2]: row["honoured"] for row in rows(contend.the_run())}
    confined = {name: got for name, got in small.items() if name.endswith("of 1 confined")}
    assert len(confined) == 3
    (cpus,) = {tuple(got["cpus"]) for got in confined.values()}
    assert len(cpus) == 1 and len(hotplug.online()) == len(Topology.read().cpus)
    assert all(got["host"]["by"] == "confined" for got in confined.values())
    assert "no CPU was taken offline; the kernel had all" in " ".join(said.out.split())
