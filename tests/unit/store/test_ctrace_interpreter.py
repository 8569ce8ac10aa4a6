"""Who held a lock during one wait, collections and blocked loops: made files, known answers."""

from __future__ import annotations

from pathlib import Path

from contend.store.trace_summary import Blocked, Collections, Holder, summarise
from support import ctrace_files as c
from support.ctrace_files import Made, event, number


def test_a_wait_is_told_apart_by_who_held_the_lock(tmp_path: Path) -> None:
    made = Made(1)
    for ident, name in enumerate(["waits", "first", "second"], 1):
        made.track(ident, c.THREAD, name, tid=ident)
    made.lock(1, c.INTERPRETER, "GIL")
    span = made.string("long call")
    made.events(2, [event(90, c.BEGIN, span), event(300, c.END, span)])
    made.events(
        1,
        [
            event(100, c.LOCK_WAIT, 1, 2),
            event(150, c.LOCK_PASSED, 1, 3),
            event(250, c.LOCK_PASSED, 1, 2),
            event(260, c.LOCK_PASSED, 1, 0),
            event(270, c.LOCK_ACQUIRED, 1, 1),
            event(280, c.LOCK_RELEASED, 1),
            event(290, c.LOCK_PASSED, 1, 2),  # of no wait
        ],
    )
    made.end(1000)
    summary = summarise(made.save(tmp_path))
    gil = summary.gil
    assert gil is not None
    assert (gil.waits, gil.wait_ns, gil.max_wait_ns, gil.holds, gil.hold_ns) == (1, 170, 170, 1, 10)
    assert gil.holders == (Holder("second", 1, 100), Holder("long call", 2, 60), Holder("unknown", 1, 10))
    assert summary.counts["ends_alone"] == 1


def test_collections_are_added_up_by_generation_and_are_spans_too(tmp_path: Path) -> None:
    made = Made(1)
    made.track(1, c.THREAD, "main", tid=1)
    gc, kind, generation, collected = map(made.string, ["gc", "kind", "generation", "collected"])
    events = []
    for at, which, ns, found in [(100, 0, 5, 2), (200, 2, 50, 7), (300, 2, 30, 0)]:
        events += [event(at, c.BEGIN, gc), event(at, c.ARG, kind, gc), number(which, generation)]
        events += [event(at + ns, c.END, gc), number(found, collected)]
    events += [event(400, c.BEGIN, gc), event(500, c.END, gc)]  # a program's own span of that name
    made.events(1, events)
    made.end(1000)
    summary = summarise(made.save(tmp_path))
    assert summary.collections == (Collections(0, 1, 5, 5, 2), Collections(2, 2, 80, 50, 7))
    assert [(span.name, span.count, span.total_ns) for span in summary.spans] == [("gc", 4, 185)]


def test_what_blocked_a_loop_is_no_span_of_its_thread(tmp_path: Path) -> None:
    made = Made(1)
    made.track(1, c.THREAD, "main", tid=1)
    made.track(2, c.LOOP, "blocked event loop", parent=1)
    made.lock(1, c.INTERPRETER, "event loop")
    name, kind, blocked, site, ready = map(made.string, ["slow", "kind", "blocked", "site", "ready"])
    where = made.string("app.py:3")
    for at, ns, behind in [(100, 20, 4), (200, 30, 1)]:
        made.events(
            2,
            [
                event(at, c.BEGIN, name),
                event(at, c.ARG, kind, blocked),
                event(at, c.ARG, site, where),
                number(behind, ready),
                event(at, c.LOCK_ACQUIRED, 1),
                event(at + ns, c.LOCK_RELEASED, 1),
                event(at + ns, c.END, name),
            ],
        )
    made.end(1000)
    summary = summarise(made.save(tmp_path))
    assert summary.blocked == (Blocked("blocked event loop", "slow", "app.py:3", 2, 50, 30, 4),)
    assert not summary.spans
    assert [(lock.name, lock.holds, lock.hold_ns) for lock in summary.locks] == [("event loop", 2, 50)]
