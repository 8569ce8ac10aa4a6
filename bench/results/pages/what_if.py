"""Predictions of what-if, and what came of them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from results.files import Data
from results.words import pct, table

WHAT = ("median", "makespan")
TOGETHER = ("three together", "128 jobs", "worse")
"""Cases that are no single edit of the storms that are recorded as they are."""


def body(d: Data) -> str:
    """The worst errors, then each."""
    single = [row for row in d["rows"] if row["edit"] not in TOGETHER]
    inside, storms = sum(row["inside"] for row in d["rows"]), d["storms"]
    rows = []
    for row in d["rows"]:
        before, predicted, low, high = (
            row[key] / 1e6 for key in ("before_ns", "predicted_ns", "low_ns", "high_ns")
        )
        rows.append(
            [
                row["edit"], row["what"], f"{before:.0f} ms", f"{predicted:.0f} ms [{low:.0f}, {high:.0f}]",
                f"{statistics.mean(row['measured_ns']) / 1e6:.0f} ms", f"{100 * row['error']:+.1f} %",
                f"{row['inside']} of {storms}",
            ]
        )  # fmt: skip
    return f"""\
Storms of real threads (`tests/support/toy_storm.py`{", SCHED_FIFO" if d["fifo"] else ""}), {storms} recorded as they are and {storms}
with each edit, in blocks of one of each in random order; each figure the mean over them.

Worst of all: median {pct(worst(d["rows"], "median"), 1)}, makespan {pct(worst(d["rows"], "makespan"), 1)}; of the
{len({row["edit"] for row in single})} edits that are one change each: median {pct(worst(single, "median"), 1)}, makespan
{pct(worst(single, "makespan"), 1)}. {inside} of {len(d["rows"]) * storms} measured storms lay inside the 95 % prediction interval
for the next storm.

{table(["edit", "figure", "before", "predicted", "measured", "error", "inside"], rows, "llrrrrr")}{refused(d)}"""


def refused(d: Data) -> str:
    """What is in no figure, and why."""
    told = "".join(f"\n- {name}: {reason}" for name, reason in d.get("refused", {}).items())
    return f"\n\nRefused here, and in no figure:\n{told}" if told else ""


def worst(rows: Sequence[Data], what: str) -> float:
    """Largest error of a figure, without its sign."""
    return max(abs(float(row["error"])) for row in rows if row["what"] == what)
