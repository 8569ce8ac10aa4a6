"""The cases of `trace_calls.py`, each in a process of its own: `python trace_cases.py CASE DIRECTORY` prints its JSON.

Runs in any CPython that has contend on its path; a peer that is not installed ends its case by an ImportError. A case
measures itself and the same loop without the tracer in turn, by the thread's CPU time where nothing else is said.
"""

from __future__ import annotations

import json
import operator
import os
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

TURNS = 9
BUFFER_BYTES = 256 << 20
"""What a case records in a turn fits: what an event costs must not depend on the disk."""

Told = dict[str, float]


def f(value: int) -> int:
    return value


class Plain:
    def method(self, value: int) -> int:
        return value


def calls(function: Callable[[int], int], count: int) -> float:
    began = time.thread_time_ns()
    for _ in range(count):
        function(1)
    return (time.thread_time_ns() - began) / count


def methods(owner: Any, count: int) -> float:
    began = time.thread_time_ns()
    for _ in range(count):
        owner.method(1)
    return (time.thread_time_ns() - began) / count


def empty(count: int) -> float:
    began = time.thread_time_ns()
    for _ in range(count):
        pass
    return (time.thread_time_ns() - began) / count


def spans(span: Any, count: int) -> float:
    began = time.thread_time_ns()
    for _ in range(count):
        with span("work"):
            pass
    return (time.thread_time_ns() - began) / count


def holds(lock: Any, count: int) -> float:
    began = time.thread_time_ns()
    for _ in range(count):
        with lock:
            pass
    return (time.thread_time_ns() - began) / count


def acquires(lock: Any, count: int) -> float:
    began = time.thread_time_ns()
    for _ in range(count):
        lock.acquire()
        lock.release()
    return (time.thread_time_ns() - began) / count


def beside(with_: Callable[[], float], without: Callable[[], float]) -> Told:
    """Medians of both, in turn, and of the difference of neighbours; the first turn warms."""
    pairs = [(with_(), without()) for _ in range(TURNS + 1)][1:]
    return {
        "ns": statistics.median(a for a, _ in pairs),
        "plain_ns": statistics.median(b for _, b in pairs),
        "added_ns": statistics.median(a - b for a, b in pairs),
    }


# ---- contend


def flushed(loop: Callable[[], float]) -> float:
    """As in a service that has run a while: the memory of the rings has been used before."""
    from contend import trace

    taken = loop()
    trace.flush()
    return taken


def contend_calls(directory: str, on: bool, how: str) -> Told:
    from contend import trace

    class Traced:
        @trace.traced
        def method(self, value: int) -> int:
            return value

    traced, count = trace.traced(f), 200_000
    if on:
        trace.start(directory, buffer_bytes=BUFFER_BYTES)
    if how == "function":
        result = beside(lambda: flushed(lambda: calls(traced, count)), lambda: calls(f, count))
    elif how == "method":
        result = beside(lambda: flushed(lambda: methods(Traced(), count)), lambda: methods(Plain(), count))
    else:
        result = beside(
            lambda: flushed(lambda: calls(Traced().method, count)), lambda: calls(Plain().method, count)
        )
    if on and how == "function":
        trace.flush()
        began = time.process_time_ns()
        calls(traced, count)
        trace.flush()
        result["with_writer_ns"] = (time.process_time_ns() - began) / count - result["plain_ns"]
    status = trace.stop()
    if on:
        result["bytes_an_event"] = status.bytes / status.events
        result["lost"] = status.lost
    return result


def contend_span(directory: str, **options: bool) -> Told:
    from contend import trace

    trace.start(directory, buffer_bytes=BUFFER_BYTES, **options)  # type: ignore[arg-type]
    count = 20_000 if options else 100_000
    result = beside(lambda: flushed(lambda: spans(trace.span, count)), lambda: empty(count))
    result["lost"] = trace.stop().lost
    return result


def contend_lock(directory: str, on: bool, again: bool, loop: Callable[[Any, int], float]) -> Told:
    from contend import trace

    if on:
        trace.start(directory, buffer_bytes=BUFFER_BYTES)
    ours, theirs = (trace.RLock(), threading.RLock()) if again else (trace.Lock(), threading.Lock())
    result = beside(lambda: flushed(lambda: loop(ours, 200_000)), lambda: loop(theirs, 200_000))
    trace.stop()
    return result


