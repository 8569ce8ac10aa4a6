"""What a hunt says of the interpreter, of loops and processors, of tables whose story is known."""

from __future__ import annotations

from dataclasses import replace

from contend.contention.hunting.rows import (
    Blame,
    Interpreter,
    Pool,
    Stall,
    Tables,
)
from contend.platforms.quota_log import Throttled
from support.made_hunts import (
    MS,
    batch,
    first,
    found,
    lock,
    ranked,
)


def test_the_interpreters_own() -> None:
    tables = batch(
        waits=[("gil", "", 300)],
        locks=[lock(0, "GIL", waited=300, held=300, kind="interpreter")],
        blame=[Blame(0, "f", "span", "sorts", 300 * MS)],
        interpreter=[Interpreter("gc", "generation 2", "", 3, 40 * MS, 20 * MS)],
    )
    assert ranked(tables) == [("gil", "GIL")], "no pause was in a job"
    assert "held meanwhile by sorts 100 %" in first(tables).sentence


def stall(function: str, ms: int, span: str = "", name: str = "handle", waits_for: str = "") -> Stall:
    return Stall(
        "blocked event loop",
        name,
        function,
        "app.py:9",
        "app.py:20",
        span,
        waits_for,
        6,
        40 * MS,
        10 * MS,
        ms * MS,
    )


def test_what_keeps_a_loop_from_jobs_is_the_function_that_was_seen() -> None:
    tables = batch(stalls=[stall("squeeze", 300), stall("", 150, span="render"), stall("", 60, name="main")])
    assert ranked(tables) == [
        ("blocked-loop", "squeeze"),
        ("blocked-loop", "render"),
        ("blocked-loop", "main"),
    ]
    finding = first(tables)
    assert finding.share == 0.3
    unseen = batch(stalls=[*tables.stalls, stall("", 100)])
    assert first(unseen).share == 0.4, "the same callback, from where it was the same one that was seen"
    assert (
        "squeeze (app.py:9), run by handle, kept an event loop from all others: 6 times" in finding.sentence
    )
    assert "Run squeeze in a thread" in finding.advice
    inside = batch(
        stalls=[stall("squeeze", 300, span="hash", waits_for="L"), stall("squeeze", 200, span="boot")]
    )
    assert ranked(inside) == [("blocked-loop", "hash"), ("blocked-loop", "squeeze")], "boot is the job itself"
    assert "hash (squeeze, app.py:9), run by handle, waiting there for lock L, kept" in first(inside).sentence
    two = batch(stalls=[stall("squeeze", 300), stall("parse", 200), stall("", 100)])
    assert ranked(two) == [("blocked-loop", "squeeze"), ("blocked-loop", "parse")], (
        "it was one of these, unknown which"
    )
    held = batch(waits=[("gil", "GIL", 100)], stalls=[stall("step", 250, waits_for="GIL")])
    assert ranked(held) == [("gil", "GIL")] and first(held).share == 0.35, (
        "who had the lock is what kept the loop"
    )
    assert (
        "stood still for 250 ms (25 % of their time) while their loop waited for it" in first(held).sentence
    )
    assert "main (app.py:20)" in found(tables).findings[2].sentence, (
        "where it let others run, if it was not seen"
    )


def gil_bound(gil: int, running: int) -> Tables:
    """Jobs wait for a pool of four, whose workers were busy for 400 ms."""
    pool = Pool(0, "service", "workers", 4, 20, 400 * MS, 600 * MS, 0, "shared", 1, running * MS, gil * MS)
    return batch(waits=[("pool", "workers", 600)], pools=[pool])


def test_a_pool_whose_workers_wait_for_the_interpreters_lock_is_not_to_grow() -> None:
    finding = first(gil_bound(gil=200, running=150))
    assert (finding.kind, finding.share, finding.verify) == ("gil", 0.6, "")
    assert (
        "for a worker of workers (4 in service), which computed or waited for that lock for 88 %"
        in finding.sentence
    )
    assert "More threads only wait longer" in finding.advice


def test_the_own_lock_of_a_pool_that_waits_for_the_interpreters_is_no_finding_beside_it() -> None:
    pool = gil_bound(gil=200, running=150).pools
    waits = [("pool", "workers", 300), ("lock", "workers", 200)]
    tables = batch(waits=waits, pools=pool, locks=[lock(0, "workers", waited=200, held=90)])
    assert ranked(tables) == [("gil", "GIL")] and first(tables).share == 0.5


def test_a_lock_whose_holders_wait_for_the_interpreters_lock_hands_its_waits_on() -> None:
    tables = batch(
        waits=[("lock", "db", 500)],
        locks=[lock(0, "db", waited=500, held=90)],
        blame=[Blame(0, "claim", "waiting", "GIL", 400 * MS), Blame(0, "claim", "span", "account", 100 * MS)],
    )
    assert [(of.kind, of.share) for of in found(tables).findings] == [("gil", 0.4), ("lock", 0.1)]
    assert "Jobs waited 400 ms (40 % of their time) for locks whose holders waited" in first(tables).sentence


def test_a_pool_whose_workers_compute_is_busy_and_one_whose_workers_wait_is_small() -> None:
    finding = first(gil_bound(gil=0, running=390))
    assert (finding.kind, finding.verify) == ("pool-busy", "")
    assert first(gil_bound(gil=10, running=50)).kind == "pool-small"


def test_a_little_run_delay_is_what_all_have_on_a_shared_host() -> None:
    assert not ranked(batch(waits=[("cpu", "", 90)])) and ranked(batch(waits=[("cpu", "", 110)]))


def test_a_wait_under_a_quota_is_the_quotas() -> None:
    """The kernel counts a throttled thread as ready without a CPU."""
    waited = batch(waits=[("cpu", "", 300)])
    (unknown,) = found(waited).findings
    assert unknown.kind == "cpu" and "A CPU quota may hold them back instead: unknown" in unknown.advice
    quota = Throttled(200 * MS, "CPU quota of 0.3 CPUs in /box", "")
    held, rest = found(replace(waited, throttled=quota)).findings
    assert (held.kind, held.estimate.value, rest.kind, rest.estimate.value) == ("throttled", 0.2, "cpu", 0.1)
    assert "held back 200 ms by the CPU quota of 0.3 CPUs in /box" in held.sentence
    assert "quota" not in rest.advice
    (whole,) = found(replace(waited, throttled=quota._replace(ns=900 * MS))).findings
    assert (whole.kind, whole.estimate.value) == ("throttled", 0.3)
    (calm,) = found(replace(waited, throttled=quota._replace(ns=0))).findings
    assert calm.kind == "cpu" and "quota" not in calm.advice
    twice = found(replace(waited, throttled=quota), replace(waited, throttled=quota))
    assert {f.kind: f.estimate.value for f in twice.findings} == {"throttled": 0.2, "cpu": 0.1}
    assert [f.kind for f in found(replace(waited, throttled=quota), waited).findings] == ["cpu"]


def test_without_jobs_threads_wait_for_the_interpreters_lock() -> None:
    gil = lock(0, "GIL", waited=400, held=300, kind="interpreter")
    finding = first(Tables("made", locks=[gil], length_ns=1000 * MS))
    assert (finding.kind, finding.share) == ("gil", 0.4)
    assert not ranked(Tables("made", locks=[gil], length_ns=8000 * MS)), "a little of it is nothing"
