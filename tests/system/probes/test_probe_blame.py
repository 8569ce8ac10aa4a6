"""What the blame of waits does when there is more than it has room for, and when processes come and go by thousands."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from contend.contention.blame import BEFORE_MIGRATION, NOT_KEPT
from contend.probes.client import ProbeProcess
from support.prerequisites import need, need_blame
from support.processes import Crowd

pytestmark = pytest.mark.alone
ROOM = 16_384  # pairs, in crates/probe/bpf/blame.h


@pytest.fixture(autouse=True)
def _blame() -> None:
    need_blame()


def by_victim(table: Any) -> Counter[str]:
    found: Counter[str] = Counter()
    for victim, ns in zip(table["victim"], table["wait_ns"].tolist(), strict=True):
        found[victim] += ns
    return found


def test_waits_without_room_are_counted_and_nothing_else_changes() -> None:
    """300 that slept when the probe began, and then burn: each waits for nearly all others of its CPU."""
    with Crowd(300, "burn", 6) as crowd:
        probe = ProbeProcess({"interval_ms": 60_000, "blame": {"by": "process"}})
        crowd.go()
        children = Path(f"/proc/{crowd.pid}/task/{crowd.pid}/children").read_text(encoding="ascii").split()
        kernel = sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) for pid in children)
        drained = probe.stop()
    tables = drained.tables
    blame, total = by_victim(tables["blame"]), by_victim(tables["blame_total"])
    # All pairs that there is room for come, with one tick.
    assert ROOM <= int(Counter(tables["blame"]["t_ns"].tolist()).most_common(1)[0][1]) <= ROOM + 64
    assert drained.cost.dropped > 0 and drained.cost.errors == 0, drained.cost
    assert total[NOT_KEPT] > 0
    assert blame == total
    ours = {name for name in total if name.rpartition(":")[2] in children}
    assert len(ours) == 300
    # What was not kept apart is not lost: the crowd's waits are the kernel's, but for those of others on this host.
    assert sum(total[name] for name in ours) < kernel <= 1.01 * sum(total.values())


STORM = "for i in $(seq 150); do /bin/true; done"


def test_processes_that_have_the_numbers_of_others_before_them_wait_for_somebody_known() -> None:
    """A task that was moved before its first run was taken for the one that had its number before."""
    last_pid = Path("/proc/sys/kernel/ns_last_pid")
    need(last_pid.exists(), "choosing a pid needs CONFIG_CHECKPOINT_RESTORE")
    first = int(last_pid.read_text(encoding="ascii"))
    probe = ProbeProcess({"interval_ms": 250, "blame": {"by": "process"}})
    for _ in range(8):
        last_pid.write_text(str(first))
        storms = [subprocess.Popen(("sh", "-c", STORM)) for _ in range(4)]
        assert [storm.wait() for storm in storms] == [0] * 4
    drained = probe.stop()
    table = drained.tables["blame"]
    waits: Counter[str] = Counter()
    for victim, culprit, ns in zip(table["victim"], table["culprit"], table["wait_ns"].tolist(), strict=True):
        waits["all"] += ns
        waits["unknown"] += ns if culprit == BEFORE_MIGRATION else 0
        waits["nameless"] += ns if victim.startswith("(ended)") or culprit.startswith("(ended)") else 0
    assert waits["all"] > 0.2e9, "they waited at all"
    assert waits["unknown"] <= 0.0003 * waits["all"], waits
    # Who ended is named all the same, though its victim's wait may have ended a tick later.
    assert waits["nameless"] <= 0.005 * waits["all"], waits