PAIRS, BLOCKS = 20, 60
"""Of hand-overs: so many of each lock in a block, in random order."""


def handed_over(locks: list[Any], order: list[int], cpus: tuple[int, int]) -> list[tuple[int, int]]:
    """Of each hand-over of the locks in that order: CPU ns of a contended acquire and of its release together, and wall ns
    from the release to the next holder's first step. Who releases and who waits have a CPU each, which may be one; it is
    seen asleep before it is released for."""
    go, told = threading.Semaphore(0), []
    anywhere = os.sched_getaffinity(0)

    def waiter() -> None:
        os.sched_setaffinity(0, {cpus[1]})
        for which in order:
            lock = locks[which]
            go.acquire()
            before = time.thread_time_ns()
            lock.acquire()
            now, after = time.perf_counter_ns(), time.thread_time_ns()
            lock.release()
            told.append((after - before, now))

    thread = threading.Thread(target=waiter)
    thread.start()
    os.sched_setaffinity(0, {cpus[0]})
    state = os.open(f"/proc/self/task/{thread.native_id}/stat", os.O_RDONLY)
    found = []
    for number, which in enumerate(order):
        lock = locks[which]
        lock.acquire()
        go.release()
        time.sleep(5e-5)
        while b") S" not in os.pread(state, 64, 0):
            time.sleep(5e-5)
        released, before = time.perf_counter_ns(), time.thread_time_ns()
        lock.release()
        after = time.thread_time_ns()
        while len(told) <= number:
            time.sleep(2e-5)
        cpu, had = told[number]
        found.append((after - before + cpu, had - released))
    thread.join()
    os.close(state)
    os.sched_setaffinity(0, anywhere)
    return found


def contend_contended(directory: str, on: bool, one_cpu: bool) -> Told:
    """Ours and threading's in turn, hand-over by hand-over: what disturbs, disturbs both; of each block the medians count.
    On one CPU there is no other one to wake, whose sleep costs more, and varies more, than all else here."""
    from contend import trace

    if on:
        trace.start(directory, buffer_bytes=BUFFER_BYTES)
    locks, cpus = [threading.Lock(), trace.Lock()], sorted(os.sched_getaffinity(0))
    blocks = []
    for _ in range(BLOCKS + 1):
        order = [which for _ in range(PAIRS) for which in random.sample((0, 1), 2)]
        found = handed_over(locks, order, (cpus[0], cpus[0] if one_cpu else cpus[-1]))
        blocks.append(
            [
                [
                    statistics.median(
                        one[at] for one, mine in zip(found, order, strict=True) if mine == which
                    )
                    for which in (0, 1)
                ]
                for at in (0, 1)
            ]
        )
    trace.stop()
    del blocks[0]
    of = statistics.median
    return {
        "ns": of(cpu[1] for cpu, _ in blocks),
        "plain_ns": of(cpu[0] for cpu, _ in blocks),
        "added_ns": of(cpu[1] - cpu[0] for cpu, _ in blocks),
        "hand_over_longer_by_ns": of(wall[1] - wall[0] for _, wall in blocks),
        "hand_over_plain_ns": of(wall[0] for _, wall in blocks),
    }


def switches(count: int) -> float:
    import greenlet  # type: ignore[import-untyped,unused-ignore]

    main = greenlet.getcurrent()

    def forth() -> None:
        while True:
            main.switch()

    other = greenlet.greenlet(forth)
    other.switch()
    began = time.thread_time_ns()
    for _ in range(count):
        other.switch()
    return (time.thread_time_ns() - began) / count / 2


def contend_switch(directory: str) -> Told:
    import greenlet

    from contend import trace
    from contend._native import trace_greenlets

    count = 50_000
    trace.start(directory, buffer_bytes=BUFFER_BYTES)
    trace.instant("begin")
    turns = []
    for _ in range(TURNS):
        trace_greenlets(False)
        plain = switches(count)
        greenlet.settrace(operator.is_)  # in C, does nothing: what greenlet itself adds for any callback
        empty = switches(count)
        greenlet.settrace(None)
        trace_greenlets(True)
        turns.append((switches(count), empty, plain))
    status = trace.stop()
    of = statistics.median
    return {
        "ns": of(a for a, _, _ in turns),
        "plain_ns": of(c for _, _, c in turns),
        "added_ns": of(a - c for a, _, c in turns),
        "empty_callback_ns": of(b - c for _, b, c in turns),
        "lost": status.lost,
    }


