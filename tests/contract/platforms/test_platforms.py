"""One suite over every platform: what the rest of contend may rely on, whatever a party runs on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from contend.engine.removal import REMOVERS
from contend.errors import CannotHonour, HostFailed
from contend.platforms import destroy, procfs, resources, strays
from contend.platforms.base import Exit, Host, Limit, Platform
from contend.platforms.vm import VmHost
from contend.store import state
from contend.store.ledger import Ledger, leftovers
from support import platform_cases as cases
from support.platform_cases import STANDING, STUBBORN, nothing_left, shell, spec, until
from support.prerequisites import need

# What a killed tool leaves, `contend destroy --all` of another test would remove.
pytestmark = [pytest.mark.system, pytest.mark.one_of("strays")]

BURN = """
import time, resource
import sys
while time.process_time() < float(sys.argv[1]): pass
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime)
"""


def capped(case: str) -> bool:
    return case != "bare-affinity"


def test_runs_a_command_where_and_how_it_was_asked(
    case: str, host: Host, guests: Callable[[str], tuple[Host, str]], tmp_path: Path, run_id: str
) -> None:
    run = guests(case)[1] if cases.is_guest(case) else run_id
    work = tmp_path / "a directory"
    work.mkdir()
    script = 'pwd; echo "$WORD"; echo "$CONTEND_RUN"; echo oops >&2; cat; exit 3'
    ended = host.run(shell(script, work, WORD="two words\nand a line")).wait(20)
    assert (work / "out").read_text().splitlines() == [str(work), "two words", "and a line", run]
    assert (work / "err").read_text() == "oops\n"
    assert ended.code == 3
    assert not ended.timed_out


def test_two_processes_at_once_end_apart(host: Host, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    server = host.run(shell("while :; do sleep 0.05; done", first))
    client = host.run(shell("while :; do sleep 0.05; done", second))
    client.stop("TERM", 2.0)
    assert server.alive()
    assert not client.alive()
    assert server.stop().code == -signal.SIGTERM


def test_a_shell_that_cannot_find_its_program_says_so(host: Host, tmp_path: Path) -> None:
    ended = host.run(shell("exec no-such-program-anywhere", tmp_path)).wait(20)
    assert ended.code == 127


def test_death_by_a_signal_is_its_negative_number(host: Host, tmp_path: Path) -> None:
    assert host.run(shell("kill -KILL $$", tmp_path)).wait(20).code == -signal.SIGKILL


def test_stop_sends_the_signal_that_was_named(host: Host, tmp_path: Path) -> None:
    process = host.run(
        shell("trap 'echo got INT; exit 5' INT; echo up; while :; do sleep 0.02; done", tmp_path)
    )
    assert until(lambda: (tmp_path / "out").read_text() == "up\n")
    assert process.alive()
    ended = process.stop("INT", 60)
    assert ended.code == 5
    assert "got INT" in (tmp_path / "out").read_text()
    assert process.stop("KILL") == ended == process.wait()
    assert not process.alive()


def test_pid_is_the_command_seen_from_here(host: Host, tmp_path: Path) -> None:
    process = host.run(shell("while :; do sleep 0.05; done", tmp_path))
    assert process.pid in host.pids()
    process.stop("KILL")


def test_a_command_that_has_stopped_itself_hears_the_signal(host: Host, tmp_path: Path) -> None:
    script = "trap 'echo bye; exit 0' TERM; echo up; kill -STOP $$; while :; do sleep 0.05; done"
    process = host.run(shell(script, tmp_path))
    assert until(lambda: (tmp_path / "out").read_text() == "up\n")
    time.sleep(0.2)  # it stops itself after it has said so
    began = time.monotonic()
    process.stop("TERM", 10.0)
    assert time.monotonic() - began < 5
    assert (tmp_path / "out").read_text() == "up\nbye\n"


def test_a_timeout_ends_the_whole_tree(host: Host, tmp_path: Path) -> None:
    process = host.run(shell(STUBBORN, tmp_path))
    assert until(lambda: host.processes() >= STANDING), host.processes()
    began = time.monotonic()
    ended = process.wait(0.1)
    assert time.monotonic() - began < 8
    assert ended.timed_out
    assert ended.code == -signal.SIGKILL
    assert until(lambda: host.processes() == 0)


def test_times_are_the_commands(host: Host, tmp_path: Path) -> None:
    """Without what the platform needs to begin and end: the best of some, for others on the host only add to it."""
    for _ in range(4):
        began = time.monotonic_ns()
        ended = host.run(shell("sleep 0.5", tmp_path)).wait(60)
        assert 0.5e9 <= ended.wall_ns <= ended.wall_ns + ended.startup_ns <= time.monotonic_ns() - began
        if ended.wall_ns < 0.9e9 and ended.startup_ns < 5e9:
            break
    else:
        raise AssertionError(ended)


def burn(case: str, host: Host, directory: Path, cpu_s: float) -> tuple[Exit, float]:
    """Burn CPU time; returns the end and the CPU seconds that the process itself counted."""
    script = directory / "burn.py"
    script.write_text(BURN)
    ended = host.run(shell(f"exec {cases.python(case)} {script} {cpu_s}", directory)).wait(60)
    assert ended.code == 0, (directory / "err").read_text()
    return ended, float((directory / "out").read_text())


def test_a_party_that_runs_nothing_takes_no_cpu(case: str, host: Host, tmp_path: Path) -> None:
    host.run(shell("true", tmp_path)).wait(60)
    # What a test before has killed may still be dying, and keeps its guest awake until it has.
    assert not isinstance(host, VmHost) or until(lambda: host.guest.resting)
    seconds = []
    while (
        len(seconds) < 5 and min(seconds, default=10e6) >= 10e6
    ):  # an emulator ends what it was about, when it has a CPU
        before = host.usage().cpu_ns
        time.sleep(1)
        after = host.usage().cpu_ns
        assert (before is None) == (after is None)
        seconds.append((after or 0) - (before or 0))
    assert seconds[-1] < 10e6, seconds
    if not cases.is_guest(case):
        return
    assert isinstance(host, VmHost)
    for _ in range(5):  # each wakes a guest that has a container to ask: that is ours, not its party's
        host.processes()
    assert (host.usage().cpu_ns or 0) - (
        after or 0
    ) < 25e6  # of 45 to 130; the kernel adds up what runs at its ticks
    resting = added_ns(host)
    with host.guest.awake():
        ticking = added_ns(host)
    assert resting < 5e6 or resting < ticking / 5, (resting, ticking)


def test_what_a_command_leaves_running_goes_on_and_a_guest_rests_after_it(
    case: str, host: Host, tmp_path: Path
) -> None:
    left = "(sleep 1; echo late >late; sleep 5) >/dev/null 2>&1 &"
    assert host.run(shell(left, tmp_path)).wait(60).code == 0
    time.sleep(2)
    assert host.run(shell("cat late", tmp_path)).wait(60).code == 0, (tmp_path / "err").read_text()
    if cases.is_guest(case):
        assert isinstance(host, VmHost)
        assert not host.guest.resting
        assert until(lambda: host.guest.resting)


def test_usage_is_what_was_burnt(case: str, host: Host, tmp_path: Path) -> None:
    before, emulator_ns = host.usage(), emulators_cpu_ns(case, host)
    ended, used_s = burn(case, host, tmp_path, 1.0)
    after = host.usage()
    assert after.cpu_ns is not None
    # A guest does not see what others take of its CPUs' time, so its processes count some of that as theirs.
    outside_s = (emulators_cpu_ns(case, host) - emulator_ns) / 1e9 if cases.is_guest(case) else used_s
    assert (after.cpu_ns - (before.cpu_ns or 0)) / 1e9 == pytest.approx(outside_s, rel=0.10)
    # The interpreter goes on a little after it has told; emulated, a tenth of a second.
    assert ended.cpu_ns / 1e9 == pytest.approx(used_s, rel=0.40 if cases.is_guest(case) else 0.10)


def added_ns(host: Host) -> int:
    """CPU time of an emulator's threads in a second, in which nobody asks it anything: /proc/TID/schedstat."""

    def used() -> int:
        tasks = (task for pid in host.pids() for task in Path(f"/proc/{pid}/task").iterdir())
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)

    before = used()
    time.sleep(1)
    return used() - before


