"""Which share of a slowdown each cause explains, against the formula in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contend.document import Work, Worked
from contend.platforms.quotas import Quota
from contend.probes.observed import Observations
from contend.studies.causes.cause import LEAST_SHARE, caused
from contend.studies.causes.explain import clauses, explain
from contend.studies.causes.stolen import doubt
from contend.studies.interference.findings import findings as advise
from support.slowed import DISK, ESTIMATE, METRIC, REPEAT, WAITED, cell, expected, stolen, study

SECONDS = st.floats(0.01, 10.0)


@given(
    slowdown=st.floats(1.05, 20.0), wall=SECONDS, base=SECONDS, here=SECONDS, alone=SECONDS, part=st.floats(0.1, 1.0),
    name=st.sampled_from([("own_psi_cpu", "run queue"), ("run_delay", "run queue"), ("stolen", "hypervisor")]),
)  # fmt: skip
def test_a_share_is_the_growth_of_the_wait_for_a_unit_of_work(
    slowdown: float, wall: float, base: float, here: float, alone: float, part: float, name: tuple[str, str]
) -> None:
    observed, resource = name
    known = ("stolen_least", "stolen_most") if observed == "stolen" else (observed,)
    now = {"wall": wall, "measured": wall * part, **dict.fromkeys(known, here)}
    before = {"wall": base, "measured": base * part, **dict.fromkeys(known, alone)}
    share = min(1.0, expected(slowdown, here, wall * part, alone, base * part))
    causes = explain(cell(now, before, slowdown))
    if share < LEAST_SHARE - 1e-9:
        assert causes == []
    elif share > LEAST_SHARE + 1e-9:
        (cause,) = causes
        assert cause.resource == resource
        assert cause.share == pytest.approx(share)
        assert [e.value for e in cause.evidence] == [here, alone] * len(known)


def test_without_a_stated_window_the_whole_run_counts() -> None:
    (cause,) = explain(cell({"wall": 4.0, "own_psi_cpu": 1.0}, {"wall": 2.0, "own_psi_cpu": 0.2}, 3.0))
    assert cause.share == pytest.approx((3 * 1 / 4 - 0.2 / 2) / 2)


@pytest.mark.parametrize("slowdown", [1.0, 0.8])
def test_who_is_not_slowed_waited_for_nothing(slowdown: float) -> None:
    now, before = {"wall": 2.0, "own_psi_cpu": 1.5}, {"wall": 1.0, "own_psi_cpu": 0.0}
    assert explain(cell(now, before, slowdown)) == []


@pytest.mark.parametrize("side", [0, 1])
def test_without_a_length_of_both_nothing_is_explained(side: int) -> None:
    both = [{"wall": 2.0, "own_psi_cpu": 1.5}, {"wall": 1.0, "own_psi_cpu": 0.0}]
    both[side].pop("wall")
    assert explain(cell(*both)) == []


def test_pressure_is_believed_before_the_run_delay_which_is_evidence_too() -> None:
    now = {"wall": 2.0, "own_psi_cpu": 0.8, "run_delay": 2.0, "involuntary_switches": 90.0}
    before = {"wall": 1.0, "own_psi_cpu": 0.0, "run_delay": 0.1, "involuntary_switches": 3.0}
    (cause,) = explain(cell(now, before))
    assert cause.share == pytest.approx(0.8)
    assert [e.value for e in cause.evidence] == [0.8, 0.0, 2.0, 0.1, 90.0, 3.0]
    assert ["beside" in e.what for e in cause.evidence] == [True, False] * 3


def test_run_delay_is_told_once_where_it_is_the_measure() -> None:
    (cause,) = explain(cell({"wall": 2.0, "run_delay": 1.0}, {"wall": 1.0, "run_delay": 0.0}))
    assert [e.value for e in cause.evidence] == [1.0, 0.0]


def test_the_same_work_that_takes_more_cpu_time_is_just_that() -> None:
    now, before = {"wall": 2.0, "cpu": 1.5}, {"wall": 1.0, "cpu": 0.9}
    (cause,) = explain(cell(now, before))
    assert cause.resource == "dearer execution"
    assert cause.share == pytest.approx((2 * 1.5 / 2 - 0.9) / 1)
    assert "67 % more CPU time" in cause.words  # 2 · 1.5 s of each 2 s, for 0.9 s of each 1 s alone
    assert [e.value for e in cause.evidence] == [1.5, 0.9]


@pytest.mark.parametrize(
    ("now", "before"),
    [
        ({"wall": 2.0, "cpu": 0.9}, {"wall": 1.0, "cpu": 0.9}),
        ({"wall": 2.0, "cpu": 1.5}, {"wall": 1.0, "cpu": 0.0}),
        ({"wall": 2.0, "cpu": 1.5}, {"wall": 1.0}),
        ({"wall": 2.0}, {"wall": 1.0, "cpu": 0.1}),
    ],
)
def test_cpu_time_that_did_not_grow_or_is_not_known_explains_nothing(
    now: dict[str, float], before: dict[str, float]
) -> None:
    assert explain(cell(now, before)) == []


def test_shares_are_capped_in_the_order_of_directness_and_told_by_size() -> None:
    """The run queue is asked before the hypervisor: it keeps its 0.4, the other gets what is left of one."""
    now = {"wall": 2.0, "own_psi_cpu": 0.4, "cpu": 2.0, **stolen(1.4)}
    before = {"wall": 1.0, "own_psi_cpu": 0.0, "cpu": 0.1, **stolen(0.0)}
    causes = explain(cell(now, before))
    assert [(c.resource, c.share) for c in causes] == [
        ("hypervisor", pytest.approx(0.6)),
        ("run queue", pytest.approx(0.4)),
    ]
    assert "(60 % of the slowdown)" in causes[0].words
    assert causes[0].as_clause.startswith("its CPU was taken")
    assert causes[1].as_clause.startswith("it waited")


def test_what_the_hypervisor_took_from_others_is_not_the_victim_s() -> None:
    """It took 1 s of the CPUs' time, 40 ms of that while the victim was on them."""
    now, before = {"wall": 2.0, **stolen(0.02, 0.04, 1.0)}, {"wall": 1.0, **stolen(0.0)}
    assert explain(cell(now, before)) == []
    (finding,) = advise(study(), [cell(now, before)], [], REPEAT)
    assert "hypervisor" not in finding.sentence


