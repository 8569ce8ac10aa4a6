"""What tracing adds to a call, a lock and a switch, beside the peers, in one run: ns of CPU time each.

    .venv/bin/python bench/trace_calls.py [--rounds 5] [--peers DIRECTORY]

Peers (VizTracer, OpenTelemetry, osprofiler) are installed by pip into a virtual environment of this bench's own, in
DIRECTORY or a temporary one; what cannot be had is left out, and said. cProfile comes with Python. Each round runs
every case once, in a process of its own and in a random order. A case measures itself and the same loop without the
tracer in turn: what it adds is their difference by the thread's CPU time. `with writer` is the CPU time of the whole
process, down to the last byte in the file.
"""

from __future__ import annotations

import argparse
import json
import operator
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

PEERS = ["viztracer", "opentelemetry-sdk", "osprofiler", "greenlet"]
TURNS = 7


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


def methods(owner: object, count: int) -> float:
    began = time.thread_time_ns()
    for _ in range(count):
        owner.method(1)  # type: ignore[attr-defined]
    return (time.thread_time_ns() - began) / count


def holds(lock: object, count: int) -> float:
    began = time.thread_time_ns()
    for _ in range(count):
        with lock:  # type: ignore[attr-defined]
            pass
    return (time.thread_time_ns() - began) / count


def beside(with_: Callable[[], float], without: Callable[[], float]) -> dict[str, float]:
    """Medians of both, in turn, and of the difference of neighbours."""
    pairs = [(with_(), without()) for _ in range(TURNS)]
    return {
        "ns": statistics.median(a for a, _ in pairs),
        "plain_ns": statistics.median(b for _, b in pairs),
        "added_ns": statistics.median(a - b for a, b in pairs),
    }


def contend_calls(directory: str, on: bool, method: bool) -> dict[str, float]:
    from contend import trace

    class Traced:
        @trace.traced
        def method(self, value: int) -> int:
            return value

    traced, count = trace.traced(f), 200_000
    if on:
        trace.start(directory, buffer_bytes=256 << 20)
    if method:
        result = beside(lambda: methods(Traced(), count), lambda: methods(Plain(), count))
    else:
        result = beside(lambda: calls(traced, count), lambda: calls(f, count))
    if on and not method:
        trace.flush()
        plain = calls(f, count)
        began = time.process_time_ns()
        calls(traced, count)
        trace.flush()
        result["with_writer_ns"] = (time.process_time_ns() - began) / count - plain
    status = trace.stop()
    if on:
        result["bytes_per_event"] = status.bytes / status.events
        result["lost"] = status.lost
    return result


def contend_lock(directory: str, on: bool, again: bool) -> dict[str, float]:
    from contend import trace

    if on:
        trace.start(directory, buffer_bytes=256 << 20)
    ours, theirs = (trace.RLock(), threading.RLock()) if again else (trace.Lock(), threading.Lock())
    result = beside(lambda: holds(ours, 200_000), lambda: holds(theirs, 200_000))
    trace.stop()
    return result


def contend_switch(directory: str) -> dict[str, float]:
    import greenlet

    from contend import trace

    count = 50_000

    def switches() -> float:
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

    plain = [switches() for _ in range(TURNS)]
    greenlet.settrace(operator.is_)  # a callback that does nothing, in C: what greenlet itself adds
    empty = [switches() for _ in range(TURNS)]
    greenlet.settrace(None)
    trace.start(directory, buffer_bytes=256 << 20)
    trace.instant("begin")
    traced = [switches() for _ in range(TURNS)]
    trace.stop()
    of = statistics.median
    return {
        "ns": of(traced),
        "plain_ns": of(plain),
        "added_ns": of(traced) - of(plain),
        "empty_callback_ns": of(empty) - of(plain),
    }


def viztracer(directory: str, sparse: bool) -> dict[str, float]:
    from viztracer import VizTracer, log_sparse  # type: ignore[import-not-found]

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


def cprofile() -> dict[str, float]:
    import cProfile

    def on() -> float:
        profile = cProfile.Profile()
        profile.enable()
        try:
            return calls(f, 200_000)
        finally:
            profile.disable()

    return beside(on, lambda: calls(f, 200_000))


