"""`contend ab` and hyperfine on the same pair of commands under an on/off neighbour: whose verdict holds?

Both get about the same number of runs of a program whose true ratio is known, on one CPU that a neighbour also uses
now and then. Both time whole processes, so the ratio of whole processes is what is made to be 1.05: B has 5 % more
rounds, and the rounds that 5 % of a process's start and end take. Before and after, with no neighbour, A and B
are run in turn and the ratio of their times is printed with its interval: the truth, measured. Repeated; for each
repetition: does the 95 % interval hold the true ratio, and is the direction that is claimed right? hyperfine runs
all of A, then all of B; its interval here is Welch's over its exported times (it prints a mean and a deviation,
from which a reader would do no better). Its own summary line ("B ran 1.05 ± 0.03 times faster") is judged too, at
two of its ± on either side.

    python bench/ab_vs_hyperfine.py [--repetitions 20] [--ratio 1.05] [--write docs/results/ab-vs-hyperfine]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contend.stats.quantiles import t_quantile
from contend.stats.signed_rank import intervals
from results.files import save_at
from results.pages import ab_vs_hyperfine
from results.record import recording

HERE = Path(__file__).parent
CONTEND = Path(sys.executable).with_name("contend")
BLOCKS = 30


def timed(argv: list[str]) -> float:
    """Seconds from before a process is made to after it is reaped: what both tools time."""
    began = time.perf_counter()
    pid = os.posix_spawnp(argv[0], argv, os.environ)
    _, status = os.waitpid(pid, 0)
    took = time.perf_counter() - began
    if status:
        sys.exit(f"error: {' '.join(argv)} failed with status {status}")
    return took


def rounds_for(pin: list[str], seconds: float, ratio: float) -> tuple[int, int, float]:
    """Rounds of A and of B, and the seconds of a process without any, each from medians of undisturbed runs."""
    trial = 10_000_000
    start = statistics.median(timed([*pin, "0"]) for _ in range(200))
    full = statistics.median(timed([*pin, str(trial)]) for _ in range(50))
    a_round = (full - start) / trial
    a = round(seconds / a_round)
    return a, round(ratio * a + (ratio - 1) * start / a_round), start


def quiet_ratios(a: list[str], b: list[str], pairs: int) -> list[float]:
    """B / A of runs in turn, the first of each pair alternating, with no neighbour."""
    ratios = []
    for pair in range(pairs):
        if pair % 2:
            time_b, time_a = timed(b), timed(a)
        else:
            time_a, time_b = timed(a), timed(b)
        ratios.append(time_b / time_a)
    return ratios


def hyperfine_times(commands: Sequence[str], runs: int, place: Path) -> list[list[float]]:
    """Seconds of each run of each command, as hyperfine times them without a shell."""
    out = place / "hyperfine.json"
    words = ["hyperfine", "-N", "--warmup", "3", "--runs", str(runs), "--export-json", out, "--style", "none"]
    subprocess.run([*words, *commands], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return [list(result["times"]) for result in json.loads(out.read_text())["results"]]


def contend_cell(commands: Sequence[str], blocks: int, place: Path, seed: int) -> dict[str, Any]:
    """The comparison of two commands' wall times by `contend ab`."""
    words = [CONTEND, "ab", "--json", "--runs", place, "--seed", str(seed), "--target", "none"]
    words += ["--blocks", str(blocks), "--metric", "wall", "--", commands[0], "--vs", commands[1]]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    cell: dict[str, Any] = next(c for c in json.loads(done.stdout)["data"]["cells"] if c["metric"]["primary"])
    return cell


def prepared(place: Path) -> Path:
    """A program that burns a number of rounds; ends the bench where hyperfine is missing."""
    if shutil.which("hyperfine") is None:
        sys.exit("error: hyperfine is not installed\n  hint: apt-get install hyperfine")
    burn = place / "burn"
    subprocess.run(["cc", "-O1", "-o", burn, HERE / "burn.c"], check=True)
    return burn


