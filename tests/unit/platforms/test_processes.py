"""Starting, waiting and ending, with real processes: the kernel is the thing under test."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from contend import _native
from contend.errors import BadInput, TrialFailed
from contend.platforms import procfs
from contend.platforms.base import Command
from contend.platforms.processes import Confines, LocalProcess, launch, signal_number

# A process that carries a run's mark is a stray to `contend destroy --all` of a test beside it: no run is claimed here.
pytestmark = pytest.mark.one_of("strays")


def start(tmp_path: Path, script: str, place: Confines | None = None, **env: str) -> LocalProcess:
    command = Command(("sh", "-c", script), tmp_path, tmp_path / "out", tmp_path / "err", env)
    return launch(command, place or Confines(), {procfs.MARKER: "unit"})


def out(tmp_path: Path) -> str:
    return (tmp_path / "out").read_text()


def until(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def test_the_child_starts_clean(tmp_path: Path) -> None:
    leaked = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(leaked, True)
    try:
        ended = start(
            tmp_path,
            "grep -E 'SigBlk|SigIgn' /proc/self/status; ls /proc/$$/fd; cat; ps -o sid= -p $$; echo $$",
        ).wait(10)
    finally:
        os.close(leaked)
    lines = out(tmp_path).split()
    assert ended.code == 0
    assert lines[:4] == ["SigBlk:", "0000000000000000", "SigIgn:", "0000000000000000"]
    descriptors = lines[4:-2]
    assert descriptors[:3] == ["0", "1", "2"]
    assert str(leaked) not in descriptors
    assert lines[-1] == lines[-2], "it leads a session of its own"


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"argv": ["no-such-program"]}, FileNotFoundError, "find the program on PATH"),
        ({"argv": ["/etc/passwd"]}, PermissionError, "execute the program"),
        ({"cwd": "/no/such/place"}, FileNotFoundError, "change to the directory"),
        ({"cpus": [60000]}, OSError, "set the CPU affinity"),
        ({"cgroup_procs": ["/no/such/group"]}, FileNotFoundError, "open"),
        ({"cgroup_procs": ["/dev/full"]}, OSError, "enter the cgroup"),
        ({"netns": "/etc/passwd"}, OSError, "enter the network namespace"),
        ({"stdout_fd": 999}, OSError, "duplicate a file descriptor"),
        ({"argv": []}, ValueError, "argv is empty"),
        ({"argv": ["true", "a\0b"]}, ValueError, "NUL"),
        ({"cpus": []}, ValueError, "cpus is empty"),
        ({"cpus": [10**9]}, ValueError, "there is no CPU"),
    ],
)
def test_a_failure_names_its_step_and_leaves_nothing(
    change: dict[str, object], error: type[Exception], words: str
) -> None:
    arguments: dict[str, object] = {
        "argv": ["true"],
        "env": dict(os.environ),
        "cwd": "/",
        "stdout_fd": 1,
        "stderr_fd": 2,
        "cgroup_procs": [],
        "cpus": None,
        "netns": None,
    }
    open_before, children_before = len(os.listdir("/proc/self/fd")), children()  # noqa: PTH208
    with pytest.raises(error, match=words):
        _native.spawn(**(arguments | change))  # type: ignore[arg-type]
    assert len(os.listdir("/proc/self/fd")) == open_before  # noqa: PTH208
    assert children() <= children_before, "other tests' may have ended meanwhile"


def children() -> set[int]:
    """Of this process, those that nobody has waited for yet too."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # a thread of another test's that has ended meanwhile
            found.update(map(int, (task / "children").read_text().split()))
    return found


def test_children_are_seen() -> None:
    before = children()
    pid, _ = _native.spawn(["true"], dict(os.environ), "/", 1, 2, [], None, None)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert children() == before | {pid}
    os.waitpid(pid, 0)


def test_started_is_just_before_the_program() -> None:
    before = time.monotonic_ns()
    pid, started_ns = _native.spawn(["true"], dict(os.environ), "/", 1, 2, [], None, None)
    assert before < started_ns < time.monotonic_ns()
    os.waitpid(pid, 0)


def test_the_mark_is_seen_while_the_process_executes_another_program(tmp_path: Path) -> None:
    again = tmp_path / "again"
    again.write_text('#!/bin/sh\nexec "$0"\n')
    again.chmod(0o700)
    process = start(tmp_path, f'exec "{again}"')
    try:
        seen = [procfs.marks(process.pid) for _ in range(2000)]
    finally:
        process.stop("KILL")
    assert set(seen) == {("unit", "")}


def test_a_process_with_neither_environment_nor_mark_is_not_waited_for() -> None:
    held = subprocess.Popen(["sleep", "60"], env={})
    try:
        assert until(lambda: procfs.executable(held.pid) not in (None, procfs.executable(os.getpid())))
        assert procfs.marks(held.pid) is None
        assert not procfs.executing(held.pid)
    finally:
        held.kill()
        held.wait()


