"""Waits of a victim as causes: which are named, and what else of the slowdown is put down to them."""

from __future__ import annotations

import pytest

from contend.document import Work, Worked
from contend.probes.observed import Observations
from contend.studies.causes.explain import explain
from contend.studies.interference.findings import findings as advise
from support.slowed import DISK, REPEAT, cell, expected, study

LOOKED = {"wall": 1.0, "looks": 40.0, "cpu": 0.5}


@pytest.mark.parametrize(
    ("observed", "resource"),
    [
        ("waited_file_lock", "file lock"),
        ("waited_sync", "fsync"),
        ("waited_write", "writeback"),
        ("waited_read", "disk queue"),
        ("waited_completion", "disk queue"),
        ("waited_page", "page faults"),
        ("waited_send", "network send"),
        ("waited_peer", "peers"),
    ],
)
def test_what_the_victim_waited_for_is_its_own_account(observed: str, resource: str) -> None:
    (cause,) = explain(cell({**LOOKED, "wall": 2.0, observed: 1.1}, {**LOOKED, observed: 0.1}))
    assert cause.resource == resource
    assert cause.share == pytest.approx(expected(2.0, 1.1, 2.0, 0.1, 1.0))
    assert advise(
        study(), [cell({**LOOKED, "wall": 2.0, observed: 1.1}, {**LOOKED, observed: 0.1})], [], REPEAT
    )[0].advice


def test_a_disk_that_is_slower_for_all_explains_nothing_of_who_waits_for_a_lock() -> None:
    """The growth of the device's requests is no cause where the victim's own account is known."""
    slower = {**DISK, "disk_await": 8.0}
    (old,) = explain(cell({**slower, "wall": 2.0}, DISK))
    assert old.resource == "disk queue"
    now = {**slower, **LOOKED, "wall": 2.0, "waited_file_lock": 1.0}
    (cause,) = explain(cell(now, {**DISK, **LOOKED}))
    assert cause.resource == "file lock" and "disk" not in cause.words


READ = {**LOOKED, "voluntary_switches": 100.0, "read_bytes": 0.0, "major_faults": 0.0}


def test_what_is_read_again_costs_cpu_time_too() -> None:
    """A cache that is lost: what came from devices says so, and each wait for it has its part of the CPU time."""
    now = {
        **READ,
        "wall": 2.0,
        "cpu": 0.9,
        "waited_read": 0.6,
        "read_bytes": 40e6,
        "voluntary_switches": 10_100.0,
    }
    (cause,) = explain(cell(now, READ))
    assert cause.resource == "page cache" and cause.share == pytest.approx(1.0)
    assert "40 MB came from devices (0 B alone)" in cause.words
    # Of 1,000 waits it is 40 ms at most: the rest has no cause.
    few = {**now, "voluntary_switches": 1_100.0}
    causes = {one.resource: one.share for one in explain(cell(few, READ))}
    assert causes["page cache"] == pytest.approx(0.64) and causes["dearer execution"] == pytest.approx(0.36)
    faults = {**now, "waited_read": 0.0, "waited_page": 0.6, "major_faults": 10_000.0}
    assert [one.resource for one in explain(cell(faults, READ))] == ["page faults"]


def test_what_the_kernel_computes_more_is_put_down_to_the_wait_that_it_is_for() -> None:
    before = {**LOOKED, "cpu": 0.5, "system_cpu": 0.2}
    now = {**LOOKED, "wall": 2.0, "waited_write": 0.6, "cpu": 0.9, "system_cpu": 0.5}
    (cause,) = explain(cell(now, before))
    assert cause.resource == "writeback" and cause.share == pytest.approx(1.0)
    assert "the kernel computed 500 ms on its account (200 ms alone)" in cause.words
    # Where the program itself computes more, nobody knows why.
    own = {**now, "system_cpu": 0.3}
    assert [one.resource for one in explain(cell(own, before))] == ["writeback", "dearer execution"]
    # Nor is a large growth that of a small wait.
    small = {**now, "waited_write": 0.2, "cpu": 1.3, "system_cpu": 0.9}
    assert {one.resource for one in explain(cell(small, before))} == {"writeback", "dearer execution"}
    # Nor has a lock of a file anything for the kernel to compute.
    lock = {**now, "waited_write": 0.0, "waited_file_lock": 0.6}
    assert [one.resource for one in explain(cell(lock, before))] == ["file lock", "dearer execution"]


