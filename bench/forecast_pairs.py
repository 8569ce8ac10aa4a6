"""Pairs of ten workloads that never met: what was forecast from curves and probes, what was measured, and who goes together.

    python bench/forecast_pairs.py -o DIR [--budget 50m] [--write docs/results/forecast-pairs]

A run of `interference-forecast` with ten workloads in DIR/runs (a run that is there is taken, not repeated). No prediction
of a pair uses a measured pair: only a victim's curves and a neighbour's pressures go into it, so that every pair is one of
workloads that were left out. Intervals learn from pairs; how often they hold is counted on those held out, and on the pairs
of each workload with what the pairs of the others teach.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contend.studies.sensitivity.assignment import assign, slowdowns
from results.files import save_at
from results.record import recording

CONTEND = (sys.executable, "-m", "contend")
WORKLOADS = (
    "[ffmpeg, fio, {fio: {read: 0}}, nginx, redis, sysbench-memory, sysbench-cpu, sysbench-threads,"
    " {iperf3: {network: host}}, stress-cache]"
)
SETTINGS = {
    "workloads": WORKLOADS,
    "intensities": "[33, 67, 100]",
    "held_out": "50%",
    "measure.blocks": "6",
    "measure.seed": "27",
}
HOSTS = (5, 4, 3)

Row = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--budget", default="50m")
    parser.add_argument("--write", type=Path, metavar="PATH", help="without its suffix")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    with recording():
        analysis = measured(given.output, given.budget)
        data = reduced(analysis)
        print(json.dumps({name: data[name] for name in ("answer", "blocks", "packing")}, indent=1))
        if given.write:
            save_at(given.write, {"settings": SETTINGS, **data})
    return 0


def measured(folder: Path, budget: str) -> Row:
    """Run the forecast, or judge the one that is there. Raises SystemExit."""
    runs = sorted(folder.glob("runs/*"))
    if runs:
        command = [*CONTEND, "report", str(runs[-1].relative_to(folder)), "--json"]
    else:
        settings = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
        command = [*CONTEND, "run", "interference-forecast", *settings, "--budget", budget, "--json"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if not run.stdout:
        raise SystemExit(run.stderr)
    analysis: Row = json.loads(run.stdout)["data"]
    return analysis


def reduced(analysis: Row) -> Row:
    """The table of pairs, what it was predicted from, and assignments by it."""
    of = analysis["sensitivity"]
    noise = {cell["cell"]: error_of(cell) for cell in analysis["cells"] if cell["metric"]["primary"]}
    pairs = [
        {
            "victim": pair["victim"],
            "neighbour": pair["neighbour"],
            "predicted": bounds_of(pair["predicted"]),
            "measured": pair["measured"] and bounds_of(pair["measured"]),
            "error": noise.get(pair["cell"]),
            "additive": pair["baseline"],
            "held_out": pair["held_out"],
            "beyond": pair["extrapolation"],
            "parts": {name: round(part, 4) for name, part in pair["parts"].items()},
        }
        for pair in of["pairs"]
    ]
    names = of["workloads"]
    return {
        "answer": analysis["answer"],
        "blocks": analysis["design"]["blocks"],
        "refused": of["refused"],
        "workloads": names,
        "pairs": pairs,
        "pressure": of["pressure"],
        "flags": analysis["flags"],
        "packing": [packed(pairs, names, hosts) for hosts in HOSTS],
    }


def bounds_of(estimate: Row) -> list[float | None]:
    return [None if estimate[k] is None else round(estimate[k], 4) for k in ("value", "low", "high")]


def error_of(cell: Row) -> float | None:
    """Standard error of a cell's log ratio, over its blocks."""
    sides = [
        dict(zip(cell[side]["blocks"], cell[side]["values"], strict=True))
        for side in ("baseline", "treatment")
    ]
    both = sorted(set(sides[0]) & set(sides[1]))
    if len(both) < 3:
        return None
    logs = [
        math.log(sides[1][block] / sides[0][block]) for block in both if sides[0][block] and sides[1][block]
    ]
    return round(statistics.stdev(logs) / math.sqrt(len(logs)), 5) if len(logs) > 2 else None


def packed(pairs: Sequence[Row], names: Sequence[str], hosts: int) -> Row:
    """Mean slowdowns by the measured pairs: of the assignment that a table chooses, of the best, and of one at random."""
    real = table(pairs, names, lambda pair: pair["measured"] and pair["measured"][0])
    chosen = {}
    for name, of in (
        ("forecast", lambda pair: pair["predicted"][0]),
        ("additive", lambda pair: pair["additive"]),
    ):
        guess = table(pairs, names, of)
        if np.isnan(guess[~np.eye(len(names), dtype=bool)]).any():
            continue
        chosen[name] = statistics.fmean(slowdowns(real, assign(guess, hosts).groups))
    best = assign(real, hosts)
    return {"hosts": hosts, "best": best.mean, "random": best.random, "exact": best.exact, **chosen}


def table(pairs: Iterable[Row], names: Sequence[str], of: Any) -> Any:
    logs = np.full((len(names), len(names)), math.nan)
    for pair in pairs:
        value = of(pair)
        if value:
            logs[names.index(pair["victim"]), names.index(pair["neighbour"])] = math.log(value)
    return logs


if __name__ == "__main__":
    sys.exit(main())