def by_hyperfine(commands: tuple[str, str], place: Path) -> tuple[float, float, float, float, float]:
    """Ratio B / A with Welch's 95 % interval on the log scale's delta method, and its own ratio ± deviation."""
    a, b = hyperfine_times(commands, BLOCKS * 3 // 2, place)
    means = [statistics.fmean(x) for x in (a, b)]
    errors = [statistics.variance(x) / len(x) / statistics.fmean(x) ** 2 for x in (a, b)]
    freedom = sum(errors) ** 2 / sum(e**2 / (len(a) - 1) for e in errors)
    half = t_quantile(0.975, freedom) * math.sqrt(sum(errors))
    ratio = means[1] / means[0]
    deviation = ratio * math.sqrt(sum((statistics.stdev(x) / statistics.fmean(x)) ** 2 for x in (a, b)))
    return (
        ratio,
        ratio * math.exp(-half),
        ratio * math.exp(half),
        ratio - 2 * deviation,
        ratio + 2 * deviation,
    )


def by_contend(commands: tuple[str, str], place: Path, seed: int) -> tuple[float, float, float]:
    cell = contend_cell(commands, BLOCKS, place, seed)
    estimate = cell["estimate"]
    return estimate["value"], estimate["low"], estimate["high"]


@recording()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--ratio", type=float, default=1.05)
    parser.add_argument("--seconds", type=float, default=0.04, help="CPU time of one run of A")
    parser.add_argument("--pairs", type=int, default=300, help="quiet pairs, before and again after")
    parser.add_argument("--write", type=Path, help="write PATH.json and PATH.md")
    given = parser.parse_args()
    cpu = max(os.sched_getaffinity(0))
    rows = []
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        burn = prepared(place)
        pin = ["taskset", "-c", str(cpu), str(burn)]
        *rounds, start = rounds_for(pin, given.seconds, given.ratio)
        for _ in range(2):  # what is left of an error is measured and taken out
            a, b = ([*pin, str(n)] for n in rounds)
            off = given.ratio / math.exp(statistics.median(map(math.log, quiet_ratios(a, b, given.pairs))))
            rounds[1] = round(rounds[1] * off)
        a, b = ([*pin, str(n)] for n in rounds)
        commands = (" ".join(a), " ".join(b))
        quiet = quiet_ratios(a, b, given.pairs)
        for repetition in range(given.repetitions):
            # Each tool meets its own hour of the same neighbour: the same seed, started anew.
            found = {}
            for tool in ("hyperfine", "contend") if repetition % 2 else ("contend", "hyperfine"):
                neighbour = subprocess.Popen(
                    [
                        sys.executable,
                        HERE / "neighbour.py",
                        "--cpu",
                        str(cpu),
                        "--seed",
                        str(repetition),
                        "--most",
                        "120",
                    ]
                )
                began = time.monotonic()
                try:
                    if tool == "hyperfine":
                        found["hyperfine"] = by_hyperfine(commands, place)
                    else:
                        found["contend"] = by_contend(commands, place, repetition)
                finally:
                    neighbour.terminate()
                    neighbour.wait()
                found[f"{tool}_s"] = time.monotonic() - began
            rows.append(found)
            c, h = found["contend"], found["hyperfine"]
            print(
                f"{repetition + 1:3d}  contend {c[0]:.3f} [{c[1]:.3f}, {c[2]:.3f}]"
                f"   hyperfine {h[0]:.3f} [{h[1]:.3f}, {h[2]:.3f}] own ±2σ [{h[3]:.3f}, {h[4]:.3f}]",
                flush=True,
            )
        quiet += quiet_ratios(a, b, given.pairs)
    report(rows, quiet, start, given)


def report(rows: list[dict], quiet: list[float], start: float, given: argparse.Namespace) -> None:
    estimate, low, high = (math.exp(x[0]) for x in intervals(np.log([quiet])))
    found = {
        "intended": given.ratio,
        "quiet": {"ratio": estimate, "low": low, "high": high, "pairs": len(quiet), "start_s": start},
        "blocks": BLOCKS,
        "repetitions": rows,
    }
    print(ab_vs_hyperfine.series(found))
    if given.write:
        save_at(given.write, found)


if __name__ == "__main__":
    main()
