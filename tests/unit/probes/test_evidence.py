"""Evidence from counters whose differences are known."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contend.platforms.base import Exit, Usage
from contend.probes.contamination import FLAGS, flags
from contend.probes.evidence import Started, difference, followed
from contend.probes.observed import Evidence, Observations, Observed, put
from contend.probes.snapshot import CpuTimes, DiskCounters, Snapshot
from contend.probes.stolen import Ran, stolen_s
from contend.probes.waits import WAITS

S, MS = 10**9, 10**6
IDLE = CpuTimes(0, 0, 0, 0, 0, 0, 0, 0)
DISK = DiskCounters(0, 0, 0, 0, 0, 0, 0, 0, 0)
BEFORE = Snapshot(
    t_ns=5 * S,
    cpus={0: IDLE, 1: IDLE},
    context_switches=0,
    procs_running=1,
    psi_ns={"cpu": 1 * S, "io": 0},
    disks={"vda": DISK},
    net_bytes={},
    frequency_mhz={},
)
AFTER = replace(
    BEFORE,
    t_ns=7 * S,
    cpus={
        0: CpuTimes(1500 * MS, 100 * MS, 200 * MS, 0, 0, 9 * S, 9 * S, 40 * MS),
        1: IDLE._replace(user=2 * S),
    },
    psi_ns={"cpu": 3 * S, "io": 0},
    disks={"vda": DiskCounters(300, 3000, 900 * MS, 100, 1000, 100 * MS, 0, 1 * S, 8 * S)},
)
EXIT = Exit(
    0,
    1_900 * MS,
    900 * MS,
    50 * MS,
    1,
    voluntary_switches=7,
    involuntary_switches=70,
    read_bytes=4096,
    major_faults=3,
)
WATCH = {"run_delay_ns": 800 * MS, "cpu_ns": 760 * MS}


def values(**changes: object) -> dict[str, float]:
    arguments: dict[str, object] = {
        "before": BEFORE,
        "after": AFTER,
        "usage_before": Usage(cpu_ns=1 * S, nr_throttled=2, throttled_ns=3 * S, cpu_pressure_ns=0),
        "usage_after": Usage(
            cpu_ns=1 * S + 950 * MS, nr_throttled=12, throttled_ns=4 * S, cpu_pressure_ns=5 * MS
        ),
        "exit": EXIT,
        "taskwatch": WATCH,
        "cpus": (0,),
        "device": "vda",
        "others": (Started(100 * MS, (0,)), Started(2 * S, (1,)), Started(50 * MS, None)),
    }
    return {name: value for name, (value, _) in difference(**{**arguments, **changes}).items()}  # type: ignore[arg-type]


def test_every_figure_of_a_full_record() -> None:
    assert values() == pytest.approx(
        {
            "wall": 1.9,
            "cpu": 0.95,
            "system_cpu": 0.05,
            "read_bytes": 4096,
            "major_faults": 3,
            "wall_per_cpu": 2.0,
            "run_delay": 0.8,
            "run_delay_coverage": 0.8,
            "voluntary_switches": 7,
            "involuntary_switches": 70,
            "throttled": 1.0,
            "throttled_periods": 10,
            "own_psi_cpu": 0.005,
            "psi_cpu": 2.0,
            "psi_io": 0.0,
            "steal": 0.04,
            # the victim's part of the 1.8 s in which tasks ran there
            "stolen_least": 0.04 * 0.95 / 1.8,
            "stolen_most": 0.04 * 0.95 / 1.8,
            # busy 1.8 s on CPU 0; 0.95 the victim's, 0.1 a neighbour's there, 0.05 one's that could be there
            "foreign_cpu": 0.7,
            "disk_busy": 0.5,
            "disk_queue": 4.0,
            "disk_iops": 200.0,
            "disk_bytes_per_s": 2000.0,
            "disk_await": 2.5,
        }
    )


def test_units_stand_beside_the_values() -> None:
    evidence = difference(BEFORE, AFTER, Usage(), Usage(), EXIT, WATCH, (0,), device="vda", others=())
    units = {name: unit for name, (_, unit) in evidence.items()}
    assert units["disk_await"] == "ms" and units["disk_queue"] == "requests" and units["run_delay"] == "s"


@pytest.mark.parametrize(
    ("changes", "absent"),
    [
        ({"usage_before": Usage()}, {"throttled", "throttled_periods", "own_psi_cpu"}),
        ({"taskwatch": None}, {"run_delay", "run_delay_coverage"}),
        (
            {"exit": None},
            {"system_cpu", "read_bytes", "major_faults", "voluntary_switches", "involuntary_switches"},
        ),
        ({"others": None}, {"foreign_cpu"}),
        ({"device": "sdz"}, {"disk_busy", "disk_queue", "disk_iops", "disk_bytes_per_s", "disk_await"}),
        ({"after": replace(AFTER, psi_ns={})}, {"psi_cpu", "psi_io"}),
        ({"after": replace(AFTER, disks=BEFORE.disks)}, {"disk_await"}),  # no request, so no mean
        (
            {"after": replace(AFTER, cpus={1: IDLE})},
            {"steal", "stolen_least", "stolen_most", "foreign_cpu"},
        ),  # went offline
    ],
)
def test_what_cannot_be_told_is_absent(changes: dict[str, object], absent: set[str]) -> None:
    assert set(values()) - set(values(**changes)) == absent


def test_what_a_group_has_read_is_no_less_than_what_its_process_has() -> None:
    """A group counts its children; without its controller, nothing."""
    more = Usage(cpu_ns=1 * S, system_ns=10 * MS, read_bytes=8192)
    result = values(usage_before=Usage(cpu_ns=0, system_ns=0, read_bytes=0), usage_after=more)
    assert (result["system_cpu"], result["read_bytes"]) == (0.01, 8192)
    assert values(usage_before=Usage(read_bytes=0), usage_after=Usage(read_bytes=0))["read_bytes"] == 4096


ONE_AT_A_TIME = {
    **{f"waited_{kind}_ns": 0 for kind in WAITS}, "waited_send_ns": 400 * MS, "waited_page_ns": 100 * MS,
    "looks": 100, "looked_ns": 1_900 * MS, "ran_ns": 1_200 * MS, "at_once_ns": 0,
    "cpu_ns": 950 * MS, "run_delay_ns": 350 * MS,
}  # fmt: skip
"""Looks have 0.7 s in which nothing ran; by the kernel's counters these are 1.9 - 0.95 - 0.35 = 0.6 s."""