def emulators_cpu_ns(case: str, host: Host) -> int:
    return sum(sum(procfs.cpu_times_ns(pid)) for pid in host.pids()) if cases.is_guest(case) else 0


def test_cpus_are_honoured_and_read_back(case: str, platform: Platform, tmp_path: Path) -> None:
    last = max(os.sched_getaffinity(0))
    host = platform.prepare(spec("pinned", tmp_path, cpus=(last,)))
    host.run(shell("grep Cpus_allowed_list /proc/self/status", tmp_path)).wait(20)
    assert (tmp_path / "out").read_text().split() == ["Cpus_allowed_list:", cases.seen_inside(case, (last,))]
    assert host.honoured()["cpus"] == [last]


def test_a_party_gets_its_cpus_even_when_the_tool_has_few(case: str, run_id: str, tmp_path: Path) -> None:
    allowed = os.sched_getaffinity(0)
    first, last = min(allowed), max(allowed)
    need(first != last, "2 CPUs")
    os.sched_setaffinity(0, {first})
    try:
        with Ledger(tmp_path / "ledger.ndjson") as ledger:
            platform = cases.make(case, run_id, ledger, tmp_path)
            try:
                host = platform.prepare(spec("wide", tmp_path, cpus=(first, last)))
                host.run(shell("nproc", tmp_path)).wait(20)
            finally:
                platform.close()
    finally:
        os.sched_setaffinity(0, allowed)
    assert (tmp_path / "out").read_text() == "2\n"


