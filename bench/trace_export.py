"""What it costs to read a trace: our exports and summary, beside VizTracer writing its own, in one run.

    python bench/trace_export.py [--events 1000000 10000000] [--shapes calls tasks …] [--rounds 5]
                                 [--write docs/results/trace-export]

"calls": the same program, two functions that call each other in a loop, is recorded by `contend.trace` and by VizTracer
until there are so many events (a begin and an end each; VizTracer's complete events count as two). Then each arm turns its
recording into a file, every time in a fresh process and in random order: ours reads its .ctrace file and writes
Perfetto's protobuf or Chrome's JSON, or adds up the summary; VizTracer, which has no other converter, writes Chrome's
JSON out of its memory, by `save` and by the faster `save` with dump_raw. Time is from the recording to the closed file
(wall and CPU, medians); memory is what the process grew by at its peak, and that peak in all, which VizTracer's buffer
of events is in. More than 1,000,000 events are not asked of VizTracer's `save`: it needs gigabytes. "page"
is all of `contend report TRACE`: the summary, the timeline's second reading, and the HTML page.

Other shapes are read by ours alone, with the first number of events: "tasks": 10,000 asyncio tasks, a track each;
"deep": recursion 10,000 spans deep; "names": 100,000 of them; "processes": 500 processes, a file each.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from results.files import save_at
from results.pages import trace_export
from results.record import recording

MOST_FOR_SAVE = 1_000_000

LOOP = """
def inner():
    pass
def outer():
    inner()
def loop():
    for _ in range(events // 4):
        outer()
"""

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
    "calls": LOOP + "inner, outer = trace.traced(inner), trace.traced(outer)",
    "tasks": """
import asyncio
async def task(rounds):
    for _ in range(rounds):
        with trace.span("step"): pass
        with trace.span("other"): await asyncio.sleep(0)
async def main():
    for _ in range(10):
        await asyncio.gather(*(task(events // 80_000) for _ in range(1000)))
def loop():
    asyncio.run(main())
""",
    "deep": """
import threading
def down(depth):
    if depth: traced(depth - 1)
traced = trace.traced(down)
def all_of_it():
    for _ in range(events // 20_000): traced(9_999)
def loop():
    sys.setrecursionlimit(1_000_000)
    threading.stack_size(1 << 30)
    thread = threading.Thread(target=all_of_it)
    thread.start(); thread.join()
""",
    "names": """
def loop():
    for _ in range(events // 200_000):
        for i in range(100_000):
            with trace.span(f"step {i}"): pass
""",
    "processes": """
import os
@trace.traced
def work(): pass
def loop():
    for _ in range(50):
        for _ in range(10):
            if os.fork() == 0:
                for _ in range(events // 1000): work()
                trace.stop()
                os._exit(0)
        for _ in range(10): os.wait()
""",
}

MEASURED = """
import json, os, sys, time
def memory(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key))
events, source, target = int(sys.argv[1]), sys.argv[2], sys.argv[3]
{before}
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak begins anew: proc(5)
rss = memory("VmRSS")
cpu, wall = time.process_time(), time.monotonic()
{measured}
wall, cpu = time.monotonic() - wall, time.process_time() - cpu
grown = memory("VmHWM") - rss
size = os.path.getsize(target) if os.path.exists(target) else 0
print(json.dumps({{"wall_s": wall, "cpu_s": cpu, "grown_kib": grown, "peak_kib": memory("VmHWM"),
                  "bytes": size}}))
"""

OURS = "from contend import _native"
VIZTRACER = f"""
from viztracer import VizTracer
{LOOP}
tracer = VizTracer(tracer_entries=events // 2 + 1000, verbose=0, %s)
tracer.start()
loop()
tracer.stop()
"""

# What is done before the clock starts, and what is measured.
ARMS = {
    "contend, Perfetto": (OURS, "_native.ctrace_export([source], 'perfetto', target)"),
    "contend, Chrome JSON": (OURS, "_native.ctrace_export([source], 'chrome', target)"),
    "contend, summary": (OURS, "_native.ctrace_summary([source])"),
    "contend, page": ("from contend.report.trace_page import write_page", "write_page(source)"),
    "VizTracer, save": (VIZTRACER % "dump_raw=False", "tracer.save(target)"),
    "VizTracer, save, dump_raw": (VIZTRACER % "dump_raw=True", "tracer.save(target)"),
}

Round = dict[str, float]


def measure(arm: str, events: int, source: Path, place: Path) -> Round:
    before, measured = ARMS[arm]
    target = place / "out.json"
    target.unlink(missing_ok=True)
    code = MEASURED.format(before=before, measured=measured)
    command = [sys.executable, "-c", code, str(events), str(source), str(target)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    found: Round = json.loads(done.stdout)
    return found


def size(shape: str, events: int, rounds: int) -> dict[str, Round]:
    """The median round of each arm."""
    rng = random.Random(events)
    with tempfile.TemporaryDirectory(prefix="contend-bench-") as name:
        place = Path(name)
        source = place / "trace"
        subprocess.run([sys.executable, "-c", RECORD % SHAPES[shape], str(events), str(source)], check=True)
        raw = sum(path.stat().st_size for path in source.iterdir())
        arms = [
            arm
            for arm in ARMS
            if not arm.startswith("VizTracer")
            or (shape == "calls" and importlib.util.find_spec("viztracer") is not None)
        ]
        arms = [arm for arm in arms if arm != "VizTracer, save" or events <= MOST_FOR_SAVE]
        all_rounds: dict[str, list[Round]] = {arm: [] for arm in arms}
        for _ in range(rounds):
            for arm in rng.sample(arms, len(arms)):
                all_rounds[arm].append(measure(arm, events, source, place))
    medians = {
        arm: {key: statistics.median(found[key] for found in done) for key in done[0]}
        for arm, done in all_rounds.items()
    }
    for arm, done in all_rounds.items():
        medians[arm]["least_wall_s"] = min(found["wall_s"] for found in done)
        medians[arm]["most_wall_s"] = max(found["wall_s"] for found in done)
        if arm.startswith("contend"):
            medians[arm]["raw_bytes"] = raw
    return medians


@recording()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", type=Path, help="write PATH.json and PATH.md")
    given = parser.parse_args()
    sizes = [("calls", events) for events in given.events if "calls" in given.shapes]
    sizes += [(shape, given.events[0]) for shape in given.shapes if shape != "calls"]
    results = {what: size(*what, given.rounds) for what in sizes}
    found = {
        "rounds": given.rounds,
        "results": [{"shape": s, "events": e, "arms": arms} for (s, e), arms in results.items()],
    }
    print(trace_export.body(save_at(given.write, found) if given.write else found))


if __name__ == "__main__":
    main()
