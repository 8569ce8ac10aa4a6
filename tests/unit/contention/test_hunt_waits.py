"""What a hunt says of sleeps and conditions, of tables whose story is known."""

from __future__ import annotations

from dataclasses import replace

from contend.contention.hunting.rows import (
    Critical,
    Part,
    Poll,
    Tables,
)
from support.made_hunts import (
    MS,
    batch,
    first,
    found,
    lock,
    ranked,
)


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
