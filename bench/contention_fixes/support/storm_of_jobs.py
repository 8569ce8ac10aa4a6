"""A storm of jobs inside one process: starts them, times each by its own clock and prints the times as JSON.

A fix's workload calls `in_threads` or `as_tasks` once, and nothing else prints to standard output. A job is marked with
`contend.trace.job`, which costs some ns where nothing is recorded.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from contend import trace

LONGEST_S = 60
"""A storm that takes longer ends the process: a version that hangs is no measurement."""


def in_threads(job: Callable[[int], object], jobs: int, *, spacing_s: float = 0.0) -> None:
    """Run `job(number)` in a thread of its own for each number below `jobs`; the k-th begins after k × `spacing_s`."""
    durations = [0.0] * jobs
    begin = threading.Event()

    def one(number: int) -> None:
        begin.wait()
        time.sleep(number * spacing_s)
        began = time.perf_counter()
        with trace.job("job", number=number):
            job(number)
        durations[number] = time.perf_counter() - began

    threads = [threading.Thread(target=one, args=(number,), name=f"job-{number}") for number in range(jobs)]
    with _limited():
        for thread in threads:
            thread.start()
        began = time.perf_counter()
        begin.set()
        for thread in threads:
            thread.join()
        _print(durations, time.perf_counter() - began)


async def as_tasks(job: Callable[[int], Awaitable[object]], jobs: int, *, spacing_s: float = 0.0) -> None:
    """Run `job(number)` as a task for each number below `jobs`; the k-th begins after k × `spacing_s`."""
    durations = [0.0] * jobs

    async def one(number: int) -> None:
        await asyncio.sleep(number * spacing_s)
        began = time.perf_counter()
        with trace.job("job", number=number):
            await job(number)
        durations[number] = time.perf_counter() - began

    with _limited():
        began = time.perf_counter()
        await asyncio.gather(*(one(number) for number in range(jobs)))
        _print(durations, time.perf_counter() - began)


@contextmanager
def _limited() -> Iterator[None]:
    watch = threading.Timer(LONGEST_S, os._exit, (70,))
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


def _print(durations: list[float], makespan_s: float) -> None:
    """Seconds. A storm of a job without a time is no storm: its thread failed."""
    if not all(durations):
        raise RuntimeError(f"{durations.count(0.0)} of {len(durations)} jobs failed")
    print(
        json.dumps({"durations_s": [round(one, 6) for one in durations], "makespan_s": round(makespan_s, 6)}),
        flush=True,
    )
