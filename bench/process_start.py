"""The wall time of a short command, by contend and by hyperfine: what does the measuring add to it?

    python bench/process_start.py [--runs 60]

Each command is timed by a bare posix_spawn and waitpid, by `contend ab` and by `hyperfine -N`, in turn, three times
over; printed are medians in milliseconds and the ratio of contend's to hyperfine's, with its interval.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
from pathlib import Path

import numpy as np

from ab_vs_hyperfine import contend_cell, hyperfine_times, prepared, timed
from contend.stats.signed_rank import intervals


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=60)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        burn = prepared(place)
        print("command          posix_spawn  contend  hyperfine   contend / hyperfine")
        for rounds in (0, 20_000_000):
            command = f"{burn} {rounds}"
            spawned, ours, theirs, ratios = [], [], [], []
            for _ in range(6):
                spawned += [timed(command.split()) for _ in range(given.runs)]
                cell = contend_cell((command, command), given.runs // 3, place, seed=1)
                contend = statistics.median([*cell["baseline"]["values"], *cell["treatment"]["values"]])
                hyperfine = statistics.median(hyperfine_times([command], given.runs, place)[0])
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
