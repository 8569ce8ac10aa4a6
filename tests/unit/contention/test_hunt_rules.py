"""What a hunt makes of tables whose story is known."""

from __future__ import annotations

import html
import json
from dataclasses import replace

import jsonschema
import pytest
from rich.console import Console

from contend.advice.finding import Finding
from contend.contention.hunt import Batch, Hunt, hunt
from contend.contention.hunt_changes import changes
from contend.contention.hunt_document import HuntDocument, hunt_document
from contend.contention.hunting.charges import Charges
from contend.contention.hunting.rows import (
    Blame,
    Critical,
    Interpreter,
    Loan,
    Part,
    Poll,
    Pool,
    Stall,
    Tables,
)
from contend.contention.hunting.together import together
from contend.platforms.quota_log import Throttled
from contend.report.hunt_page import render
from contend.report.hunt_terminal import print_hunt
from contend.text.shape import schema
from support.intervals import holds
from support.made_hunts import CALL, MS, SERVE, across_a_call, batch, behind_a_pool, call, lock


def found(*traces: Tables) -> Hunt:
    return hunt(Batch("made", traces, together(traces), None, "not recorded"))


def first(tables: Tables) -> Finding:
    return found(tables).findings[0]


def ranked(tables: Tables) -> list[tuple[str, str]]:
    return [(finding.kind, finding.resource) for finding in found(tables).findings]


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


def poll(part: str = "", refused: str = "", awaited: str = "", least: int = 1) -> Poll:
    """40 sleeps of 10 ms in 9 rows, of which 100 ms were slept after what is looked for was done."""
    return Poll(part, refused, awaited, 9, 40, 12, least, 400 * MS, 100 * MS)


def polled(of: Poll) -> Tables:
    return batch(waits=[("sleep", "sleep", 600)], polls=[of])


def test_sleeps_in_rows_are_polling_and_others_are_asked_for() -> None:
    assert ranked(polled(poll("fetch"))) == [("polling", "fetch")]
    said = first(polled(poll("fetch"))).sentence
    assert "40 sleeps of about 10 ms, up to 12 one after the other, inside fetch" in said
    assert not ranked(batch(waits=[("sleep", "sleep", 600)]))
    tried = first(polled(poll(refused="disk")))
    assert tried.resource == "disk" and "they ask for lock disk again and again" in tried.sentence
    assert first(polled(poll("boot"))).resource == "sleep", "a span that is the job says nothing"


def test_sleeps_that_end_when_what_was_asked_for_is_done_look_for_that() -> None:
    finding = first(polled(poll(awaited="requests")))
    assert (finding.kind, finding.resource, finding.share) == ("polling", "requests", 0.4)
    assert "they go on after the sleep in which requests had done what they asked for" in finding.sentence
    looks = replace(
        polled(poll(awaited="requests")._replace(between_ns=150 * MS)),
        along=[*polled(poll()).along, Part(0, "gil", "claim", "GIL", 350 * MS)],
    )
    assert [(of.resource, of.share) for of in found(looks).findings] == [("requests", 0.55), ("GIL", 0.2)]
    # Who always sleeps as often may do something else: half of what comes after counts.
    unsure = replace(
        polled(poll(awaited="requests", least=12)), locks=[lock(0, "db", waited=40, held=9)],
        along=[*polled(poll()).along, Part(0, "lock", "claim", "db", 40 * MS)],
    )  # fmt: skip
    assert [(of.resource, of.share) for of in found(unsure).findings] == [("requests", 0.05), ("db", 0.04)]


def waiting_for(name: str, *, instances: int, waits: int) -> Tables:
    """Jobs waited 500 ms for a condition, while those who notified it were in a span for 300 ms and unknown for 200."""
    condition = lock(0, name, waited=500, held=0, kind="condition")._replace(instances=instances, waits=waits)
    tables = batch(waits=[("condition", name, 500)], locks=[condition])
    critical = [
        Critical(0, "sleep", "paint", "sleep", name, "p", 300 * MS),
        Critical(0, "condition", "claim", name, name, "p", 150 * MS),
        Critical(0, "io", "", "poll", name, "p", 50 * MS),
        Critical(0, "running", "claim", "", "", "p", 500 * MS),
    ]
    return replace(tables, critical=[*tables.critical[:1], *critical])


def test_a_condition_that_several_jobs_wait_for_is_named_with_what_was_done_before_it_was_notified() -> None:
    finding = first(waiting_for("turn", instances=1, waits=9))
    assert (finding.kind, finding.resource, finding.share) == ("condition", "turn", 0.5)
    assert "Jobs waited 500 ms for condition turn (50 % of their time)" in finding.sentence
    assert finding.sentence.endswith("while those who notified them were in paint 60 %.")
    nobody = replace(waiting_for("turn", instances=1, waits=9), critical=[])
    assert "those who notified them are not on record" in first(nobody).sentence


def test_who_needs_the_interpreters_lock_to_go_on_after_a_condition_waited_for_that() -> None:
    tables = waiting_for("turn", instances=1, waits=9)
    tables = replace(
        tables, locks=[tables.locks[0]._replace(wait_ns=700 * MS, gil_ns=200 * MS)],
        along=[*tables.along, Part(0, "gil", "claim", "GIL", 250 * MS)],
    )  # fmt: skip
    findings = found(tables).findings
    assert [(of.resource, of.share) for of in findings] == [("turn", 0.7)], (
        "50 ms are left of the interpreter's lock"
    )
    assert findings[0].sentence.endswith("Then they waited 200 ms for the interpreter's lock, to go on.")


def test_a_condition_of_each_jobs_own_counts_as_far_as_somebody_did_something_and_is_called_by_that() -> None:
    finding = first(waiting_for("done", instances=9, waits=9))
    assert (finding.resource, finding.share) == ("paint", 0.3)
    assert not ranked(replace(waiting_for("done", instances=9, waits=9), critical=[]))


def test_a_pool_without_a_name_is_called_by_what_it_serves_too() -> None:
    pool = Pool(
        0, "p", "Executor (a.py:7)", 1, 20, 90 * MS, 400 * MS, 0, "shared", serves="rpc serve bill", unnamed=1
    )
    finding = first(batch(waits=[("pool", "Executor (a.py:7)", 400)], pools=[pool]))
    assert finding.resource == "Executor (a.py:7) for rpc serve bill"
    assert finding.edit == "--workers 'Executor (a.py:7)=2'"


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


def test_without_jobs_threads_wait_for_the_interpreters_lock() -> None:
    gil = lock(0, "GIL", waited=400, held=300, kind="interpreter")
    finding = first(Tables("made", locks=[gil], length_ns=1000 * MS))
    assert (finding.kind, finding.share) == ("gil", 0.4)
    assert not ranked(Tables("made", locks=[gil], length_ns=8000 * MS)), "a little of it is nothing"


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
