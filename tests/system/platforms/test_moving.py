"""Processes that share their control group with others are moved into one of their own for moments, and back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from contend.errors import CannotHonour, HostFailed
from contend.platforms import cgroups, moving, procfs, treatments, weighed
from contend.platforms.interventions import Interventions
from contend.store.ledger import Ledger, leftovers
from support.command_line import wait_for
from support.prerequisites import need

Shared = tuple[Path, subprocess.Popen[bytes], subprocess.Popen[bytes]]
FORKS = """
import subprocess, sys, time
while True:
    subprocess.Popen(["sleep", "0.2"]).wait() if sys.argv[1] == "forks" else time.sleep(600)
"""


def hierarchy() -> Path:
    """The root of the hierarchy with weights for CPUs."""
    layout = cgroups.read_layout()
    if (one := layout.v1.get("cpu")) is not None:
        return one.root
    assert layout.v2 is not None
    return layout.v2.root


@pytest.fixture
def shared() -> Iterator[Shared]:
    """A group in which a process that forks is, and one more."""
    need(os.geteuid() == 0, "run as root: processes of others are moved")
    group = hierarchy() / f"session-{os.getpid()}"
    group.mkdir()
    started = [subprocess.Popen([sys.executable, "-c", FORKS, how]) for how in ("forks", "sleeps")]
    try:
        for process in started:
            (group / "cgroup.procs").write_text(str(process.pid))
        wait_for(lambda: bool(procfs.descendants(started[0].pid)), "a child")
        yield group, started[0], started[1]
    finally:
        for process in started:
            process.kill()
            process.wait()
        wait_for(lambda: not cgroups.members(group), "no child is left")
        group.rmdir()


def where(pid: int) -> Path | None:
    return next((group for group in weighed.groups_of(pid) if group.is_relative_to(hierarchy())), None)


def family(of: int) -> set[int]:
    return {of, *procfs.descendants(of)}


def test_a_family_is_moved_and_back_with_what_begins_meanwhile(shared: Shared, run: Path) -> None:
    group, process, other = shared
    switch = treatments.group(family(process.pid))
    own = Path(switch.during)
    assert (switch.before, own.parent) == (str(group), hierarchy()) and not own.exists()
    again = treatments.setting(moving.KIND, switch.setting.name)
    assert again == switch.setting
    with Ledger(run / "ledger.ndjson") as ledger:
        of = Interventions("run", {"it": [switch]}, ledger, run)
        for _ in range(3):
            of.on(["it"], 5.0)
            first = family(process.pid)
            assert where(process.pid) == own and cgroups.members(own) and where(other.pid) == group
            weight = next(path for name in ("cpu.weight", "cpu.shares") if (path := own / name).exists())
            assert weight.read_text().strip() in ("10", "102")
            wait_for(lambda seen=first: bool(family(process.pid) - seen), "another child")  # type: ignore[misc]
            assert of.off()
            assert not own.exists() and where(process.pid) == group
            of.sham(1.0)
            assert not own.exists() and where(process.pid) == group
        of.close()
        assert leftovers(ledger.path) == []
    left = cgroups.members(group)
    assert left >= {process.pid, other.pid}


def test_one_that_ends_where_it_was_moved_to_leaves_no_group(shared: Shared, run: Path) -> None:
    _, process, _ = shared
    switch = treatments.group(family(process.pid))
    with Ledger(run / "ledger.ndjson") as ledger:
        of = Interventions("run", {"it": [switch]}, ledger, run)
        of.on(["it"], 5.0)
        process.kill()
        process.wait()
        of.off()
        of.close()
        assert not Path(switch.during).exists() and leftovers(ledger.path) == []
    assert switch.setting.read() is None


DIES = """
import os, sys, time
from pathlib import Path
from contend.platforms import procfs, treatments
from contend.platforms.interventions import Interventions
from contend.store.ledger import Ledger
run, pid = Path(sys.argv[1]), int(sys.argv[2])
with Ledger(run / "ledger.ndjson") as ledger:
    of = Interventions("run", {"it": [treatments.group({pid, *procfs.descendants(pid)})]}, ledger, run)
    of.on(["it"], 60.0)
    print("on", flush=True)
    time.sleep(60)
"""


def test_they_are_back_after_a_kill(shared: Shared, run: Path) -> None:
    group, process, _ = shared
    switch = treatments.group(family(process.pid))
    words = [sys.executable, "-c", DIES, str(run), str(process.pid)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as experiment:
        assert experiment.stdout is not None and experiment.stdout.readline() == b"on\n"
        assert where(process.pid) == Path(switch.during)
        experiment.send_signal(signal.SIGKILL)
    wait_for(lambda: where(process.pid) == group, "the watchdog", 5)
    wait_for(lambda: not Path(switch.during).exists(), "no group is left", 5)


def test_who_is_not_to_be_moved(shared: Shared) -> None:
    group, process, other = shared
    with pytest.raises(CannotHonour, match="no process with its descendants"):
        treatments.group({process.pid, other.pid})
    quota = group / ("cpu.cfs_quota_us" if (group / "cpu.cfs_quota_us").exists() else "cpu.max")
    before = quota.read_text()
    quota.write_text("50000" if quota.name == "cpu.cfs_quota_us" else "50000 100000")
    with pytest.raises(CannotHonour, match="limits it: moved away it would be free of that"):
        treatments.group(family(process.pid))
    quota.write_text(before)
    other.kill()
    other.wait()
    wait_for(lambda: cgroups.members(group) <= family(process.pid), "nobody else is there")
    with pytest.raises(CannotHonour, match="its own control group already"):
        treatments.group(family(process.pid))


def test_a_group_that_is_gone_meanwhile_is_an_error(shared: Shared) -> None:
    """They are not left in a group of contend's."""
    group, process, other = shared
    switch = treatments.group(family(process.pid))
    switch.setting.write(switch.during)
    other.kill()
    other.wait()
    wait_for(lambda: not cgroups.members(group), "all others have ended")
    group.rmdir()
    try:
        with pytest.raises(HostFailed, match="is gone"):
            switch.setting.write(switch.before)
        assert where(process.pid) == hierarchy() and not Path(switch.during).exists()
    finally:
        group.mkdir()  # for who tidies up