@pytest.mark.parametrize(
    ("changes", "factor"),
    [
        ({}, 6 / 7),
        ({"waited_send_ns": 800 * MS}, 6 / 9),  # it cannot have waited for longer than it was off
        ({"run_delay_ns": 1 * S}, 0.0),
        ({"ran_ns": 1_400 * MS}, 6 / 5),
        ({"ran_ns": 1_700 * MS, "waited_send_ns": 100 * MS}, 2.0),  # of more it is not known what it was
        ({"at_once_ns": 190 * MS}, 1.0),  # tasks side by side: what one waits, another computes
        (
            {"cpu_ns": 855 * MS, "ran_ns": 1_105 * MS},
            6 / 7,
        ),  # a task that was not looked at computed meanwhile
        ({"cpu_ns": 500 * MS}, 1.0),
        ({"waited_send_ns": 0, "waited_page_ns": 0}, 1.0),
    ],
)
def test_waits_are_as_long_as_nothing_could_run(changes: dict[str, int], factor: float) -> None:
    watch = ONE_AT_A_TIME | changes
    quiet = replace(AFTER, cpus={0: IDLE._replace(user=2 * S), 1: IDLE})
    seen = values(taskwatch=watch, after=quiet)
    assert seen["waited_send"] == pytest.approx(factor * watch["waited_send_ns"] / S, abs=1e-9)
    assert seen["waited_page"] == pytest.approx(factor * watch["waited_page_ns"] / S, abs=1e-9)


