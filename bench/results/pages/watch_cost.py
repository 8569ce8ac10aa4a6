"""What being watched costs."""

from __future__ import annotations

from results.files import Data
from results.words import interval, ratio, table

BASE = "unwatched"


def body(d: Data) -> str:
    """Arms beside the unwatched one."""
    rows = [
        [
            load,
            name,
            f"{sorted(c[0] for c in costs)[len(costs) // 2]:.2f}",
            "1" if name == BASE else interval(ratio([c[0] for c in found[BASE]], [c[0] for c in costs]), 3),
        ]
        for load, found in d["results"].items()
        for name, costs in found.items()
    ]
    return f"{d['rounds']} rounds.\n\n{table(['load', 'arm', 'CPU µs an operation', 'CPU, ratio'], rows, 'llrr')}"