@pytest.mark.parametrize(
    ("now", "before", "share", "says"),
    [
        # Known to within a tenth: the middle.
        (
            stolen(0.36, 0.44),
            stolen(0.0),
            0.4,
            "taken by the hypervisor 400 ms of 2 s (40 % of the slowdown)",
        ),
        # Not known: the least, called that.
        (stolen(0.3, 0.8), stolen(0.0), 0.3, "300 ms to 800 ms of 2 s (at least 30 % of the slowdown)"),
        (stolen(0.5), stolen(0.0, 0.2, 0.2), 0.3, "500 ms of 2 s (at least 30 % of the slowdown)"),
        # Nothing for certain.
        (
            stolen(0.0, 0.18, 0.18),
            stolen(0.0),
            None,
            "may have taken up to 18 % of the slowdown: it kept these CPUs",
        ),
        (
            {"steal": 0.18},
            {"steal": 0.0},
            None,
            "may have taken up to 18 % of the slowdown: it kept these CPUs",
        ),
        (
            {"steal": 5.0},
            {"steal": 0.0},
            None,
            "may have taken up to 100 % of the slowdown: it kept these CPUs",
        ),
        # Too little to matter, or as much of it alone.
        ({"steal": 0.09}, {"steal": 0.0}, None, ""),
        (stolen(0.5), stolen(0.5), None, ""),
        (stolen(0.0), stolen(0.5), None, ""),
    ],
)
def test_a_share_of_the_hypervisor_s_is_known_or_bounded_or_refused(
    now: dict[str, float], before: dict[str, float], share: float | None, says: str
) -> None:
    of = cell({"wall": 2.0, **now}, {"wall": 1.0, **before})
    causes = explain(of)
    assert [(c.resource, pytest.approx(c.share)) for c in causes] == [("hypervisor", share)] * (
        share is not None
    )
    assert doubt(of, causes) == "" or share is None
    (finding,) = advise(study(), [of], [], REPEAT)
    assert says in finding.sentence and ("hypervisor" in finding.sentence) == bool(says)
    assert finding.resource == ("hypervisor" if share else "unexplained")
    assert clauses(of, causes) in finding.sentence


