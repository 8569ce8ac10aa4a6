"""Nice values that processes got with their birth, while who began them was under treatment: taken back, and no others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from contend.engine.removal import REMOVERS
from contend.errors import HostFailed
from contend.platforms import heirs, procfs, resources, treatments
from contend.platforms.interventions import Interventions
from contend.platforms.restorer import Watchdog
from contend.platforms.treatments import ProcessNice, Switch
from contend.store.ledger import Ledger, leftovers
from support.command_line import wait_for
from support.prerequisites import need


class Shell:
    """One that begins what it is told to, in a session of its own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self.pid = self._process.pid

    def begins(self, command: str = "sleep 60 & echo $!") -> int:
        """The pid of what it has begun, which the command says."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self.says()

    def says(self) -> int:
        """The next pid that it, or what it has begun, says."""
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def ends(self) -> None:
        """Alone; what it has begun goes on."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        os.killpg(self.pid, signal.SIGKILL)
        self._process.communicate()


@pytest.fixture
def shell() -> Iterator[Shell]:
    need(os.geteuid() == 0, "run as root: nice values are lowered again")
    made = Shell()
    yield made
    made.close()


def nice(pid: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, pid)


OWN = nice(0)
NICE = "nice -n 19 sleep 60 & echo $!"
CHILD = "sh -c 'sleep 60 & echo $!; wait' &"
ORPHAN = "(sleep 60 & echo $!)"


