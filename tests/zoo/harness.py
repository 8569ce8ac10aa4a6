"""Runs the storms of a program of the zoo, one after the other, and prints what each one took.

A copy of this file lies beside every program, which says `main(storm, jobs=…)`. Each storm is plain or with one edit done
for real, which the program asks its `Storm` for: `--turns plain,hold:stock=0.5,plain`. It prints one line of JSON a storm.
Standard library only: it runs inside the programs that are measured.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import inspect
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

LOOPS_PER_S = float(os.environ.get("ZOO_LOOPS_PER_S", "2e7"))
"""Turns of `burn`'s loop in a second of CPU time: what `loops_per_s` measures, or near it."""
clock = time.perf_counter_ns


def burn(seconds: float) -> None:
    """Compute for so long, if nobody else has the processor: the number of turns is fixed, not the time."""
    total = 0
    for turn in range(int(seconds * LOOPS_PER_S)):
        total += turn & 7


def loops_per_s(tries: int = 7) -> float:
    """Turns of `burn`'s loop in a second of this machine's CPU time: the fastest of so many tries."""
    took = []
    for _ in range(tries):
        begin = time.thread_time_ns()
        burn(100_000 / LOOPS_PER_S)
        took.append(time.thread_time_ns() - begin)
    return 100_000 / min(took) * 1e9


class Storm:
    """One storm: what is edited in it, and what its jobs took, in ns of `clock`.

    switch: "plain", or KIND:NAME=VALUE as in the manifest. sizes: of the jobs, 1 for an ordinary one.
    """

    def __init__(self, switch: str, sizes: Sequence[float]) -> None:
        self.kind, _, rest = switch.partition(":")
        self.name, _, self.value = rest.partition("=")
        self.sizes = list(sizes)
        if self.kind == "jobs":
            self.sizes = random.choices(
                self.sizes, k=int(self.value)
            )  # others each time, as a prediction means
        self.clock = clock
        self.spans: list[tuple[int, int]] = []
        self.losses: list[tuple[str, int]] = []

    def _edited(self, kind: str, name: str) -> bool:
        return self.kind == kind and self.name == name

    def hold(self, lock: str) -> float:
        """Factor of what a holder of the lock does itself."""
        return float(self.value) if self._edited("hold", lock) else 1.0

    def keeps(self, span: str) -> bool:
        """False if the span is not to be done."""
        return not self._edited("remove", span)

    def workers(self, pool: str, usual: int) -> int:
        """Number of the pool's workers."""
        return int(self.value) if self._edited("workers", pool) else usual

    def size(self, name: str, usual: int) -> int:
        """Size of a semaphore or of a pool of connections."""
        return int(self.value) if self._edited("size", name) else usual

    def batch(self, call: str) -> int:
        """Number of items that one call takes."""
        return int(self.value) if self._edited("coalesce", call) else 1

    def one_queue(self, pool: str) -> bool:
        """True if all workers of the pool are to take from one queue."""
        return self._edited("global", pool)

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Count what is done within as one job."""
        begin = clock()
        try:
            yield
        finally:
            self.spans.append((begin, clock()))

    def requests(self, application: Callable[..., Any]) -> Callable[..., Any]:
        """Count each POST to the WSGI application as one job."""

        def counted(environ: dict[str, Any], start: Any) -> Any:
            if environ["REQUEST_METHOD"] != "POST":
                return application(environ, start)
            with self.timed():
                return application(environ, start)

        return counted

    def lost(self, name: str, since: int, own: float = 0.0) -> None:
        """Count the time since then as lost by a job to what is planted under that name, but for its own work, in s."""
        self.losses.append((name, max(0, clock() - since - int(own * 1e9))))

    def merge(self, other: Sequence[Any]) -> None:
        """Add the jobs and losses that another process counted: its `spans` and `losses`."""
        self.spans += [(begin, end) for begin, end in other[0]]
        self.losses += [(name, took) for name, took in other[1]]

    def line(self, switch: str) -> str:
        """JSON of what the storm took."""
        lost: Counter[str] = Counter()
        for name, took in self.losses:
            lost[name] += took
        spans = sorted((begin, end) for begin, end in self.spans)
        makespan = max(end for _, end in spans) - spans[0][0] if spans else 0
        durations = [end - begin for begin, end in spans]
        return json.dumps({"edit": switch, "jobs_ns": durations, "makespan_ns": makespan, "lost_ns": lost})


def main(storm: Callable[[Storm], Any], jobs: int, sizes: Sequence[float] = (1,)) -> None:
    """Run the storms that the command line asks for: plain ones and edited ones by turn."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", default="plain")
    turns = parser.parse_args().turns.split(",")
    drawn = random.Random(jobs).choices(sizes, k=jobs)
    for switch in turns:
        run = Storm(switch, drawn)
        gc.collect()
        if inspect.iscoroutinefunction(storm):
            asyncio.run(storm(run))
        else:
            storm(run)
        print(run.line(switch), flush=True)
