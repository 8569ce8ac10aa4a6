"""What it costs to have the interpreter's own locks on record: with and without, in turn, in one process.

    .venv/bin/python bench/trace_interpreter.py [--rounds 9]

Both sides record; only one has waits for the GIL, collections and blocked loops on record. Figures are CPU time of
the thread, or of the process where threads contend; the median of all rounds, and their ratio. `recorded` is how many
waits for the GIL the last round has on record: below 20 us they are counted as none.
"""

from __future__ import annotations

import _thread
import argparse
import asyncio
import ctypes
import gc
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from contend import trace
from contend.store.trace_summary import summarise

# ctypes lets the interpreter's lock go around the call, which does nothing to speak of.
nothing = ctypes.CDLL(None).abs


def release_and_take(count: int) -> float:
    """One thread alone: ns of CPU time a call."""
    began = time.thread_time_ns()
    for _ in range(count):
        nothing(1)
    return (time.thread_time_ns() - began) / count


def contended(count: int) -> float:
    """Two threads that let it go all the time: ns of the process' CPU time a call."""
    start = threading.Barrier(3)

    def work() -> None:
        start.wait()
        for _ in range(count):
            nothing(1)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    began = time.process_time_ns()
    start.wait()
    for thread in threads:
        thread.join()
    return (time.process_time_ns() - began) / count / 2


def handed_over(count: int) -> float:
    """Two threads that wake each other in turn: whoever wakes wants the lock that its waker still has. The process'
    CPU time a turn, which is a wake-up and mostly a wait for the lock."""
    mine, other = _thread.allocate_lock(), _thread.allocate_lock()
    mine.acquire()
    other.acquire()

    def work() -> None:
        for _ in range(count):
            other.acquire()
            mine.release()

    thread = threading.Thread(target=work)
    thread.start()
    began = time.process_time_ns()
    for _ in range(count):
        other.release()
        mine.acquire()
    took = time.process_time_ns() - began
    thread.join()
    return took / count / 2


def collection(count: int) -> float:
    """Of the youngest generation, which is empty."""
    gc.collect()
    began = time.thread_time_ns()
    for _ in range(count):
        gc.collect(0)
    return (time.thread_time_ns() - began) / count


def callback(count: int) -> float:
    """Of an asyncio loop, one after the other."""
    left = count
    took = 0

    async def main() -> None:
        nonlocal took
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def step() -> None:
            nonlocal left
            left -= 1
            if left:
                loop.call_soon(step)
            else:
                done.set()

        began = time.thread_time_ns()
        loop.call_soon(step)
        await done.wait()
        took = time.thread_time_ns() - began

    asyncio.run(main())
    return took / count


def greenlet_switch(count: int) -> float:
    """There and back: two switches."""
    from greenlet import getcurrent, greenlet

    def run() -> None:
        parent = getcurrent().parent
        while True:
            parent.switch()

    other = greenlet(run)
    other.switch()
    began = time.thread_time_ns()
    for _ in range(count):
        other.switch()
    return (time.thread_time_ns() - began) / count


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=9)
    rounds = arguments.parse_args().rounds
    cases: dict[str, tuple[Callable[[int], float], int]] = {
        "release and take, one thread": (release_and_take, 100_000),
        "release and take, two threads": (contended, 20_000),
        "handed over, two threads": (handed_over, 10_000),
        "collection of nothing": (collection, 20_000),
        "callback of asyncio": (callback, 20_000),
    }
    try:
        import greenlet  # noqa: F401
    except ImportError:
        print("greenlet is not installed: its switches are left out")
    else:
        cases["two switches of greenlets"] = (greenlet_switch, 50_000)
    result = {}
    print(f"CPython {sys.version.split()[0]}: ns of CPU time each, median of {rounds}")
    print(f"{'':34}{'without':>10}{'with':>10}{'added':>10}{'ratio':>8}{'recorded':>10}")
    for name, (case, count) in cases.items():
        without, with_, recorded = [], [], 0
        for _ in range(rounds):
            for on in (False, True):
                with tempfile.TemporaryDirectory() as directory:
                    trace.start(directory, gil=on, gc=on, blocked_after_ms=10 if on else 0)
                    assert trace.status().gil == ("on" if on else "off"), trace.status().gil
                    (with_ if on else without).append(case(count))
                    trace.stop()
                    if on:
                        gil = summarise(Path(directory)).gil
                        recorded = gil.waits if gil else 0
        before, after = statistics.median(without), statistics.median(with_)
        result[name] = {"without_ns": before, "with_ns": after, "recorded": recorded}
        print(
            f"{name:34}{before:10.1f}{after:10.1f}{after - before:10.1f}{after / before:8.3f}{recorded:10,}"
        )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
