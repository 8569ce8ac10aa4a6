"""What scheduler histograms cost."""

from __future__ import annotations

from results.files import Data
from results.words import interval, ratio, table

BASE = "no probe"


def body(d: Data) -> str:
    """Arms beside the one without a probe."""
    rows = []
    for load, found in d["results"].items():
        for name, costs in found.items():
            cells = [
                "1"
                if name == BASE
                else interval(ratio([c[at] for c in found[BASE]], [c[at] for c in costs]), 3)
                for at in (0, 1)
            ]
            rows.append([load, name, f"{sorted(c[0] for c in costs)[len(costs) // 2]:.2f}", *cells])
    return table(["load", "arm", "CPU µs an operation", "CPU, ratio", "wall, ratio"], rows, "llrrr")
