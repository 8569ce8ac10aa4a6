"""What a hunt makes of tables whose story is known."""

from __future__ import annotations

import html
import json
from dataclasses import replace

import jsonschema
import pytest
from rich.console import Console

from contend.contention.hunt import Batch, hunt
from contend.contention.hunt_changes import changes
from contend.contention.hunt_document import HuntDocument, hunt_document
from contend.contention.hunting.charges import Charges
from contend.contention.hunting.rows import (
    Blame,
    Loan,
    Pool,
    Tables,
)
from contend.contention.hunting.together import together
from contend.report.hunt_page import render
from contend.report.hunt_terminal import print_hunt
from contend.text.shape import schema
from support.intervals import holds
from support.made_hunts import (
    CALL,
    MS,
    across_a_call,
    batch,
    behind_a_pool,
    call,
    first,
    found,
    lock,
    ranked,
)


def test_a_lock_held_across_a_call_is_named_with_the_call_and_what_to_do() -> None:
    finding = first(across_a_call())
    assert (finding.kind, finding.resource, finding.share) == ("lock-across-call", "db", 0.5)
    assert "waited 500 ms for lock db (50 % of their time)" in finding.sentence
    assert f"{CALL} 90 %" in finding.sentence and "account 10 %" in finding.sentence
    assert finding.advice == f"Let db go before calling {CALL}, or send its 2 calls as one."
    assert finding.verify == f"contend whatif made --coalesce '{CALL}=2'"
    told = {row.what: row for row in finding.evidence}
    assert told[f"holders in {CALL}"].value == 0.9 and told["waited by jobs"].value == 0.5
    place = told["longest wait"].where
    assert "ts = 1020000000 and name = 'wait db'" in place and "'client-3' of compute (77)" in place
    assert (finding.estimate.value, finding.estimate.verdict, finding.estimate.n) == (0.5, "too few", 1)


def test_with_one_call_in_a_hold_what_if_leaves_the_call_out_and_jobs_are_the_same() -> None:
    tables = replace(across_a_call(), held=())
    hunted = hunt(Batch("made", (tables,), tables, None, "not recorded", "GET *"))
    assert hunted.findings[0].verify == f"contend whatif made --job 'GET *' --remove '{CALL}'"


def test_the_lock_that_more_was_waited_for_comes_first() -> None:
    other = found(across_a_call()).findings[1]
    assert other.verify == "contend whatif made --hold cache=0.5"
    assert ranked(across_a_call())[:2] == [("lock-across-call", "db"), ("lock", "cache")]


def test_what_holders_wait_for_at_a_pool_is_charged_to_the_pool() -> None:
    """460 of the 600 ms that jobs waited were waits for a worker, 360 of them behind the lock."""
    charges = Charges(behind_a_pool())
    assert charges.charged["pool", "writers"] == 460 * MS
    assert charges.charged["lock", "db"] == 140 * MS
    assert sum(charges.charged.values()) == sum(charges.waited.values())
    one, other = found(behind_a_pool()).findings[:2]
    assert (one.kind, one.resource, one.verify) == (
        "pool-fixed", "writers", "contend whatif made --global-queue writers",
    )  # fmt: skip
    assert "360 ms of it while they or others held a lock" in one.sentence
    assert "75 % of the time that items waited, another of its workers was idle" in one.sentence
    assert (other.kind, other.resource) == ("lock-across-call", "db"), "it is still held across the call"
    assert "charged on to what the holders themselves waited for" in other.sentence


@pytest.mark.parametrize(("policy", "wasted"), [("shared", 0), ("fixed", 30)])
def test_a_pool_whose_workers_are_all_busy_is_too_small(policy: str, wasted: int) -> None:
    finding = first(behind_a_pool(policy, wasted))
    assert (finding.kind, finding.verify) == ("pool-small", "contend whatif made --workers writers=8")