def test_the_hypervisor_may_have_taken_no_more_than_is_left() -> None:
    now, before = {**WAITED[0], "steal": 0.5}, {**WAITED[1], "steal": 0.0}
    causes = explain(cell(now, before))
    assert "up to 20 % of the slowdown" in doubt(cell(now, before), causes)
    most = {**now, "own_psi_cpu": 0.95}
    assert doubt(cell(most, before), explain(cell(most, before))) == ""


@pytest.mark.parametrize(("wait", "kept"), [(LEAST_SHARE, True), (LEAST_SHARE - 0.001, False)])
def test_a_small_part_is_worth_no_sentence(wait: float, kept: bool) -> None:
    causes = explain(cell({"wall": 2.0, "own_psi_cpu": wait}, {"wall": 1.0, "own_psi_cpu": 0.0}))
    assert bool(causes) == kept


@pytest.mark.parametrize(
    ("now", "before", "found"),
    [
        ({"disk_await": 1.5}, {}, True),  # half as long again, of a whole slowdown
        ({"disk_await": 1.0}, {}, False),
        ({"disk_await": 0.5}, {}, False),
        ({"disk_await": 0.0}, {}, False),
        ({"disk_await": 1.5}, {"disk_await": 0.0}, False),
        ({"disk_await": 1.5}, {"disk_iops": 0.9}, False),
        ({"disk_await": 1.5}, {"disk_iops": 1.0}, True),
        ({"disk_await": 1.5}, {"disk_queue": 0.5}, True),
        ({"disk_await": 1.5}, {"disk_queue": 0.4}, False),
        ({"disk_await": 1.5}, {"disk_queue": 0.4, "own_psi_io": 0.1}, True),
    ],
)
def test_the_disk_s_queue_is_a_cause_for_who_uses_the_disk(
    now: dict[str, float], before: dict[str, float], found: bool
) -> None:
    causes = explain(cell({**DISK, "wall": 2.0, **now}, {**DISK, **before}))
    assert [c.resource for c in causes] == ["disk queue"] * found
    if found:
        (cause,) = causes
        queue = before.get("disk_queue", 4.0)
        # Of a whole slowdown: half as long for the part of the time in which a request was in flight.
        assert cause.share == pytest.approx(0.5 * min(1.0, queue))
        assert "1.5 ms instead of 1 ms" in cause.words
        iops = before.get("disk_iops", 4000.0)
        assert [e.value for e in cause.evidence] == [1.5, 1.0, 4000.0, iops, 4.0, queue]
        assert cause.as_clause == cause.words


def test_the_disk_s_queue_is_no_more_of_a_cause_than_requests_were_in_flight() -> None:
    """Its requests take five times as long, and it hardly has any: 0.05 in flight, in the half of the trial that counts."""
    now = {**DISK, "wall": 2.0, "disk_await": 5.0, "own_psi_io": 0.2}
    before = {**DISK, "disk_queue": 0.05, "own_psi_io": 0.05}
    (cause,) = explain(cell(now, before))
    assert cause.share == pytest.approx(0.2)
    (half,) = explain(cell(now, {**before, "measured": 0.5}))
    assert half.share == pytest.approx(0.4)