def test_a_cpu_that_is_not_there_is_refused_before_anything_is_made(
    platform: Platform, tmp_path: Path
) -> None:
    with pytest.raises(CannotHonour, match="CPU 4095"):
        platform.prepare(spec("pinned", tmp_path, cpus=(4095,)))
    assert leftovers(tmp_path / "ledger.ndjson") == []


def test_a_tenth_of_a_cpu_throttles(case: str, platform: Platform, tmp_path: Path) -> None:
    """A tenth and not a half: on a busy test machine a process may get less than half a CPU without a cap."""
    limited = spec("capped", tmp_path, Limit(cpus=0.1, memory_bytes=256 << 20))
    if not capped(case):
        with pytest.raises(CannotHonour) as refused:
            platform.prepare(limited)
        assert refused.value.hint
        assert leftovers(tmp_path / "ledger.ndjson") == []
        return
    host = platform.prepare(limited)
    ended, _ = burn(case, host, tmp_path, 0.3)
    usage = host.usage()
    assert usage.nr_throttled is not None
    assert usage.nr_throttled > 0
    assert usage.throttled_ns
    used_ns = usage.cpu_ns if case == "vm" else ended.cpu_ns
    assert used_ns is not None
    assert used_ns / (ended.wall_ns + ended.startup_ns) < 0.15
    limits = {str(value) for value in host.honoured()["limits"].values()}  # type: ignore[attr-defined]
    assert limits & {"10000 100000", "10000"}
    assert str(256 << 20) in limits


# Containers and guests are the treatment.
@pytest.mark.parametrize("case", [name for name in cases.wanted() if name.startswith("bare")], indirect=True)
def test_the_baseline_does_not_contain_the_treatment(case: str, platform: Platform, tmp_path: Path) -> None:
    host = platform.prepare(spec("victim", tmp_path))
    host.run(shell("cat /proc/self/cgroup", tmp_path)).wait(20)
    for line in (tmp_path / "out").read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        if set(controllers.split(",")) & {"cpu", "cpuset", "memory", "blkio", "io"}:
            assert "contend." not in group, line
    if (group := host.cgroup()) is not None:
        assert (group / "cgroup.controllers").read_text().strip() == ""


