"""The summary of real programs that keep an account of themselves: they agree."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from contend.report.trace_export import export_traces
from contend.store.trace_summary import TraceSummary, summarise


def run(code: str, directory: Path) -> tuple[Any, TraceSummary]:
    """What the program says of itself, and what its trace does."""
    done = subprocess.run(
        [sys.executable, "-c", code, str(directory)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout or "null"), summarise(directory, lanes=1000, parts=50)


CONTENDED = """
import json, sys, threading, time
from contend import trace

lock = trace.Lock(name="ledger")
holds = []  # one after the other: who, waited, asked, had, about to release, released
now = time.monotonic_ns

def use(name, hold_s):
    for _ in range(40):
        with trace.span(name):
            asked, waits = now(), False
            if not lock.acquire(blocking=False):  # somebody has it: it will be waited for, not only taken
                asked, waits = now(), True
                lock.acquire()
            had = now()
            hold = [name, waits, asked, had]
            holds.append(hold)
            time.sleep(hold_s)
            hold.append(now())
            lock.release()
            hold.append(now())
        time.sleep(0.0005)

trace.start(sys.argv[1])
with lock: pass  # its first use finds out its name
threads = [threading.Thread(target=use, args=a) for a in (("report", 0.008), ("claim", 0.001), ("claim", 0.001))]
for thread in threads: thread.start()
for thread in threads: thread.join()
trace.stop()
print(json.dumps(holds))
"""


def test_waits_and_their_holders_are_those_that_the_program_saw(tmp_path: Path) -> None:
    """Within 1 % and 2 points of what the program knows at least and at most: between its looks at the clock and the
    lock it may be without a CPU, or without the GIL."""
    holds, summary = run(CONTENDED, tmp_path / "t")
    lock = next(lock for lock in summary.locks if lock.name == "ledger")
    assert lock.holds == len(holds) + 1 == 121
    free = [0] + [hold[4] for hold in holds]  # it may be free from here on
    held_least = sum(let - had for _, _, _, had, let, _ in holds)
    held_most = sum(gone - max(asked, free[n]) for n, (_, _, asked, _, _, gone) in enumerate(holds))
    assert 0.99 * held_least <= lock.hold_ns <= 1.01 * held_most
    waits = [
        (asked, had, max(0, free[n] - asked)) for n, (_, waited, asked, had, *_) in enumerate(holds) if waited
    ]
    most, least = sum(had - asked for asked, had, _ in waits), sum(wait for *_, wait in waits)
    assert 0.99 * least <= lock.wait_ns <= 1.01 * most
    assert lock.waits == pytest.approx(len(waits), abs=6)
    parts = {holder.name: holder.wait_ns / lock.wait_ns for holder in lock.holders}
    assert sum(parts.values()) == pytest.approx(1)
    # A wait is told of whoever had the lock at its begin: who let go of it next.
    by_holder = dict.fromkeys(("report", "claim"), 0)
    for asked, had, _ in waits:
        by_holder[next(hold[0] for hold in holds if hold[5] > asked)] += had - asked
    for name, ns in by_holder.items():
        assert parts[name] == pytest.approx(ns / most, abs=0.02 + (most - least) / most)
    assert summary.spans[0].wait_ns + summary.spans[1].wait_ns == lock.wait_ns


NESTED = """
import json, sys, threading, time
from contend import trace

def busy(ms):
    end = time.monotonic_ns() + ms * 1_000_000
    while time.monotonic_ns() < end: pass

@trace.traced
def recurse(depth):
    busy(1)
    if depth: recurse(depth - 1)

@trace.traced
def items():
    for item in range(5):
        busy(1)
        yield item

@trace.traced
def fails():
    busy(1)
    raise ValueError

lock = trace.RLock(name="both")
walls = {}

def work(number):
    began = time.monotonic_ns()
    with trace.span("all", number=number):
        for _ in range(3):
            recurse(6)
            for item in items():
                with trace.span("query", kind="remote"): busy(1)
            with lock:
                with lock: time.sleep(0.003)
            try: fails()
            except ValueError: pass
    walls[threading.current_thread().name] = time.monotonic_ns() - began

