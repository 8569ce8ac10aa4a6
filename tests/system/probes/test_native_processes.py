"""What is recorded of processes, against processes that do known things; every source that works here, alike."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contend.errors import ContendError
from contend.platforms import procfs
from contend.probes.client import ProbeProcess, program
from contend.probes.snapshot import Snapshot
from support.kernel_trace import traced
from support.prerequisites import need
from support.processes import COUNTERS, INTERVAL_MS, Recording, Rows, Worker

ENDED, UNKNOWN = 2, -1
# Sleeps of the worker between two commands: a word read, an answer written, and what Python does for it.
SOME_SWITCHES = 12
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def child(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen((sys.executable, "-S", "-c", code))


def about(
    worker: Worker,
    reported: dict[str, int],
    own: dict[str, int],
    before: dict[str, int] | None = None,
    but: tuple[str, ...] = (),
) -> None:
    """Within 1 % of the process's own accounting: no less than when it had done its work, no more than by now, or what
    the telling of it costs."""
    slack = {"cpu_ns": 5e6, "voluntary": SOME_SWITCHES, "involuntary": 5, "minor_faults": 8}
    now = worker.do("nothing")
    for name in ("cpu_ns", *COUNTERS):
        if name not in but:
            least, most = (figures[name] - (before[name] if before else 0) for figures in (own, now))
            room = slack.get(name, 0)
            assert min(0.99 * least, least - room) <= reported[name] <= max(1.01 * most, most + room), name


def work_all(worker: Worker, data: Path) -> dict[str, int]:
    worker.do("burn 0.4")
    worker.do("sleep 400")
    worker.do("fault 3000")
    return worker.do(f"read {data}")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """6 MiB on a disk, and not in the page cache's way: read past it."""
    path = tmp_path / "data"
    path.write_bytes(os.urandom(6 << 20))
    with path.open("rb+") as file:
        os.fsync(file.fileno())
    return path


def test_known_deeds_of_a_process_that_was_there_before(source: str, data: Path) -> None:
    with Worker() as worker:
        worker.do("fault 2000")
        before = worker.do("burn 0.1")
        recording = Recording(source)
        recording.settle()
        own = work_all(worker, data)
        rows = recording.finish()
        about(worker, rows.did(worker.pid), own, before)
        assert rows.did(worker.pid)["read_bytes"] == 6 << 20
        used = rows.of(worker.pid)
        assert set(used["threads"]) == {1} and int(used["rss_bytes"][0]) > 1 << 20
        assert int(used["busiest_thread_ns"].sum()) == pytest.approx(rows.did(worker.pid)["cpu_ns"], rel=0.01)
        assert rows.events(worker.pid)[0][0] == 0
        # A row for each sample in which it ran, of the time since the sample before.
        assert np.all(np.diff(used["t_ns"].astype(np.int64)) >= used["interval_ns"][1:].astype(np.int64))


def test_known_deeds_of_a_process_that_began_later_count_from_its_begin(source: str, data: Path) -> None:
    recording = Recording(source)
    recording.settle()
    with Worker() as worker:
        own = work_all(worker, data)
        about(worker, recording.finish().did(worker.pid), own)


def test_threads_are_summed_and_those_that_ended_stay_in(source: str) -> None:
    recording = Recording(source)
    recording.settle()
    with Worker() as worker:
        worker.do("nothing")
        recording.settle()
        own = worker.do("threads 0.15")
        rows = recording.finish()
    did = rows.did(worker.pid)
    assert did["cpu_ns"] == pytest.approx(own["cpu_ns"], rel=0.01, abs=5e6)
    assert did["minor_faults"] == pytest.approx(own["minor_faults"], rel=0.01, abs=8)
    used = rows.of(worker.pid)
    assert int(used["threads"].max()) in (3, 4, 5) and int(used["threads"][-1]) == 3
    assert not set(used["busiest_tid"]) <= {0, worker.pid}
    if source != "proc":  # it loses what a thread did after the last sample before its end
        slack = SOME_SWITCHES + 5
        assert did["voluntary"] == pytest.approx(own["voluntary"], rel=0.01, abs=slack)


def test_what_a_process_did_up_to_its_end_and_how_it_ended(source: str) -> None:
    recording = Recording(source)
    recording.settle()
    burner = child("import time, sys\nwhile time.process_time() < 0.6: pass\nsys.exit(3)")
    _, status, usage = os.wait4(burner.pid, 0)
    burner.returncode = os.waitstatus_to_exitcode(status)
    sleeper = child("import time\ntime.sleep(60)")
    recording.settle()
    os.kill(sleeper.pid, signal.SIGTERM)
    sleeper.wait()
    rows = recording.finish()
    ends = [event for pid in (burner.pid, sleeper.pid) for event in rows.events(pid) if event[0] == ENDED]
    assert len(ends) == 2
    if source == "proc":
        assert {code for _, _, code in ends} <= {UNKNOWN, 3, 143}
        return
    assert [code for _, _, code in ends] == [3, 128 + signal.SIGTERM]
    did = rows.did(burner.pid)
    # One turn on the CPU, at most a tick of the scheduler, and the tear-down may be missing.
    assert did["cpu_ns"] == pytest.approx((usage.ru_utime + usage.ru_stime) * 1e9, rel=0.01, abs=8e6)
    assert did["minor_faults"] == pytest.approx(usage.ru_minflt, rel=0.01, abs=8)
    assert rows.cost.dropped == 0