def test_a_quota_s_part_is_taken_off_both_sides_of_the_wait() -> None:
    now = {"wall": 2.0, "own_psi_cpu": 1.0, "held": 0.6}
    before = {"wall": 1.0, "own_psi_cpu": 0.2, "held": 0.1}
    shares = {c.resource: c.share for c in explain(cell(now, before))}
    assert shares == {"throttling": pytest.approx(0.5), "run queue": pytest.approx(0.3)}


def test_of_a_run_delay_all_that_were_ready_waited_for_the_quota() -> None:
    """Two tasks that want a CPU each, of which 0.4 s are held: 0.8 s of their 1.2 s of waiting are the quota's."""
    now = {"wall": 1.0, "run_delay": 1.2, "cpu": 0.8, "held": 0.4}
    before = {"wall": 1.0, "run_delay": 0.0, "cpu": 0.8, "held": 0.0}
    shares = {c.resource: c.share for c in explain(cell(now, before, 4.0))}
    assert shares["throttling"] == pytest.approx(min(1.0, 4 * 0.8 / 3))
    one = {"wall": 1.0, "run_delay": 0.3, "cpu": 0.2, "held": 0.2}  # seldom more than one: no less than held
    shares = {c.resource: c.share for c in explain(cell(one, {**before, "cpu": 0.2}, 4.0))}
    assert shares["throttling"] == pytest.approx(4 * 0.2 / 3)


def test_quotas_that_held_are_evidence_by_name() -> None:
    quotas = (Quota("/sys/fs/cgroup/a", 2.0, "own", 0.7, 10), Quota("/sys/fs/cgroup/b", 1.0, "above", 0.0, 0))
    now, before = {"wall": 2.0, "throttled": 1.0}, {"wall": 1.0, "throttled": 0.0}
    (cause,) = explain(cell(now, before, quotas=quotas))
    assert [e.value for e in cause.evidence] == [1.0, 0.0, 0.7]
    assert "2 CPUs" in cause.evidence[-1].what
    (older,) = explain(cell(now, before))
    assert [e.value for e in older.evidence] == [1.0, 0.0]


THREADS = {"wall": 2.0, "cpu": 1.9, "siblings_busy": 1.9}
ALONE_ON_CORE = {"wall": 1.0, "cpu": 0.95, "siblings_busy": 0.0}


def test_the_other_thread_of_a_core_takes_no_more_than_the_time_it_was_busy() -> None:
    (cause,) = explain(cell(THREADS, ALONE_ON_CORE))
    assert cause.resource == "threads of one core"
    assert cause.share == pytest.approx(0.95)
    assert "the other threads of its cores were busy for 1.9 s (0 s alone)" in cause.as_clause
    short = explain(cell(THREADS | {"siblings_busy": 0.4}, ALONE_ON_CORE))
    assert {one.resource: round(one.share, 2) for one in short} == {
        "dearer execution": 0.55,
        "threads of one core": 0.4,
    }
    idle = explain(cell(THREADS | {"siblings_busy": 0.05}, ALONE_ON_CORE))
    assert [one.resource for one in idle] == ["dearer execution"]


COUNTED = {"wall": 2.0, "cpu": 2.0, "cache_held": 2e6, "memory_traffic": 8e9, "others_memory_traffic": 2e10}
COUNTED_ALONE = {
    "wall": 1.0,
    "cpu": 1.0,
    "cache_held": 8e6,
    "memory_traffic": 2e9,
    "others_memory_traffic": 0.0,
}


