"""What a user's command leaves on the bare host, with groups and without: let go, and spared by all that ends processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from contend.platforms import procfs
from contend.platforms.bare import BareHost, BarePlatform
from contend.platforms.base import Command, HostSpec, Left, Releases
from contend.platforms.cgroups import Force
from contend.store.ledger import Ledger, leftovers


@pytest.fixture(params=["auto", "none"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BareHost]:
    cgroups: Force = request.param
    with Ledger(tmp_path / "ledger.ndjson") as ledger:
        platform = BarePlatform(f"unit-{os.getpid()}", ledger, cgroups=cgroups)
        try:
            yield platform.prepare(HostSpec("victim", "victim", directory=tmp_path))
        finally:
            platform.close()
    assert leftovers(tmp_path / "ledger.ndjson") == []


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "pids"
    yield path
    for pid in pids(path):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def pids(services: Path) -> list[int]:
    return [int(word) for word in services.read_text().split()] if services.exists() else []


def living(services: Path) -> set[int]:
    return {process.pid for process in procfs.processes(pids(services))}


def shell(line: str, directory: Path, left: Left) -> Command:
    return Command(("sh", "-c", line), directory, directory / "out", directory / "err", left=left)


LEAVES = "setsid sleep 60 >/dev/null 2>&1 & echo $! >>{0}; nohup sleep 61 >/dev/null 2>&1 & echo $! >>{0}"


def test_it_is_let_go_and_outlives_everything(host: BareHost, tmp_path: Path, services: Path) -> None:
    assert isinstance(host, Releases)
    assert host.run(shell(LEAVES.format(services), tmp_path, "released")).wait(10).code == 0
    assert {(found.pid, found.name) for found in host.release()} == {(pid, "sleep") for pid in pids(services)}
    assert host.pids() == ()
    assert host.release() == ()
    # A later command that is ended takes nothing of it along.
    assert host.run(shell("sleep 60", tmp_path, "released")).wait(0.1).timed_out
    assert len(living(services)) == 2
    host.close()
    assert len(living(services)) == 2


CUT = """setsid sh -c 'printf "\\320\\267\\320" >/proc/$$/comm; sleep 63 & echo $! $$ >>{0}; wait' >/dev/null 2>&1 &
until [ -s {0} ]; do sleep 0.01; done"""


def test_its_name_may_be_no_text(host: BareHost, tmp_path: Path, services: Path) -> None:
    """The kernel keeps 15 bytes of a name, and cuts letters of two bytes in the middle."""
    assert host.run(shell(CUT.format(services), tmp_path, "released")).wait(10).code == 0
    assert {found.name for found in host.release()} == {"\u0437\\xd0", "sleep"}


def test_what_still_runs_is_not_let_go(host: BareHost, tmp_path: Path, services: Path) -> None:
    server = host.run(shell("sleep 60 & sleep 62 & wait", tmp_path, "ended"))
    deadline = time.monotonic() + 10
    while len(host.pids()) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert host.run(shell(LEAVES.format(services), tmp_path, "released")).wait(10).code == 0
    assert len(host.release()) == 2
    assert len(host.pids()) == 3
    host.close()
    assert not server.alive()
    assert len(living(services)) == 2


def test_contends_own_are_ended(host: BareHost, tmp_path: Path, services: Path) -> None:
    assert host.run(shell(LEAVES.format(services), tmp_path, "ended")).wait(10).code == 0
    host.close()
    assert living(services) == set()


def test_outside_is_outside(host: BareHost, tmp_path: Path, services: Path) -> None:
    line = LEAVES.format(services) + "; cat /proc/self/cgroup; echo mark=$CONTEND_RUN"
    assert host.run(shell(line, tmp_path, "outside")).wait(10).code == 0
    said = (tmp_path / "out").read_text()
    assert "contend." not in said
    assert said.endswith("mark=\n")
    assert host.pids() == ()
    host.close()
    assert len(living(services)) == 2


def test_one_that_is_still_running_is_ended_with_its_host(host: BareHost, tmp_path: Path) -> None:
    process = host.run(shell("sleep 60", tmp_path, "outside"))
    host.close()
    assert not process.alive()