def opentelemetry() -> dict[str, float]:
    from opentelemetry.sdk.trace import TracerProvider  # type: ignore[import-not-found]

    tracer = TracerProvider().get_tracer("bench")

    def traced(value: int) -> int:
        with tracer.start_as_current_span("f"):
            return f(value)

    return beside(lambda: calls(traced, 5_000), lambda: calls(f, 5_000))


def osprofiler() -> dict[str, float]:
    from osprofiler import profiler  # type: ignore[import-not-found]
    from osprofiler.notifier import set as set_notifier  # type: ignore[import-not-found]

    set_notifier(lambda _info, context=None: None)
    profiler.init("key")
    traced = profiler.trace("f", hide_args=True)(f)
    return beside(lambda: calls(traced, 5_000), lambda: calls(f, 5_000))


CASES: dict[str, Callable[[str], dict[str, float]]] = {
    "contend: call, off": lambda d: contend_calls(d, on=False, method=False),
    "contend: call, on": lambda d: contend_calls(d, on=True, method=False),
    "contend: method, off": lambda d: contend_calls(d, on=False, method=True),
    "contend: method, on": lambda d: contend_calls(d, on=True, method=True),
    "VizTracer: call, auto": lambda d: viztracer(d, sparse=False),
    "VizTracer: call, log_sparse": lambda d: viztracer(d, sparse=True),
    "cProfile: call": lambda _: cprofile(),
    "OpenTelemetry: span around a call": lambda _: opentelemetry(),
    "osprofiler: call": lambda _: osprofiler(),
    "contend: Lock for threading.Lock, off": lambda d: contend_lock(d, on=False, again=False),
    "contend: Lock for threading.Lock, on": lambda d: contend_lock(d, on=True, again=False),
    "contend: RLock for threading.RLock, on": lambda d: contend_lock(d, on=True, again=True),
    "contend: switch of greenlets, on": contend_switch,
}


def peers(directory: Path) -> str:
    """A Python that has the peers, as far as pip can get them."""
    python = directory / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
        for name in PEERS:
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", name]
            if subprocess.run(pip, check=False).returncode:
                print(f"{name} cannot be installed here: left out", file=sys.stderr)
    return str(python)


def one(python: str, case: str) -> dict[str, float] | None:
    import contend

    package = str(Path(contend.__file__).parent.parent)
    with tempfile.TemporaryDirectory() as directory:
        child = subprocess.run(
            [python, __file__, "--case", case, "--directory", directory],
            env={**os.environ, "PYTHONPATH": package},
            capture_output=True,
            text=True,
            check=False,
        )
    if child.returncode:
        print(f"{case}: left out: {child.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    told: dict[str, float] = json.loads(child.stdout.splitlines()[-1])
    return told


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--directory", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(CASES[arguments.case](arguments.directory)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        python = peers(arguments.peers or Path(scratch) / "peers")
        rows: dict[str, list[dict[str, float]]] = {case: [] for case in CASES}
        for _ in range(arguments.rounds):
            for case in random.sample(list(CASES), len(CASES)):
                told = one(python, case)
                if told is not None:
                    rows[case].append(told)
    print(
        f"{'ns of CPU time, median of rounds':<42} {'plain':>8} {'traced':>8} {'added':>8} [lowest, highest]"
    )
    for case, told in rows.items():
        if told:
            added = [round_["added_ns"] for round_ in told]
            plain = statistics.median(round_["plain_ns"] for round_ in told)
            whole = statistics.median(round_["ns"] for round_ in told)
            more = ", ".join(
                f"{name.removesuffix('_ns').replace('_', ' ')} {statistics.median(r[name] for r in told):.1f}"
                for name in told[0]
                if name not in ("ns", "plain_ns", "added_ns")
            )
            spread = f"[{min(added):.1f}, {max(added):.1f}]"
            print(f"{case:<42} {plain:8.1f} {whole:8.1f} {statistics.median(added):8.1f} {spread:<20} {more}")


if __name__ == "__main__":
    main()
