"""What one sample of all processes costs."""

from __future__ import annotations

import statistics

from results.files import Data
from results.words import table


def body(d: Data) -> str:
    """CPU time, and bytes written."""
    results = d["results"]
    tools = list(next(iter(results.values())))
    head = [f"{n} processes" for n in results]
    rounds = len(results[next(iter(results))][tools[0]])
    cpu, sizes = [], []
    for tool in tools:
        values = [[ms for ms, _ in found[tool]] for found in results.values()]
        cpu.append([tool, *(f"{statistics.median(v):.1f} ({min(v):.1f}–{max(v):.1f})" for v in values)])
        written = [statistics.median(size for _, size in found[tool]) / 1e3 for found in results.values()]
        if any(written):
            sizes.append([tool, *(f"{size:.1f}" for size in written)])
    align = "l" + "r" * len(head)
    return (
        table([f"CPU ms a sample, median of {rounds} (least–most)", *head], cpu, align)
        + "\n\n"
        + table(["kB a sample", *head], sizes, align)
    )