trace.start(sys.argv[1])
with lock: pass  # its first use finds out its name
threads = [threading.Thread(target=work, args=(n,), name=f"w{n}") for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
trace.stop()
print(json.dumps(walls))
"""


def test_the_time_of_a_track_adds_up_to_the_wall(tmp_path: Path) -> None:
    """Self time, waits and suspension of all that is on it; recursion, generators, exceptions and remote calls in it."""
    walls, summary = run(NESTED, tmp_path / "t")
    lanes = {lane.name: sum(lane.run) + sum(lane.wait) + sum(lane.idle) for lane in summary.lanes}
    assert lanes == {name: pytest.approx(wall, rel=0.01) for name, wall in walls.items()}
    spans = {span.name: span for span in summary.spans}
    accounted = sum(span.self_ns + span.wait_ns + span.suspended_ns for span in summary.spans)
    assert accounted == pytest.approx(sum(walls.values()), rel=0.01)
    assert accounted == pytest.approx(spans["all"].total_ns, rel=1e-6)
    recurse, items, fails, query = (
        spans[name] for name in ("__main__:recurse", "__main__:items", "__main__:fails", "query")
    )
    assert (recurse.count, fails.count, fails.raised) == (4 * 3 * 7, 12, 12)
    # The outermost of seven holds the time of all.
    assert recurse.total_ns == pytest.approx(recurse.self_ns, rel=1e-6)
    assert recurse.total_ns >= 12 * 7_000_000
    # A generator's span is left where it yields: what its caller does meanwhile is none of it, six times resumed.
    assert items.count == 12 * 6
    assert items.total_ns < spans["all"].total_ns / 2
    assert (query.remote, query.count) == (60, 60)
    repeated = {(row.parent, row.child): row for row in summary.repeated}
    n_plus_one = repeated["all", "query"]
    assert (n_plus_one.parents, n_plus_one.calls, n_plus_one.most, n_plus_one.remote) == (4, 60, 15, 60)
    assert summary.repeated[0] == n_plus_one
    both = next(lock for lock in summary.locks if lock.name == "both")
    assert both.holds == 12 + 1
    assert both.hold_ns >= 12 * 3_000_000


CROSSING = """
import sys
from contend import trace

@trace.traced
def outer(level):
    if level: outer(level - 1)
    else: trace.start(sys.argv[1])
    with trace.span("inside"): pass

outer(2)
span = trace.span("never left")
span.__enter__()
trace.stop()
"""


def test_spans_that_cross_the_recordings_ends_do_not_mislead(tmp_path: Path) -> None:
    _, summary = run(CROSSING, tmp_path / "t")
    spans = {span.name: span for span in summary.spans}
    assert spans["inside"].count == 3
    assert "__main__:outer" not in spans, (
        "it began before the recording: there is nothing to tell its time from"
    )
    assert (spans["never left"].count, spans["never left"].unfinished) == (1, 1)
    assert summary.counts["open_at_end"] == 1


LOSING = """
import json, sys
from contend import trace

@trace.traced
def inner(): pass

@trace.traced
def outer():
    inner(); inner()

trace.start(sys.argv[1], buffer_bytes=64 << 10)
with trace.span("all"):
    for _ in range(200_000): outer()
print(json.dumps(trace.stop().lost))
"""


def test_lost_events_are_told_and_unbalance_nothing(tmp_path: Path) -> None:
    lost, summary = run(LOSING, tmp_path / "t")
    assert lost > 0
    assert summary.counts["lost"] == lost
    assert sum(process.lost for process in summary.processes) == lost
    assert any(f"{lost:,} events were not recorded" in note for note in summary.notes)
    assert {summary.counts[key] for key in ("ends_alone", "cut", "open_at_end", "out_of_order")} == {0}
    spans = {span.name: span for span in summary.spans}
    assert spans["all"].count == 1
    assert 0 < spans["__main__:outer"].count < 200_000
    assert sum(span.self_ns for span in summary.spans) == spans["all"].total_ns


MESSAGES = """
import os, sys
from contend import trace

trace.start(sys.argv[1])
there, back = os.pipe(), os.pipe()
child = os.fork()
read, write = (there[0], back[1]) if child == 0 else (back[0], there[1])
for n in range(500):
    for sends in (child != 0, child == 0):  # there, and back
        if sends:
            number = trace.flow.sent("ping")
            os.write(write, number.to_bytes(8, "little"))
        else:
            trace.flow.received("ping", int.from_bytes(os.read(read, 8), "little"))
trace.stop()
if child == 0: os._exit(0)
os.wait()
"""


def test_nothing_happens_before_its_cause(tmp_path: Path) -> None:
    """Two processes, each with its own readings of the clocks, that answer each other: no message comes before it went,
    and none is sent before the one that it answers has come."""
    run(MESSAGES, tmp_path / "t")
    export_traces([tmp_path / "t"], "chrome", tmp_path / "out.json")
    events = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["traceEvents"]
    flows = [(event["id"], event["ph"]) for event in events if event["ph"] in "sf"]
    times = [event["ts"] for event in events if event["ph"] in "sf"]
    assert times == sorted(times)
    assert len(flows) == 2 * 2 * 500
    assert [phase for _, phase in flows] == ["s", "f"] * 1_000
    assert all(sent == received for (sent, _), (received, _) in zip(flows[::2], flows[1::2], strict=True))
