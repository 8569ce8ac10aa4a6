"""What `contend watch` costs who is watched: a pipe between two processes, which does nothing but switch, and nginx.

    python bench/watch_cost.py [--rounds 12] [--write docs/results/watch-cost]

Every round runs the load once an arm, in random order: unwatched, watched by process and by cgroup, and with the kernel
counting the run time of the BPF programs, which costs each of them two reads of the clock. The loads, and the cost as
CPU time per operation, are those of `sched_histograms.py`. Ratios within rounds, with 95 % intervals.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sched_histograms import LAST_CPU, Cost, nginx, nothing, pipe

from contend.environment import fingerprint
from contend.probes.client import ProbeProcess
from contend.stats.compare import compare


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


def lines(load: str, found: dict[str, list[Cost]]) -> Iterator[str]:
    base = found["unwatched"]
    for name, costs in found.items():
        middle = sorted(cpu for cpu, _ in costs)[len(costs) // 2]
        ratio = "1"
        if costs is not base:
            e = compare([c for c, _ in base], [c for c, _ in costs], blocks=range(len(base)))
            ratio = f"{e.value:.3f} [{e.low:.3f}, {e.high:.3f}]"
        yield f"| {load} | {name} | {middle:.2f} | {ratio} |"


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
    table = ["| load | arm | CPU µs an operation | CPU, ratio |", "|---|---|---:|---:|"]
    for name, found in results.items():
        table += lines(name, found)
    print("\n".join(table))
    if given.write:
        machine = {
            k: v for k, v in fingerprint([]).items() if k in ("cpu", "cpus", "kernel", "os", "contend")
        }
        document = {"machine": machine, "rounds": given.rounds, "results": results}
        given.write.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
        where = f"{machine['cpus']} CPUs {machine['cpu']}, kernel {machine['kernel']}; {given.rounds} rounds."
        text = ["# What `contend watch` costs who is watched", "", where, "", *table, ""]
        given.write.with_suffix(".md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