def test_a_lock_whose_holders_wait_for_another_lock_hands_its_waits_on() -> None:
    tables = batch(
        waits=[("lock", "outer", 400), ("lock", "inner", 20)],
        locks=[lock(0, "outer", waited=400, held=90), lock(1, "inner", waited=420, held=400)],
        blame=[
            Blame(0, "f", "waiting", "inner", 300 * MS),
            Blame(0, "f", "span", "g", 100 * MS),
            Blame(1, "g", "span", "h", 420 * MS),
        ],
    )
    assert Charges(tables).charged["lock", "inner"] == 320 * MS
    assert ranked(tables) == [("lock", "inner"), ("lock", "outer")]
    assert found(tables).findings[1].advice == "Look at inner first: holders of outer wait for it."


def test_locks_that_wait_for_each_other_end() -> None:
    tables = batch(
        waits=[("lock", "a", 100)],
        locks=[lock(0, "a", waited=100, held=90), lock(1, "b", waited=100, held=90)],
        blame=[Blame(0, "f", "waiting", "b", 100 * MS), Blame(1, "f", "waiting", "a", 100 * MS)],
    )
    assert sum(Charges(tables).charged.values()) == sum(Charges(tables).waited.values())


def test_a_lock_taken_many_times_by_each_job_is_to_be_taken_less_often() -> None:
    tables = batch(waits=[("lock", "host", 400)], locks=[lock(0, "host", waited=400, held=390, holds=400)])
    assert first(tables).advice.startswith("Each job takes it 40 times for 975 µs: take it less often")


def test_a_pools_own_lock_is_the_pools() -> None:
    pool = Pool(0, "service", "workers", 4, 20, 400 * MS, 600 * MS, 0, "shared")
    waits = [("pool", "workers", 400), ("lock", "workers", 60)]
    tables = batch(waits=waits, pools=[pool], locks=[lock(0, "workers", waited=60, held=10)])
    assert ranked(tables) == [("pool-small", "workers")]


def test_a_queue_that_lends_too_little() -> None:
    loans = [
        Loan("conns", "app.py:3", 20, 2, "render", 600 * MS),
        Loan("conns", "app.py:3", 20, 2, "", 200 * MS),
    ]
    tables = batch(waits=[("queue", "conns", 500)], loans=loans)
    finding = first(tables)
    assert (finding.kind, finding.resource, finding.share) == ("pool-starved", "conns", 0.5)
    assert "2 were out at a time, each for 40 ms, in render 75 %" in finding.sentence
    assert not ranked(batch(waits=[("queue", "other", 500)], loans=loans)), "nobody waited there"


def test_a_pool_without_a_name_is_called_by_what_it_serves_too() -> None:
    pool = Pool(
        0, "p", "Executor (a.py:7)", 1, 20, 90 * MS, 400 * MS, 0, "shared", serves="rpc serve bill", unnamed=1
    )
    finding = first(batch(waits=[("pool", "Executor (a.py:7)", 400)], pools=[pool]))
    assert finding.resource == "Executor (a.py:7) for rpc serve bill"
    assert finding.edit == "--workers 'Executor (a.py:7)=2'"


def test_nothing_found_says_what_was_looked_at() -> None:
    quiet = batch(
        waits=[("lock", "db", 20)],
        locks=[lock(0, "db", waited=20, held=30)],
        blame=[Blame(0, "f", "span", "g", 20 * MS)],
        calls=[call()],
    )
    hunted = found(quiet)
    assert not hunted.findings and hunted.hidden == 1
    assert hunted.looked_at[:4] == (
        "10 jobs",
        "1 lock, 9 waits",
        "0 pools",
        "10 calls that leave the process",
    )


def test_without_jobs_everybodys_waits_count() -> None:
    tables = replace(across_a_call(), jobs=(), parts=(), along=(), critical=())
    assert ranked(tables)[0] == ("lock-across-call", "db")