def test_a_missing_program_is_a_failed_trial_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(TrialFailed, match="no-such-program") as failed:
        launch(Command(("no-such-program",), tmp_path, tmp_path / "o", tmp_path / "e"), Confines(), {})
    assert "installed" in failed.value.hint


def test_the_zombie_can_be_read_before_it_is_reaped(tmp_path: Path) -> None:
    seen: list[tuple[int, str]] = []
    process = start(tmp_path, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
    process.on_exit = lambda pid: seen.append((pid, Path(f"/proc/{pid}/schedstat").read_text()))
    process.wait(20)
    process.wait(20)
    ((pid, schedstat),) = seen
    assert pid == process.pid
    assert int(schedstat.split()[0]) > 1_000_000


def test_wall_and_cpu_time(tmp_path: Path) -> None:
    ended = start(tmp_path, "sleep 0.2").wait(10)
    assert 0.2e9 <= ended.wall_ns < 0.6e9
    assert ended.cpu_ns < 0.1e9


def test_wall_time_does_not_depend_on_when_somebody_waits(tmp_path: Path) -> None:
    process = start(tmp_path, "exit 0")
    time.sleep(0.5)
    assert process.wait().wall_ns < 0.4e9


def test_stdout_and_stderr_may_be_one_file(tmp_path: Path) -> None:
    both = tmp_path / "both"
    launch(Command(("sh", "-c", "echo a; echo b >&2; echo c"), tmp_path, both, both), Confines(), {}).wait(10)
    assert both.read_text() == "a\nb\nc\n"


def test_an_interrupt_while_waiting_loses_nothing(tmp_path: Path) -> None:
    process = start(tmp_path, "sleep 30")
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        process.wait()
    assert process.alive()
    assert process.stop().code == -signal.SIGTERM
    assert procfs.stat(process.pid) is None


def test_the_child_dies_with_the_tool(tmp_path: Path) -> None:
    script = (
        "import os, sys, time\nfrom contend import _native\n"
        "pid, _ = _native.spawn(['sleep', '60'], dict(os.environ), '/', 2, 2, [], None, None)\n"
        "print(pid, flush=True)\ntime.sleep(60)\n"
    )
    tool = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert tool.stdout is not None
    pid = int(tool.stdout.readline())
    assert procfs.stat(pid) is not None
    tool.kill()
    tool.communicate()

    def gone() -> bool:
        found = procfs.stat(pid)
        return found is None or found.state == "Z"

    assert until(gone)


def test_stop_is_gentle_first(tmp_path: Path) -> None:
    process = start(tmp_path, "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.02; done")
    assert until(lambda: out(tmp_path) == "up\n")
    assert process.stop("TERM", 5.0).code == 7
    assert out(tmp_path) == "up\nbye\n"


def test_an_unknown_signal_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="'NOPE' is no signal"):
        signal_number("NOPE")


def test_marks_are_found_and_ancestors_spared(tmp_path: Path) -> None:
    process = start(tmp_path, "sleep 30")
    try:
        assert procfs.marks(process.pid) == ("unit", "")
        assert process.pid in procfs.marked("unit")
        assert procfs.marked("another") == set()
        assert os.getpid() not in procfs.marked()
        assert procfs.descendants(os.getpid()) >= {process.pid}
    finally:
        process.stop("KILL", 0.0)


@pytest.mark.needs(os.geteuid() == 0, "root, to start a process of another user")
def test_another_users_mark_is_waited_for_by_nobody() -> None:
    """root sees everybody's marks; what it waits for carries its own rights."""
    environment = {"PATH": os.environ["PATH"], procfs.MARKER: "unit", procfs.MEMBER_MARKER: "engine-call"}
    stranger = subprocess.Popen(["sleep", "30"], env=environment, user=65534, group=65534, extra_groups=[])
    try:
        assert until(lambda: stranger.pid in procfs.marked("unit", member="engine-call"))
        assert procfs.marked("unit", member="engine-call", own=True) == set()
        assert procfs.effective_user(stranger.pid) == 65534
    finally:
        stranger.kill()
        stranger.wait()
    assert procfs.effective_user(stranger.pid) is None


def test_one_thread_that_computes_is_enough_not_to_be_asleep(tmp_path: Path) -> None:
    script = "import threading, time\nthreading.Thread(target=lambda: [0 for _ in range(10**8)]).start()\ntime.sleep(60)"
    busy = start(tmp_path, f"exec {sys.executable} -c '{script}'")
    still = start(tmp_path, "exec sleep 60")
    try:
        assert until(lambda: not procfs.until_asleep((busy.pid, still.pid), 0.0))
        assert until(lambda: procfs.until_asleep((still.pid,), 0.0))
        assert procfs.until_asleep((busy.pid, still.pid), 60)
    finally:
        for process in (busy, still):
            process.stop("KILL")
