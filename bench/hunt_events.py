"""What it costs to hunt in a trace: all tables of `contend.contention.events.read`, from made traces of many events; and
the CPU time in which `contend hunt` reads all that it looks at (with calls and pauses), beside that.

    python bench/hunt_events.py [--events 10000000] [--shapes calls storm] [--rounds 3] [--write docs/results/hunt-events]

"calls": two functions that call each other in a loop, as in bench/trace_export.py; no jobs are marked, so the trace is
read twice. "storm": threads that run marked jobs one after another, with spans, contended locks and calls to a pool of
workers by queues and flows. Each round reads in a process of its own; time is of all of `read`, wall and CPU,
medians; memory is what the process grew by at its peak. Limits: 5 s for 10,000,000 events, each way. Exits 1 where they
are exceeded. Takes about two minutes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from results.files import save_at
from results.pages import hunt_events
from results.record import recording

LIMIT_S = 5.0  # for 10,000,000 events

RECORD = """
import sys
events, directory = int(sys.argv[1]), sys.argv[2]
from contend import trace
%s
trace.start(directory, overflow="block")
loop()
status = trace.stop()
assert status is None or status.lost == 0
"""

SHAPES = {
    "calls": """
def inner():
    pass
def outer():
    inner()
def loop():
    for _ in range(events // 4):
        outer()
inner, outer = trace.traced(inner), trace.traced(outer)
""",
    # About 120 events a job.
    "storm": """
import threading
lock, work = trace.Lock(name="resource"), trace.Queue(name="work")
def worker():
    while (item := work.get()) is not None:
        number, answers = item
        with trace.span("serve"):
            trace.flow.received("call", number)
            answers.put(number)
def jobs(count):
    answers = trace.Queue(name="answers")
    for _ in range(count):
        with trace.job("boot"):
            with trace.span("prepare"):
                for _ in range(20):
                    with trace.span("step"): pass
            with trace.span("claim"), lock:
                with trace.span("call", kind="remote"):
                    work.put((trace.flow.sent("call"), answers))
                    answers.get()
            with trace.span("report"):
                for _ in range(10):
                    with trace.span("step"): pass
def loop():
    workers = [threading.Thread(target=worker, name=f"worker {n}") for n in range(4)]
    clients = [threading.Thread(target=jobs, args=(events // 120 // 16,)) for _ in range(16)]
    for thread in workers + clients: thread.start()
    for thread in clients: thread.join()
    for _ in workers: work.put(None)
    for thread in workers: thread.join()
""",
}

MEASURED = """
import json, sys, time
from contend.contention.events import read
import numpy
def memory(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key))
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak begins anew: proc(5)
rss = memory("VmRSS")
cpu, wall = time.process_time(), time.monotonic()
found = read(sys.argv[1])
wall, cpu = time.monotonic() - wall, time.process_time() - cpu
grown = memory("VmHWM") - rss
from contend.contention.hunting.rows import read as read_all
from pathlib import Path
all_cpu = time.process_time()
read_all(Path(sys.argv[1]), None)
all_cpu = time.process_time() - all_cpu
print(json.dumps({"wall_s": wall, "cpu_s": cpu, "grown_kib": grown, "all_cpu_s": all_cpu, "events": found.counts["events"],
                  "jobs": len(found.jobs), "rows": sum(map(len, found.tables.values())),
                  "resolution_ns": found.counts["resolution_ns"]}))
"""

Round = dict[str, float]


def measure(shape: str, events: int, rounds: int) -> Round:
    """The median round."""
    with tempfile.TemporaryDirectory(prefix="contend-bench-") as name:
        source = Path(name) / "trace"
        subprocess.run([sys.executable, "-c", RECORD % SHAPES[shape], str(events), str(source)], check=True)
        all_rounds: list[Round] = []
        for _ in range(rounds):
            command = [sys.executable, "-c", MEASURED, str(source)]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
            all_rounds.append(json.loads(done.stdout))
    return {key: statistics.median(found[key] for found in all_rounds) for key in all_rounds[0]}


@recording()
def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", type=Path, help="write PATH.json and PATH.md")
    given = parser.parse_args()
    results = {shape: measure(shape, given.events, given.rounds) for shape in given.shapes}
    found = {"rounds": given.rounds, "results": results}
    print(hunt_events.body(found))
    if given.write:
        save_at(given.write, found)
    slow = [
        shape
        for shape, found in results.items()
        if max(found["wall_s"], found["cpu_s"]) > LIMIT_S * max(found["events"] / 1e7, 1)
    ]
    if slow:
        print(f"slower than {LIMIT_S} s for 10,000,000 events: {', '.join(slow)}", file=sys.stderr)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
