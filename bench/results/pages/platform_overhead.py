"""What platforms cost: the verdicts in three words, then the report."""

from __future__ import annotations

from results.files import Data
from results.pages import report

MATTERS = 0.04
"""A cost below that is small."""


def body(d: Data) -> str:
    """An interval that holds 1 is no proof that nothing is paid."""
    told = [
        cell["estimate"]
        for cell in d["analysis"]["cells"]
        if cell["metric"]["primary"] and cell["estimate"]["high"] is not None
    ]
    costs = [e for e in told if e["low"] > 1]
    small = [e for e in told if e["low"] <= 1 and e["high"] < 1 + MATTERS]
    undecided = [100 * (e["high"] - 1) for e in told if e["low"] <= 1 and e["high"] >= 1 + MATTERS]
    ends = (
        f": the upper ends of their intervals are {min(undecided):.0f} to {max(undecided):.0f} %"
        if undecided
        else ""
    )
    return (
        f"Of {len(told)} comparisons {len(costs)} show a cost (the interval lies above 1), {len(small)} cost less than"
        f" {100 * MATTERS:.0f} % (its upper end), {len(undecided)} are undecided{ends}.\n\n{report.body(d)}"
    )
