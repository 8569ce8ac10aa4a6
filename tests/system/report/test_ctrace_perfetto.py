"""What we export, read by Perfetto's own parser: counts, names, durations, flows and counters exactly."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from contend.report.trace_export import export_traces
from contend.store.traces import notes
from support import ctrace_files as c
from support.ctrace_files import Made, event, number, save_all
from support.trace_processor import Cell, Rows, query

FORMS = ("perfetto", "chrome")
TROUBLE = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"


def asked(directory: Path, form: str, *statements: str) -> list[Rows]:
    """The rows of each statement. Perfetto had no trouble with what we wrote."""
    target = directory / f"out.{form}"
    export_traces([directory], form, target)
    trouble, *answers = query(target.read_bytes(), TROUBLE, *statements)
    assert trouble == []
    return answers


def service(pid: int = 100) -> Made:
    """One thread with spans, a greenlet, a lock that is waited for, a queue, a counter, a job."""
    made = Made(pid)
    made.track(90, c.PROCESS, "nova-compute")
    made.track(1, c.THREAD, "MainThread", parent=90, tid=pid)
    made.track(2, c.THREAD, "worker", parent=90, tid=pid + 1)
    made.track(3, c.GREENLET, "GreenThread-7", parent=1)
    made.lock(1, c.LOCK, "compute_resources", "manager.py:91")
    made.lock(2, c.QUEUE, "inbox")
    boot, build, spawn = made.string("boot"), made.string("build"), made.string('spawn "it"\n')
    host, where, depth = made.string("host"), made.string("web-17"), made.string("depth")
    made.events(
        1,
        [
            event(1_000, c.BEGIN, boot),
            event(0, c.ARG, host, where),
            number(-5, depth),
            event(1_100, c.LOCK_ACQUIRED, 1),
            event(1_200, c.SWITCH, 0, 3),
            event(1_250, c.BEGIN, build),
            event(1_400, c.SWITCH, 0, 1),
            event(1_500, c.BEGIN, spawn),
            event(1_900, c.END, spawn, 1),
            event(2_000, c.SWITCH, 0, 3),
            event(2_100, c.END, build),
            event(2_150, c.QUEUE_PUT, 2, 4),
            event(2_200, c.SWITCH, 0, 1),
            event(2_500, c.LOCK_RELEASED, 1),
            event(3_000, c.END, boot),
            event(77, c.CPU),
        ],
    )
    job, gauge, temperature, mark = (made.string(n) for n in ("boot-vm", "gauge", "temperature", "mark"))
    made.events(
        2,
        [
            event(1_050, c.JOB_BEGIN, job, 8),
            event(1_300, c.LOCK_WAIT, 1, 1),
            event(2_600, c.LOCK_ACQUIRED, 1, 1),
            event(2_610, c.COUNTER, gauge),
            number(-3),
            event(2_620, c.COUNTER, temperature),
            number(36.5),
            event(2_650, c.INSTANT, mark),
            event(2_700, c.LOCK_RELEASED, 1),
            event(2_800, c.JOB_END, job, 8),
        ],
    )
    made.end(3_100)
    return made


@pytest.mark.parametrize("form", FORMS)
def test_every_kind_of_event_arrives_as_it_was(tmp_path: Path, form: str) -> None:
    slices, counters, args = asked(
        save_all(tmp_path / "t", [service()]),
        form,
        "select name, ts, dur, category from slice where dur > 0 order by ts, dur desc",
        "select t.name, c.ts, c.value from counter c join counter_track t on c.track_id = t.id order by c.ts",
        "select s.name, a.key, a.display_value from slice s join args a using (arg_set_id) order by 1, 2",
    )
    assert slices == [
        ("boot", 1_000, 2_000, None),
        ("boot-vm", 1_050, 1_750, "job"),
        ("MainThread", 1_100, 1_400, "lock"),
        ("GreenThread-7", 1_200, 200, "switch"),
        ("build", 1_250, 850, None),
        ("wait compute_resources", 1_300, 1_300, "lock"),
        ('spawn "it"\n', 1_500, 400, None),
        ("GreenThread-7", 2_000, 200, "switch"),
        ("worker", 2_600, 100, "lock"),
    ]
    # Perfetto adds the argument's name to those of Chrome's counters.
    counters = [(str(name).removesuffix(" value"), at, value) for name, at, value in counters]
    assert counters == [("inbox length", 2_150, 4.0), ("gauge", 2_610, -3.0), ("temperature", 2_620, 36.5)]
    prefix = "debug" if form == "perfetto" else "args"
    found = {(name, str(key).removeprefix(f"{prefix}.")): value for name, key, value in args}
    assert found[("boot", "host")] == "web-17"
    assert found[("boot", "depth")] == "-5"
    assert found[("boot", "cpu_ns")] == "77"
    assert found[("boot-vm", "number")] == "8"
    assert found[('spawn "it"\n', "exception")] in ("true", "1")
    waited = {key: found[("wait compute_resources", key)] for key in ("lock", "site", "holder")}
    assert waited == {"lock": "compute_resources", "site": "manager.py:91", "holder": "MainThread"}


def test_tracks_lie_below_their_process_thread_and_lock(tmp_path: Path) -> None:
    threads, greenlets, parents, locks, instants = asked(
        save_all(tmp_path / "t", [service(100), service(200)]),
        "perfetto",
        "select p.name, p.pid, t.name, t.tid from thread t join process p using (upid) where p.pid > 0"
        " order by p.pid, t.tid",
        "select s.name, t.name from slice s join thread_track k on s.track_id = k.id join thread t using (utid)"
        " where k.name = 'GreenThread-7'",
        "select k.name, p.name from track k left join track p on k.parent_id = p.id where k.name in"
        " ('GreenThread-7', 'inbox length') order by 1",
        "select k.name, p.name, count(*), sum(s.dur) from slice s join track k on s.track_id = k.id"
        " join track p on k.parent_id = p.id where p.name = 'locks' group by 1, 2, k.id",
        "select name, ts, dur from slice where name = 'mark'",
    )
    assert threads == [
        ("nova-compute", 100, "MainThread", 100),
        ("nova-compute", 100, "worker", 101),
        ("nova-compute", 200, "MainThread", 200),
        ("nova-compute", 200, "worker", 201),
    ]
    assert greenlets == [("build", "MainThread")] * 2
    assert parents == [("GreenThread-7", "on MainThread")] * 2 + [("inbox length", "locks")] * 2
    assert locks == [("compute_resources (manager.py:91)", "locks", 2, 1_500)] * 2
    assert instants == [("mark", 2_650, 0)] * 2


@pytest.mark.parametrize("form", FORMS)
def test_a_message_is_followed_from_process_to_process(tmp_path: Path, form: str) -> None:
    ends = []
    for pid, kind, base in ((10, c.FLOW_OUT, 0), (20, c.FLOW_IN, 1_000)):
        made = Made(pid)
        made.track(1, c.THREAD, f"thread-{pid}", tid=pid)
        name, message = made.string(f"in-{pid}"), made.string("rpc")
        events = []
        for i in range(40):
            ident = (i << 40) + 7
            events += [
                event(base + 10_000 * i, c.BEGIN, name),
                event(base + 10_000 * i + 100, kind, message, ident & 0xFFFFFFFF),
                number(ident),
                event(base + 10_000 * i + 500, c.END, name),
            ]
        made.events(1, events)
        ends.append(made)
    (flows,) = asked(
        save_all(tmp_path / "t", ends),
        form,
        "select o.name, o.ts, i.name, i.ts from flow f join slice o on f.slice_out = o.id"
        " join slice i on f.slice_in = i.id order by o.ts",
    )
    # In Perfetto's own format the message is an instant in its span; in Chrome's it is bound to the span.
    names, at = (("rpc", "rpc"), 100) if form == "perfetto" else (("in-10", "in-20"), 0)
    assert flows == [(names[0], 10_000 * i + at, names[1], 10_000 * i + 1_000 + at) for i in range(40)]


@pytest.mark.parametrize("form", FORMS)
def test_what_is_open_at_the_end_is_ended_there_and_said_so(tmp_path: Path, form: str) -> None:
    made = Made(1)
    made.track(1, c.THREAD, "main", tid=1)
    a, b, x = made.string("a"), made.string("b"), made.string("x")
    made.lock(1, c.LOCK, "mutex")
    made.events(
        1,
        [
            event(10, c.END, x),  # as after a fork inside x
            event(100, c.BEGIN, a),
            event(150, c.LOCK_ACQUIRED, 1),
            event(200, c.BEGIN, b),
            event(300, c.BEGIN, x),
            event(400, c.END, b),  # x never ended
            event(500, c.BEGIN, x),
        ],
    )
    made.dropped(1, 12, 410, 490)
    made.sync(1_000, 1_000)
    directory = save_all(tmp_path / "t", [made])
    slices, marked = asked(
        directory,
        form,
        "select name, ts, dur from slice where dur > 0 order by ts",
        "select s.name, s.ts from slice s join args a using (arg_set_id) where a.key glob '*unfinished' order by 2",
    )
    assert slices == [("a", 100, 900), ("main", 150, 850), ("b", 200, 200), ("x", 300, 100), ("x", 500, 500)]
    assert marked == [("a", 100), ("main", 150), ("x", 300), ("x", 500)]
    told = export_traces([directory], form, tmp_path / "again")
    wanted = {"ends_alone": 1, "cut": 1, "open_at_end": 3, "lost": 12, "not_closed": 1}
    assert {key: told[key] for key in wanted} == wanted


@pytest.mark.parametrize("form", FORMS)
def test_random_programs_keep_every_slice_to_the_nanosecond(tmp_path: Path, form: str) -> None:
    """Threads and greenlets of three processes with clocks of their own; the same told to Perfetto and to a model."""
    rng = random.Random(3)
    wanted: Counter[tuple[Cell, ...]] = Counter()
    files = []
    for pid in (1_000, 2_000, 3_000):
        made = Made(pid, clock=1, ticks=10**12 * pid, ns=5 * 10**14, ticks_per_s=2 * 10**9)
        names = [made.string(f"f{pid}.{i}") for i in range(30)]
        for ring in range(1, 6):
            made.track(ring, c.THREAD, f"t{pid}.{ring}", tid=pid + ring)
            greens = [ring, *(ring * 100 + n for n in range(3))]
            for green in greens[1:]:
                made.track(green, c.GREENLET, f"g{pid}.{green}", parent=ring)
            open_: dict[int, list[tuple[int, int]]] = {green: [] for green in greens}
            events, now, on, since = [], 0, ring, 0
            for _ in range(400):
                now += rng.randrange(1, 5_000)
                stack = open_[on]
                chance = rng.random()
                if chance < 0.2:
                    to = rng.choice(greens)
                    events.append(event(10**12 * pid + 2 * now, c.SWITCH, 0, to))
                    if to != on:
                        if on != ring:
                            wanted[(f"g{pid}.{on}", since, now - since)] += 1
                        since = now
                    on = to
                elif stack and chance < 0.6:
                    began, i = stack.pop()
                    events.append(event(10**12 * pid + 2 * now, c.END, names[i]))
                    wanted[(f"f{pid}.{i}", began, now - began)] += 1
                else:
                    i = rng.randrange(30)
                    stack.append((now, i))
                    events.append(event(10**12 * pid + 2 * now, c.BEGIN, names[i]))
            for at in range(0, len(events), 64):
                made.events(ring, events[at : at + 64])
            wanted.update((f"f{pid}.{i}", began, None) for stack in open_.values() for began, i in stack)
            if on != ring:
                wanted[(f"g{pid}.{on}", since, None)] += 1
        made.sync(10**12 * pid + 4 * 10**9, 5 * 10**14 + 2 * 10**9)
        files.append(made)
    end, origin = 2 * 10**9, 5 * 10**14
    (slices,) = asked(save_all(tmp_path / "t", files), form, "select name, ts, dur from slice")
    found = Counter((n, ts - origin, dur) for n, ts, dur in slices if isinstance(ts, int))
    exact = Counter(
        {(n, ts, end - int(str(ts)) if dur is None else dur): k for (n, ts, dur), k in wanted.items()}
    )
    assert found == exact


def test_spans_that_lie_too_deep_are_left_out_and_those_around_them_whole(tmp_path: Path) -> None:
    made = Made(1)
    made.track(1, c.THREAD, "main", tid=1)
    name = made.string("down")
    begins = [event(at, c.BEGIN, name) for at in range(10_000)]
    ends = [event(20_000 - at, c.END, name) for at in range(9_999, -1, -1)]
    made.events(1, [*begins, event(10_000, c.INSTANT, made.string("bottom")), *ends])
    directory = save_all(tmp_path / "t", [made])
    slices, bottom = asked(
        directory,
        "perfetto",
        "select count(*), max(depth), sum(dur = 2 * (10000 - ts)) from slice where name = 'down'",
        "select ts, dur from slice where name = 'bottom'",
    )
    assert slices == [(511, 510, 511)]
    assert bottom == [(10_000, 0)]
    assert export_traces([directory], "perfetto", tmp_path / "o")["too_deep"] == 10_000 - 511
    assert export_traces([directory], "chrome", tmp_path / "o")["too_deep"] == 0


PROGRAM = """
import os, sys, threading, time
from contend import trace