def test_who_waits_more_often_waits_for_a_cpu_more_often() -> None:
    """As who has lost its memory, of 3,400 pages read again, with nobody on the other CPU."""
    alone = {
        "wall": 1.0, "cpu": 1.0, "looks": 200.0, "waited_page": 0.0, "own_psi_cpu": 0.01, "voluntary_switches": 100.0,
    }  # fmt: skip
    now = alone | {"wall": 2.0, "waited_page": 0.9, "own_psi_cpu": 0.07, "voluntary_switches": 3500.0}
    [pages] = explain(cell(now, alone))
    assert (pages.resource, pages.share) == ("page faults", pytest.approx(0.96))
    assert "then waited for a CPU each time" in pages.words
    # No more than 20 µs each, and of tasks that wake at once each holds it up for its part.
    busy = now | {"waited_page": 0.5, "own_psi_cpu": 0.3}
    [pages, queue] = explain(cell(busy, alone))
    assert (pages.share, queue.share) == (
        pytest.approx(0.5 + 3400 * 20e-6),
        pytest.approx(0.29 - 3400 * 20e-6),
    )
    [pages, queue] = explain(cell(busy | {"cpu": 4.0}, alone | {"cpu": 4.0}))
    assert pages.share == pytest.approx(0.5 + 3400 * 10e-6)
    # Who was not seen to wait for anything wakes for another reason.
    [queue] = explain(cell(busy | {"waited_page": 0.0}, alone))
    assert (queue.resource, queue.share) == ("run queue", pytest.approx(0.29))


def test_a_device_that_is_slower_is_its_queue_however_much_is_read() -> None:
    now = {**READ, **DISK, "wall": 2.0, "waited_read": 0.9, "read_bytes": 40e6, "disk_await": 5.0}
    before = {**READ, **DISK, "read_bytes": 30e6}
    assert next(one.resource for one in explain(cell(now, before))) == "disk queue"


def test_shares_are_of_means_which_add_up() -> None:
    """Of three trials one is slow: its wait is in the mean as its time is, and in no median."""

    def work(time: float, waited: float) -> Work:
        return Work(time, Observations({"wall": (time, "s"), "waited_sync": (waited, "s")}))

    now, before = {**LOOKED, "wall": 1.5, "waited_sync": 0.1}, {**LOOKED, "waited_sync": 0.1}
    assert explain(cell(now, before, 1.5)) == []
    (cause,) = explain(cell(now, before, 1.5, worked=Worked(work(2.0, 1.0), work(1.0, 0.1))))
    assert cause.resource == "fsync" and cause.share == pytest.approx(0.9)
    assert explain(cell(now, before, 1.5, worked=Worked(work(1.0, 1.0), work(1.0, 0.1)))) == []


def test_looks_that_are_few_name_nothing() -> None:
    """Of 40 looks at one trial, one more in a wait is chance where the slowdown is small."""
    now, before = {**LOOKED, "wall": 1.05, "waited_read": 0.31}, {**LOOKED, "waited_read": 0.28}
    assert explain(cell(now, before, 1.05)) == []
    often = {"looks": 40_000.0}
    (cause,) = explain(cell({**now, **often}, {**before, **often}, 1.05))
    assert cause.resource == "disk queue"


def test_more_reads_at_the_same_speed_are_a_page_cache_that_is_lost() -> None:
    now, before = {**LOOKED, **DISK, "wall": 2.0, "waited_read": 1.0}, {**LOOKED, **DISK, "waited_read": 0.0}
    assert [c.resource for c in explain(cell(now, before))] == ["page cache"]
    slower = {**now, "disk_await": 3.0}
    assert [c.resource for c in explain(cell(slower, before))] == ["disk queue"]
    assert [c.resource for c in explain(cell(slower, {**before, "disk_iops": 1.0}))] == ["page cache"]
