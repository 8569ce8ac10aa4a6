"""The alibi of one party on series with a known truth: its own threads, quota, memory and waits, not its neighbours'."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from contend.contention.alibi.cells import cell_alibis
from contend.contention.alibi.group import judge_group
from contend.contention.alibi.recording import Recording
from contend.contention.alibi.scope import VICTIM, Groups, Scope, Tree, read_group, victims
from contend.contention.alibi.verdict import Alibi, CellAlibi
from contend.contention.alibi.words import workload_line
from contend.text.shape import schema
from support.alibi_series import Host, Thread

START, END = 5.0, 15.0
MINE = Groups("^/mine$")


def told(host: Host, place: Path, scope: Scope = MINE, parents: dict[int, int] | None = None) -> Alibi | None:
    host.write(place, parents)
    own = read_group(place, scope)
    if own is None:
        return None
    found = judge_group("the command", Recording.of_directory(place), own, *host.span(START, END))
    assert found is not None
    jsonschema.validate(found.to_json(), schema(Alibi))
    return found


def mine(cpu: float, busiest: float, **more: float) -> Thread:
    return Thread("mine", 70, cpu, busiest, cgroup="/mine", **more)


def theirs(cpu: float) -> Thread:
    return Thread("theirs", 71, cpu, min(1.0, cpu), cgroup="/theirs")


def test_its_own_thread_and_not_its_neighbours(tmp_path: Path) -> None:
    host = Host().load(START, END, cores=[0.3] * 4, threads=[mine(0.1, 0.1), theirs(1.0)], cgroup="/mine")
    found = told(host, tmp_path / "calm")
    assert found is not None and found.verdict == "idle" and "hardly waited" in found.text
    host = Host().load(START, END, cores=[0.3] * 4, threads=[mine(1.0, 1.0), theirs(0.1)], cgroup="/mine")
    found = told(host, tmp_path / "full")
    assert found is not None and (found.verdict, found.subject) == ("thread", "mine (pid 70)")
    assert found.text.startswith("The command: one thread is its limit")


def test_it_waited_for_a_cpu(tmp_path: Path) -> None:
    waits = mine(0.5, 0.5, run_delay=0.5)
    host = Host().load(
        START, END, cores=[1.0] * 4, cpu_wait=0.9, threads=[waits, theirs(3.5)], cgroup="/mine"
    )
    found = told(host, tmp_path)
    assert found is not None and found.verdict == "cpu"
    assert "it waited for a CPU" in found.text


def test_a_quota_of_its_own_or_above_it_explains_its_wait(tmp_path: Path) -> None:
    for number, group in enumerate(("/mine", "/slice")):
        thread = Thread("mine", 70, 0.4, 0.4, cgroup="/mine" if number == 0 else "/slice/mine", run_delay=0.6)
        host = Host().load(
            START,
            END,
            cores=[0.4],
            cpu_wait=0.6,
            threads=[thread],
            cgroup=group,
            throttled=0.6,
            throttled_periods=1.0,
        )
        found = told(host, tmp_path / str(number), Groups("mine$"))
        assert found is not None and (found.verdict, found.subject) == ("throttling", f"cgroup {group}")
        assert [s.resource for s in found.saturated] == ["throttling"]


def test_a_quota_that_the_probe_did_not_see_is_known_of_the_trial(tmp_path: Path) -> None:
    """The probe had looked at the process before that went into the group with the quota."""
    thread = Thread("mine", 70, 0.4, 0.4, cgroup="/mine", run_delay=0.6)
    host = Host().load(START, END, cores=[0.4], cpu_wait=0.6, threads=[thread], cgroup="/mine")
    host.write(tmp_path)
    recording, own = Recording.of_directory(tmp_path), read_group(tmp_path, MINE)
    assert own is not None
    began, ended = host.span(START, END)
    row: dict[str, Any] = {
        "cell": "mine", "factors": {}, "phase": "counted", "status": "ok", "started_ns": began, "ended_ns": ended,
    }  # fmt: skip
    quota = {"group": "/sys/fs/cgroup/cpu/job", "cpus": 0.4, "whose": "below", "periods": 90}
    for quotas, verdict in (
        ([], "cpu"),
        ([{**quota, "throttled_s": 0.1}], "cpu"),
        ([{**quota, "throttled_s": 6.0}], "throttling"),
    ):
        (cell,) = cell_alibis([{**row, "quotas": quotas}], recording, own)
        assert cell.workload_verdict == verdict, quotas


def test_a_neighbours_quota_is_not_its_own(tmp_path: Path) -> None:
    host = Host().load(START, END, cores=[0.4], threads=[mine(0.2, 0.2)], cgroup="/mine")
    host.load(START, END, threads=[theirs(0.4)], cgroup="/theirs", throttled=0.6, throttled_periods=1.0)
    found = told(host, tmp_path)
    assert found is not None and found.verdict == "idle"


def test_its_waits_for_disks_and_for_memory(tmp_path: Path) -> None:
    busy = {"cores": [0.2], "threads": [mine(0.2, 0.2)], "cgroup": "/mine", "io_wait": 0.9}
    found = told(Host().load(START, END, group_io_wait=0.8, **busy), tmp_path / "disk")
    assert found is not None and found.verdict == "disk" and "waited for disk requests" in found.text
    short = Host().load(
        START, END, memory_wait=0.7, group_io_wait=0.8, limit_bytes=1e9, memory_bytes=0.99e9, **busy
    )
    found = told(short, tmp_path / "memory")
    assert found is not None and (found.verdict, found.subject) == ("memory", "cgroup /mine, at its limit")
    found = told(Host().load(START, END, group_io_wait=0.05, **busy), tmp_path / "others")
    assert found is not None and found.verdict == "idle"


@pytest.mark.parametrize(("io_wait", "verdict"), [(0.05, "idle"), (0.8, "unknown")])
def test_without_a_cgroup_of_its_own_the_host_bounds_its_waits(
    tmp_path: Path, io_wait: float, verdict: str
) -> None:
    host = Host().load(
        START, END, cores=[0.4], io_wait=io_wait, group_io_wait=io_wait, cgroup="/mine",
        threads=[mine(0.2, 0.2), Thread("editor", 72, 0.2, 0.2, cgroup="/mine")],
    )  # fmt: skip
    found = told(host, tmp_path, Tree(70, 0), {70: 4})
    assert found is not None and found.verdict == verdict, found.text
    assert ("no cgroup of its own" in found.text) == (verdict == "unknown")


def test_a_command_is_all_that_it_started(tmp_path: Path) -> None:
    child = Thread("child", 80, 1.0, 1.0, cgroup="/mine")
    host = Host().load(START, END, cores=[0.3] * 4, threads=[mine(0.01, 0.01), child], cgroup="/mine")
    grown = told(host, tmp_path / "child", Tree(70, 0), {80: 70})
    assert grown is not None and grown.subject == "child (pid 80)"
    apart = told(host, tmp_path / "apart", Tree(70, 0), {80: 1})
    assert apart is not None and apart.verdict == "idle"
    # A process of that number which was there before the command is another.
    assert told(host, tmp_path / "before", Tree(70, host.span(END + 1, 0)[0])) is None


def test_a_sample_that_was_begun_before_the_command_may_have_found_it(tmp_path: Path) -> None:
    host = Host().load(START, END, cores=[0.3] * 4, threads=[mine(1.0, 1.0)], cgroup="/mine")
    used = host.tables()["process_use"]
    first_ns = int(used["t_ns"][used["pid"] == 70].min())
    found = told(host, tmp_path, Tree(70, first_ns + 600_000))
    assert found is not None and found.verdict == "thread"


def test_the_measured_party_of_a_run(tmp_path: Path) -> None:
    victim, load, neighbour = (
        f"/x/contend.run/{n}" for n in ("victim-fio", "victim-fio-load", "neighbour-cpu")
    )
    threads = [Thread(g[-4:], 70 + n, 1.0, 1.0, cgroup=g) for n, g in enumerate((load, neighbour))]
    quiet = Thread("fio", 60, 0.2, 0.2, cgroup=victim, run_delay=0.01)
    host = Host().load(START, END, cores=[0.6] * 4, threads=[quiet, *threads], cgroup=victim)
    host.write(tmp_path)
    began, ended = host.span(START, END)
    row = {
        "cell": "a",
        "factors": {},
        "phase": "counted",
        "status": "ok",
        "started_ns": began,
        "ended_ns": ended,
    }
    whole = Recording.of_directory(tmp_path)
    (cell,) = cell_alibis([row], whole, read_group(tmp_path, VICTIM))
    assert (cell.verdict, cell.workload_verdict, cell.workload_agreeing) == ("thread", "idle", 1)
    assert workload_line(cell) == "it hardly waited for the hardware, in 1 of 1 trials"
    jsonschema.validate(cell.to_json(), schema(CellAlibi))
    (alone,) = cell_alibis([row], whole, read_group(tmp_path, Groups("nobody")))
    assert (alone.workload_verdict, workload_line(alone)) == ("", "")


def test_the_measured_party_in_a_group_that_an_engine_chose(tmp_path: Path) -> None:
    """Its server stands by meanwhile on the bare host: that alone would seem to be idle."""
    inside = "/libpod_parent/libpod-4711"
    busy = Thread("ffmpeg", 60, 1.0, 1.0, cgroup=inside)
    waiting = Thread("mariadbd", 61, 0.01, 0.01, cgroup="/contend.run/victim-bare-1-cpu")
    host = Host().load(START, END, cores=[1.0, 0.1], threads=[busy, waiting], cgroup=inside)
    host.write(tmp_path)
    began, ended = host.span(START, END)
    row = {
        "cell": "a",
        "factors": {},
        "phase": "counted",
        "status": "ok",
        "started_ns": began,
        "ended_ns": ended,
        "honoured": {"groups": [f"/sys/fs/cgroup/unified{inside}", f"/sys/fs/cgroup/cpu{inside}"]},
    }
    whole = Recording.of_directory(tmp_path)
    (before,) = cell_alibis([row], whole, read_group(tmp_path, VICTIM))
    assert before.workload_verdict == "idle"
    (cell,) = cell_alibis([row], whole, read_group(tmp_path, victims([row])))
    assert cell.workload_verdict == "thread" and "ffmpeg" in cell.workload_text