def test_what_is_begun_meanwhile_gets_the_old_value_and_nobody_else(
    shell: Shell, run: Path, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go")
    waits = f"read line < {tmp_path / 'go'}; sleep 60 & echo $!; wait"
    before = [shell.begins(NICE), shell.begins(f"nice -n 19 sh -c '{waits}' & echo $!")]
    wait_for(lambda: [nice(pid) for pid in before] == [19, 19], "processes that are nice")
    with Ledger(run / "ledger.ndjson") as ledger:
        of = Interventions("run", {"it": treatments.nice([shell.pid])}, ledger, run, run)
        of.on(["it"], 5.0)
        meanwhile = [shell.begins(), shell.begins(CHILD), shell.begins(ORPHAN)]
        changed = shell.begins()
        os.setpriority(os.PRIO_PROCESS, changed, 7)
        (tmp_path / "go").write_text("now\n")
        before.append(shell.says())
        assert [nice(pid) for pid in (*meanwhile, *before)] == [19] * 6
        assert of.off()
        assert [nice(pid) for pid in (shell.pid, *meanwhile)] == [OWN] * 4
        assert [nice(pid) for pid in before] == [19] * 3, "what comes of who was nice before is so for itself"
        assert nice(changed) == 7
        of.sham(5.0)
        after = shell.begins(NICE)
        wait_for(lambda: nice(after) == 19, "process that is nice")
        assert of.off()
        of.close()
        assert nice(after) == 19
        assert leftovers(ledger.path) == []


THREADS = """
import os, sys, threading, time
sys.stdin.readline()
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
if os.fork() == 0:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    print(os.getpid(), flush=True)
time.sleep(60)
"""


def test_threads_that_are_begun_meanwhile_get_the_old_value(shell: Shell, run: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    program = shell.begins(f"{sys.executable} -W ignore -c '{THREADS}' < {tmp_path / 'go'} & echo $!")
    with (tmp_path / "go").open("w") as go, Ledger(run / "ledger.ndjson") as ledger:
        of = Interventions("run", {"it": treatments.nice([program])}, ledger, run, run)
        of.on(["it"], 5.0)
        go.write("now\n")
        go.flush()
        threads = [thread for pid in (program, shell.says()) for thread in heirs.threads_of(pid)]
        assert [nice(thread) for thread in threads] == [19] * 4
        assert of.off()
        assert [nice(thread) for thread in threads] == [OWN] * 4
        of.close()


def test_who_began_it_may_have_ended(shell: Shell, run: Path) -> None:
    stays = shell.begins()
    with Ledger(run / "ledger.ndjson") as ledger:
        of = Interventions("run", {"it": treatments.nice([shell.pid, stays])}, ledger, run, run)
        of.on(["it"], 5.0)
        child = shell.begins()
        shell.ends()
        assert of.off()
        assert [nice(stays), nice(child)] == [OWN, OWN]
        of.close()


HELD = """
import sys, time
from pathlib import Path
from contend.platforms import treatments
from contend.platforms.interventions import Interventions
from contend.store.ledger import Ledger
run = Path(sys.argv[1])
with Ledger(run / "ledger.ndjson") as ledger:
    Interventions("run", {"it": treatments.nice([int(sys.argv[2])])}, ledger, run, run).on(["it"], 60.0)
    print("on", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def held(shell: Shell, run: Path) -> Iterator[subprocess.Popen[str]]:
    """An experiment that holds the shell back."""
    process = subprocess.Popen(
        [sys.executable, "-c", HELD, str(run), str(shell.pid)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "on\n"
    yield process
    process.kill()
    process.communicate()


def test_the_watchdog_does_so_too(shell: Shell, held: subprocess.Popen[str]) -> None:
    meanwhile = [shell.begins(), shell.begins(CHILD), shell.begins(ORPHAN)]
    assert [nice(pid) for pid in meanwhile] == [19] * 3
    held.kill()
    wait_for(lambda: [nice(pid) for pid in meanwhile] == [OWN] * 3, "watchdog", 5)
    assert nice(shell.pid) == OWN


def test_the_ledger_does_so_too(shell: Shell, run: Path, held: subprocess.Popen[str]) -> None:
    """After everything has died. Where all is back already, who is nice by now is so for itself."""
    meanwhile = [shell.begins(), shell.begins(CHILD), shell.begins(ORPHAN)]
    [watchdog] = procfs.descendants(held.pid)
    for pid in (watchdog, held.pid):
        os.kill(pid, signal.SIGKILL)
    held.wait()
    assert [nice(pid) for pid in (shell.pid, *meanwhile)] == [19] * 4
    rows = leftovers(run / "ledger.ndjson")
    [removed] = resources.remove_leftovers(run, REMOVERS)
    assert (removed.kind, removed.was_there, removed.why) == (treatments.NICE, True, "")
    assert [nice(pid) for pid in (shell.pid, *meanwhile)] == [OWN] * 4
    after = shell.begins(NICE)
    wait_for(lambda: nice(after) == 19, "process that is nice")
    assert treatments.restore(treatments.NICE, rows[0]["name"], rows[0]) is False
    assert nice(after) == 19


def test_a_process_that_is_nice_in_part_is_put_back(run: Path) -> None:
    """Threads are changed one after another, and who changes them may die in between."""
    need(os.geteuid() == 0, "run as root: nice values are lowered again")
    code = """
import threading, time
for _ in range(2): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print(flush=True); time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            [switch] = treatments.nice([process.pid])
            threads = heirs.threads_of(process.pid)
            row = {"boot_id": procfs.boot_id(), "before": switch.before, "during": switch.during}
            os.setpriority(os.PRIO_PROCESS, threads[0], 19)
            assert treatments.stands(switch)
            assert treatments.restore(treatments.NICE, switch.setting.name, row)
            assert [nice(thread) for thread in threads] == [OWN] * 3
            os.setpriority(os.PRIO_PROCESS, threads[0], 19)
            os.setpriority(os.PRIO_PROCESS, threads[1], 7)
            assert treatments.restore(treatments.NICE, switch.setting.name, row)
            assert [nice(thread) for thread in threads] == [OWN, 7, OWN], "another value is somebody else's"
            assert not treatments.stands(switch)
        finally:
            process.kill()


def test_what_cannot_be_put_back_stays_on(shell: Shell, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger(run / "ledger.ndjson") as ledger:
        of = Interventions("run", {"it": treatments.nice([shell.pid])}, ledger, run, run)
        of.on(["it"], 5.0)
        child = shell.begins()
        renice = heirs.renice

        def refused(thread: int, value: int, pid: int) -> None:
            if pid == child:
                raise HostFailed(f"cannot make process {pid} nice {value}: Operation not permitted")
            renice(thread, value, pid)

        moments: list[float | None] = []
        monkeypatch.setattr(Watchdog, "until", lambda self, moment, since=None: moments.append(moment))
        with monkeypatch.context() as patched:
            patched.setattr(heirs, "renice", refused)
            with pytest.raises(HostFailed, match=f"cannot make process {child} nice"):
                of.off()
        assert [nice(shell.pid), nice(child)] == [OWN, 19]
        assert moments == [], "the watchdog tries it as well when its moment comes"
        of.off()
        assert nice(child) == OWN and moments == [None]
        of.close()
        assert leftovers(ledger.path) == []


def test_a_process_of_the_same_number_is_another() -> None:
    status = procfs.stat(os.getpid())
    assert status is not None
    assert heirs.Treated.now(status.pid, status.start_ticks, "0", "19") == heirs.Treated(
        status.pid, status.start_ticks, status.session, 0, 19
    )
    assert heirs.Treated.now(status.pid, status.start_ticks + 1, "0", "19") is None
    another = Switch(ProcessNice(status.pid, status.start_ticks + 1), "0", "19")
    assert treatments.treated([another]) == {}
    assert not treatments.take_back(another)