def test_the_time_in_which_there_was_nobody_to_look_at_is_no_wait() -> None:
    """A container took 0.4 s to start; in the other 1.5 s it waited 0.3 s, which looks have right."""
    watch = ONE_AT_A_TIME | {"looked_ns": 1_500 * MS, "ran_ns": 1_200 * MS, "waited_page_ns": 0}
    watch |= {"waited_send_ns": 300 * MS, "run_delay_ns": 250 * MS}
    quiet = replace(AFTER, cpus={0: IDLE._replace(user=2 * S), 1: IDLE})
    seen = values(taskwatch=watch, after=quiet)
    assert seen["waited_send"] == pytest.approx(1.9 * 0.3 / 1.5)


def test_looks_are_believed_within_what_is_not_known() -> None:
    """0.6 s less what the hypervisor took, 0 to 0.2 s of it from the victim, and interrupts, up to 0.1 s."""
    others = IDLE._replace(user=950 * MS)
    for steal, interrupts, ran, off in (
        (0, 0, 1_500, 0.6),
        (0, 100, 1_500, 0.5),
        (0, 100, 1_350, 0.55),
        (0, 100, 1_200, 0.6),
        (200, 0, 1_200, 0.6),
        (200, 0, 1_400, 0.5),
        (200, 0, 1_600, 0.4),
    ):
        cpus = {0: others._replace(steal=steal * MS, irq=interrupts * MS), 1: others}
        watch = ONE_AT_A_TIME | {"ran_ns": ran * MS, "waited_send_ns": 300 * MS, "waited_page_ns": 0}
        seen = values(taskwatch=watch, after=replace(AFTER, cpus=cpus), cpus=(0, 1))
        looks = max(0.3, 1.9 - ran / 1e3)
        assert seen["waited_send"] == pytest.approx(0.3 * off / looks), (steal, interrupts, ran)


def test_waits_for_a_disk_are_no_less_than_the_group_s_pressure() -> None:
    """Looks miss waits that are short; what they saw shares the time."""
    kinds = ("file_lock", "sync", "read", "write", "completion", "peer", "send", "page")
    seen = {f"waited_{kind}_ns": 0 for kind in kinds} | {"waited_read_ns": 30 * MS, "waited_page_ns": 10 * MS}
    watch = {**WATCH, "looks": 100, "looked_ns": 1_900 * MS, **seen}

    def of(pressure_ms: int) -> tuple[float, float]:
        result = values(
            taskwatch=watch,
            usage_before=Usage(io_pressure_ns=0),
            usage_after=Usage(io_pressure_ns=pressure_ms * MS),
        )
        return result["waited_read"], result["waited_page"]

    assert of(60) == pytest.approx((0.045, 0.015))
    assert of(400) == pytest.approx((0.06, 0.02)), "of more it is not known what it was"
    assert of(20) == pytest.approx((0.03, 0.01))


@pytest.mark.parametrize(
    ("cpus", "used", "wall", "bounds"),
    [
        # It was all that ran there, and lost all.
        ([(3.0, 1.0)], 3.0, 4.0, (1.0, 1.0)),
        # Of a CPU that it shares evenly, half.
        ([(3.0, 1.0)], 1.5, 4.0, (0.5, 0.5)),
        # One task, of which nobody knows on which of two CPUs it ran: as much was stolen from both.
        ([(3.0, 1.0), (3.0, 1.0)], 3.0, 4.0, (1.0, 1.0)),
        # From one of them, on which it was or was not.
        ([(3.0, 1.0), (3.0, 0.0)], 3.0, 4.0, (0.0, 1.0)),
        # It ran for longer than the other CPU did.
        ([(3.0, 1.0), (1.5, 0.0)], 3.0, 4.0, (0.5, 1.0)),
        # Two tasks on two CPUs: one of them was held up.
        ([(3.0, 1.0), (4.0, 0.0)], 7.0, 4.0, (0.5, 0.5)),
        # More CPU time than was counted: all of it is its own.
        ([(0.99, 0.5)], 1.0, 1.5, (0.5, 0.5)),
        # A CPU from which all was stolen but less than a tick, which nobody counted.
        ([(0.0, 2.0)], 0.01, 2.01, (2.0, 2.0)),
        ([(3.0, 0.0)], 3.0, 3.0, (0.0, 0.0)),
        ([(3.0, 1.0)], 3.0, 0.0, (0.0, 0.0)),
        ([], 3.0, 3.0, (0.0, 0.0)),
    ],
)
def test_of_what_is_stolen_a_victim_loses_what_it_had(
    cpus: list[tuple[float, float]], used: float, wall: float, bounds: tuple[float, float]
) -> None:
    assert stolen_s([Ran(*cpu) for cpu in cpus], used, wall) == pytest.approx(bounds)