@pytest.mark.parametrize(
    ("now", "resource"),
    [
        ({}, "cache"),
        ({"memory_traffic": 2e9}, "memory bandwidth"),  # it loses cache, and gets no more from memory
        ({"cache_held": 8e6, "memory_traffic": 2e9}, "memory bandwidth"),
        ({"cache_held": 8e6}, "dearer execution"),  # it moves more, and still has its cache
        (
            {"cache_held": 8e6, "memory_traffic": 2e9, "others_memory_traffic": 2e9},
            "dearer execution",
        ),  # neighbours move half as much as it did alone
    ],
)
def test_cache_and_memory_are_named_by_what_the_processor_counts(
    now: dict[str, float], resource: str
) -> None:
    (cause,) = explain(cell(COUNTED | now, COUNTED_ALONE))
    assert (cause.resource, cause.share) == (resource, 1.0)


def test_work_that_needs_no_memory_is_not_slowed_by_memory() -> None:
    little = {"cache_held": 8e6, "memory_traffic": 4e8}
    (cause,) = explain(cell(COUNTED | little, COUNTED_ALONE | little))
    assert cause.resource == "dearer execution"


ASKED = {"wall": 3.0, "cpu": 0.06, "run_delay": 0.36, "requests": 600.0, "measured": 0.6}
ASKED_ALONE = {"wall": 3.0, "cpu": 0.06, "run_delay": 0.06, "requests": 600.0, "measured": 0.3}


def test_of_a_percentile_no_time_of_who_asks_is_a_part() -> None:
    """The victim of an open loop is who asks: it waits for its peers by design."""
    by_asker = {"wall": 3.0, "looks": 100.0, "waited_peer": 2.9, "cpu": 0.1}
    asks = cell(by_asker, by_asker | {"waited_peer": 2.0})
    assert [cause.resource for cause in explain(asks)] == ["peers"]
    assert explain(replace(asks, metric=replace(METRIC, loop="open"))) == []


def test_of_a_service_that_is_asked_shares_are_of_its_mean_latency() -> None:
    """0.5 ms became 1 ms, of which waits for the CPU were 0.1 and are 0.6."""
    unit = (
        Work(1e-3, Observations({"run_delay": (0.6e-3, "s"), "cpu": (1e-4, "s"), "requests": (1, "")})),
        Work(0.5e-3, Observations({"run_delay": (0.1e-3, "s"), "cpu": (1e-4, "s"), "requests": (1, "")})),
    )
    asked = cell(
        ASKED, ASKED_ALONE, metric=replace(METRIC, name="latency_p99", loop="open"), worked=Worked(*unit)
    )
    (cause,) = explain(asked)
    assert (cause.resource, cause.share) == ("run queue", pytest.approx(1.0))
    assert "(100 % of what its mean latency grew by)" in cause.words
    # The percentile grew, and the mean did not to speak of: any wait would explain all of that.
    assert explain(replace(asked, worked=Worked(unit[1], unit[1]))) == []
    assert explain(replace(asked, worked=Worked(replace(unit[0], time=0.54e-3), unit[1]))) == []
    assert explain(replace(asked, worked=None)) == []


def test_a_finding_of_causes_has_the_first_s_resource_and_the_evidence_of_all() -> None:
    causes = explain(cell(WAITED[0] | stolen(0.15), WAITED[1] | stolen(0.0)))
    assert len(causes) == 2
    common = {
        "kind": "k",
        "subject": "s",
        "sentence": "x.",
        "estimate": ESTIMATE,
        "advice": "a",
        "verify": "v",
    }
    finding = caused(causes, **common)  # type: ignore[arg-type]
    assert finding.resource == causes[0].resource == "run queue"
    assert finding.share == pytest.approx(0.95)
    assert [e.value for e in finding.evidence] == [0.8, 0.0, *[0.15, 0.0] * 3]
    assert finding.id == ""
    over = [replace(causes[0], share=0.7), replace(causes[1], share=0.7)]
    assert caused(over, **common).share == 1.0  # type: ignore[arg-type]
    without = caused([], **common)  # type: ignore[arg-type]
    assert (without.resource, without.share, without.evidence) == ("unexplained", None, ())
