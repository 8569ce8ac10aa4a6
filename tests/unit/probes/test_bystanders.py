"""Whose waits count as those of others, and over which time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from contend.probes.base import Coded
from contend.probes.bystanders import Bystanders, Waits

S = 10**9
Row = dict[str, Any]


def coded(rows: list[Row]) -> Coded:
    columns: dict[str, Any] = {}
    names: dict[str, list[str]] = {}
    for column in rows[0]:
        values = [row[column] for row in rows]
        if isinstance(values[0], str):
            known = names[column] = sorted(set(values))
            columns[column] = np.array([known.index(v) for v in values])
        else:
            columns[column] = np.array(values)
    return Coded(columns, names)


def used(t: float, pid: int, cpu: float, delay: float, cgroup: str = "/") -> Row:
    return {
        "t_ns": int(t * S), "pid": pid, "name": f"p{pid}", "cgroup": cgroup, "user_ns": int(cpu * S),
        "system_ns": 0, "run_delay_ns": int(delay * S),
    }  # fmt: skip


def watching(own: tuple[str, ...] = ()) -> Bystanders:
    return Bystanders(2 * S, 100, lambda: own)


def test_only_others_count() -> None:
    """Not what stands in groups of the run, not contend and its children, not the kernel's threads."""
    bystanders = watching(("/sys/fs/cgroup/contend.run", "/sys/fs/cgroup/x/libpod-1"))
    seen = coded([{"pid": pid, "ppid": parent} for pid, parent in ((7, 1), (101, 100), (102, 101), (5, 2))])
    rows = [
        used(0, 7, 0.5, 0.5), used(0, 20, 0, 3, "/contend.run/neighbour-a"), used(0, 21, 0, 3, "/x/libpod-1/y"),
        used(0, 102, 0, 3), used(0, 100, 0, 3), used(0, 5, 0, 3),
    ]  # fmt: skip
    assert bystanders.add({"process": seen, "process_use": coded(rows)}) is None, "no window has gone by"
    later = bystanders.add({"process_use": coded([used(2.0, 7, 1.0, 0.25)])})
    assert later == Waits(2.0, 0.2, "p7 (pid 7)", None, "")


def test_it_forgets_what_is_older_than_its_window() -> None:
    bystanders = watching()
    found = [
        bystanders.add({"process_use": coded([used(t / 2, 7, 0.5, 0.5 if t < 6 else 0.0)])})
        for t in range(16)
    ]
    shares = [None if waits is None else waits.run_delay for waits in found]
    assert shares[:4] == [None] * 4 and shares[4] == pytest.approx(0.5) and shares[-1] == 0.0
    known = [share for share in shares if share is not None]
    assert known == sorted(known, reverse=True)


@pytest.mark.parametrize(("waited", "share"), [(0.02, 0.0), (0.03, 0.967)])
def test_who_does_next_to_nothing_is_harmed_from_a_twentieth_of_the_time_on(
    waited: float, share: float
) -> None:
    """An agent that wakes up for a moment waits most of the time that it wants a CPU."""
    bystanders = watching()
    for t in range(6):
        found = bystanders.add({"process_use": coded([used(t / 2, 7, 0.001, waited)])})
    assert found is not None and found.run_delay == pytest.approx(share, abs=0.001)


def test_groups_of_others_stand_still() -> None:
    group = lambda t, name, io: {"t_ns": int(t * S), "cgroup": name, "psi_io_some_ns": int(io * S)}  # noqa: E731
    bystanders = watching(("/sys/fs/cgroup/contend.run",))
    for t in range(6):
        rows = [group(t / 2, "/", 0.5), group(t / 2, "/contend.run/a", 0.5), group(t / 2, "/db", 0.2)]
        found = bystanders.add({"process_use": coded([used(t / 2, 7, 0.5, 0)]), "cgroup_use": coded(rows)})
    assert found is not None and found.stalled == "/db" and found.stall == pytest.approx(0.4)


def test_a_moment_that_waits_for_memory_and_a_disk_counts_once() -> None:
    """Who reads back what was swapped out waits for both at the same time."""
    bystanders = watching()
    for t in range(6):
        row = {
            "t_ns": int(t / 2 * S),
            "cgroup": "/db",
            "psi_io_some_ns": int(0.1 * S),
            "psi_memory_some_ns": int(0.09 * S),
        }
        found = bystanders.add({"process_use": coded([used(t / 2, 7, 0.5, 0)]), "cgroup_use": coded([row])})
    assert found is not None and found.stalled == "/db" and found.stall == pytest.approx(0.2)
