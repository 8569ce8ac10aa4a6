"""How long `contend --help` takes, beside the bare interpreter and a peer's --help, alternated in one run."""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from contend.stats import compare

ROUNDS = 20


def timed(argv: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds."""
    began, cpu = time.perf_counter(), os.times()
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    used = after.children_user + after.children_system - cpu.children_user - cpu.children_system
    return time.perf_counter() - began, used


def main() -> None:
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "contend --help": [str(Path(sys.executable).with_name("contend")), "--help"],
    }
    if shutil.which("hyperfine"):
        commands["hyperfine --help"] = ["hyperfine", "--help"]
    walls: dict[str, list[float]] = {name: [] for name in commands}
    cpus: dict[str, list[float]] = {name: [] for name in commands}
    for argv in commands.values():
        timed(argv)
    for _ in range(ROUNDS):
        for name in random.sample(list(commands), len(commands)):
            wall, cpu = timed(commands[name])
            walls[name].append(wall)
            cpus[name].append(cpu)
    for name in commands:
        wall_ms, cpu_ms = statistics.median(walls[name]) * 1e3, statistics.fmean(cpus[name]) * 1e3
        print(f"{name:<20} wall {wall_ms:6.1f} ms   CPU {cpu_ms:6.1f} ms")
    e = compare(walls["python -c pass"], walls["contend --help"])
    print(f"contend --help / python -c pass: {e.value:.2f} [{e.low:.2f}, {e.high:.2f}] (n = {e.n})")


if __name__ == "__main__":
    main()
