"""Doubts that an edit itself brings, from rows as the native code gives them."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from contend.contention.whatif import doubts
from contend.contention.whatif.independence import by_turn
from contend.contention.whatif.regime import regime
from contend.contention.whatif.storms import Edit, idle
from contend.contention.whatif.times import Predicted, Times
from support.whatif_rows import MS, outcome, seen


def test_what_only_the_first_jobs_do_makes_drawn_jobs_wrong() -> None:
    def storm(*took: int) -> dict[str, Any]:
        pack = f"<{len(took)}Q"
        delays = {"kind": bytes(8 * len(took)), "root": struct.pack(pack, *range(5, 5 + len(took)))}
        delays |= {"ns": struct.pack(pack, *(MS * ms for ms in took)), "kinds": ["load"]}
        return {"delays": delays, **seen()}

    first = by_turn([storm(*[20] * 4, *[1] * 36)] * 2)
    assert first is not None and first.what == "load" and first.share == pytest.approx(0.076)
    assert "load depends on which jobs come first, 8 % of the storm's" in (doubts.drawn(first) or "")
    assert by_turn([storm(*[20, 1, 1, 1] * 10)] * 2) is None
    assert by_turn([storm(*[5] * 4, *[1] * 36)] * 2) is None, "too little to matter"
    assert by_turn([storm(20, 1)]) is None and doubts.drawn(None) is None


def test_jobs_that_a_busy_process_makes_may_come_sooner() -> None:
    def ran(ms: int, *ends: int) -> dict[str, Any]:
        return outcome(*((0, end) for end in ends), ran_ns=[ms * MS], computed_ns=[], of_workers=[])

    def come(*ms: int) -> list[dict[str, Any]]:
        return [{"come_ns": struct.pack(f"<{len(ms)}Q", *(MS * at for at in ms))}]

    busy, idle_then = [ran(800, 1000)], [ran(300, 1000)]
    reason = doubts.arrivals(come(0, 400), busy, idle_then)
    assert reason is not None and "busy for 80 % of the storm, and for 30 %" in reason
    assert doubts.arrivals(come(0, 400), idle_then, busy) is not None
    assert doubts.arrivals(come(0, 100), busy, idle_then) is None, "all at once"
    assert doubts.arrivals(come(0), busy, idle_then) is None
    assert doubts.arrivals(come(0, 400), busy, [ran(760, 1000)]) is None, "as busy as it was"
    assert doubts.arrivals(come(0, 400), [ran(300, 1000)], [ran(100, 1000)]) is None, "never busy"


def test_a_median_that_comes_to_lie_between_two_kinds_of_jobs_is_refused() -> None:
    def storm(short: int, long: int) -> dict[str, Any]:
        """Twenty jobs of each of two kinds."""
        times = [base + at for base in (short, long) for at in range(20)]
        return outcome(*((0, ms) for ms in times))

    apart, together = storm(100, 160), storm(100, 120)
    reason = doubts.between_kinds([together] * 2, [apart] * 2)
    assert reason is not None and "whose times are 29 % of it apart" in reason
    assert doubts.between_kinds([together] * 2, [together] * 2) is None
    assert doubts.between_kinds([apart] * 2, [apart] * 2) is None, "and the replay had that right"
    uneven = outcome(*((0, ms) for ms in [*range(100, 128), *range(160, 172)]))
    assert doubts.between_kinds([together], [uneven]) is None, "most are of one kind"


def test_processes_that_would_be_in_each_others_way_are_refused() -> None:
    four = [seen(cpu=[(at, 200 * MS, 0) for at in range(4)])]
    judged = regime(four)
    before, after = [outcome((0, 1000), work_ns=10)], [outcome((0, 700), work_ns=10)]
    then = doubts.processors_after(judged, before, after)
    assert then == pytest.approx(0.8 / 0.7)
    reason = doubts.in_each_others_way(judged.cores, then, four)
    assert reason is not None and "would use 1.1 of 2 processors, and used 0.8" in reason
    assert doubts.in_each_others_way(judged.cores, 0.9, four) is None, "there is room"
    assert doubts.in_each_others_way(1.1, 1.15, four) is None, "hardly more than on record"
    assert doubts.in_each_others_way(0.8, then, [seen(cpu=[(0, 800 * MS, 0)])]) is None, "one process"
    assert doubts.in_each_others_way(None, then, [seen()]) is None
    unknown = [{**four[0], "processors": 0}]
    assert doubts.in_each_others_way(0.8, then, unknown) is None, "of how many is not on record"


def test_another_number_of_processes_is_refused() -> None:
    parts = [{"pools": [{"name": "cores", "forked": True}, {"name": "threads", "forked": False}]}]
    assert "workers of cores are processes" in (doubts.forked([Edit("workers", "c*", 2)], parts) or "")
    for edit in (Edit("workers", "threads", 2), Edit("hold", "cores", 0.5)):
        assert doubts.forked([edit], parts) is None


def test_an_edit_of_what_no_job_uses_is_found() -> None:
    parts = {
        "locks": [{"name": "L", "jobs": 2}, {"name": "M", "jobs": 0}],
        "pools": [{"name": "P", "jobs": 0}, {"name": "Q", "jobs": 1}],
    }
    beside = {"locks": [], "pools": [{"name": "P", "jobs": 0}]}
    used = [Edit("hold", "L", 0.5), Edit("hold", "*", 0.5), Edit("workers", "Q", 2), Edit("jobs", "", 4)]
    assert idle([*used, Edit("remove", "M")], [parts, beside]) is None
    for unused in (Edit("unlock", "M"), Edit("workers", "P", 2), Edit("global_queue", "P")):
        assert idle([*used, unused], [parts, beside]) == unused
    again = {"locks": [], "pools": [{"name": "P", "jobs": 3}]}
    assert idle([Edit("workers", "P", 2)], [parts, again]) is None


def test_more_at_a_time_outside_than_ever_is_a_refusal() -> None:
    def of(*rows: tuple[str, int, int]) -> dict[str, Any]:
        return {"outside": list(rows)}

    before = [of(("recv", 4, 20 * MS), ("fsync", 1, MS)), of(("recv", 3, 20 * MS))]
    after = [of(("recv", 5, 20 * MS), ("fsync", 9, MS)), of()]
    assert doubts.more_outside(100.0 * MS, before, after) is None, "a fourth more, and what takes no time"
    reason = doubts.more_outside(100.0 * MS, before, [of(("recv", 6, 20 * MS)), of()])
    assert reason is not None and "6 at a time would be in recv, of which at most 4" in reason


def test_waits_for_workers_of_a_pool_that_may_start_more_are_a_refusal() -> None:
    def of(*rows: tuple[str, int, int]) -> dict[str, Any]:
        return {"grown": list(rows)}

    assert doubts.more_workers(0.0, [of()]) is None
    assert doubts.more_workers(100.0 * MS, [of(("web", 3, 2 * MS), ("mail", 1, 4 * MS)), of()]) is None
    reason = doubts.more_workers(100.0 * MS, [of(("web", 3, 2 * MS)), of(("web", 3, 3 * MS))])
    assert reason is not None and "wait for a worker of web, of which 3 were started" in reason


def test_an_interval_that_says_little_is_a_refusal() -> None:
    def predicted(low: float | None, high: float | None) -> dict[str, Predicted]:
        return {"median_ns": Predicted(100, 99, 101), "makespan_ns": Predicted(100, low, high)}

    assert doubts.too_wide(predicted(None, None)) is doubts.too_wide(predicted(91, 109)) is None
    reason = doubts.too_wide(predicted(80, 120))
    assert reason is not None and "what it leaves of the makespan is known to 20 % only" in reason


def test_an_edit_that_makes_the_storm_cpu_bound_is_no_answer() -> None:
    found = regime([seen(cpu=[("a", 400 * MS, 0)], seen_ns=1000 * MS)])
    before = {**outcome((0, 1000)), "ran_ns": [], "work_ns": 900 * MS}
    sooner = {**outcome((0, 700)), "ran_ns": [], "work_ns": 900 * MS}
    assert doubts.computing_after(found, [before], [before]) == pytest.approx(0.4)
    share = doubts.computing_after(found, [before], [sooner])
    assert share == pytest.approx(0.4 / 0.7)
    assert "57 %" in str(doubts.computes_then(share)) and doubts.computes_then(0.4) is None
    # What is not done any more does not compute either.
    less = {**sooner, "work_ns": 450 * MS}
    assert doubts.computing_after(found, [before], [less]) == pytest.approx(0.2 / 0.7)
    looped = {**sooner, "ran_ns": [630 * MS]}
    assert doubts.computing_after(regime([seen()]), [before], [looped]) == pytest.approx(0.9)


def test_jobs_that_would_give_up_are_no_answer() -> None:
    parts = {"locks": [{"name": "L"}, {"name": "printer"}]}
    reason = doubts.overdue(50, parts, {"overdue": [0, 1]}, {"overdue": [0, 3]})
    assert reason is not None and "give up on printer 2 times" in reason
    assert doubts.overdue(101, parts, {"overdue": [0, 1]}, {"overdue": [0, 3]}) is None
    assert doubts.overdue(1, parts, {"overdue": [5, 1]}, {"overdue": [5, 0]}) is None


def test_more_at_a_time_than_ever_where_nobody_waited_is_refused() -> None:
    parts = {"locks": [{"name": "L", "seen": None}, {"name": "K", "seen": 3}]}
    reason = doubts.beyond(20, parts, {"beyond": [0, 1]}, {"beyond": [0, 2]})
    assert reason and "1 times more than 3 would be let in by K" in reason
    assert doubts.beyond(101, parts, {"beyond": [0, 1]}, {"beyond": [0, 3]}) is None
    reason = doubts.beyond(50, parts, {"beyond": [0, 0]}, {"beyond": [4, 0]})
    assert reason and "4 times whether who shares L is let in" in reason


def test_orders_and_batches_that_nobody_saw_are_no_answer() -> None:
    parts = {"pools": [{"name": "urgent"}, {"name": "pending"}]}
    seen = {"guessed": [1, 0], "crowded": [0, 2]}
    assert doubts.order(60, parts, seen, seen) is None
    assert doubts.order(61, parts, seen, {"guessed": [7, 0], "crowded": [0, 2]}) is None, "seldom"
    order = str(doubts.order(60, parts, seen, {"guessed": [7, 0], "crowded": [0, 2]}))
    assert "asked 6 times" in order and "priority queue urgent" in order
    assert "pending would do more items together" in str(
        doubts.order(60, parts, seen, {"guessed": [1, 0], "crowded": [0, 8]})
    )


def test_jobs_that_would_decide_otherwise_are_no_answer() -> None:
    parts = {"branches": ["recommend"]}
    of = {count: {"otherwise": [count]} for count in (0, 1, 9)}
    assert doubts.otherwise(60, parts, of[0], of[1]) is doubts.otherwise(60, parts, of[9], of[9]) is None
    reason = str(doubts.otherwise(60, parts, of[1], of[9]))
    assert "jobs do recommend by how late they are" in reason and "8 of 60" in reason


def test_a_storm_that_is_its_waits_for_the_interpreter_is_no_answer() -> None:
    assert doubts.on_interpreter(0.049) is None
    assert "would be 31 % shorter" in str(doubts.on_interpreter(0.31))


def test_waits_for_the_interpreter_that_only_an_edit_makes_are_a_refusal() -> None:
    def of(median: float, makespan: float) -> dict[str, Predicted]:
        return {"median_ns": Predicted(median, None, None), "makespan_ns": Predicted(makespan, None, None)}

    assert doubts.in_turns(of(100e6, 200e6), of(104e6, 191e6)) is None
    reason = str(doubts.in_turns(of(100e6, 200e6), of(100e6, 250e6)))
    assert "the makespan would be 250 ms with the edit, and not 200 ms" in reason


def test_what_is_left_of_a_storm_may_depend_on_ways_that_are_as_recorded() -> None:
    assert doubts.on_ways(0.024) is None
    assert "what the edit leaves would be 3.4 % more or less" in str(doubts.on_ways(0.034))


def test_what_is_left_of_a_storm_may_depend_on_who_comes_first() -> None:
    assert doubts.on_order(0.049) is None
    assert "5.2 % more or less if jobs that come at once did so in another order" in str(
        doubts.on_order(0.052)
    )


def test_small_things_may_decide() -> None:
    def doubt(before: float, after: float, own: float, looks_again: bool = False) -> str | None:
        of = (np.array([0.001, value]) for value in (before, after, own))
        return doubts.on_small_things(*of, looks_again=looks_again)

    assert doubt(0.029, 0.029, 0.0, True) is None
    assert "the makespan would vary by 3.1 %" in str(doubt(0.031, 0.0, 0.017))
    assert "the recorded storms' varies by 1.7 %" in str(doubt(0.031, 0.0, 0.017))
    assert doubt(0.031, 0.0, 0.018) is None, "recorded storms differ about as much"
    assert doubt(0.0, 0.2, 0.0) is None, "the storm as it is recorded does not turn on them"
    assert "jobs sleep and look again" in str(doubt(0.001, 0.031, 0.2, True))
    both, own = np.array([0.04, 0.04]), np.array([0.04, 0.02])
    assert doubts.on_small_things(both, both, own, looks_again=False) is None, (
        "the median varies as it should"
    )
    assert "the makespan" in str(doubts.on_small_things(both, both, own / 1.5, looks_again=False))


def test_a_call_of_unknown_cost_widens_the_interval_and_is_refused_where_its_sign_is_unknown() -> None:
    def of(value: float) -> dict[str, Predicted]:
        return dict.fromkeys(
            ("median_ns", "p90_ns", "max_ns", "makespan_ns"), Predicted(value, value - MS, value + MS)
        )

    before = Times(100 * MS, 100 * MS, 100 * MS, 100 * MS)
    note, reason = doubts.unlearnt(["call", "call"], before, of(80 * MS), of(70 * MS))
    assert reason is None and "what of call is paid" in note and "median 70 ms to 80 ms" in note
    _, reason = doubts.unlearnt(["call"], before, of(80 * MS), of(60 * MS))
    assert reason is not None and "too wide to be of use" in reason
    wide = doubts.between(of(80 * MS), of(60 * MS))["median_ns"]
    assert (wide.value, wide.low, wide.high) == (80 * MS, 59 * MS, 81 * MS)
    _, reason = doubts.unlearnt(["call"], before, of(97 * MS), of(110 * MS))
    assert reason is not None and "better or worse" in reason


def test_two_resources_that_are_busy_alike_are_named() -> None:
    locks = [{"name": name, "capacity": capacity} for name, capacity in (("L", 1), ("M", 1), ("S", None))]
    parts = {"locks": locks, "pools": [{"name": "P", "workers": 2}]}

    def after(*held: int) -> dict[str, Any]:
        return {**outcome((0, 100)), "held_ns": [ns * MS for ns in held], "busy_ns": [100 * MS]}

    note = doubts.alike(parts, after(95, 90, 500))
    assert note is not None and note.startswith("lock L and lock M") and "95 % and 90 %" in note
    assert doubts.alike(parts, after(95, 80, 500)) is None, "one is clearly busier"
    assert doubts.alike(parts, after(60, 60, 500)) is None, "nobody waits long for either"


def test_what_is_done_sooner_and_nobody_waits_less_is_a_refusal() -> None:
    """A server's pool: its items wait less with more workers, and the client's wait for the answer stands as recorded."""

    def of(pool: int, job: int, outside: int = 40) -> dict[str, Any]:
        begins, ends = np.zeros(2, "<u8"), np.full(2, job * MS, "<u8")
        return {
            "lock_ns": [],
            "pool_ns": [pool * MS],
            "begin_ns": begins.tobytes(),
            "end_ns": ends.tobytes(),
            "outside": [("recv", 2, outside * MS)] if outside else [],
        }

    before = [of(60, 50)]
    reason = doubts.unawaited(100.0 * MS, before, [of(0, 50)])
    assert reason == (
        "what is done for the jobs would wait 60 % of their time less, while they are in recv: whether they wait for it"
        " there is not on record"
    )
    assert "longer" in str(doubts.unawaited(100.0 * MS, [of(0, 50)], [of(60, 50)]))
    assert doubts.unawaited(100.0 * MS, before, [of(0, 30)]) is None, "they do wait for it"
    assert doubts.unawaited(100.0 * MS, before, [of(58, 50)]) is None, "nothing to speak of"
    assert doubts.unawaited(100.0 * MS, [of(60, 50, 0)], [of(0, 50, 0)]) is None, (
        "they wait for nobody else either"
    )
