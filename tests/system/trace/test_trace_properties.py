"""Random programs: what is recorded of them is balanced, nothing precedes its cause, and its times add up."""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings

from contend import trace
from contend.store.trace_summary import summarise
from support.ctrace_events import (
    FLOW_IN,
    FLOW_OUT,
    LOCK_ACQUIRED,
    LOCK_GIVEN_UP,
    LOCK_RELEASED,
    LOCK_WAIT,
    QUEUE_GOT,
    QUEUE_PUT,
    Event,
    Trace,
    read,
)
from support.prerequisites import need
from support.random_programs import PROGRAMS, Program, Tree


def recorded(program: list[list[Tree]], directory: Path, *, greenlets: bool) -> Trace:
    path = trace.start(directory, clock="monotonic")
    try:
        Program(greenlets=greenlets).run(program)
    finally:
        status = trace.stop()
    assert status.failure is None and status.lost == 0
    return read(path)


@pytest.mark.parametrize("greenlets", [False, True])
def test_random_programs(greenlets: bool) -> None:
    need(not greenlets or importlib.util.find_spec("greenlet"), "pip install greenlet")

    @settings(max_examples=80, deadline=None, database=None)
    @given(PROGRAMS)
    def check(program: list[list[Tree]]) -> None:
        with tempfile.TemporaryDirectory() as directory:
            told = recorded(program, Path(directory), greenlets=greenlets)
            assert told.ended and not told.torn
            spans_are_nested(told)
            waits_end(told)
            locks_are_held_by_one(told)
            queues_count(told)
            messages_arrive_after_they_were_sent(told)
            times_add_up(told, Path(directory))

    check()


def spans_are_nested(told: Trace) -> None:
    """On each track, by `Trace.spans`; and all that the program began is there."""
    spans = told.spans()
    assert {told.tracks[track].kind for track, *_ in spans} <= {1, 2}
    assert {span[1] for span in spans} <= {
        *("root", "call", "method", "span", "arguments", "catch", "steps", "between", "in greenlet")
    }


def waits_end(told: Trace) -> None:
    """A wait is followed on its track by how it ended, and by no other wait before."""
    waiting: dict[int, Event] = {}
    for event in told.of(LOCK_WAIT, LOCK_ACQUIRED, LOCK_GIVEN_UP):
        if event.kind == LOCK_WAIT:
            # The condition in a queue takes its lock back before its own wait ends.
            assert event.track not in waiting or waiting[event.track].name == "queue"
            if event.name != "queue":
                waiting[event.track] = event
        elif event.name != "queue" and (event.kind == LOCK_GIVEN_UP or event.value == 1):
            assert waiting.pop(event.track).id == event.id
    assert not waiting


def locks_are_held_by_one(told: Trace) -> None:
    """Taken after it was let go, let go by who took it."""
    by_lock: dict[int, list[Event]] = defaultdict(list)
    for event in told.of(LOCK_ACQUIRED, LOCK_RELEASED):
        if event.name != "queue":
            by_lock[event.id].append(event)
    for events in by_lock.values():
        events.sort(key=lambda event: (event.ticks, event.kind == LOCK_ACQUIRED))
        assert [event.kind for event in events] == [LOCK_ACQUIRED, LOCK_RELEASED] * (len(events) // 2)
        assert all(a.track == b.track for a, b in zip(events[::2], events[1::2], strict=True))


def queues_count(told: Trace) -> None:
    """Puts and gets hold the queue's lock: in the order of time each is one more or one less."""
    length = 0
    for event in sorted(told.of(QUEUE_PUT, QUEUE_GOT), key=lambda event: event.ticks):
        length += 1 if event.kind == QUEUE_PUT else -1
        assert event.value == length


def messages_arrive_after_they_were_sent(told: Trace) -> None:
    sent = {event.args[""]: event.ticks for event in told.of(FLOW_OUT)}
    assert all(sent[event.args[""]] <= event.ticks for event in told.of(FLOW_IN))


def times_add_up(told: Trace, directory: Path) -> None:
    """Whatever is inside: own times, waits and times suspended of all spans are those of the outermost."""
    outermost = 0
    by_track: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for track, _, begin, end, _ in told.spans():
        by_track[track].append((begin, end))
    for spans in by_track.values():
        until = -1
        for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            if end > until:
                outermost += end - begin
                until = end
    summary = summarise(directory)
    parts = sum(span.self_ns + span.wait_ns + span.suspended_ns for span in summary.spans)
    assert outermost * 0.99 <= parts <= outermost * 1.01, (outermost, parts)


def test_own_times_are_the_program_s_wall(tmp_path: Path) -> None:
    """By the program's own clock: what it reads inside of the outermost span is less, around it more."""

    @trace.traced
    def inner() -> None:
        until = time.monotonic_ns() + 200_000
        while time.monotonic_ns() < until:
            pass

    @trace.traced
    def outer() -> None:
        for _ in range(5):
            inner()
            sum(range(5000))

    trace.start(tmp_path)
    before = time.monotonic_ns()
    with trace.span("all"):
        within = time.monotonic_ns()
        for _ in range(20):
            outer()
        until = time.monotonic_ns()
    after = time.monotonic_ns()
    trace.stop()
    own = sum(span.self_ns for span in summarise(tmp_path).spans)
    assert (until - within) * 0.99 <= own <= (after - before) * 1.01
