"""How long quick commands take: beside the bare interpreter and a peer's --help, and beside another checkout of contend,
alternated in one run. CPU time; ratios with their intervals.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from contend.stats import compare
from results.files import save_at
from results.record import recording

ROOT = Path(__file__).parents[1]
ROUNDS = 20
COMMANDS = ("--help", "run noisy-neighbour --dry-run", "list")
START = "import sys; from contend.cli import main; main(sys.argv[1:])"


def timed(argv: list[str], tree: Path) -> tuple[float, float]:
    """Wall and CPU seconds of a command that imports contend from a tree."""
    env = os.environ | {"PYTHONPATH": str(tree / "python")}
    began, cpu = time.perf_counter(), os.times()
    subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, env=env)
    after = os.times()
    used = after.children_user + after.children_system - cpu.children_user - cpu.children_system
    return time.perf_counter() - began, used


def measured(commands: dict[str, tuple[list[str], Path]], rounds: int) -> dict[str, dict[str, list[float]]]:
    """By command: wall_s and cpu_s of each round, the first thrown away."""
    figures: dict[str, dict[str, list[float]]] = {name: {"wall_s": [], "cpu_s": []} for name in commands}
    for number in range(rounds + 1):
        for name in random.sample(list(commands), len(commands)):
            wall, cpu = timed(*commands[name])
            if number:
                figures[name]["wall_s"].append(wall)
                figures[name]["cpu_s"].append(cpu)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--before", type=Path, metavar="TREE", help="another checkout, with its native module"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write FILE.json")
    given = parser.parse_args()
    commands: dict[str, tuple[list[str], Path]] = {"python -c pass": ([sys.executable, "-c", "pass"], ROOT)}
    if peer := shutil.which("hyperfine"):
        commands["hyperfine --help"] = [peer, "--help"], ROOT
    for words in COMMANDS:
        start = [sys.executable, "-c", START, *words.split()]
        commands[f"contend {words}"] = start, ROOT
        if given.before:
            commands[f"contend {words}, before"] = start, given.before
    with recording():
        figures = measured(commands, given.rounds)
        document = {"rounds": given.rounds, "figures": figures, "ratios": ratios(figures)}
        for name, ratio in document["ratios"].items():
            print(f"{name}: {ratio['value']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}]")
        if given.write:
            save_at(given.write, document)


def ratios(figures: dict[str, dict[str, list[float]]]) -> dict[str, Any]:
    """CPU time of each command of this tree: to the other tree's where there is one, else to the bare interpreter's."""
    by_pair = {}
    for name in (f"contend {words}" for words in COMMANDS):
        for other in (f"{name}, before", "python -c pass"):
            if other in figures:
                estimate = compare(figures[other]["cpu_s"], figures[name]["cpu_s"])
                by_pair[f"{name} / {other}"] = {
                    "value": estimate.value,
                    "low": estimate.low,
                    "high": estimate.high,
                }
    return by_pair


if __name__ == "__main__":
    main()
