"""Pairs that were forecast, and held out."""

from __future__ import annotations

import re

from results.files import Data
from results.pages import report


def body(d: Data) -> str:
    """What the errors on the held-out pairs say, then the report."""
    found = re.search(r"(-?[\d.]+ \[-?[\d.]+, -?[\d.]+\]) \((\d+)\s+pairs", d["shown"])
    if found is None:
        return report.body(d)
    difference, pairs = found.groups()
    nearer = "smaller than" if difference.split()[0].startswith("-") else "not smaller than"
    return (
        f"Its errors on the held-out pairs are {nearer} those of a row and a column effect: |log error| less the baseline's"
        f" {difference} ({pairs} pairs). The pairs share workloads, so the interval over pairs is rather too narrow. Where the report below calls that beyond doubt, it says more than its"
        f" interval does.\n\n{report.body(d)}"
    )