@given(
    cpus=st.lists(
        st.tuples(st.floats(0.0, 3.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0)), min_size=1, max_size=4
    )
)
def test_bounds_of_what_is_stolen_hold_the_truth(cpus: list[tuple[float, float, float]]) -> None:
    """Planted: on each CPU so long it ran, a part of that the victim, and the hypervisor took from both alike."""
    cpus = [(max(ran, 0.01), stolen, part) for ran, stolen, part in cpus]
    used, wall = sum(ran * part for ran, _, part in cpus), 4.0
    lost = sum(stolen * part for _, stolen, part in cpus)
    truth = lost / max(1.0, (used + lost) / wall)
    least, most = stolen_s([Ran(ran, stolen) for ran, stolen, _ in cpus], used, wall)
    assert least - 1e-9 <= truth <= most + 1e-9
    assert most <= sum(stolen for _, stolen, _ in cpus) + 1e-9


def test_who_is_followed_has_lost_what_is_not_the_follower_s(tmp_path: Path) -> None:
    """Where it ran is not known: of what was stolen, it may have lost nothing or all."""
    of_trial: Evidence = {}
    for name, value in (("WALL", 3.0), ("STEAL", 0.01), ("STOLEN_LEAST", 0.002), ("STOLEN_MOST", 0.002)):
        put(of_trial, Observed[name], value)
    file = tmp_path / "evidence.json"
    file.write_text(json.dumps({"wall": 3.0, "cpu": 0.1}))
    seen = Observations(followed(file, of_trial))
    assert (seen.value(Observed.STOLEN_LEAST), seen.value(Observed.STOLEN_MOST)) == (0.0, 0.01)
    file.write_text(json.dumps({"wall": 3.0, "cpu": 0.1, "stolen_least": 0.001, "stolen_most": 0.001}))
    seen = Observations(followed(file, of_trial))
    assert (seen.value(Observed.STOLEN_LEAST), seen.value(Observed.STOLEN_MOST)) == (0.001, 0.001)
    del of_trial[Observed.STEAL]
    file.write_text(json.dumps({"wall": 3.0}))
    assert Observed.STOLEN_MOST not in followed(file, of_trial)


def test_a_server_counts_the_window_and_its_cgroup() -> None:
    result = values(exit=None)
    assert result["wall"] == 2.0 and result["cpu"] == 0.95


def test_without_a_cgroup_the_process_tells_its_cpu() -> None:
    assert values(usage_before=Usage(), usage_after=Usage())["cpu"] == 0.95


def test_foreign_time_is_never_negative() -> None:
    assert values(others=(Started(9 * S, (0,)),))["foreign_cpu"] == 0.0


def test_frequency_is_of_the_victims_cpus() -> None:
    before = replace(BEFORE, frequency_mhz={0: 2000.0, 1: 4000.0})
    after = replace(AFTER, frequency_mhz={0: 3000.0, 1: 4000.0})
    assert values(before=before, after=after)["frequency"] == 2500.0


@pytest.mark.parametrize(
    ("name", "flag", "limit"),
    [(Observed.STEAL, "steal", 0.01), (Observed.FOREIGN_CPU, "foreign-cpu", 0.05)],
)
def test_flags_rise_just_above_their_thresholds(name: Observed, flag: str, limit: float) -> None:
    def of(share: float, cpus: int) -> tuple[str, ...]:
        return flags({Observed.WALL: (2.0, "s"), name: (share * 2.0 * cpus, "s")}, cpus)

    assert of(limit * 0.99, 1) == of(limit * 0.99, 2) == ()
    assert of(limit * 1.01, 1) == of(limit * 1.01, 2) == (flag,)
    assert flag in FLAGS


