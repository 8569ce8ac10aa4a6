"""Callers in threads or greenlets: each sends as soon as its last call ended, or all send at times fixed beforehand."""

from __future__ import annotations

import itertools
import math
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from contend.ranks import nearest
from contend.workloads.drivers.rpc.options import Phase


class Record:
    """The outcome of one call. Times are nanoseconds after the phase began."""

    __slots__ = ("done_ns", "due_ns", "number", "outcome", "queued", "sent_ns")

    def __init__(self, number: int, due_ns: int, sent_ns: int, queued: bool) -> None:
        self.number, self.due_ns, self.sent_ns, self.queued = number, due_ns, sent_ns, queued
        self.done_ns, self.outcome = 0, "unfinished"


def arrivals(rate: float, seconds: float, seed: int) -> list[int]:
    """When calls are due, in nanoseconds after the start: independent of each other (Poisson).

    >>> [round(at / 1e9, 2) for at in arrivals(2, 3, seed=1)]
    [0.58, 0.82, 1.38, 1.53, 1.75, 2.13]
    """
    drawn, at, due_ns = random.Random(f"arrivals/{seed}"), 0.0, []
    while (at := at + drawn.expovariate(rate)) < seconds:
        due_ns.append(round(at * 1e9))
    return due_ns


def evenly(rate: float, seconds: float) -> list[int]:
    """When calls are due, in nanoseconds after the start, at the same distance from each other.

    >>> evenly(4, 1)
    [0, 250000000, 500000000, 750000000]
    """
    return [round(number * 1e9 / rate) for number in range(math.ceil(rate * seconds - 1e-9))]


def due_times(phase: Phase) -> list[int]:
    """Times at which calls are due in an open loop, ns."""
    if phase.poisson:
        return arrivals(phase.rate, phase.seconds, phase.seed)
    return evenly(phase.rate, phase.seconds)


def run(call: Callable[[int], str], callers: int, phase: Phase) -> dict[str, Any]:
    """Call with so many callers at a time, and return the counts. call: makes the call of a number and returns what went
    wrong: "" if nothing did, `timed out…` for a call that nobody answered."""
    times = due_times(phase) if phase.rate else None
    numbers, records, errors = itertools.count(), [], []
    start_ns = 0

    def start() -> None:
        nonlocal start_ns
        start_ns = time.monotonic_ns()

    ready = threading.Barrier(callers + 1, action=start)
    cpu_ns = time.process_time_ns()

    def caller() -> None:
        ready.wait()
        while True:
            number, now = next(numbers), time.monotonic_ns() - start_ns
            if times is None:
                due = now
                # As many calls as callers are made, however long a busy host keeps them from its CPUs.
                if now >= phase.seconds * 1e9 and number >= callers:
                    return
            else:
                if number >= len(times):
                    return
                due = times[number]
            queued = now > due
            if now < due:
                time.sleep((due - now) / 1e9)
            record = Record(number, due, time.monotonic_ns() - start_ns, queued and times is not None)
            records.append(record)
            wrong = call(number)
            record.done_ns = time.monotonic_ns() - start_ns
            record.outcome = ("timed_out" if wrong.startswith("timed out") else "refused") if wrong else "ok"
            if wrong:
                errors.append(wrong)

    threads = [threading.Thread(target=caller, name=f"caller-{k}", daemon=True) for k in range(callers)]
    for thread in threads:
        thread.start()
    ready.wait()
    deadline = time.monotonic() + phase.seconds + phase.drain_s
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    end_ns = time.monotonic_ns() - start_ns
    records = list(records)  # callers that wait still add to it
    begun = {record.number for record in records}
    unsent = [(number, due_ns) for number, due_ns in enumerate(times or ()) if number not in begun]
    document = summary(records, [due_ns for _, due_ns in unsent], end_ns, phase)
    if phase.calls and times is not None:
        document["calls"] = [[r.number, r.due_ns, r.done_ns, r.outcome] for r in records]
        document["calls"] += [[number, due_ns, end_ns, "unfinished"] for number, due_ns in unsent]
    return document | {
        "start_ns": start_ns,
        "last_error": errors[-1] if errors else "",
        "cpu_ns": time.process_time_ns() - cpu_ns,
    }


def summary(records: Sequence[Record], unsent: Sequence[int], end_ns: int, phase: Phase) -> dict[str, Any]:
    """Counts and percentiles, in the shape of contend-rpc's (crates/rpc/src/driver.rs).

    unsent: when calls were due for which no caller was free until the end. They waited for as long, and without them the
    latency would be that of the calls that went well.
    """
    for record in records:
        if record.outcome == "unfinished":
            record.done_ns = end_ns
    outcomes = [record.outcome for record in records]
    waited = [r.done_ns - r.due_ns for r in records if r.outcome != "refused"]
    waited += [max(0, end_ns - due_ns) for due_ns in unsent]
    due = len(records) + len(unsent)
    done = [r.done_ns - r.sent_ns for r in records if r.outcome == "ok"]
    late = [r.sent_ns - r.due_ns for r in records if not r.queued]
    last = max((r.done_ns for r in records), default=0)
    return {
        "elapsed_ns": max(last, round(phase.seconds * 1e9)),
        "rate_asked": phase.rate or None,
        "due": due,
        "sent": len(records),
        "ok": outcomes.count("ok"),
        "refused": outcomes.count("refused"),
        "broken": 0,
        "timed_out": outcomes.count("timed_out"),
        "unfinished": due - len(records) + outcomes.count("unfinished"),
        "queued": sum(r.queued for r in records) + due - len(records),
        "latency_s": percentiles(waited),
        "service_s": percentiles(done),
        "lateness_s": percentiles(late),
        **({"waited_ns": waited, "late_ns": late} if phase.rate else {}),
    }


def percentiles(values_ns: Sequence[int]) -> dict[str, float | None]:
    """Nearest rank, in seconds; None without values.

    >>> percentiles([10**9, 3 * 10**9, 2 * 10**9])
    {'p50': 2.0, 'p90': 3.0, 'p99': 3.0, 'p99.9': 3.0, 'max': 3.0}
    """
    ordered = sorted(values_ns)
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
    return {name: nearest(ordered, share) / 1e9 if ordered else None for name, share in shares.items()}
