"""CPU time of quick commands, now and before the package was put into rooms."""

from __future__ import annotations

import statistics

from results.files import Data
from results.words import table


def body(document: Data) -> str:
    """Medians, and ratios with their intervals."""
    medians = {name: statistics.median(of["cpu_s"]) * 1e3 for name, of in document["figures"].items()}
    rows = []
    for name in document["figures"]:
        before = f"{name}, before"
        if before in medians:
            ratio = document["ratios"][f"{name} / {before}"]
            interval = f"{ratio['value']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}]"
            rows.append([f"`{name}`", f"{medians[before]:.0f}", f"{medians[name]:.0f}", interval])
        elif not name.endswith(", before"):
            rows.append([f"`{name}`", "–", f"{medians[name]:.0f}", "–"])
    return f"""\
Before: 0e71453, with the same interpreter and packages. Median CPU time in ms, rounds in random order.

{table(["", "before", "now", "ratio (95 %)"], rows, "lrrr")}"""