trace.start(sys.argv[1])
lock, queue = trace.Lock(name="mutex"), trace.Queue(name="inbox")
with lock:
    queue.put(0)

@trace.traced
def work():
    with lock:
        time.sleep(0.001)

def serve():
    for i in range(10):
        with trace.span("serve", i=i):
            work()
            queue.put(i)

threads = [threading.Thread(target=serve) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with trace.span("parent"):
    if os.fork() == 0:
        work()
        trace.stop()
        os._exit(0)
    os.wait()
trace.counter("load", 0.5)
trace.stop()
"""


def test_what_the_recorder_wrote_arrives(tmp_path: Path) -> None:
    """A real program with threads, a lock that they contend for, a queue, and a fork in the middle of a span."""
    subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path / "t")], check=True, timeout=60)
    spans, inside, holds, overlaps, queue, load, processes = asked(
        tmp_path / "t",
        "perfetto",
        "select name, count(*), sum(dur <= 0) from slice where category is null and dur != 0 group by 1 order by 1",
        "select count(*) from slice s join slice p on s.parent_id = p.id where s.name = '__main__:work' and"
        " p.name = 'serve' and s.dur >= 1000000 and s.dur <= p.dur",
        "select count(*), sum(s.dur >= 1000000) >= 41 from slice s join track k on s.track_id = k.id"
        " where k.name glob 'mutex*'",
        "select count(*) from slice a join slice b using (track_id) join track k on a.track_id = k.id"
        " where k.name glob 'mutex*' and a.id < b.id and a.ts + a.dur > b.ts and b.ts + b.dur > a.ts",
        "select count(*), max(c.value) <= 41 from counter c join counter_track t on c.track_id = t.id"
        " where t.name glob 'inbox*'",
        "select c.value from counter c join counter_track t on c.track_id = t.id where t.name = 'load'",
        "select count(distinct pid) from process where pid > 0",
    )
    assert spans == [("__main__:work", 41, 0), ("parent", 1, 0), ("serve", 40, 0)]
    assert inside == [(40,)]
    assert holds == [(42, 1)]  # in the first nobody sleeps, but it may be taken off its CPU
    assert overlaps == [(0,)]
    assert queue == [(41, 1)]
    assert load == [(0.5,)]
    assert processes == [(2,)]
    told = export_traces([tmp_path / "t"], "chrome", tmp_path / "out.json")
    assert notes(told) == []


def test_chrome_json_is_json(tmp_path: Path) -> None:
    made = service()
    infinite = made.string("infinite")
    made.events(2, [event(2_900, c.COUNTER, infinite), number(float("inf"))])
    directory = save_all(tmp_path / "t", [made])
    export_traces([directory], "chrome", tmp_path / "out.json")
    document = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert {e["ph"] for e in document["traceEvents"]} == {"M", "B", "E", "i", "C"}
