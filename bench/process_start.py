"""The wall time of a short command, by contend and by hyperfine: what does the measuring add to it?

    python bench/process_start.py [--runs 60]

Each command is timed by a bare posix_spawn and waitpid, by `contend ab` and by `hyperfine -N`, in turn, three times
over; printed are medians in milliseconds and the ratio of contend's to hyperfine's, with its interval.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from ab_vs_hyperfine import CONTEND, HERE, timed

from contend.stats.signed_rank import intervals


def by_contend(command: str, runs: int, place: Path) -> list[float]:
    done = subprocess.run(
        [
            CONTEND, "ab", "--json", "--runs", place, "--seed", "1", "--target", "none",
            "--blocks", str(runs // 3), "--metric", "wall", "--", command, "--vs", command,
        ],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    cell = next(c for c in json.loads(done.stdout)["cells"] if c["metric"]["primary"])
    return [*cell["baseline"]["values"], *cell["treatment"]["values"]]


def by_hyperfine(command: str, runs: int, place: Path) -> list[float]:
    out = place / "hyperfine.json"
    subprocess.run(
        [
            "hyperfine",
            "-N",
            "--warmup",
            "3",
            "--runs",
            str(runs),
            "--export-json",
            out,
            "--style",
            "none",
            command,
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return list(json.loads(out.read_text())["results"][0]["times"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=60)
    given = parser.parse_args()
    if shutil.which("hyperfine") is None:
        sys.exit("error: hyperfine is not installed\n  hint: apt-get install hyperfine")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        burn = place / "burn"
        subprocess.run(["cc", "-O1", "-o", burn, HERE / "burn.c"], check=True)
        print("command          posix_spawn  contend  hyperfine   contend / hyperfine")
        for rounds in (0, 20_000_000):
            command = f"{burn} {rounds}"
            spawned, ours, theirs, ratios = [], [], [], []
            for _ in range(6):
                spawned += [timed(command.split()) for _ in range(given.runs)]
                contend = statistics.median(by_contend(command, given.runs, place))
                hyperfine = statistics.median(by_hyperfine(command, given.runs, place))
                ours.append(contend)
                theirs.append(hyperfine)
                ratios.append(math.log(contend / hyperfine))
            value, low, high = (math.exp(x[0]) for x in intervals(np.array([ratios])))
            print(
                f"burn {rounds:<10d} {statistics.median(spawned) * 1e3:9.3f} {statistics.median(ours) * 1e3:9.3f}"
                f" {statistics.median(theirs) * 1e3:9.3f}    {value:.3f} [{low:.3f}, {high:.3f}]"
            )


if __name__ == "__main__":
    main()