# In /proc the kernel's own sum of a process holds those of children that it waited for.
@pytest.mark.parametrize("source", ["bpf", "taskstats"], indirect=True)
def test_a_childs_bytes_are_its_own_and_not_also_its_parents(source: str, data: Path) -> None:
    recording = Recording(source)
    recording.settle()
    script = f"dd if={data} of=/dev/null bs=1M iflag=direct 2>/dev/null; exit 0"
    parent = subprocess.Popen(("sh", "-c", script))
    assert parent.wait() == 0
    rows = recording.finish()
    assert rows.did(parent.pid)["read_bytes"] < 1 << 20
    use = rows.tables["process_use"]
    # A page of the program itself may have had to come from the disk too.
    assert 6 << 20 <= int(use["read_bytes"][use["name"] == "dd"].sum()) < 7 << 20


def test_children_between_two_samples_are_not_lost(source: str) -> None:
    recording = Recording(source, interval_ms=300)
    recording.settle()
    with traced() as kernel, Worker() as worker:
        began = worker.do("nothing")
        own = worker.do("spawn /bin/true; /bin/true; true 40")
        rows = recording.finish()
        children, freed = kernel.descendants(worker.pid), kernel.freed()
    assert len(children) == 120
    if source == "proc":
        assert any("begins and ends between two samples is not seen" in note for note in recording.notes)
        return
    # Of one whose end the kernel did not tell BPF of there is nothing to be known.
    untold = children - freed if source == "bpf" else set()
    assert len(untold) < 12
    process = rows.tables["process"]
    mine = np.isin(process["pid"], list(children))
    for event in (0, ENDED):
        assert sorted(process["pid"][mine & (process["event"] == event)].tolist()) == sorted(
            children - untold
        )
    assert set(process["exit_code"][mine & (process["event"] == ENDED)]) == {0}
    used = rows.tables["process_use"]
    theirs = np.isin(used["pid"], list(children))
    # Its group is that of its parent; but a parent may have been told of earlier, and is then not known any more.
    (group,) = set(rows.of(worker.pid)["cgroup"])
    orphans = used["cgroup"][theirs] != group
    assert set(used["cgroup"][theirs]) <= {group, ""} and orphans.mean() < 0.1
    missing = 2 * len(untold) / len(children)  # a shell does more than one that is only `true`
    faults = own["children_minor_faults"] - began["children_minor_faults"]
    assert int(used["minor_faults"][theirs].sum()) == pytest.approx(faults, rel=0.01 + missing)
    cpu_ns = own["children_cpu_ns"] - began["children_cpu_ns"]
    # taskstats takes most of it from the parent's sum, which comes in ticks.
    assert int((used["user_ns"] + used["system_ns"])[theirs].sum()) == pytest.approx(
        cpu_ns, rel=0.02 + missing, abs=2 * TICK_NS
    )


@pytest.mark.alone
def test_all_together_agree_with_the_hosts_own_sum(source: str) -> None:
    recording = Recording(source)
    with Worker() as worker:
        recording.settle()
        before = Snapshot.take()
        worker.do("burn 1.2")
        after = Snapshot.take()
        rows = recording.finish()
    busy = sum(
        now.user + now.nice + now.system - then.user - then.nice - then.system
        for then, now in ((before.cpus[cpu], after.cpus[cpu]) for cpu in before.cpus)
    )
    used = rows.tables["process_use"]
    within = (used["t_ns"] > before.t_ns) & (used["t_ns"] <= after.t_ns + INTERVAL_MS * 1_000_000)
    ours = int((used["user_ns"] + used["system_ns"])[within].sum())
    # Ticks sample: a task that sleeps before each tick is not in them. And one interval more or less of ours.
    assert ours == pytest.approx(busy, rel=0.1, abs=4 * TICK_NS + 2 * INTERVAL_MS * 1_000_000)


def test_hostile_names(source: str) -> None:
    recording = Recording(source)
    with Worker() as worker:
        recording.settle()
        worker.do(r"name a) R\n(b) 1")
        recording.settle()
        worker.do(r"name \xc3\xa4\xff")
        rows = recording.finish()
    names = [name for _, name, _ in rows.events(worker.pid)]
    assert names[-2:] == ["a) R\n(b) 1", "ä\ufffd"]
    assert rows.of(worker.pid)["name"][-1] == "ä\ufffd"


