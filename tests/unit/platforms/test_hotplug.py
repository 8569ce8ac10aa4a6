"""CPUs taken offline and brought back, against made directories: what is announced, and what is put back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from contend.engine.removal import REMOVERS
from contend.errors import CannotHonour, HostFailed
from contend.platforms import hotplug, masks, procfs, resources, taken_cpus
from contend.platforms.hotplug import staying
from contend.platforms.taken_cpus import Hotplug
from contend.platforms.topology import Cpu, Topology
from contend.store import state
from contend.store.ledger import Ledger, leftovers, read_rows
from support.command_line import wait_for
from support.own_runs import own_state
from support.prerequisites import need

SMT = Topology(tuple(Cpu(n, n % 4, node=n % 4 // 2, cache=n % 4 // 2) for n in range(8)))
# Numbers that this host has no CPU of, so that no thread or group here is touched.
FIRST, SECOND = 1001, 1002


@pytest.fixture
def cpus(tmp_path: Path) -> Path:
    made = tmp_path / "cpu"
    for number in (0, FIRST, SECOND):
        (made / f"cpu{number}").mkdir(parents=True)
        if number:
            (made / f"cpu{number}" / "online").write_text("1")
    (made / "online").write_text(f"0,{FIRST}-{SECOND}")
    return made


def states(cpus: Path) -> list[str]:
    return [(cpus / f"cpu{number}" / "online").read_text() for number in (FIRST, SECOND)]


root = pytest.mark.needs(os.geteuid() == 0, "only root may take CPUs offline")


def test_what_stays_are_whole_cores_near_what_cannot_go() -> None:
    assert [staying(SMT, n, [0]) for n in (1, 2, 4, 8)] == [(0,), (0, 4), (0, 1, 4, 5), tuple(range(8))]
    assert staying(SMT, 2, [0, 2]) == (0, 2)
    assert staying(SMT, 3, [6]) == (2, 3, 6)
    with pytest.raises(CannotHonour, match="CPU 0-2 cannot be taken offline"):
        staying(SMT, 2, [0, 1, 2])


@root
def test_it_is_in_the_ledger_before_a_cpu_goes_and_back_afterwards(tmp_path: Path, cpus: Path) -> None:
    with Ledger(tmp_path / "ledger.ndjson") as ledger:
        host = Hotplug("run", ledger, tmp_path, cpus)
        host.take([SECOND, FIRST])
        assert states(cpus) == ["0", "0"] and host.gone == (FIRST, SECOND)
        (row,) = leftovers(ledger.path)
        assert (row["kind"], row["name"]) == (hotplug.KIND, f"{FIRST}-{SECOND}")
        assert json.loads((tmp_path / hotplug.FILE).read_text())["boot_id"] == procfs.boot_id()
        with pytest.raises(CannotHonour, match="another run"):
            Hotplug("other", ledger, tmp_path, cpus)
        host.close()
        host.close()
        assert states(cpus) == ["1", "1"] and not (tmp_path / hotplug.FILE).exists()
        assert leftovers(ledger.path) == []
        Hotplug("other", ledger, tmp_path, cpus).close()


@root
def test_a_cpu_that_does_not_go_takes_none_with_it(tmp_path: Path, cpus: Path) -> None:
    (cpus / f"cpu{SECOND}" / "online").unlink()
    (cpus / f"cpu{SECOND}" / "online").symlink_to("/proc/sys/kernel/ostype")  # there, and takes nothing
    with Ledger(tmp_path / "ledger.ndjson") as ledger:
        host = Hotplug("run", ledger, tmp_path, cpus)
        with pytest.raises(HostFailed, match=f"CPU {SECOND}"):
            host.take([FIRST, SECOND])
        assert (cpus / f"cpu{FIRST}" / "online").read_text() == "1"
        assert leftovers(ledger.path) == []
        host.close()


@root
def test_after_a_crash_the_ledger_brings_it_back(
    tmp_path: Path, cpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_state(tmp_path, monkeypatch)
    state.register("run", tmp_path)
    monkeypatch.setattr(hotplug, "CPUS", cpus)
    ledger = Ledger(tmp_path / "ledger.ndjson")
    host = Hotplug("run", ledger, tmp_path, cpus)
    host.take([FIRST])
    ledger.close()
    os.close(host._lock)
    assert host._guard is not None
    host._guard.kill()  # it has died of the same
    host._guard.communicate()
    (removed,) = resources.remove_leftovers(tmp_path, REMOVERS)
    assert (removed.kind, removed.was_there, removed.why) == (hotplug.KIND, True, "")
    assert states(cpus) == ["1", "1"] and not (tmp_path / hotplug.FILE).exists()
    assert resources.remove_leftovers(tmp_path, REMOVERS) == []


@root
def test_a_run_that_dies_leaves_no_cpu_offline(
    tmp_path: Path, cpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `contend destroy`: the kernel tells who waits for that."""
    own_state(tmp_path, monkeypatch)
    state.register("run", tmp_path)
    here = repr(str(tmp_path))
    died = f"""
import os
from pathlib import Path
from contend.store.ledger import Ledger
from contend.platforms.taken_cpus import Hotplug
ledger = Ledger(Path({here}) / "ledger.ndjson")
Hotplug("run", ledger, Path({here}), Path({str(cpus)!r})).take([{FIRST}])
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", died], check=False)
    wait_for(
        lambda: states(cpus) == ["1", "1"] and not (tmp_path / hotplug.FILE).exists(), "CPU that is back"
    )
    (removed,) = resources.remove_leftovers(tmp_path, REMOVERS)
    assert (removed.was_there, removed.why) == (False, "")


def test_what_the_ledger_may_not_name(tmp_path: Path, cpus: Path) -> None:
    (cpus / f"cpu{FIRST}" / "online").write_text("0")
    # An older contend's row says where its files are: nobody looks there.
    decoy = tmp_path / "etc" / hotplug.FILE
    decoy.parent.mkdir()
    decoy.write_text("{}")
    row = {"saved": str(decoy), "at": "/nowhere", "boot_id": procfs.boot_id()}
    assert hotplug.remove(str(FIRST), row | {"boot_id": "another"}, tmp_path, cpus) is False
    assert states(cpus)[0] == "0", "a boot has brought it back by itself: this is somebody else's"
    assert hotplug.remove(str(FIRST), row, tmp_path, cpus) is True and states(cpus)[0] == "1"
    assert hotplug.remove(str(FIRST), row, tmp_path, cpus) is False
    assert decoy.exists()
    (tmp_path / hotplug.FILE).symlink_to(decoy)
    (cpus / f"cpu{FIRST}" / "online").write_text("0")
    with pytest.raises(OSError, match="symbolic links"):
        hotplug.remove(str(FIRST), row, tmp_path, cpus)


def test_nothing_outside_of_the_cpusets_is_written(tmp_path: Path) -> None:
    tree, outside = group(tmp_path / "cpuset", "0"), group(tmp_path / "cpuset2", "0")
    groups = {str(outside): "7", f"{tree}/../cpuset2": "7"}
    saved = {"cpus": [7], "cpuset_root": str(tmp_path), "groups": groups, "threads": []}
    masks.put_back(saved | {"irqs": {"../../etc": "7"}}, irqs=tmp_path / "irq", root=tree)
    assert (outside / "cpuset.cpus").read_text() == "0"


def test_why_a_cpu_cannot_go(cpus: Path) -> None:
    assert hotplug.fixed([0, FIRST], cpus) == (0,)
    why = hotplug.why_not([0, FIRST], cpus)
    assert why == ("CPU 0 has no file `online` that may be written" if os.geteuid() == 0 else "only root may")


def test_why_no_smaller_host_can_be_made(cpus: Path) -> None:
    ours = Topology((Cpu(0, 0), Cpu(FIRST, FIRST), Cpu(SECOND, SECOND)))
    assert hotplug.refused(ours, [1, 2], cpus) == ("" if os.geteuid() == 0 else "only root may")
    some = Topology(ours.cpus[:2])
    assert hotplug.refused(some, [1], cpus).startswith(f"contend may not use CPU {SECOND}")
    (cpus / f"cpu{FIRST}" / "online").unlink()
    assert "a host of 1 CPU cannot be made here" in hotplug.refused(ours, [1], cpus)


def group(path: Path, cpus: str, tasks: str = "") -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "cpuset.cpus").write_text(cpus)
    (path / "tasks").write_text(tasks)
    return path


def test_groups_get_back_what_they_lost_and_new_ones_what_their_parents_have(tmp_path: Path) -> None:
    tree = group(tmp_path / "cpuset", f"0,{FIRST}")
    wide, narrow = group(tree / "a", f"0,{FIRST}"), group(tree / "b", "0")
    inner = group(wide / "in", str(FIRST))
    saved = json.loads(json.dumps(masks.save([FIRST], tree, tmp_path, tmp_path / "none")))
    assert list(saved["groups"]) == [str(wide), str(inner)] and masks.emptied(saved) == []
    for each, left in ((wide, "0"), (inner, "")):
        (each / "cpuset.cpus").write_text(left)
    new, chosen = group(wide / "new", "0"), group(tree / "c", "0")
    masks.put_back(saved, root=tree)
    found = {g.name: (g / "cpuset.cpus").read_text() for g in (wide, inner, new, narrow, chosen)}
    assert found == {"a": f"0,{FIRST}", "in": str(FIRST), "new": f"0,{FIRST}", "b": "0", "c": "0"}
    (wide / "in" / "cpuset.cpus").unlink()
    masks.put_back(saved, root=tree)  # gone meanwhile: nothing to widen, and no error


def test_groups_that_somebody_else_changed_meanwhile_stay_so(tmp_path: Path) -> None:
    tree = group(tmp_path / "cpuset", f"0-2,{FIRST}-{SECOND}")
    changed, half = group(tree / "a", f"0-1,{FIRST}-{SECOND}"), group(tree / "b", f"0,{FIRST}-{SECOND}")
    below = group(changed / "in", f"0,{FIRST}-{SECOND}")
    saved = masks.save([FIRST, SECOND], tree, tmp_path, tmp_path / "none")
    (changed / "cpuset.cpus").write_text("0,2")
    (below / "cpuset.cpus").write_text("0")
    (half / "cpuset.cpus").write_text(f"0,{FIRST}")  # of what was to go, one CPU did
    new = group(changed / "new", "0-1")
    masks.put_back(saved, root=tree)
    now = {g.name: (g / "cpuset.cpus").read_text() for g in (changed, half, below, new)}
    assert now == {"a": "0,2", "b": f"0,{FIRST}-{SECOND}", "in": "0", "new": "0-1"}, (
        "in can have no more than what is above it has by now"
    )


def test_a_group_whose_tasks_would_be_moved_is_a_reason(tmp_path: Path, cpus: Path) -> None:
    tree = group(tmp_path / "cpuset", f"0,{FIRST}")
    full = group(tree / "full", str(FIRST), "17\n")
    assert masks.emptied(masks.save([FIRST], tree)) == [str(full)]
    if os.geteuid() == 0:
        assert "would lose its only CPUs" in hotplug.why_not([FIRST], cpus, tree)


def test_a_group_that_does_not_take_it_back_is_told(tmp_path: Path) -> None:
    tree = group(tmp_path / "cpuset", "0")
    lost = group(tree / "a", "0")
    (lost / "cpuset.cpus").unlink()
    (lost / "cpuset.cpus").symlink_to("/proc/sys/kernel/cap_last_cap")  # reads as a number, and takes none
    left = (lost / "cpuset.cpus").read_text().strip()
    saved = {"cpus": [FIRST], "cpuset_root": str(tree), "groups": {str(lost): f"{left},{FIRST}"}}
    with pytest.raises(HostFailed, match="does not take CPU"):
        masks.put_back(saved | {"threads": [], "irqs": {}}, root=tree)


def test_interrupts_get_back_what_they_had(tmp_path: Path) -> None:
    for irq, at in (("24", str(FIRST)), ("25", f"0,{FIRST}")):
        (tmp_path / irq).mkdir()
        (tmp_path / irq / "smp_affinity_list").write_text(at + "\n")
    saved = masks.save([FIRST], None, tmp_path, tmp_path)
    assert saved["irqs"] == {"24": str(FIRST)}
    (tmp_path / "24" / "smp_affinity_list").write_text("0")
    masks.put_back(saved, irqs=tmp_path)
    assert (tmp_path / "24" / "smp_affinity_list").read_text() == str(FIRST)


def test_a_thread_is_pinned_again_unless_it_chose_for_itself() -> None:
    mine = sorted(os.sched_getaffinity(0))
    need(len(mine) > 1, "two CPUs")
    one, other = mine[-1], mine[0]
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            os.sched_setaffinity(child.pid, {one})
            saved = masks.save([one], None)
            (thread,) = (t for t in saved["threads"] if t["pid"] == child.pid)
            saved["threads"] = [thread]
            os.sched_setaffinity(child.pid, mine)  # as the kernel does when its only CPU goes
            masks.put_back(saved)
            assert os.sched_getaffinity(child.pid) == {one}
            os.sched_setaffinity(child.pid, {other})
            masks.put_back(saved)
            assert os.sched_getaffinity(child.pid) == {other}
            thread["start"] += 1  # another process of that number
            os.sched_setaffinity(child.pid, mine)
            masks.put_back(saved)
            assert os.sched_getaffinity(child.pid) == set(mine)
        finally:
            child.kill()


def test_threads_of_a_cpuset_keep_their_own_affinities(tmp_path: Path) -> None:
    """Kernels before 6.2 give all threads of a cpuset its CPUs when one of those goes and comes back."""
    mine = sorted(os.sched_getaffinity(0))
    need(len(mine) > 1, "two CPUs")
    one, other = mine[:2]
    tree = group(tmp_path / "cpuset", f"{one},{other}")
    group(tree / "jobs", f"{one},{other}")
    group(tree / "rest", str(one))
    code = "threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); print(flush=True); time.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-c", f"import threading, time; {code}"], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        try:
            child.stdout.readline()
            (thread,) = (
                int(t.name) for t in Path(f"/proc/{child.pid}/task").iterdir() if int(t.name) != child.pid
            )
            os.sched_setaffinity(child.pid, {one, other})
            os.sched_setaffinity(thread, {one})  # a CPU that stays
            tasks = {
                tid: made_task(tmp_path / "proc", child.pid, tid, "/jobs") for tid in (child.pid, thread)
            }

            def saved() -> list[tuple[int, str]]:
                return [
                    (t["tid"], t["cpus"]) for t in masks.save([other], tree, tmp_path / "proc")["threads"]
                ]

            assert saved() == [(thread, str(one))], "the other has what its cpuset has"
            kept = masks.save([other], tree, tmp_path / "proc", tmp_path / "none")
            for tid in tasks:
                os.sched_setaffinity(tid, {one})  # the CPU goes
            for tid in tasks:
                os.sched_setaffinity(tid, {one, other})  # and comes back
            masks.put_back(kept, tmp_path / "proc", tmp_path / "none", root=tree)
            assert os.sched_getaffinity(thread) == {one}
            assert os.sched_getaffinity(child.pid) == {one, other}
            for cpuset, rows in (("/", []), ("/rest", []), ("/not/seen", [(thread, str(one))])):
                (tasks[thread] / "cpuset").write_text(f"{cpuset}\n")
                assert saved() == rows
        finally:
            child.kill()


def made_task(proc: Path, pid: int, tid: int, cpuset: str) -> Path:
    """A thread as /proc has it, in another cpuset than it is in."""
    task = proc / str(pid) / "task" / str(tid)
    task.mkdir(parents=True)
    (task / "stat").symlink_to(f"/proc/{pid}/task/{tid}/stat")
    (task / "cpuset").write_text(f"{cpuset}\n")
    return task


def test_announced_first(tmp_path: Path, cpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a crash between the announcement and the act leaves is in the ledger, and is no CPU."""
    monkeypatch.setattr(taken_cpus, "why_not", lambda *_: "")

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(taken_cpus, "switch", crash)
    ledger = Ledger(tmp_path / "ledger.ndjson")
    host = Hotplug("run", ledger, tmp_path, cpus)
    with pytest.raises(KeyboardInterrupt):
        host.take([FIRST])
    assert [row["event"] for row in read_rows(ledger.path)] == ["intend"] and states(cpus) == ["1", "1"]
    assert (tmp_path / hotplug.FILE).exists()
    monkeypatch.undo()
    host.close()
    ledger.close()
    assert leftovers(ledger.path) == []
