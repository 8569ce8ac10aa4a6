"""Settings of others are put back: at the end, after a kill at any moment, while contend is stopped, after all has died."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contend.engine.removal import REMOVERS
from contend.errors import CannotHonour, HostFailed
from contend.platforms import cgroups, interventions, procfs, resources, treatments
from contend.platforms.interventions import Interventions, Rewritten
from contend.platforms.treatments import Switch
from contend.store.ledger import Ledger, leftovers
from support.command_line import wait_for
from support.prerequisites import need

WITHIN_S = 1.0


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group with a weight for the CPU, of somebody else's."""
    need(os.geteuid() == 0, "run as root: groups of others are changed")
    layout = cgroups.read_layout()
    made = []
    for hierarchy in layout.hierarchies():
        if hierarchy.version != 2 and "cpu" not in hierarchy.controllers:
            continue
        path = hierarchy.root / f"somebody-{os.getpid()}"
        path.mkdir()
        made.append(path)
        if any((path / name).exists() for name in ("cpu.shares", "cpu.weight")):
            break
    try:
        yield made[-1]
    finally:
        for path in made:
            path.rmdir()


def weight(switch: Switch) -> str | None:
    return switch.setting.read()


def test_it_is_announced_changed_and_put_back(group: Path, run: Path) -> None:
    switch = treatments.cpu_weight([group])
    with Ledger(run / "ledger.ndjson") as ledger:
        of = Interventions("run", {"it": [switch]}, ledger, run)
        [row] = leftovers(ledger.path)
        assert (row["kind"], row["before"], row["during"]) == (treatments.GROUP, switch.before, switch.during)
        for _ in range(3):
            of.on(["it"], 1.0)
            assert weight(switch) == switch.during != switch.before
            assert of.off()
            assert weight(switch) == switch.before
            of.sham(1.0)
            assert weight(switch) == switch.before
        with pytest.raises(CannotHonour, match="another experiment"):
            Interventions("other", {"it": [switch]}, ledger, run)
        of.on(["it"], 1.0)
        of.close()
        of.close()
        assert weight(switch) == switch.before and leftovers(ledger.path) == []
        Interventions("other", {"it": [switch]}, ledger, run).close()


def test_a_treatment_that_was_over_before_its_trial_is_noticed(group: Path, run: Path) -> None:
    switch = treatments.cpu_weight([group])
    with Ledger(run / "ledger.ndjson") as ledger:
        of = Interventions("run", {"it": [switch]}, ledger, run)
        of.on(["it"], 0.1)
        wait_for(lambda: weight(switch) == switch.before, "watchdog", 5)
        assert not of.off()
        of.close()