def test_a_pid_that_is_used_again_is_another_process(source: str) -> None:
    last_pid = Path("/proc/sys/kernel/ns_last_pid")
    need(os.geteuid() == 0 and last_pid.exists(), "choosing a pid needs root and CONFIG_CHECKPOINT_RESTORE")
    recording = Recording(source)
    for _ in range(50):
        first = os.fork()
        if first == 0:
            signal.pause()
        began = started_ns(first)
        recording.settle()
        os.kill(first, signal.SIGKILL)
        os.waitpid(first, 0)
        time.sleep(0.03)  # begins are told apart by ticks of USER_HZ
        last_pid.write_text(str(first - 1))
        second = os.fork()
        if second == 0:
            signal.pause()
        if second == first:
            began_again = started_ns(second)
            # A number out of turn is found by the next full list.
            recording.wait_for(
                lambda rows, pid=first, at=began_again: begun(rows.of(pid), at).any(), "the second"
            )
            break
        os.kill(second, signal.SIGKILL)
        os.waitpid(second, 0)
    assert second == first, "another process took the number each time"
    rows = recording.finish()
    os.kill(second, signal.SIGKILL)
    os.waitpid(second, 0)
    # Numbers were given again: some process of somebody's may have had this one in an earlier attempt.
    told, used = rows.of(first, "process"), rows.of(first)
    ended = [list(told["event"][begun(told, at)]).count(ENDED) for at in (began, began_again)]
    assert ended == [1, 0]
    assert begun(used, began).any() and begun(used, began_again).any()


def begun(rows: dict[str, Any], at_ns: int) -> Any:
    """Which rows are of the process that began then, by the coarser of both clocks."""
    return np.abs(rows["start_ns"].astype(np.int64) - at_ns) <= TICK_NS


def started_ns(pid: int) -> int:
    """As the kernel tells it, in ticks of USER_HZ."""
    return procfs.parse_stat(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")).start_ticks * TICK_NS


def test_a_zombie_has_ended_once(source: str) -> None:
    recording = Recording(source)
    recording.settle()
    burner = child("import time, sys\nwhile time.process_time() < 0.3: pass\nsys.exit(5)")
    os.waitid(os.P_PID, burner.pid, os.WEXITED | os.WNOWAIT)  # a zombie from here on, however slow the host
    recording.settle()
    _, _, usage = os.wait4(burner.pid, 0)
    burner.returncode = 5
    rows = recording.finish()
    assert [(event, code) for event, _, code in rows.events(burner.pid) if event == ENDED] == [(ENDED, 5)]
    expected = (usage.ru_utime + usage.ru_stime) * 1e9
    assert rows.did(burner.pid)["cpu_ns"] == pytest.approx(expected, rel=0.01, abs=8e6)


def test_a_storm_of_forks_breaks_nothing(source: str) -> None:
    recording = Recording(source, interval_ms=10)
    storm = "for i in $(seq 500); do (sleep 0.00$((i % 5))) & (:) ; done; wait"
    subprocess.run(("sh", "-c", storm), check=True)
    rows = recording.finish()
    assert (rows.cost.errors, rows.cost.last_error) == (0, "")
    process = rows.tables["process"]
    key = process["pid"].astype(object) * 10**20 + process["start_ns"].astype(object)
    # Nothing ends, or is seen, twice.
    for event in (0, ENDED):
        of_kind = key[process["event"] == event]
        assert len(of_kind) == len(set(of_kind))


def limited(tmp_path: Path, commands: str) -> str:
    """A contend-probe that starts under such conditions."""
    wrapper = tmp_path / "contend-probe"
    wrapper.write_text(f'#!/bin/sh\n{commands} "{program()}" "$@"\n')
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return str(wrapper)


def test_few_descriptors(source: str, tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEND_PROBE", limited(tmp_path, "ulimit -n 40; exec"))
    recording = Recording(source)
    recording.settle()
    with Worker() as worker:
        own = work_all(worker, data)
        rows = recording.finish()
        about(worker, rows.did(worker.pid), own)
    assert rows.cost.errors == 0, rows.cost.last_error


def test_not_root(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need(os.geteuid() == 0, "becoming somebody else needs root")
    found = program()
    assert found is not None
    copy = Path(f"/tmp/contend-probe-{os.getpid()}")
    copy.write_bytes(found.read_bytes())
    copy.chmod(0o755)
    become = "import os, sys\nos.setgid(65534)\nos.setuid(65534)\n"
    runner = tmp_path / "as-nobody"
    runner.write_text(
        f"#!{sys.executable} -S\n{become}os.execv('{copy}', ['contend-probe', *sys.argv[1:]])\n"
    )
    runner.chmod(0o755)
    monkeypatch.setenv("CONTEND_PROBE", str(runner))
    try:
        recording = Recording("auto")
        recording.settle()
        with Worker() as worker:
            own = work_all(worker, data)
            rows = recording.finish()
            about(worker, rows.did(worker.pid), own, but=("read_bytes",))
    finally:
        copy.unlink()
    assert recording.sources["processes"] == "proc"
    assert any("CAP_NET_ADMIN" in note for note in recording.notes)
    assert any("CAP_SYS_PTRACE" in note for note in recording.notes)
    assert rows.did(worker.pid)["read_bytes"] == 0  # root's, and so not to be known
    assert rows.cost.errors == 0, rows.cost.last_error


def test_a_source_that_does_not_work_here_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ContendError, match="sauce"):
        ProbeProcess({"interval_ms": 10, "processes": True, "source": "sauce"})
    assert isinstance(Recording("proc").finish(), Rows)
