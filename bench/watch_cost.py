"""What `contend watch` costs who is watched: a pipe between two processes, which does nothing but switch, and nginx.

    python bench/watch_cost.py [--rounds 12] [--write docs/results/watch-cost]

Every round runs the load once an arm, in random order: unwatched, watched by process and by cgroup, and with the kernel
counting the run time of the BPF programs, which costs each of them two reads of the clock. The loads, and the cost as
CPU time per operation, are those of `sched_histograms.py`. Ratios within rounds, with 95 % intervals.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from contend.probes.client import ProbeProcess
from results.files import save_at
from results.pages import watch_cost
from results.record import recording
from sched_histograms import LAST_CPU, Cost, nginx, nothing, pipe


def watched(**config: Any) -> Callable[[], contextlib.AbstractContextManager[None]]:
    @contextlib.contextmanager
    def run() -> Iterator[None]:
        probe = ProbeProcess({"interval_ms": 1000, **config})
        try:
            yield
        finally:
            probe.stop()

    return run


ARMS = {
    "unwatched": nothing,
    "by process": watched(blame={"by": "process", "disk": True}),
    "by cgroup": watched(blame={"by": "cgroup", "disk": True}),
    "by process, programs timed": watched(blame={"by": "process", "disk": True}, bpf_stats=True),
}


def measure(load: Callable[[], Cost], rounds: int) -> dict[str, list[Cost]]:
    found: dict[str, list[Cost]] = {name: [] for name in ARMS}
    load()  # warm
    for _ in range(rounds):
        for name in random.sample(list(ARMS), len(ARMS)):
            with ARMS[name]():
                found[name].append(load())
    return found


@recording()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--write", type=Path, help="write PATH.json and PATH.md")
    given = parser.parse_args()
    for tool in ("perf", "nginx", "wrk"):
        if not shutil.which(tool):
            sys.exit(f"error: {tool} is not installed\n  hint: scripts/packages.sh bench")
    results = {
        "pipe, one CPU": measure(pipe("taskset", "-c", LAST_CPU), given.rounds),
        "pipe, free": measure(pipe(), given.rounds),
    }
    with nginx() as load:
        results["nginx"] = measure(load, given.rounds)
    told = {"rounds": given.rounds, "results": results}
    print(watch_cost.body(told))
    if given.write:
        save_at(given.write, told)


if __name__ == "__main__":
    main()