def test_traces_of_one_cell_are_put_together_and_give_an_interval() -> None:
    one, other = across_a_call(), across_a_call()
    less = replace(
        other,
        along=[part._replace(ns=400 * MS) if part.resource == "db" else part for part in other.along],
    )
    hunted = found(one, other, less)
    finding = hunted.findings[0]
    assert (len(hunted.batch.whole.jobs), hunted.batch.jobs.makespan_ns) == (30, 100 * MS)
    assert finding.estimate.n == 3 and finding.estimate.verdict == "level"
    assert holds(finding.estimate, 1.4 / 3, 0.62)  # by Student: 2 * 4.303 * 0.0577 / sqrt(3) of it
    assert finding.share == pytest.approx(1400 / 3000, abs=1e-4)
    whole = hunted.batch.whole
    assert [lock.waits for lock in whole.locks] == [27, 27] and whole.locks[0].instances == 1
    assert sum(row.ns for row in whole.blame) == 3 * 550 * MS
    pools = together([behind_a_pool(), behind_a_pool()]).pools
    assert pools == [Pool(0, "conductor", "writers", 4, 40, 180 * MS, 800 * MS, 600 * MS, "fixed")]


@pytest.mark.parametrize("tables", [across_a_call(), behind_a_pool(), batch()])
def test_the_document_is_as_its_schema_says(tables: Tables) -> None:
    beside = Batch("after", (tables,), tables, None, "not recorded")
    document = hunt_document(hunt(Batch("made", (tables,), tables, None, "not recorded"), [beside])).to_json()
    jsonschema.validate(json.loads(json.dumps(document, allow_nan=False)), schema(HuntDocument))
    times = document["time"]
    assert sum(row["ns"] for row in times) == 10 * 100 * MS


def test_without_jobs_shares_are_of_the_traces_length_and_say_so() -> None:
    """Two threads waited for a lock in a trace of 1 s, 400 ms and 800 ms: more than all of its length."""
    tables = Tables("made", locks=(lock(0, "db", waited=1200, held=900),), length_ns=1000 * MS)
    hunted = found(tables)
    (finding,) = hunted.findings
    assert finding.share == 1.2
    assert finding.evidence[0].what == "waited by threads" and "job" not in finding.advice
    assert finding.sentence.startswith(
        "Threads waited 1.2 s for lock db (120 % of the trace's 1 s, all threads together)"
    )
    document = hunt_document(hunted).to_json()
    jsonschema.validate(document, schema(HuntDocument))
    assert document["shares_of"] == {"what": "trace", "ns": 1000 * MS}
    console = Console(record=True, width=160)
    print_hunt(hunted, console)
    assert "120 % of the trace's 1 s, all threads together" in console.export_text()
    assert "120 % of the trace" in html.unescape(render(hunted))
    both = found(tables, tables).findings[0]
    assert both.share == 1.2 and "2 traces' 2 s" in both.sentence


def test_without_jobs_and_without_a_length_no_share_is_made_up() -> None:
    (finding,) = found(Tables("made", locks=(lock(0, "db", waited=1200, held=900),))).findings
    assert finding.share is None and "an unknown share" in finding.sentence


def test_where_nobody_is_held_up_it_is_told_where_the_time_is() -> None:
    hunted = found(batch(waits=[("sleep", "sleep", 300), ("io", "recv", 20)]))
    assert not hunted.findings
    assert hunted.whereabouts == "Where the jobs' time is: running, in build, 68 %; sleeping, in claim, 30 %."
    assert found(Tables("made", length_ns=MS)).whereabouts == ""


def test_two_batches_are_compared_cause_by_cause() -> None:
    def of(*waits: tuple[str, str, int], jobs: int = 10) -> Batch:
        locks = [lock(at, name, waited=ms, held=ms) for at, (_, name, ms) in enumerate(waits)]
        tables = batch(jobs=jobs, waits=waits, locks=locks)
        return Batch("made", (tables,), tables, None, "not recorded")

    before = of(("lock", "db", 500), ("lock", "cache", 100), ("lock", "log", 50))
    after = of(("lock", "db", 100), ("lock", "log", 102), ("lock", "disk", 200), jobs=20)
    shown = [
        (row.resource, row.before_ns // 1000, row.after_ns // 1000, row.change)
        for row in changes(before, after)
    ]
    assert shown == [
        ("db", 50_000, 5_000, "less"),
        ("cache", 10_000, 0, "gone"),
        ("disk", 0, 10_000, "new"),
        ("log", 5_000, 5_100, "about the same"),
    ]
    assert not changes(before, Batch("made", (), Tables("made", length_ns=MS), None, ""))
