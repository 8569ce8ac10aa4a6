"""What one sample of the host and all its processes costs: ours beside atop, pidstat and psutil, in one run.

    python bench/process_sampling.py [--processes 200 1000 3000] [--rounds 3] [--write docs/results/process-sampling]

Around them sleep as many processes as asked, of which ten in a hundred wake ten times a second. Every tool records CPU,
memory, I/O and switches of all processes; ours and atop also their run delay. A command is run for a few samples and
for ten more, at one a second, and its own CPU time (of all its processes, by wait4) and the size of its file are the
differences divided by ten, so that start-up does not count. Rounds alternate between the tools. `contend sample` is
the whole command: the probe, the reader, the writing of Parquet, and what its page grows by. The second it needs to
start and to make the page varies by more than ten samples cost, so its CPU time is that of 200 samples at ten a second,
and only its bytes are of samples a second apart. `contend-probe` is the probe alone, at ten a second; its BPF programs
run in its own reads, so that their time is in it, but for the few at a process's end.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from contend.probes.client import ProbeProcess
from results import record
from results.files import save_at
from results.pages import process_sampling

HERE = Path(__file__).parent
CONTEND = Path(sys.executable).with_name("contend")
FEW, MORE = 3, 13

Measure = Callable[[Path], tuple[float, float]]  # CPU ms a sample, bytes a sample (0: writes no file)


@contextlib.contextmanager
def sleepers(binary: Path, processes: int) -> Iterator[None]:
    party = subprocess.Popen(
        (binary, str(processes), str(processes // 10)), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert party.stdin is not None
    assert party.stdout is not None
    try:
        if party.stdout.readline() != b"ready\n":
            sys.exit(f"error: could not start {processes} processes\n  hint: ulimit -u")
        time.sleep(0.5)
        yield
    finally:
        party.stdin.close()
        party.wait()
        party.stdout.close()


def spent(argv: list[str], out: Path) -> tuple[float, int]:
    """CPU ms of a command with all it started, and the bytes below `out` after it."""
    pid = os.posix_spawnp(
        argv[0], argv, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    )
    _, status, usage = os.wait4(pid, 0)
    if status:
        sys.exit(f"error: {' '.join(argv)} failed with status {os.waitstatus_to_exitcode(status)}")
    files = [out] if out.is_file() else [p for p in out.rglob("*.parquet") if p.is_file()]
    return (usage.ru_utime + usage.ru_stime) * 1e3, sum(p.stat().st_size for p in files)


def command(argv: Callable[[Path, int], list[str]]) -> Measure:
    def measure(place: Path) -> tuple[float, float]:
        (little, small), (much, large) = (
            spent(argv(place / f"{samples}", samples), place / f"{samples}") for samples in (FEW, MORE)
        )
        return (much - little) / (MORE - FEW), (large - small) / (MORE - FEW)

    return measure


def recording(out: Path, interval: str, seconds: int) -> tuple[float, int]:
    return spent([str(CONTEND), "sample", "-q", "-i", interval, "--for", f"{seconds}s", "-o", str(out)], out)


def by_contend(place: Path) -> tuple[float, float]:
    (little, _), (much, _) = (recording(place / f"fast{s}", "100ms", s) for s in (2, 22))
    (_, small), (_, large) = (recording(place / f"slow{s}", "1s", s) for s in (FEW, MORE))
    return (much - little) / 200, (large - small) / (MORE - FEW)


def probe(source: str) -> Measure:
    """The probe alone: ten samples a second, drained once at the end."""

    def measure(place: Path) -> tuple[float, float]:
        config = {"interval_ms": 100, "host": True, "processes": True, "source": source}
        process = ProbeProcess(config)
        time.sleep(1)
        before = process.drain().cost  # what opening cost, and the first sight of every process
        time.sleep(3)
        after = process.drain().cost
        process.stop()
        return (after.cpu_ns - before.cpu_ns) / (after.samples - before.samples) / 1e6, 0

    return measure


def by_psutil(place: Path) -> tuple[float, float]:
    import psutil  # type: ignore[import-untyped,unused-ignore]

    wanted = ["pid", "name", "cpu_times", "memory_info", "io_counters", "num_ctx_switches", "num_threads"]

    def sample() -> None:
        psutil.cpu_times(percpu=True), psutil.virtual_memory(), psutil.disk_io_counters(perdisk=True)
        for process in psutil.process_iter(wanted):
            assert process.info

    sample()
    began = time.thread_time_ns()
    for _ in range(5):
        sample()
    return (time.thread_time_ns() - began) / 5e6, 0


def measures() -> dict[str, Measure]:
    found: dict[str, Measure] = {
        "contend-probe, best source": probe("auto"),
        "contend-probe, taskstats": probe("taskstats"),
        "contend-probe, /proc": probe("proc"),
        "contend sample": by_contend,
    }
    if shutil.which("atop"):
        found["atop"] = command(lambda out, n: ["atop", "-w", str(out), "1", str(n)])
    if shutil.which("pidstat"):
        found["pidstat"] = command(
            lambda out, n: ["pidstat", "-u", "-r", "-d", "-w", "-p", "ALL", "1", str(n)]
        )
    if importlib.util.find_spec("psutil"):
        found["psutil"] = by_psutil
    return found


@record.recording()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", type=int, nargs="+", default=[200, 1000, 3000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", type=Path, help="write PATH.json and PATH.md")
    given = parser.parse_args()
    results: dict[int, dict[str, list[tuple[float, float]]]] = {}
    with tempfile.TemporaryDirectory() as name:
        binary = Path(name) / "sleepers"
        subprocess.run(["cc", "-O1", "-o", binary, HERE / "sleepers.c"], check=True)
        for processes in given.processes:
            tools = measures()
            results[processes] = {tool: [] for tool in tools}
            for number in range(given.rounds):
                with sleepers(binary, processes):
                    for tool, measure in tools.items():
                        place = Path(name) / f"{processes}-{number}-{tool.replace('/', '').replace(' ', '-')}"
                        place.mkdir()
                        results[processes][tool].append(measure(place))
                        shutil.rmtree(place)
            print(f"{processes} processes: done", file=sys.stderr)
    told = {"results": {str(processes): found for processes, found in results.items()}}
    print(process_sampling.body(told))
    if given.write:
        save_at(given.write, told)


if __name__ == "__main__":
    main()