def test_no_wall_no_flag() -> None:
    steal = {Observed.STEAL: (1.0, "s")}
    assert flags(steal, 1) == () == flags({Observed.WALL: (0.0, "s"), **steal}, 1)


def test_a_limit_changed_by_others_is_a_flag_whatever_was_seen() -> None:
    assert (
        flags({}, 1, changed=True)
        == ("limit-changed",)
        == flags({Observed.WALL: (1.0, "s")}, 1, changed=True)
    )
    assert "limit-changed" in FLAGS


ROOT = Path(__file__).parents[3] / "python/contend"


def test_everything_that_is_asked_for_is_written_by_somebody() -> None:
    used: dict[str, set[str]] = {}
    written: set[str] = set()
    for path in ROOT.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"\bObserved\.([A-Z_]+)\b", text):
            used.setdefault(name, set()).add(path.name)
        written |= set(re.findall(r"\bput\(\s*\w+,\s*Observed\.([A-Z_]+)", text))
    # Written in a loop over pairs of a name and a counter, and by an import's `_SAMPLES`.
    written |= {"THROTTLED", "OWN_PSI_CPU", "OWN_PSI_IO", "PSI_CPU", "PSI_IO", "PSI_MEMORY", "SAMPLES"}
    written |= {observed.name for observed in WAITS.values()}
    assert set(used) <= set(Observed.__members__)
    assert set(used) <= written
    assert set(Observed.__members__) <= written, "declared, and written by nobody"


def test_a_name_that_nobody_writes_does_not_run() -> None:
    seen = Observations({"own_psi_io": (1.0, "s"), "wall": (2.0, "s")})
    for ask in (seen.get, seen.value, seen.__getitem__, seen.__contains__):
        with pytest.raises(TypeError, match="own_io"):
            ask("own_io")  # type: ignore[arg-type, operator]
    with pytest.raises(TypeError, match="own_io"):
        put({}, "own_io", 1.0)  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        _ = Observed.OWN_IO  # type: ignore[attr-defined]
    assert seen.value(Observed.OWN_PSI_IO) == 1.0 and seen.value(Observed.STEAL) is None


def test_what_other_versions_wrote_is_kept_and_not_mixed_in() -> None:
    row = {
        "evidence": [{"name": "of_later", "value": 3, "unit": "s"}, {"name": "wall", "value": 2, "unit": "s"}]
    }
    seen = Observations.of_row(row)
    assert list(seen) == [Observed.WALL] and len(seen) == 1
    assert seen.flat["of_later"] == (3.0, "s") and set(seen.flat) == {"of_later", "wall"}
    assert Observations.of_row({}) == Observations()


def test_names_in_rows_stay_what_they_were() -> None:
    evidence: Evidence = {}
    put(evidence, Observed.OWN_PSI_IO, 1.0)
    assert json.loads(json.dumps(dict(evidence))) == {"own_psi_io": [1.0, "s"]}
    assert all(
        str(name) == name.value == name.name.lower() and name.unit and name.meaning for name in Observed
    )


def test_waits_are_a_share_of_the_looks_and_absent_where_there_were_few() -> None:
    looked = WATCH | {f"waited_{name}_ns": 0 for name in WAITS}
    looked |= {"looks": 40, "looked_ns": 1 * S, "waited_file_lock_ns": 250 * MS}
    seen = values(taskwatch=looked)
    assert seen["waited_file_lock"] == pytest.approx(0.25 * 1.9), (
        "a fourth of the looks, of the victim's 1.9 s"
    )
    assert seen["waited_peer"] == 0.0 and seen["looks"] == 40
    few = values(taskwatch={**looked, "looks": 9})
    assert not any(name.startswith("waited_") or name == "looks" for name in few)
