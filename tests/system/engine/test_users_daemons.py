"""What a user's commands have left running is the user's: it outlives the run, Ctrl-C and `contend destroy`."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from contend.platforms import procfs
from support.command_line import Home, rows, wait_for

# How a service comes to outlive the command that started it. Each writes its pid, and ends by itself after two minutes.
WAYS = {
    "nohup": "nohup sleep 120 >/dev/null 2>&1 & echo $! >{pid}",
    "setsid": "setsid sleep 120 >/dev/null 2>&1 & echo $! >{pid}",
    "double fork": "( (echo $(exec sh -c 'echo $PPID') >{pid}; exec setsid sleep 120) >/dev/null 2>&1 & )",
}
SHORT = ("--blocks", "2", "--target", "none", "--seed", "1")


def interrupted(home: Home, pid: Path, *words: str, by: int = signal.SIGINT) -> int:
    """`contend ab` that is sent a signal amid its first trial: its exit status."""
    with home.start("ab", *words, "--", "sleep 30", "--vs", "sleep 31") as process:
        try:
            wait_for(lambda: list(home.runs.glob("*/work/trials/*/stdout-0")), "trial")
            assert path_is_whole(pid)
            process.send_signal(by)
            process.communicate(timeout=60)
        finally:
            process.kill()
    return int(process.returncode)


@pytest.fixture
def pid(tmp_path: Path) -> Iterator[Path]:
    """Where a service writes its pid; whatever is left of it then ends."""
    path = tmp_path / "service.pid"
    yield path
    for number in path.read_text().split() if path.exists() else ():
        with suppress(ProcessLookupError):
            os.kill(int(number), signal.SIGKILL)


def alive(pid: Path) -> bool:
    return path_is_whole(pid) and bool(list(procfs.processes([int(pid.read_text())])))


def path_is_whole(pid: Path) -> bool:
    return pid.exists() and pid.read_text().endswith("\n")


def once(pid: Path, way: str) -> str:
    """Start it, unless it is there."""
    return f"[ -e {pid} ] || {{ {WAYS[way].format(pid=pid)} ; }}; while ! [ -s {pid} ]; do sleep 0.01; done"


def in_groups_of_contend(pid: Path) -> bool:
    return "contend." in Path(f"/proc/{int(pid.read_text())}/cgroup").read_text(encoding="utf-8")


@pytest.mark.parametrize("way", WAYS)
def test_what_prepare_has_started_goes_on(way: str, tmp_path: Path, pid: Path) -> None:
    home = Home(tmp_path)
    home("ab", *SHORT, "--prepare", once(pid, way), "--", "true", "--vs", "sleep 0.01").fine()
    assert alive(pid), "ended with the run"
    assert not in_groups_of_contend(pid)
    home("destroy", str(home.the_run())).fine()
    assert alive(pid), "ended by destroy"
    home.nothing_left()


@pytest.mark.parametrize("way", WAYS)
def test_it_goes_on_after_ctrl_c(way: str, tmp_path: Path, pid: Path) -> None:
    home = Home(tmp_path)
    assert interrupted(home, pid, "--prepare", once(pid, way)) == 3
    assert alive(pid), "ended by Ctrl-C"
    home("destroy", str(home.the_run())).fine()
    assert alive(pid), "ended by destroy"
    home.nothing_left()


def test_it_goes_on_after_kill_9_and_destroy(tmp_path: Path, pid: Path) -> None:
    home = Home(tmp_path)
    interrupted(home, pid, "--prepare", once(pid, "nohup"), by=signal.SIGKILL)
    home("destroy", str(home.the_run())).fine()
    assert alive(pid)
    home.nothing_left()


@pytest.mark.parametrize("starts", ["prepare", "command"])
def test_stop_ends_it_after_every_trial(starts: str, tmp_path: Path, pid: Path) -> None:
    home = Home(tmp_path)
    service = f"{once(pid, 'nohup')}; ! [ -e {tmp_path}/stopped ] || date >>{tmp_path}/again"
    stop = f"kill $(cat {pid}); rm {pid}; echo >>{tmp_path}/stops"
    before = ("--prepare", service) if starts == "prepare" else ()
    line = "true" if starts == "prepare" else service
    said = home("ab", *SHORT, *before, "--stop", stop, "--shell", "--", line, "--vs", f"{line}; :").fine()
    assert not pid.exists()
    assert len((tmp_path / "stops").read_text().splitlines()) == len(rows(home.the_run())), said
    home.nothing_left()


def test_stop_runs_after_ctrl_c_too(tmp_path: Path, pid: Path) -> None:
    home = Home(tmp_path)
    stop = f"kill $(cat {pid}); mv {pid} {tmp_path}/stopped.pid"
    interrupted(home, pid, "--prepare", once(pid, "setsid"), "--stop", stop)
    assert path_is_whole(tmp_path / "stopped.pid")
    assert not alive(tmp_path / "stopped.pid")
    assert not pid.exists()
    home.nothing_left()


def test_a_stop_that_fails_is_told(tmp_path: Path) -> None:
    home = Home(tmp_path)
    said = home(
        "ab", *SHORT, "--stop", "echo no such service >&2; exit 4", "--", "true", "--vs", "sleep 0.01"
    )
    said.error(1, "stopping what was left by a trial of", "exit status 4", "no such service")


@pytest.mark.parametrize("way", WAYS)
def test_what_a_measured_command_leaves_goes_on_and_is_told(way: str, tmp_path: Path, pid: Path) -> None:
    home = Home(tmp_path)
    line = once(pid, way)
    said = home(
        "ab", *SHORT, "--name", "starter", "--name", "other", "--shell", "--", line, "--vs", "true"
    ).fine()
    assert alive(pid), said
    assert not in_groups_of_contend(pid)
    found = [left for row in rows(home.the_run()) for left in row.get("left_running", ())]
    assert {left["pid"] for left in found} == {int(pid.read_text())}
    assert "starter left 1 process running" in said.err, said
    assert "--stop CMD" in said.err
    home("destroy", str(home.the_run())).fine()
    assert alive(pid)
    home.nothing_left()


def test_what_ends_right_after_its_command_was_not_left(tmp_path: Path) -> None:
    home = Home(tmp_path)
    said = home("ab", *SHORT, "--shell", "--", "sleep 0.05 & true", "--vs", "true").fine()
    assert not [row for row in rows(home.the_run()) if row.get("left_running")], said


def test_a_command_that_is_not_done_is_ended_with_all_it_started(tmp_path: Path, pid: Path) -> None:
    """It never came to leave anything: its own timeout ended it."""
    home = Home(tmp_path)
    line = f"{once(pid, 'setsid')}; sleep 60"
    home("ab", "--timeout", "2s", "--shell", "--", line, "--vs", "true").error(1, "did not end within")
    deadline = time.monotonic() + 5
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(pid)
    home.nothing_left()
