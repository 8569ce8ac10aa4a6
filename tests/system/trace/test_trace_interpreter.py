"""Waits for the GIL, collections of garbage, blocked loops: programs that know what they did, and what is on record."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

from contend.report.trace_export import export_traces
from contend.store.trace_summary import summarise
from support.ctrace_events import (
    BEGIN,
    LOCK_ACQUIRED,
    LOCK_PASSED,
    LOCK_RELEASED,
    LOCK_WAIT,
    Event,
    Trace,
    read_all,
    record,
    run,
)
from support.trace_processor import query

THREAD, LOOP = 1, 4

# sum() of a range is one call in C that never lets the GIL go. The clock is CLOCK_MONOTONIC, as perf_counter.
HOLDERS = """
    import functools, json, operator, threading, time
    now = time.perf_counter_ns
    def cost():
        began = time.thread_time_ns()
        sum(range(1_000_000))
        return time.thread_time_ns() - began
    million_ns = min(cost() for _ in range(5))
    truth, overslept, done = [], {}, threading.Event()

    def run_delay():
        with open("/proc/thread-self/schedstat") as file: return int(file.read().split()[1])

    def hold(count, ns):
        numbers = range(int(1_000_000 * ns / million_ns))
        for _ in range(count):
            time.sleep(ns / 1e9)
            # One instruction in C, from the first look at the clock to the last: it has the GIL all the time.
            began, _, ended = map(operator.call, (now, functools.partial(sum, numbers), now))
            truth.append((threading.current_thread().name, began, ended))

    def want():
        over, delay = 0, run_delay()
        while not done.is_set():
            began = now()
            time.sleep(0.0005)
            late = now() - began - 500_000
            over += late if late > 5_000_000 else 0
        overslept[threading.current_thread().name] = over, run_delay() - delay

    trace.start(DIRECTORY, clock="monotonic", gil=True)
    holders = [threading.Thread(target=hold, args=a, name=n) for n, a in HOLD.items()]
    wanting = [threading.Thread(target=want, name=f"want-{n}") for n in range(2)]
    for thread in wanting + holders: thread.start()
    for thread in holders: thread.join()
    done.set()
    for thread in wanting: thread.join()
    assert trace.status().gil == "on", trace.status().gil
    status = trace.stop()
    assert status.lost == 0
    with open(DIRECTORY / "truth.json", "w") as file:
        json.dump([truth, overslept], file)
