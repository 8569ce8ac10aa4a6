"""What a hunt says of calls, of tables whose story is known."""

from __future__ import annotations

from dataclasses import replace

from contend.contention.hunting.rows import (
    Critical,
    Tables,
)
from support.made_hunts import (
    CALL,
    MS,
    SERVE,
    across_a_call,
    batch,
    call,
    first,
    found,
    ranked,
)


def in_calls(**told: int | float | str) -> Tables:
    """Jobs that spend half of their time in that call."""
    return batch(
        waits=[("reply", str(told.get("name", CALL)), 500)],
        followed=[("running", str(told.get("name", CALL)), 500)],
        calls=[call(**{"ns": 500 * MS, **told})],
    )


def test_calls_with_the_same_arguments_by_one_piece_of_work_change_nothing() -> None:
    finding = first(in_calls(repeated=4, seen=4, seen_ns=200 * MS, repeated_ns=200 * MS))
    assert (finding.kind, finding.resource, finding.share) == ("no-op-call", CALL, 0.2)
    assert f"4 of 10 calls {CALL} had arguments that were sent before, 4 of them" in finding.sentence


def test_updates_of_no_row_change_nothing() -> None:
    finding = first(in_calls(name="UPDATE t SET x = ?", unchanged=5, unchanged_ns=250 * MS))
    assert (finding.kind, finding.share) == ("no-op-call", 0.25)
    assert "5 of 10 calls UPDATE t SET x = ? changed no row" in finding.sentence


def test_reads_with_the_same_arguments_are_to_be_kept() -> None:
    finding = first(in_calls(name="SELECT * FROM t WHERE id = ?", seen=9, seen_ns=475 * MS))
    assert (finding.kind, finding.advice.split()[0]) == ("repeated-call", "Keep")
    assert finding.verify == "contend whatif made --remove 'SELECT * FROM t WHERE id = ?'"


def test_without_digests_nothing_is_said_of_arguments() -> None:
    hunted = found(in_calls(digests=0, seen=9, seen_ns=450 * MS))
    assert not hunted.findings and "no arguments to compare" in " ".join(hunted.looked_at)


def test_many_calls_in_a_row_could_be_one() -> None:
    told = {"runs": 2, "run_calls": 10, "run_ns": 500 * MS, "longest_run": 5, "sized": 10, "items": 1}
    finding = first(in_calls(fixed_ns=40.0 * MS, each_ns=10.0 * MS, **told))
    assert (finding.kind, finding.share) == ("chatty", 0.32)  # 4 of 5 calls, 40 of their 50 ms
    assert finding.verify == f"contend whatif made --coalesce '{CALL}=5'"
    values = {row.what: row.value for row in finding.evidence}
    assert values["a call costs of itself"] == 0.04 and values["and each item"] == 0.01
    unsized = first(in_calls(**told))
    assert unsized.share == 0.2 and "about 200 ms of 500 ms" in unsized.sentence
    query = first(in_calls(name="SELECT * FROM t WHERE id = ?", **told))
    assert (query.kind, query.advice) == ("n+1", "Ask for all of them at once.")


def test_a_call_that_nobody_works_at_is_on_its_way_where_it_is_known_who_serves_it() -> None:
    tables = batch(waits=[("reply", CALL, 300)])
    assert not ranked(tables), "nobody on record serves it: all of it may be work there"
    served = Critical(0, "sleep", SERVE, "sleep", CALL, "conductor", 200 * MS)
    finding = first(replace(tables, along=[*tables.along, served]))
    assert (finding.kind, finding.resource, finding.share) == ("way", CALL, 0.3)
    assert "while nobody worked at it: it was on its way there" in finding.sentence
    little = replace(tables, along=[*tables.along, served._replace(ns=20 * MS)])
    assert not ranked(little), "somebody who was asked for something else meanwhile"


def test_calls_under_a_lock_are_no_more_than_the_lock() -> None:
    """Sent as one they would shorten the hold; what waits for it is the lock's, and its advice says so."""
    told = {"runs": 5, "run_calls": 10, "run_ns": 100 * MS, "longest_run": 2}
    tables = replace(
        across_a_call(),
        critical=[Critical(0, "reply", CALL, CALL, "", "compute", 600 * MS)],
        calls=[call(**told, seen=5, seen_ns=50 * MS)],
    )
    assert ranked(tables) == [
        ("lock-across-call", "db"), ("lock", "cache"), ("repeated-call", CALL),
    ], "what others had asked before comes last: whether the answer may be kept is not on record"  # fmt: skip
    assert found(tables).findings[2].share == 0.275  # half of its own 100 ms, and of 450 behind the lock
