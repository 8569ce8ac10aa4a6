"""Gate, regime, intervals and verdicts of what-if, from rows as the native code gives them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from contend.contention.alibi.verdict import Alibi, Saturation
from contend.contention.whatif import doubts
from contend.contention.whatif.gate import Replayed, gate
from contend.contention.whatif.independence import capped
from contend.contention.whatif.prediction import Whatif, whatif
from contend.contention.whatif.ranking import candidates
from contend.contention.whatif.regime import regime
from contend.contention.whatif.storms import Edit, NativeEdit, Source, open_storms
from contend.contention.whatif.times import Times, predict
from contend.contention.whatif.verification import stored, verify
from contend.errors import BadInput
from support.whatif_rows import MS, outcome, seen


def test_quantiles_are_interpolated_and_the_makespan_is_from_the_first_begin() -> None:
    times = Times.of(outcome((0, 10), (5, 25), (5, 35)))
    assert (times.median_ns, times.max_ns, times.makespan_ns) == (20 * MS, 30 * MS, 35 * MS)
    assert times.p90_ns == pytest.approx(28 * MS)


def test_an_interval_needs_four_storms_and_holds_their_spread() -> None:
    def times(value: float) -> Times:
        return Times(value, value, value, value)

    assert predict([[times(10)]] * 3)["median_ns"].low is None
    alike = predict([[times(10)]] * 4)["median_ns"]
    assert (alike.low, alike.high) == (10, 10)
    apart = predict([[times(v)] for v in (8, 10, 12, 10)])["median_ns"]
    # t(3, 0.975) = 3.182; the variance of these four is 8/3, and the mean's own is added.
    assert apart.high == pytest.approx(10 + 3.1824 * (8 / 3 * 1.25) ** 0.5, rel=1e-4)
    drawn = predict([[times(v - 1), times(v + 1)] for v in (8, 10, 12, 10)])["median_ns"]
    assert drawn.high is not None and apart.high is not None and drawn.high > apart.high


@pytest.mark.parametrize(
    ("of", "kind"),
    [
        ({}, "not known"),
        ({"gil_ns": 0}, "blocked"),
        # Of a loop whose process does nothing else; and where its other threads compute, too.
        ({"cpu": [("a", 900 * MS, 880 * MS)], "seen_ns": 1000 * MS}, "blocked"),
        ({"cpu": [("a", 900 * MS, 700 * MS)], "seen_ns": 1000 * MS}, "CPU-bound"),
        ({"gil_ns": 300 * MS}, "mixed"),
        ({"gil_ns": 1000 * MS}, "CPU-bound"),
        ({"cpu": [("a", 100 * MS, 0)], "seen_ns": 1000 * MS}, "blocked"),
        ({"cpu": [("a", 400 * MS, 0)], "seen_ns": 1000 * MS}, "mixed"),
        ({"cpu": [("a", 900 * MS, 0)], "seen_ns": 1000 * MS}, "CPU-bound"),
        ({"cpu": [("a", 100 * MS, 0)], "seen_ns": 1000 * MS, "run_delay_ns": 300 * MS}, "CPU-bound"),
        (
            {"cpu": [("a", 500 * MS, 0), ("b", 500 * MS, 0), ("c", 500 * MS, 0)], "seen_ns": 9000 * MS},
            "CPU-bound",
        ),
    ],
)
def test_what_is_cpu_bound(of: dict[str, Any], kind: str) -> None:
    found = regime([seen(**of)])
    assert found.kind == kind
    assert found.refused == (kind == "CPU-bound")


@pytest.mark.parametrize(
    ("share", "gil_ns", "kind"),
    [
        (0.0, None, "blocked"),
        (0.0, 300 * MS, "mixed"),
        (0.1, 0, "mixed"),
        (0.6, 0, "CPU-bound"),
        (0.6, None, "CPU-bound"),
    ],
)
def test_a_host_without_processors_left(share: float, gil_ns: int | None, kind: str) -> None:
    limits = (
        Saturation("cpu", "all 2 CPUs", share, share, (), ()),
        Saturation("disk", "sda", 1.0, 1.0, (), ()),
    )
    alibi = Alibi("cpu", "", limits if share else limits[1:], {}, (), (), 0, 1)
    found = regime([seen(gil_ns=gil_ns)], alibis=[alibi])
    assert (found.kind, found.full) == (kind, share)
    assert found.refused == (kind == "CPU-bound") and (
        found.refused is ("at their limit for 60" in found.why)
    )


def replayed(now: dict[str, Any], **recorded: Any) -> Replayed:
    none = b""
    was = {"lock_ns": [0], "pool_ns": [], "jobs_ns": 60 * MS, "latency_ns": 0, "unexplained_ns": 0, "lost": 0}
    was |= {
        "regime": {"cpu": None, "replayed": False},
        "calls_known": True,
        "unhosted": 0,
        "unseen_ns": (0, 0),
        "doubts": [],
        "come_ns": none,
        "delays": {"kind": none, "begin_ns": none, "ns": none, "kinds": []},
    }
    lock = {"name": "L", "site": "", "capacity": 1, "semaphore": False}
    return Replayed(
        "t",
        {"locks": [lock], "pools": [], "spans": []},
        {**outcome((0, 10), (0, 20), (0, 30)), **was, **recorded},
        now,
    )


def test_what_computes_is_replayed_where_that_reproduces_it() -> None:
    bound = {"cpu": [("a", 900 * MS, 0)], "seen_ns": 1000 * MS, "gil_ns": 1000 * MS, "replayed": True}
    judged = regime([seen(**bound)])
    assert judged.kind == "CPU-bound" and judged.tested and not judged.refused
    waits = {"cpu": None, "replayed": True, "gil_ns": 20 * MS}
    for waited, why in ((22, None), (24, "longer"), (16, "shorter")):
        now = outcome((0, 10), (0, 20), (0, 30), lock_ns=[0], pool_ns=[], interpreter_ns=[waited * MS])
        answer = gate([replayed(now, regime=waits)], judged)
        assert answer.passed is (why is None) and (why or "") in (answer.reason or "")
    # Nobody waited, so that nothing says that they take turns.
    alone = regime([seen(**(bound | {"gil_ns": 0}))])
    assert not alone.refused and not alone.tested
    assert doubts.more_computing(100.0, [{"interpreter_ns": [4]}]) is None
    assert "would compute at a time" in (doubts.more_computing(100.0, [{"interpreter_ns": [6]}]) or "")


def test_a_full_host_is_refused_though_the_storm_is_replayed() -> None:
    alibi = Alibi("cpu", "", (Saturation("cpu", "all 2 CPUs", 0.9, 0.9, (), ()),), {}, (), (), 0, 1)
    judged = regime([seen(gil_ns=1000 * MS, replayed=True)], alibis=[alibi])
    now = outcome((0, 10), (0, 20), (0, 30), lock_ns=[0], pool_ns=[])
    assert "what else the host did" in (gate([replayed(now)], judged).reason or "")


def doubt(kind: str, **of: int) -> dict[str, Any]:
    return {"kind": kind, "name": "L", "jobs": 0, "count": 0, "ns": 0, **of}


def test_a_few_that_give_up_change_little() -> None:
    many = outcome(*((at, at + 10) for at in range(100)), lock_ns=[0], pool_ns=[])
    for jobs, passed in ((1, True), (2, False)):
        storm = replayed(many, **many, doubts=[doubt("gave up", jobs=jobs)])
        assert gate([storm], regime([seen(gil_ns=0)])).passed is passed


def test_time_that_grows_with_the_jobs_in_it_is_a_refusal() -> None:
    begins = [at * MS // 10 for at in range(20)]
    pack = f"<{len(begins)}Q"
    for took in ([5 * MS * (at + 1) for at in range(20)], [5 * MS * (at % 4 + 1) for at in range(20)]):
        delays = {
            "kind": bytes(8 * 20),
            "begin_ns": struct.pack(pack, *begins),
            "ns": struct.pack(pack, *took),
        }
        spans = [(0, 10 + at) for at in range(20)]
        out = outcome(*spans, lock_ns=[0], pool_ns=[])
        storm = replayed(out, **out, jobs_ns=sum(took), delays={**delays, "kinds": ["recv in order"]})
        reason = gate([storm], regime([seen(gil_ns=0)])).reason
        assert (reason is None) is (took[-1] == 20 * MS)
        assert reason is None or "recv in order grows with the number of jobs" in reason


def test_jobs_that_come_in_waves_of_one_size_are_a_refusal() -> None:
    def waves(size: int, took: int, late: int = 0) -> dict[str, Any]:
        begins = [100 * wave + place for wave in range(4) for place in range(size)]
        come = [MS * max(0, at - late) for at in begins]
        spans = [(at, at + took) for at in begins]
        return {"come_ns": struct.pack(f"<{len(come)}Q", *come), **outcome(*spans)}

    assert capped([waves(5, 90)] * 2) == 5
    assert capped([waves(5, 90), waves(6, 90)]) == 0, "not of one size"
    assert capped([waves(5, 250)] * 2) == 0, "some are there still when the next ones come"
    assert capped([waves(5, 90, late=40)] * 2) == 0, "they waited for something that is on record"
    waved = waves(5, 90)
    out = outcome(*((at, at + 90) for at in range(0, 400, 20)), lock_ns=[0], pool_ns=[])
    storm = replayed({**out, **{key: waved[key] for key in ("begin_ns", "end_ns")}}, **waved)
    assert "never more than 5 jobs" in (gate([storm], regime([seen(gil_ns=0)])).reason or "")


def test_jobs_that_come_when_others_end_are_a_refusal() -> None:
    spans = [(10 * at, 10 * at + 9) for at in range(20)]
    out = outcome(*spans, lock_ns=[0], pool_ns=[])
    for late, refused in ((0, False), (9, True)):
        come = struct.pack("<20Q", *(max(0, MS * (10 * at + late - 10) + 1000) for at in range(20)))
        reason = gate([replayed(out, **out, come_ns=come)], regime([seen(gil_ns=0)])).reason
        assert (reason is not None and "begin when another one has ended" in reason) is refused


def test_a_storm_may_be_off_a_little_more_than_all_of_them_are() -> None:
    blocked = regime([seen(gil_ns=0)])

    def storm(off: float) -> Replayed:
        now = outcome((0, 1000), (0, round(2000 * (1 + off))), (0, 3000), lock_ns=[0], pool_ns=[])
        was = outcome((0, 1000), (0, 2000), (0, 3000))
        return replayed(now, **was, jobs_ns=6000 * MS)

    for errors, passed in (
        ([0.0, 0.05], True),
        ([0.05], False),
        ([0.0, 0.0, 0.0, 0.07], False),
        ([0.04, 0.04], False),
        ([0.02, -0.03], True),
    ):
        found = gate([storm(error) for error in errors], blocked)
        assert found.passed is passed, found
        assert found.self_replay_error == pytest.approx(sum(map(abs, errors)) / len(errors))


def test_storms_that_take_turns_in_another_order_are_right_on_average() -> None:
    bound = {"cpu": [("a", 900 * MS, 0)], "seen_ns": 1000 * MS, "gil_ns": 1000 * MS, "replayed": True}
    judged = regime([seen(**bound)])

    def storm(off: float) -> Replayed:
        now = outcome((0, 1000), (0, round(2000 * (1 + off))), (0, 3000), lock_ns=[0], pool_ns=[])
        was = outcome((0, 1000), (0, 2000), (0, 3000))
        waits = {"cpu": None, "replayed": True, "gil_ns": 0}
        return replayed({**now, "interpreter_ns": [0]}, **was, jobs_ns=6000 * MS, regime=waits)

    for errors, passed in (
        ([0.08, -0.07, 0.02], True),
        ([0.08, 0.01, 0.02], False),
        ([0.13, -0.12, 0.0], False),
    ):
        found = gate([storm(error) for error in errors], judged)
        assert found.passed is passed, found
        assert found.self_replay_error == pytest.approx(sum(map(abs, errors)) / len(errors))


class _Storm:
    """A storm of three jobs, whose second one ends at these ms: on record, as replayed, and with an edit."""

    def __init__(self, was: int, now: int, edited: int, **recorded: Any) -> None:
        row = replayed({}, **_jobs(was), jobs_ns=6000 * MS, **recorded)
        self._recorded, self._parts, self._now, self._edited = row.recorded, row.parts, now, edited

    def recorded(self) -> dict[str, Any]:
        return {**self._recorded, **seen(gil_ns=0), "unfinished": 0}

    def parts(self) -> dict[str, Any]:
        lock = {"name": "L", "site": "", "capacity": 1, "semaphore": False, "jobs": 3}
        return {**self._parts, "locks": [lock], "branches": [], "system_calls": [], "looks_again": False}

    def run(self, edits: Sequence[NativeEdit], seed: int) -> dict[str, Any]:
        kinds = {kind for kind, _, _ in edits}
        of = _jobs(self._edited if kinds - {"ways", "uneven"} else self._now)
        return {
            **of,
            "lock_ns": [0],
            "pool_ns": [],
            "ran_ns": [],
            "stuck": 0,
            "costs": [],
            "overdue": [0],
            "beyond": [0],
            "grown": [],
            "held_ns": [0],
            "busy_ns": [],
            "otherwise": [],
            "guessed": [],
            "crowded": [],
            "interpreter_ns": [],
            "computed_ns": [],
            "outside": [],
        }


class _Shaky(_Storm):
    """The same. Its second job ends so many ms earlier or later where steps take a little more or less; and with an edit so
    many later where jobs come in another order."""

    def __init__(self, was: int, now: int, edited: int, *, uneven: int = 0, reordered: int = 0) -> None:
        super().__init__(was, now, edited)
        self._uneven, self._reordered = uneven, reordered

    def run(self, edits: Sequence[NativeEdit], seed: int) -> dict[str, Any]:
        row, kinds = super().run(edits, seed), {kind for kind, _, _ in edits}
        is_edited = bool(kinds - {"ways", "uneven"})
        middle = self._edited if is_edited else self._now
        if seed and is_edited:
            middle += self._reordered
        if "uneven" in kinds:
            middle += self._uneven if seed % 2 else -self._uneven
        return {**row, **_jobs(middle)}


class _Source(Source):
    """However its waits for the interpreter are read: there are none."""

    def read_again(self, interpreter: str) -> Source:
        return self


def _jobs(middle: int) -> dict[str, Any]:
    return outcome((0, 1000), (0, middle), (0, 3000))


def _predicted(storms: Sequence[_Storm]) -> Whatif:
    sources = [_Source(f"storm-{number}", storm) for number, storm in enumerate(storms)]  # type: ignore[arg-type]
    return whatif(sources, [Edit("hold", "L", 0.5)])


def test_one_storm_that_is_not_reproduced_may_be_left_out_of_six() -> None:
    good, bad = _Storm(2000, 2000, 1500), _Storm(2000, 2600, 2500)
    all_good = _predicted([good] * 6)
    assert all_good.gate.passed and all_good.predicted["median_ns"].value == 1500 * MS
    answer = _predicted([good] * 3 + [bad] + [good] * 2)
    assert answer.gate.passed and answer.predicted["median_ns"].value == 1500 * MS
    assert "storm-3 is left out: its replay is 30 % off, and no other's as much" in answer.notes
    assert not _predicted([good] * 4 + [bad]).gate.passed, "of five"
    assert not _predicted([good] * 5 + [bad] * 2).gate.passed, "of two one stays"
    # What was lost of it, or given up in it, is no reason to forget it.
    for of in ({"lost": 1}, {"doubts": [doubt("gave up", jobs=3, count=3)]}):
        assert not _predicted([good] * 5 + [_Storm(2000, 2600, 2500, **of)]).gate.passed


def test_a_storm_in_which_small_things_decide_is_a_refusal() -> None:
    assert _predicted([_Shaky(2000, 2000, 1500, uneven=20)] * 4).gate.passed
    answer = _predicted([_Shaky(2000, 2000, 1500, uneven=60)] * 4)
    assert not answer.gate.passed
    assert "would vary by 3.0 % (standard deviation)" in str(answer.gate.reason)
    # Of so few there is no interval, and so no trusted answer.
    assert _predicted([_Shaky(2000, 2000, 1500, uneven=60)] * 3).gate.passed


def test_a_storm_of_which_who_comes_first_decides_what_is_left_is_a_refusal() -> None:
    storms = [_Shaky(2000, 2000, 1500, reordered=90)] * 4
    answer = _predicted(storms)
    assert "would be 6.0 % more or less if jobs that come at once" in str(answer.gate.reason)
    assert _predicted([_Shaky(2000, 2000, 1500, reordered=60)] * 4).gate.passed


def test_as_far_as_a_replay_is_off_without_an_edit_it_is_off_with_it() -> None:
    answer = _predicted([_Storm(2000, 2040, 1530), _Storm(2000, 1960, 1470)] * 3)
    assert answer.gate.passed and answer.predicted["median_ns"].value == pytest.approx(1500 * MS)


def test_the_gate_names_what_is_not_reproduced() -> None:
    blocked = regime([seen(gil_ns=0)])
    good = replayed(outcome((0, 10), (0, 20), (0, 30), lock_ns=[0], pool_ns=[]))
    assert gate([good], blocked).passed
    slow = replayed(outcome((0, 10), (0, 22), (0, 30), lock_ns=[12 * MS], pool_ns=[]))
    found = gate([good, slow], blocked)
    assert not found.passed and found.self_replay_error == pytest.approx(0.05)
    assert (
        found.reason is not None
        and "lock L" in found.reason
        and "20 % of the jobs' time longer" in found.reason
    )


@pytest.mark.parametrize(
    ("recorded", "words"),
    [
        ({"lost": 7}, "7 events were lost"),
        ({"unexplained_ns": 6 * MS}, "not on record what ended them"),
        ({"latency_ns": 30 * MS}, "nothing is on record that could be replayed"),
        ({"lock_ns": [12 * MS]}, "waits for lock L"),
        ({"doubts": [doubt("gave up", jobs=1)]}, "1 of 3 jobs gave up on L"),
        ({"doubts": [doubt("polls", ns=MS)]}, "sleep and look again in L"),
        ({"unhosted": 1}, "not on record when they ran"),
        ({"doubts": [doubt("chained", jobs=1)]}, "into the queue L by other jobs"),
        ({"doubts": [doubt("condition", jobs=2)]}, "the lock of the condition L is taken in 2 pieces"),
        ({"unseen_ns": (0, 16 * MS)}, "neither compute nor sleep nor wait for anything"),
        (
            {"unseen_ns": (36 * MS, 0), "regime": {"cpu": [("a", 20 * MS, 0)], "replayed": False}},
            "in 27 % of the jobs' time they neither",
        ),
        ({"doubts": [doubt("batched", count=1)]}, "workers of L do several items together"),
    ],
)
def test_the_gate_refuses_what_it_cannot_know(recorded: dict[str, Any], words: str) -> None:
    storm = replayed(outcome((0, 10), (0, 20), (0, 30), lock_ns=[0], pool_ns=[]), **recorded)
    found = gate([storm], regime([seen(gil_ns=0)]))
    assert not found.passed and found.reason is not None and words in found.reason


def test_jobs_that_never_end_are_a_refusal() -> None:
    storm = replayed({**outcome((0, 10), lock_ns=[0], pool_ns=[]), "stuck": 2})
    found = gate([storm], regime([seen(gil_ns=0)]))
    assert found.reason is not None and "2 jobs never end" in found.reason


def test_fixes_that_suggest_themselves() -> None:
    storm = Replayed(
        "t",
        {
            "locks": [
                {"name": "busy", "semaphore": False},
                {"name": "free", "semaphore": False},
                {"name": "allowed", "semaphore": True, "capacity": 3},
            ],
            "pools": [
                {"name": "hashed", "workers": 4, "queues": 4, "forked": False},
                {"name": "calm", "workers": 2, "queues": 1, "forked": False},
                {"name": "cores", "workers": 2, "queues": 1, "forked": True},
            ],
            "spans": [
                ("call", 80, 80, 10, 70),
                ("once", 10, 10, 10, 0),
                ("inner", 90, 0, 5, 80),
                ("order.<locals>.render", 40, 0, 301, 0),
                ("render", 40, 0, 300, 0),
                ("sleep", 40, 0, 400, 0),
                ("audit", 40, 0, 60, 0),
                ("short", 40, 0, 40, 0),
            ],
            "system_calls": ["sleep"],
        },
        {"jobs_ns": 1000, "lock_ns": [500, 1, 20], "pool_ns": [100, 0, 200]},
        {},
    )
    assert [str(edit) for edit, _ in candidates(storm)] == [
        "--hold busy=0.5",
        "--size allowed=6",
        "--hold allowed=0.5",
        "--global-queue hashed",
        "--workers hashed=8",
        "--remove render",
        "--remove audit",
        "--coalesce call=8",
    ]
    assert ("--remove call", "call says nothing new and can be left out") in [
        (str(edit), assumes) for edit, assumes in candidates(storm, {"call"})
    ]


def test_a_stored_prediction_is_checked(tmp_path: Path) -> None:
    for text in ("", "[]", '{"a": 1}', '{"predicted": {}, "gate": {}, "edits": [], "schema_version": 99}'):
        (tmp_path / "p.json").write_text(text)
        with pytest.raises(BadInput):
            stored(tmp_path / "p.json")
    with pytest.raises(BadInput, match="No such file"):
        stored(tmp_path / "none.json")


def test_a_prediction_without_interval_or_gate_has_no_verdict() -> None:
    value = {"value": 10, "low": None, "high": None}
    keys = ("median_ns", "p90_ns", "max_ns", "makespan_ns")
    told: dict[str, Any] = {
        "edits": [],
        "gate": {"passed": True, "reason": None},
        "predicted": dict.fromkeys(keys, value),
    }

    class Recorded:
        def recorded(self) -> dict[str, Any]:
            return outcome((0, 10), (0, 20))

    from contend.contention.whatif.storms import Source

    after = [Source("t", Recorded())]  # type: ignore[arg-type]
    assert verify(told, after).inside is None
    whole = {"value": 15 * MS, "low": 5 * MS, "high": 25 * MS}
    assert verify({**told, "predicted": dict.fromkeys(keys, whole)}, after).inside is True
    off = {"value": 5 * MS, "low": 4 * MS, "high": 6 * MS}
    assert verify({**told, "predicted": dict.fromkeys(keys, off)}, after).inside is False
    refused = {**told, "gate": {"passed": False, "reason": "why"}, "predicted": dict.fromkeys(keys, whole)}
    assert verify(refused, after).reason == "the prediction was refused: why"


def test_what_is_no_trace_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="neither a trace nor a run"):
        open_storms([tmp_path])
    with pytest.raises(BadInput, match="no such file"):
        open_storms([tmp_path / "none"])


def test_an_edit_reads_as_it_is_typed() -> None:
    assert str(Edit("coalesce", "rpc call update", 8)) == "--coalesce 'rpc call update'=8"
    assert str(Edit("global_queue", "pool")) == "--global-queue pool"


def test_waits_for_a_priority_queue_are_refused() -> None:
    now = outcome((0, 10), (0, 20), (0, 30), lock_ns=[0], pool_ns=[20 * MS])
    storm = replayed(now, pool_ns=[20 * MS])
    storm.parts["pools"].append({"name": "urgent", "discipline": "priority"})
    found = gate([storm], regime([seen(gil_ns=0)]))
    assert found.reason is not None and "priority queue urgent" in found.reason


def test_what_an_event_loop_ran_is_told() -> None:
    found = regime([seen()], loops=0.2)
    assert found.kind == "blocked" and "20 % of the storm" in found.why
    assert regime([seen()], loops=0.8).kind == "mixed"
