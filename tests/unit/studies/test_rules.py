"""What is said of a slowed victim: quotas and disks by the counters that are really written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from contend.document import CellResult, Level, MetricInfo
from contend.platforms.quotas import Quota
from contend.probes.evidence import held_s
from contend.probes.observed import Observations
from contend.stats.estimate import Estimate
from contend.studies.causes.explain import explain
from contend.units import format_value

METRIC = MetricInfo("wall", "s", "lower", "", True)
ESTIMATE = Estimate(2.0, 1.9, 2.1, "ratio", 10, 0.95, "HL", "higher")
LEVEL = Level(ESTIMATE, (1.0,), (0,), ())
BOX = Quota("/sys/fs/cgroup/cpu/box", 0.5, "above", 1.0, 10)


def cell(now: dict[str, float], before: dict[str, float], **more: object) -> CellResult:
    def seen(of: dict[str, float]) -> Observations:
        return Observations({name: (value, "s") for name, value in of.items()})

    made = CellResult(
        "a|b", {"victim": "a", "neighbour": "b"}, METRIC, LEVEL, LEVEL, ESTIMATE, seen(now), seen(before)
    )
    return replace(made, **more)  # type: ignore[arg-type]


def test_waiting_under_a_quota_is_not_waiting_for_a_neighbour() -> None:
    """The kernel counts throttled tasks as waiting, in run delay and pressure."""
    now = {"wall": 2.0, "own_psi_cpu": 1.02, "run_delay": 1.02, "throttled": 1.0}
    before = {"wall": 1.0, "own_psi_cpu": 0.01, "run_delay": 0.01, "throttled": 0.0}
    (cause,) = explain(cell(now, before, quotas=(BOX,)))
    assert cause.resource == "throttling" and cause.share == pytest.approx(1.0, abs=0.02)
    assert cause.words.startswith(
        "was limited by the CPU quota of 0.5 CPUs in /sys/fs/cgroup/cpu/box for 1 s of 2 s"
    )


def test_both_are_told_apart() -> None:
    now = {"wall": 2.0, "own_psi_cpu": 1.0, "throttled": 0.4}
    before = {"wall": 1.0, "own_psi_cpu": 0.0, "throttled": 0.0}
    causes = {cause.resource: cause for cause in explain(cell(now, before, quotas=(BOX,)))}
    assert causes["throttling"].share == pytest.approx(0.4)
    assert causes["run queue"].share == pytest.approx(0.6)
    assert "waited for the CPU 600 ms" in causes["run queue"].words


@pytest.mark.parametrize(
    ("cpus", "seen", "quota"),
    [
        # Two threads on two CPUs, held for 400 ms of each second, that share them with two others for the rest.
        (2, {"own_psi_cpu": 0.7, "throttled": 0.8, "cpu": 0.6, "run_delay": 1.4}, 0.4),
        # Four threads: they wait for each other too, and that is no quota's.
        (2, {"own_psi_cpu": 0.9, "throttled": 0.8, "cpu": 0.6, "run_delay": 3.4}, 0.4),
        # One thread in a group of its own.
        (2, {"own_psi_cpu": 0.7, "throttled": 0.4, "cpu": 0.3, "run_delay": 0.7}, 0.4),
        # Two that sleep for half of the time, both at once.
        (2, {"own_psi_cpu": 0.2, "throttled": 0.4, "cpu": 0.6, "run_delay": 0.4}, 0.2),
        # As measured of two on two CPUs with a quota of one: all that they wait is the quota's.
        (2, {"own_psi_cpu": 0.50, "throttled": 0.92, "cpu": 1.01, "run_delay": 0.99}, 0.46),
        # Without pressure figures the run delay counts both threads' waits, 700 ms each.
        (2, {"throttled": 0.8, "cpu": 0.6, "run_delay": 1.4}, 0.8),
    ],
)
def test_of_a_quota_over_several_cpus_the_time_counts_in_which_it_held(
    cpus: int, seen: dict[str, float], quota: float
) -> None:
    """The kernel adds throttled time up over CPUs; a neighbour's part of the waiting stays the neighbour's."""
    now = {"wall": 1.0, **seen}
    held = held_s(Observations({name: (value, "s") for name, value in now.items()}), cpus)
    assert held is not None
    assert held <= now["throttled"]
    alone = dict.fromkeys(seen, 0.0) | {"wall": 0.1, "cpu": seen["cpu"], "held": 0.0}
    slower = replace(ESTIMATE, value=10.0, low=9.5, high=10.5)
    made = cell({**now, "held": held}, alone, quotas=(BOX,), estimate=slower)
    causes = {cause.resource: cause for cause in explain(made)}
    assert causes["throttling"].share == pytest.approx(10 * quota / 9, abs=0.01)
    if (waited := seen.get("own_psi_cpu", seen["run_delay"])) - quota > 0.05:
        assert f"waited for the CPU {format_value(waited - quota, 's')}" in causes["run queue"].words
    else:
        assert "run queue" not in causes


def test_never_more_is_taken_off_than_there_was() -> None:
    """A group's throttled time is summed over CPUs, and others may be in it."""
    now = {"wall": 2.0, "own_psi_cpu": 0.5, "throttled": 6.0}
    before = {"wall": 1.0, "own_psi_cpu": 0.0, "throttled": 0.0}
    (cause,) = explain(cell(now, before, quotas=(BOX,)))
    assert cause.resource == "throttling" and cause.share == pytest.approx(0.5)
    assert "500 ms of 2 s" in cause.words


def test_a_quota_that_held_it_as_much_alone_explains_nothing() -> None:
    now = {"wall": 2.0, "own_psi_cpu": 1.5, "throttled": 0.5}
    before = {"wall": 1.0, "own_psi_cpu": 0.5, "throttled": 0.5}
    causes = [cause.resource for cause in explain(cell(now, before, quotas=(BOX,)))]
    assert causes == ["run queue"]


def test_what_cannot_be_read_is_said() -> None:
    now, before = {"wall": 2.0, "own_psi_cpu": 1.0}, {"wall": 1.0, "own_psi_cpu": 0.0}
    (cause,) = explain(cell(now, before, quotas_unknown="the cgroups above cannot be seen"))
    assert "whether a CPU quota held it back is unknown: the cgroups above cannot be seen" in cause.words
    (silent,) = explain(cell({**now, "throttled": 0.0}, {**before, "throttled": 0.0}))
    assert "; not throttled" in silent.words


def test_the_disk_is_named_for_a_victim_that_waits_for_it() -> None:
    """Its own pressure says that it uses the disk, also where that has less than half a request in flight."""
    before = {"wall": 1.0, "own_psi_io": 0.2, "disk_await": 1.0, "disk_iops": 100.0, "disk_queue": 0.1}
    now = {**before, "wall": 2.0, "own_psi_io": 1.2, "disk_await": 2.0}
    assert [cause.resource for cause in explain(cell(now, before))] == ["disk queue"]
    assert explain(cell(now, {**before, "own_psi_io": 0.0})) == []