def test_close_is_idempotent_and_final(platform: Platform, tmp_path: Path, run_id: str) -> None:
    host = platform.prepare(spec("victim", tmp_path))
    process = host.run(shell(STUBBORN, tmp_path))
    assert until(lambda: host.processes() >= STANDING)
    host.close()
    host.close()
    assert not process.alive()
    assert procfs.marked(run_id) == set()
    with pytest.raises(HostFailed, match="closed"):
        host.run(shell("true", tmp_path))
    platform.close()
    platform.close()
    assert nothing_left(run_id)


def hold(case: str, run_id: str, directory: Path) -> subprocess.Popen[str]:
    """A tool that holds a host with busy children; returns when they are up."""
    held = subprocess.Popen(
        [sys.executable, "-m", "support.platform_cases", case, run_id, str(directory)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert held.stdout is not None
    said = held.stdout.readline()
    if not said.startswith("ready"):
        held.kill()
        held.communicate()
        resources.remove_leftovers(directory, REMOVERS)  # nothing busy beside the tests that follow
        pytest.fail(f"the host is not up: {said!r}")
    return held


def test_nothing_is_left_after_kill_9_and_removal(case: str, run_id: str, tmp_path: Path) -> None:
    held = hold(case, run_id, tmp_path)
    try:
        with pytest.raises(HostFailed, match="alive"):
            resources.remove_leftovers(tmp_path, REMOVERS)
        assert run_id in strays.live_runs()
        assert [s for s in strays.survey(run_id).strays if s.run_id == run_id] == []
    finally:
        held.kill()
        held.communicate()
    if not cases.is_guest(case):  # of a guest nothing outlives QEMU, which the kernel ends with the tool
        assert procfs.marked(run_id)  # the grandchildren outlive the tool: that is what removal is for
    removed = resources.remove_leftovers(tmp_path, REMOVERS)
    assert removed
    assert [item for item in removed if item.why] == []
    assert nothing_left(run_id)
    assert resources.remove_leftovers(tmp_path, REMOVERS) == []


def test_a_run_whose_directory_was_deleted_is_found_by_its_name(
    case: str, run_id: str, tmp_path: Path
) -> None:
    held = hold(case, run_id, tmp_path)
    held.kill()
    held.communicate()
    (tmp_path / "ledger.ndjson").unlink()
    found = [stray for stray in strays.survey(run_id).strays if stray.run_id == run_id]
    assert found
    assert [item for item in map(strays.remove_stray, found) if item.why] == []
    assert nothing_left(run_id)
    assert strays.survey(run_id).strays == ()


def test_destroy_forgets_a_run_that_left_nothing(case: str, run_id: str, tmp_path: Path) -> None:
    held = hold(case, run_id, tmp_path)
    held.kill()
    held.communicate()
    report = destroy.destroy_run(tmp_path, REMOVERS)
    assert report.removed
    assert report.failed == ()
    assert state.pointers() == []
    assert nothing_left(run_id)


@pytest.fixture
def nobodys() -> Iterator[Path]:
    """A directory of `nobody`'s own, not below pytest's: every pytest that starts closes that to other users."""
    with tempfile.TemporaryDirectory(prefix="contend-nobody-", ignore_cleanup_errors=True) as name:
        os.chown(name, 65534, 65534)
        yield Path(name)


@pytest.mark.needs(os.geteuid() == 0, "this is the test that becomes another user")
def test_the_contract_holds_for_an_unprivileged_user(nobodys: Path) -> None:
    """The affinity cases again as `nobody`, who gets no cgroup. Its one right is to read this checkout."""
    rights = ("--inh-caps", "-all,+dac_read_search", "--ambient-caps", "-all,+dac_read_search")
    done = subprocess.run(
        [
            *("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *rights, "--"),
            *(
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                "--basetemp",
                str(nobodys / "base"),
            ),
            *("-k", "bare-affinity", str(Path(__file__))),
        ],
        cwd=Path(__file__).parents[3],
        env={
            **os.environ,
            cases.UNPRIVILEGED: "1",
            "HOME": str(nobodys),
            "XDG_STATE_HOME": str(nobodys / "state"),
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "failed" not in done.stdout