# ---- peers


def viztracer(directory: str, sparse: bool) -> Told:
    from viztracer import VizTracer, log_sparse  # type: ignore[import-untyped,unused-ignore]

    tracer = VizTracer(
        log_sparse=sparse, verbose=0, tracer_entries=2_000_000, output_file=f"{directory}/viz.json"
    )
    traced, count = (log_sparse(f) if sparse else f), 20_000

    def on() -> float:
        tracer.start()
        try:
            return calls(traced, count)
        finally:
            tracer.stop()
            tracer.clear()

    return beside(on, lambda: calls(f, count))


def viztracer_lock(directory: str) -> Told:
    """An uncontended threading.Lock by acquire and release; in a `with` block it is invisible to it on 3.11."""
    from viztracer import VizTracer

    tracer = VizTracer(verbose=0, tracer_entries=2_000_000, output_file=f"{directory}/viz.json")
    lock, count = threading.Lock(), 20_000

    def on() -> float:
        tracer.start()
        try:
            return acquires(lock, count)
        finally:
            tracer.stop()
            tracer.clear()

    return beside(on, lambda: acquires(lock, count))


def cprofile(_directory: str) -> Told:
    import cProfile

    def on() -> float:
        profile = cProfile.Profile()
        profile.enable()
        try:
            return calls(f, 200_000)
        finally:
            profile.disable()

    return beside(on, lambda: calls(f, 200_000))


def opentelemetry(_directory: str) -> Told:
    from opentelemetry.sdk.trace import TracerProvider  # type: ignore[import-not-found,unused-ignore]

    tracer = TracerProvider().get_tracer("bench")

    def traced(value: int) -> int:
        with tracer.start_as_current_span("f"):
            return f(value)

    return beside(lambda: calls(traced, 5_000), lambda: calls(f, 5_000))


def osprofiler(_directory: str) -> Told:
    from osprofiler import profiler  # type: ignore[import-not-found,unused-ignore]
    from osprofiler.notifier import set as set_notifier  # type: ignore[import-not-found,unused-ignore]

    set_notifier(lambda _info, context=None: None)
    profiler.init("key")
    traced = profiler.trace("f", hide_args=True)(f)
    return beside(lambda: calls(traced, 5_000), lambda: calls(f, 5_000))


CASES: dict[str, Callable[[str], Told]] = {
    "function, off": lambda d: contend_calls(d, False, "function"),
    "function, on": lambda d: contend_calls(d, True, "function"),
    "method, off": lambda d: contend_calls(d, False, "method"),
    "method, on": lambda d: contend_calls(d, True, "method"),
    "bound method, off": lambda d: contend_calls(d, False, "bound"),
    "bound method, on": lambda d: contend_calls(d, True, "bound"),
    "span, on": contend_span,
    "span, on, cpu_times": lambda d: contend_span(d, cpu_times=True),
    "span, on, run_delay": lambda d: contend_span(d, run_delay=True),
    "Lock, with, off": lambda d: contend_lock(d, False, False, holds),
    "Lock, with, on": lambda d: contend_lock(d, True, False, holds),
    "Lock, acquire and release, on": lambda d: contend_lock(d, True, False, acquires),
    "RLock, with, on": lambda d: contend_lock(d, True, True, holds),
    "RLock, acquire and release, on": lambda d: contend_lock(d, True, True, acquires),
    "Lock, contended, off": lambda d: contend_contended(d, False, False),
    "Lock, contended, on": lambda d: contend_contended(d, True, False),
    "Lock, contended on one CPU, off": lambda d: contend_contended(d, False, True),
    "Lock, contended on one CPU, on": lambda d: contend_contended(d, True, True),
    "greenlet switch, on": contend_switch,
    "VizTracer: function, auto": lambda d: viztracer(d, False),
    "VizTracer: function, log_sparse": lambda d: viztracer(d, True),
    "VizTracer: Lock, acquire and release": viztracer_lock,
    "cProfile: function": cprofile,
    "OpenTelemetry: span around a function": opentelemetry,
    "osprofiler: function": osprofiler,
}


def main() -> None:
    _, case, directory = sys.argv
    os.makedirs(directory, exist_ok=True)  # noqa: PTH103 - nothing is imported that need not be
    print(json.dumps(CASES[case](directory)))


if __name__ == "__main__":
    main()