def test_what_somebody_else_changes_is_noticed_and_theirs(group: Path, run: Path) -> None:
    switch = treatments.cpu_weight([group])
    theirs = str(int(switch.before) // 2)
    with Ledger(run / "ledger.ndjson") as ledger:
        of = Interventions("run", {"it": [switch]}, ledger, run)
        of.on(["it"], 1.0)
        switch.setting.write(theirs)
        with pytest.raises(Rewritten, match=f"was {switch.before} and is {theirs}"):
            of.off()
        with pytest.raises(Rewritten):
            of.on(["it"], 1.0)
        of.close()
        assert weight(switch) == theirs and leftovers(ledger.path) == []
        with pytest.raises(Rewritten):
            Interventions("run", {"it": [switch]}, ledger, run)
        assert leftovers(ledger.path) == []


EXPERIMENT = """
import random, sys, time
from pathlib import Path
from contend.platforms import treatments
from contend.platforms.interventions import Interventions
from contend.store.ledger import Ledger
group, run = map(Path, sys.argv[1:3])
draw = random.Random(int(sys.argv[3]))
with Ledger(run / "ledger.ndjson") as ledger:
    of = Interventions("run", {"it": [treatments.cpu_weight([group])]}, ledger, run)
    print("ready", flush=True)
    while True:
        of.on(["it"], float(sys.argv[4]))
        time.sleep(draw.random() * 0.02)
        if sys.argv[5] == "stays": time.sleep(60)
        of.off()
        time.sleep(draw.random() * 0.01)
"""


def experiment(
    group: Path, run: Path, seed: int, lasting_s: float = 5.0, how: str = ""
) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", EXPERIMENT, str(group), str(run), str(seed), str(lasting_s), how],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def back_within(switch: Switch, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while weight(switch) != switch.before and time.monotonic() < until:
        time.sleep(0.005)
    return weight(switch) == switch.before


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_nothing_changed(group: Path, run: Path) -> None:
    """The watchdog puts it back; the ledger then knows of nothing that is still to be."""
    switch, draw = treatments.cpu_weight([group]), random.Random()
    for number in range(6):
        process = experiment(group, run, number)
        time.sleep(draw.random() * 0.2)
        process.kill()
        process.communicate()
        assert back_within(switch, WITHIN_S), number
        assert all(not removed.was_there for removed in resources.remove_leftovers(run, REMOVERS))


def test_a_moment_does_not_last_longer_while_contend_is_stopped(group: Path, run: Path) -> None:
    switch = treatments.cpu_weight([group])
    process = experiment(group, run, 1, lasting_s=0.2, how="stays")
    try:
        wait_for(lambda: weight(switch) == switch.during, "treatment", 5)
        process.send_signal(signal.SIGSTOP)
        assert back_within(switch, 0.2 + interventions.SPARE_S + WITHIN_S)
    finally:
        process.kill()
        process.communicate()


def test_after_everything_died_the_ledger_puts_it_back(group: Path, run: Path) -> None:
    switch = treatments.cpu_weight([group])
    process = experiment(group, run, 1, lasting_s=60, how="stays")
    wait_for(lambda: weight(switch) == switch.during, "treatment", 5)
    [watchdog] = [
        pid
        for pid in procfs.descendants(process.pid)
        if b"restorer" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    os.kill(watchdog, signal.SIGKILL)
    process.kill()
    process.communicate()
    assert weight(switch) == switch.during
    [removed] = resources.remove_leftovers(run, REMOVERS)
    assert (removed.kind, removed.was_there, removed.why) == (treatments.GROUP, True, "")
    assert weight(switch) == switch.before
    assert resources.remove_leftovers(run, REMOVERS) == []


THREADS = """
import threading, time
for _ in range(3): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("ready", flush=True); time.sleep(60)
"""


def test_a_process_is_nicer_for_a_moment(run: Path) -> None:
    need(os.geteuid() == 0, "run as root: nice values are lowered again")
    with subprocess.Popen([sys.executable, "-c", THREADS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        [switch] = treatments.nice([process.pid])
        own = str(os.getpriority(os.PRIO_PROCESS, process.pid))
        assert (switch.before, switch.during) == (own, "19")
        with Ledger(run / "ledger.ndjson") as ledger:
            of = Interventions("run", {"it": [switch]}, ledger, run)
            of.on(["it"], 1.0)
            assert switch.setting.read() == "19", "all of its threads"
            of.off()
            assert switch.setting.read() == own
            of.on(["it"], 1.0)
            process.kill()
            process.wait()
            of.close()
            assert leftovers(ledger.path) == [], "of who has ended there is nothing to put back"


def test_a_ledger_that_names_a_stranger_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "cpu.shares"
    file.write_text("2")
    for kind, name in (
        (treatments.GROUP, str(file)),
        (treatments.GROUP, "/sys/fs/cgroup/../../etc/cpu.shares"),
        (treatments.GROUP, "/sys/fs/cgroup/cgroup.procs"),
        (treatments.NICE, "1"),
        (treatments.NICE, "/sys/fs/cgroup/cpu.shares"),
    ):
        row = {"boot_id": procfs.boot_id(), "before": "1024", "during": "2"}
        with pytest.raises(HostFailed, match="is not one of contend's"):
            treatments.restore(kind, name, row)
    assert file.read_text() == "2"
    assert (
        treatments.restore(treatments.NICE, "1:0", {"boot_id": "another", "before": "0", "during": "19"})
        is False
    )


def test_a_process_of_several_may_end_meanwhile(run: Path) -> None:
    need(os.geteuid() == 0, "run as root: nice values are lowered again")
    with subprocess.Popen(["sleep", "60"]) as stays, subprocess.Popen(["sleep", "60"]) as ends:
        switches = treatments.nice([stays.pid, ends.pid])
        own = str(os.getpriority(os.PRIO_PROCESS, stays.pid))
        with Ledger(run / "ledger.ndjson") as ledger:
            of = Interventions("run", {"it": switches}, ledger, run)
            of.on(["it"], 1.0)
            ends.kill()
            ends.wait()
            assert of.off(), "who is left was held back all the time"
            assert os.getpriority(os.PRIO_PROCESS, stays.pid) == int(own)
            of.on(["it"], 1.0)
            stays.kill()
            stays.wait()
            assert not of.off(), "nobody is left"
            with pytest.raises(Rewritten, match="gone"):
                of.on(["it"], 1.0)
            of.close()
            assert leftovers(ledger.path) == []
