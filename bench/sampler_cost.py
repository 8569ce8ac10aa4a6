"""What our probes cost, beside the peer that is there: CPU per sample of the same counters, in one run.

    .venv/bin/python bench/sampler_cost.py [--seconds 5]

Alternates ours and the peer's rounds, so that a busy moment meets both. Peers: psutil if it can be imported; vmstat
and pidstat if they are on PATH (their CPU time includes their start, so it is taken over many samples).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from contend._native import TaskWatch
from contend.probes.client import ProbeProcess, record_all
from contend.probes.series import SeriesWriter
from contend.probes.snapshot import Snapshot, device_of

ROUNDS = 5


def sampler_us(seconds: float) -> float:
    """CPU µs per sample of the native sampler, by its own thread's clock."""
    probe = ProbeProcess({"interval_ms": 10, "host": True})
    time.sleep(seconds)
    cost = probe.stop().cost
    return cost.cpu_ns / cost.samples / 1e3


def per_call_us(call: Callable[[], object], times: int = 200) -> float:
    began = time.thread_time_ns()
    for _ in range(times):
        call()
    return (time.thread_time_ns() - began) / times / 1e3


def command_us(argv: tuple[str, ...], samples: int) -> float:
    """CPU µs per sample of a command that takes `samples`, start included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / samples * 1e6


def psutil_us() -> float:
    import psutil  # type: ignore[import-untyped,unused-ignore]

    def sample() -> None:
        psutil.cpu_times(percpu=True), psutil.cpu_stats(), psutil.virtual_memory(), psutil.swap_memory()
        psutil.disk_io_counters(perdisk=True), psutil.net_io_counters(pernic=True)

    return per_call_us(sample)


def drain_ms() -> float:
    """CPU ms to take over one second's samples (100 ms apart) and write all tables as Parquet."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        probe, writer = ProbeProcess(record_all(100)), SeriesWriter(place)
        writer.add(probe.drain().coded)
        writer.flush()  # the first one loads what DuckDB needs
        time.sleep(1)
        began = time.process_time_ns()
        writer.add(probe.drain().coded)
        writer.flush()
        spent = time.process_time_ns() - began
        probe.stop()
        writer.close()
    return spent / 1e6


def watch_us(threads: int) -> float:
    """CPU µs per reading of a party of so many sleeping threads."""
    code = (
        "import threading, time\n"
        f"for _ in range({threads - 1}): threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "print(flush=True)\ntime.sleep(60)"
    )
    party = subprocess.Popen((sys.executable, "-S", "-c", code), stdout=subprocess.PIPE)
    try:
        assert party.stdout is not None
        party.stdout.readline()
        watch = TaskWatch(None, [party.pid], 5)
        watch.start()
        watch.mark()
        time.sleep(0.5)
        totals = watch.stop()
    finally:
        party.kill()
        party.wait()
    return totals["own_cpu_ns"] / totals["reads"] / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU per sample of our probes beside the peers'")
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="length of the native sampler's rounds together"
    )
    options = parser.parse_args()
    device = device_of(Path.cwd())
    devices = (device,) if device else ()
    measures: dict[str, Callable[[], float]] = {
        "host sampler": lambda: sampler_us(options.seconds / ROUNDS),
        "snapshot": lambda: per_call_us(lambda: Snapshot.take(devices)),
        "task watch, 1 thread": lambda: watch_us(1),
        "task watch, 100 threads": lambda: watch_us(100),
    }
    if importlib.util.find_spec("psutil"):
        measures["peer: psutil, the same counters"] = psutil_us
    # Both end by themselves; 1 s is their shortest interval.
    for name, samples in (("vmstat", 3), ("pidstat", 3)):
        if shutil.which(name):
            measures[f"peer: {name} (start included)"] = lambda n=name, s=samples: command_us(
                (n, "1", str(s)), s
            )  # type: ignore[misc]
    found: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(ROUNDS):
        for name, measure in measures.items():
            found[name].append(measure())
    ours = statistics.median(found["host sampler"])
    print(
        f"{'µs CPU per sample, median of ' + str(ROUNDS) + ' rounds':<44} {'median':>8} {'min':>8} {'max':>8}  of ours"
    )
    for name, values in found.items():
        middle = statistics.median(values)
        ratio = f"{middle / ours:.2f}×" if name.startswith("peer") else ""
        print(f"{name:<44} {middle:8.1f} {min(values):8.1f} {max(values):8.1f}  {ratio}")
    if not any(name.startswith("peer") for name in found):
        print("no peer here: pip install psutil, apt-get install procps sysstat")
    drains = [drain_ms() for _ in range(3)]
    print(f"writing 1 s of samples as four Parquet files: {statistics.median(drains):.1f} ms of CPU")
    print(
        json.dumps({"cpus": os.cpu_count(), "host_sampler_us": ours, "drain_ms": statistics.median(drains)})
    )


if __name__ == "__main__":
    main()