"""


def known(
    directory: Path, holds: dict[str, tuple[int, int]]
) -> tuple[Trace, list[list[object]], dict[str, tuple[int, int]]]:
    """Record threads that hold the GIL so often for so many ns; the trace, when they did, how long others overslept,
    and how long they were runnable and on no CPU."""
    told = record(
        f"from pathlib import Path\nDIRECTORY = Path(DIRECTORY)\nHOLD = {holds!r}\n"
        + textwrap.dedent(HOLDERS),
        directory,
    )
    truth, overslept = json.loads((directory / "truth.json").read_text())
    return told, truth, overslept


def pieces(told: Trace) -> list[tuple[str, int, int, int]]:
    """(who waited, holder's track, from, to) of all waits for the GIL, one for each that held it meanwhile."""
    found = []
    open_: dict[int, Event] = {}
    for event in told.events:
        if event.name != "GIL" or event.kind == LOCK_RELEASED:
            continue
        assert event.kind in (LOCK_WAIT, LOCK_PASSED, LOCK_ACQUIRED)
        before = open_.pop(event.ring, None)
        assert (before is None) == (event.kind == LOCK_WAIT), "waits are balanced"
        if before is not None:
            found.append((told.tracks[event.ring].name, before.value, before.ticks, event.ticks))
        if event.kind != LOCK_ACQUIRED:
            open_[event.ring] = event
    assert not open_
    return found


def test_waits_for_the_gil_add_up(tmp_path: Path) -> None:
    told, truth, overslept = known(tmp_path, {"holder": (12, 40_000_000)})
    waited = pieces(told)
    held = sum(end - began for _, began, end in truth)  # type: ignore[operator]
    for name, (over, delay) in overslept.items():
        own = sum(end - began for who, _, began, end in waited if who == name and end - began > 5_000_000)
        # No longer than the thread itself overslept, for which a host that is busy is the other cause; and as long as
        # it was held, but for when the thread had not come to ask for it, or had it and no CPU.
        assert own < 1.1 * over, name
        assert over - delay < 1.2 * own, name
        assert 0.6 * held - delay < own < 1.4 * held + delay, name
    summary = summarise(tmp_path)
    assert summary.gil is not None and summary.gil.holders[0].name == "holder"
    assert summary.gil.holders[0].wait_ns > 0.9 * sum(h.wait_ns for h in summary.gil.holders)
    assert not {"out_of_order", "ends_alone", "cut", "overtaken", "released_unheld"} & {
        key for key, count in summary.counts.items() if count and isinstance(count, int)
    }


def test_whoever_held_it_is_named(tmp_path: Path) -> None:
    told, truth, _ = known(tmp_path, {"a": (150, 3_000_000), "b": (150, 3_000_000)})
    names = {track: about.name for track, about in told.tracks.items()}
    right = wrong = 0
    for _, holder, began, end in pieces(told):
        # From its middle on: a wait with very many holders is told in parts, each as of who had it in the midst.
        middle, late = (began + end) // 2, end - 200_000
        there = [name for name, first, last in truth if first < middle and late < last <= end]  # type: ignore[operator]
        if end - began >= 1_000_000 and there:
            right += names.get(holder) == there[0]
            wrong += names.get(holder) != there[0]
    assert right > 100
    assert right / (right + wrong) >= 0.999, (right, wrong)


def test_threads_that_come_and_go_have_their_own_names(tmp_path: Path) -> None:
    """The C library gives a new thread the place of one that has ended; it waits for the GIL before it can say a word."""
    told = record(
        """
        import threading
        done = threading.Event()
        def spin():
            while not done.is_set(): sum(range(1000))
        trace.start(DIRECTORY, gil=True)
        spinning = threading.Thread(target=spin, name="spin")
        spinning.start()
        for number in range(40):
            thread = threading.Thread(target=lambda: sum(range(20_000)), name=f"short-{number}")
            thread.start(); thread.join()
        done.set(); spinning.join()
        trace.stop()
        """,
        tmp_path,
    )
    names = [track.name for track in told.tracks.values() if track.kind == THREAD]
    # A track has who waited: not who came while the spinning thread was itself not on a CPU and had let the GIL go.
    assert len(names) == len(set(names)) > 10
    assert set(names) <= {"MainThread", "spin"} | {f"short-{number}" for number in range(40)}


def test_a_thread_that_nobody_knew_and_a_c_call_by_its_span(tmp_path: Path) -> None:
    told = record(
        """
        import _thread, time
        begun = []
        def alone():
            begun.append(1)
            while len(begun) < 2: time.sleep(0.001)
            begun.append(3)
        trace.start(DIRECTORY, gil=True)
        _thread.start_new_thread(alone, ())
        while not begun: time.sleep(0.001)
        for _ in range(20):
            with trace.span("long call"):
                sum(range(2_000_000))
            time.sleep(0.005)
        begun.append(2)
        while len(begun) < 3: time.sleep(0.001)
        trace.stop()
        """,
        tmp_path,
    )
    waits = [event for event in told.events if event.kind == LOCK_WAIT and event.name == "GIL"]
    (alone,) = {event.ring for event in waits if told.tracks[event.ring].name != "MainThread"}
    assert told.tracks[alone].name.startswith("thread-") and told.tracks[alone].tid
    summary = summarise(tmp_path)
    assert summary.gil is not None and summary.gil.holders[0].name == "long call"


def test_switched_on_and_off_at_random_it_neither_hangs_nor_breaks(tmp_path: Path) -> None:
    run(
        """
        import warnings; warnings.simplefilter("ignore")  # fork and threads, from 3.12 on
        import gc, os, random, signal, threading, time
        random.seed(7)
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 0.003, 0.003)
        done = threading.Event()
        def busy(n):
            mine = random.Random(n)
            while not done.is_set():
                sum(range(mine.randrange(200_000)))
                if mine.random() < 0.3: time.sleep(mine.random() / 1000)
                if mine.random() < 0.05: gc.collect(0)
                with trace.span("busy"): pass
        threads = [threading.Thread(target=busy, args=(n,), daemon=n == 0) for n in range(5)]
        for thread in threads: thread.start()
        for turn in range(60):
            trace.start(DIRECTORY, gil=True, gc=True, blocked_after_ms=1)
            time.sleep(random.random() / 50)
            if turn % 10 == 0:
                child = os.fork()
                if child == 0:
                    helper = threading.Thread(target=lambda: sum(range(500_000)))
                    helper.start()
                    with trace.span("child"): sum(range(500_000))
                    helper.join()
                    trace.stop()
                    os._exit(0)
                assert os.waitpid(child, 0)[1] == 0
            if turn % 2: trace.stop()
            else:
                stops = [threading.Thread(target=trace.stop) for _ in range(2)]
                for thread in stops: thread.start()
                for thread in stops: thread.join()
        done.set()
        for thread in threads[1:]: thread.join()
        signal.setitimer(signal.ITIMER_REAL, 0)
        trace.start(DIRECTORY, gil=True)  # and out with daemons at work
        threading.Thread(target=lambda: [sum(range(10_000)) for _ in iter(int, 1)], daemon=True).start()
        time.sleep(0.05)
        """,
        tmp_path,
    )
    traces = read_all(tmp_path)
    assert len(traces) >= 60 and not any(told.torn for told in traces)
    for told in traces:
        pieces(told)
    summary = summarise(tmp_path)
    assert not summary.counts["out_of_order"] and not summary.counts["ends_alone"]


def test_collections_of_garbage(tmp_path: Path) -> None:
    told = record(
        """
        import gc
        gc.disable()
        class Ring: pass
        def rings(count):
            for _ in range(count):
                ring = Ring()
                ring.own = ring
        gc.collect()
        trace.start(DIRECTORY, gc=True)
        assert len(gc.callbacks) == 1
        with trace.span("work"):
            for generation in (0, 1, 2, 2):
                rings(100)
                gc.collect(generation)
        trace.stop()
        assert not gc.callbacks
        gc.collect()
        """,
        tmp_path,
    )
    spans = [event for event in told.events if event.kind == BEGIN and event.name == "gc"]
    assert [event.args for event in spans] == [{"kind": "gc", "generation": n} for n in (0, 1, 2, 2)]
    found = {row.generation: (row.count, row.collected) for row in summarise(tmp_path).collections}
    assert {generation: count for generation, (count, _) in found.items()} == {0: 1, 1: 1, 2: 2}
    # From 3.14 on a collection of the middle one looks at a part; the next full one finds the rest.
    each = [collected >= 100 * count for count, collected in found.values()]
    assert all(each) or sys.version_info >= (3, 14)
    assert sum(collected for _, collected in found.values()) >= 400
    (lock,) = [lock for lock in summarise(tmp_path).locks if lock.name == "gc"]
    assert (lock.kind, lock.holds, lock.waits) == ("interpreter", 4, 0)


def test_callbacks_that_block_an_event_loop(tmp_path: Path) -> None:
    told = record(
        """
        import asyncio, time
        def callback(): time.sleep(0.06)
        async def quick(): await asyncio.sleep(0)
        async def inner():
            time.sleep(0.05)
            await asyncio.sleep(0)
        async def slow(): await inner()
        async def ends(): time.sleep(0.04)
        async def main():
            loop = asyncio.get_running_loop()
            await asyncio.sleep(0.1)
            tasks = [asyncio.create_task(c) for c in (slow(), quick(), quick(), ends())]
            await asyncio.gather(*tasks)
            loop.call_soon(callback)
            await asyncio.sleep(0.1)
        trace.start(DIRECTORY, blocked_after_ms=25)
        asyncio.run(main())
        trace.stop()
        asyncio.run(main())
        """,
        tmp_path,
    )
    (lane,) = [track for track, about in told.tracks.items() if about.kind == LOOP]
    assert told.tracks[told.tracks[lane].parent].name == "MainThread"
    begun = {event.name: event.args for event in told.events if event.ring == lane and event.kind == BEGIN}
    # On a busy machine others may be late too.
    begun = {name: args for name, args in begun.items() if name in ("slow", "ends", "callback")}
    # Ready behind them were the tasks that came later, and by then what these have made ready themselves.
    assert {name: args["ready"] for name, args in begun.items()} == {"slow": 4, "ends": 4, "callback": 0}
    lines = {name: str(args["site"]).rpartition(":") for name, args in begun.items()}
    assert {place[0] for place in lines.values()} == {"<string>"}
    assert len({place[2] for place in lines.values()}) == 3
    summary = summarise(tmp_path)
    longest = {row.name: row.max_ns for row in summary.blocked}
    assert longest["callback"] >= 60e6 and longest["slow"] >= 50e6 and longest["ends"] >= 40e6
    assert not [span for span in summary.spans if span.name in longest], "they are no time of a thread"


GREENLETS = """
    import time
    import eventlet
    def calculates():
        eventlet.sleep(0)
        time.sleep(0.05)
        eventlet.sleep(0)
    def ends(): time.sleep(0.04)
    def yields():
        for _ in range(20): eventlet.sleep(0.005)
    trace.start(DIRECTORY, blocked_after_ms=25)
    eventlet.sleep(0.1)
    pool = eventlet.GreenPool()
    for function in (calculates, yields, yields): pool.spawn(function)
    pool.spawn_n(ends)
    pool.waitall()
    trace.stop()
"""


def test_greenlets_that_block_their_hub(tmp_path: Path) -> None:
    run("import warnings; warnings.simplefilter('ignore')\n" + textwrap.dedent(GREENLETS), tmp_path)
    summary = summarise(tmp_path)
    found = {row.name: row for row in summary.blocked if row.name in ("calculates", "ends")}
    assert {name: row.count for name, row in found.items()} == {"calculates": 1, "ends": 1}
    assert all(row.loop == "blocked hub" and row.max_ns >= 40e6 for row in found.values())


def test_perfetto_shows_them(tmp_path: Path) -> None:
    run(
        """
        import asyncio, gc, threading, time
        trace.start(DIRECTORY, gil=True, gc=True, blocked_after_ms=20)
        async def slow(): time.sleep(0.05)
        thread = threading.Thread(target=lambda: [sum(range(1_000_000)) for _ in range(5)])
        thread.start()
        while thread.is_alive(): time.sleep(0.001)
        gc.collect()
        asyncio.run(slow())
        trace.stop()
        """,
        tmp_path,
    )
    export_traces([tmp_path], "perfetto", tmp_path / "out")
    lane, lines, waits, wrong = query(
        (tmp_path / "out").read_bytes(),
        "select k.name, s.dur >= 50000000 from slice s join track k on s.track_id = k.id"
        " where s.name = 'slow' and s.category is null and k.name is not null",
        "select distinct k.name from slice s join track k on s.track_id = k.id join track p on k.parent_id = p.id"
        " where p.name = 'locks' order by 1",
        "select count(*) > 0 from slice where name = 'wait GIL' and dur >= 20000",
        "select name from stats where severity in ('error', 'data_loss') and value > 0",
    )
    assert lane == [("blocked event loop", 1)]
    assert lines == [("GIL",), ("event loop",), ("gc",)]
    assert waits == [(1,)]
    assert not wrong


def test_an_unchanged_program_has_all_of_it(tmp_path: Path) -> None:
    program = """
        import asyncio, gc, threading, time
        def hold():
            for _ in range(10):
                sum(range(1_000_000))
                time.sleep(0.001)
        async def slow(): time.sleep(0.05)
        thread = threading.Thread(target=hold, name="holder")
        thread.start()
        while thread.is_alive(): time.sleep(0.001)
        gc.collect()
        asyncio.run(slow())
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    command = [sys.executable, "-c", "from contend.cli import main; main()", "trace", "-o", "t", "--summary"]
    done = subprocess.run(
        [*command, "--", sys.executable, "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    for line in ("GIL: waited ", "gc: ", "blocked loops: ", "slow"):
        assert line in done.stderr, done.stderr
    without = subprocess.run(
        [
            *command[:-2],
            "u",
            "--summary",
            "--no-gil",
            "--no-gc",
            "--blocked-after",
            "0",
            "--",
            sys.executable,
            "program.py",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert without.returncode == 0, without.stderr
    assert not any(line in without.stderr for line in ("GIL: waited", "gc: ", "blocked loops"))
