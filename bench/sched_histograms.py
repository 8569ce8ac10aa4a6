"""What scheduler histograms cost who is watched: a pipe between two processes, which does nothing but switch, and nginx.

    python bench/sched_histograms.py [--rounds 12] [--write docs/results/sched-histograms]

Every round runs the load once an arm, in random order: without a probe, with all three histograms at once (on-CPU,
off-CPU, run queue), with off-CPU stacks too, and under the libbpf tools that are on PATH (one histogram each). The
pipe is `perf bench sched pipe`, on one CPU and free. The cost is CPU time per operation, of all processes of the load
(wait4): BPF programs run on the time of those who switch. Wall time is beside it, and says the same only where nobody
else runs. Ratios within rounds, with 95 % intervals.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from contend.probes.client import ProbeProcess
from results.files import save_at
from results.pages import sched_histograms
from results.record import recording

LOOPS = 100_000
WRK_SECONDS = 2
LAST_CPU = str(max(os.sched_getaffinity(0)))

Cost = tuple[float, float]  # CPU µs and wall µs an operation
Arm = Callable[[], "contextlib.AbstractContextManager[None]"]


@contextlib.contextmanager
def nothing() -> Iterator[None]:
    yield


def probe(stacks: bool) -> Arm:
    @contextlib.contextmanager
    def run() -> Iterator[None]:
        process = ProbeProcess({"interval_ms": 1000, "sched": {"by": "process", "stacks": stacks}})
        if process.notes:
            sys.exit(f"error: {process.notes[0]}\n  hint: contend-probe check")
        try:
            yield
        finally:
            process.stop()

    return run


def tool(*argv: str) -> Arm:
    @contextlib.contextmanager
    def run() -> Iterator[None]:
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1)
        if process.poll() is not None:
            sys.exit(f"error: {' '.join(argv)} ended at once")
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()

    return run


def spent(argv: list[str]) -> tuple[str, float, float]:
    """Its words; CPU µs of all its processes; wall µs."""
    began = time.monotonic()
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    words = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"error: {' '.join(argv)} failed with {process.returncode}")
    return words, (usage.ru_utime + usage.ru_stime) * 1e6, (time.monotonic() - began) * 1e6


def pipe(*prefix: str) -> Callable[[], Cost]:
    def run() -> Cost:
        _, cpu, wall = spent([*prefix, "perf", "bench", "sched", "pipe", "-l", str(LOOPS)])
        return cpu / LOOPS, wall / LOOPS

    return run


@contextlib.contextmanager
def nginx() -> Iterator[Callable[[], Cost]]:
    """A server with one worker; its CPU time per request, under a closed loop on the other CPU."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)
        (place / "page").write_text("x" * 1024)
        (place / "conf").write_text(
            f"daemon off; worker_processes 1; pid {place}/pid; error_log /dev/null;\n"
            "events { worker_connections 256; }\n"
            f"http {{ access_log off; server {{ listen 127.0.0.1:18099; root {place}; }} }}\n"
        )
        server = subprocess.Popen(
            ("taskset", "-c", LAST_CPU, "nginx", "-e", "/dev/null", "-c", place / "conf")
        )
        time.sleep(0.5)
        worker = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()[0]
        schedstat = Path(f"/proc/{worker}/schedstat")

        def run() -> Cost:
            before = int(schedstat.read_text().split()[0])
            words, _, wall = spent(
                [
                    "taskset",
                    "-c",
                    "0",
                    "wrk",
                    "-t1",
                    "-c16",
                    f"-d{WRK_SECONDS}s",
                    "http://127.0.0.1:18099/page",
                ]
            )
            after = int(schedstat.read_text().split()[0])
            found = re.search(r"(\d+) requests in", words)
            assert found is not None
            return (after - before) / 1e3 / int(found[1]), wall / int(found[1])

        try:
            yield run
        finally:
            server.terminate()
            server.wait()


def arms() -> dict[str, Arm]:
    found = {"no probe": nothing, "three histograms": probe(False), "with off-CPU stacks": probe(True)}
    for name in ("runqlat", "cpudist", "offcputime"):
        if path := shutil.which(name):
            found[f"libbpf {name}"] = tool(path)
    return found


def measure(load: Callable[[], Cost], rounds: int) -> dict[str, list[Cost]]:
    found: dict[str, list[Cost]] = {name: [] for name in arms()}
    load()  # warm
    for _ in range(rounds):
        for name, arm in random.sample(list(arms().items()), len(found)):
            with arm():
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
    if not shutil.which("perf"):
        sys.exit("error: perf is not installed\n  hint: scripts/packages.sh bench")
    results = {
        "pipe, one CPU": measure(pipe("taskset", "-c", LAST_CPU), given.rounds),
        "pipe, free": measure(pipe(), given.rounds),
    }
    if shutil.which("nginx") and shutil.which("wrk"):
        with nginx() as load:
            results["nginx"] = measure(load, given.rounds)
    print(sched_histograms.body({"results": results}))
    if given.write:
        save_at(given.write, {"results": results})


if __name__ == "__main__":
    main()
