"""Known effects in intervals of `contend ab`, and its controls."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from contend.stats.quantiles import clopper_pearson
from results.files import Data
from results.words import bounds, pct, table

LEVEL = 0.95


def body(d: Data) -> str:
    """Coverage by effect, and how often a control alarmed."""
    rows = [row for row in d["rows"] if "failed" not in row]
    effects = sorted({row["effect"] for row in rows})
    lines = [line(pct(effect), [row for row in rows if row["effect"] == effect]) for effect in effects]
    neighbours = list(dict.fromkeys(row["beside"] for row in rows if row.get("beside")))
    lines += [line(f"beside {name}", [row for row in rows if row["beside"] == name]) for name in neighbours]
    lines.append(line("all", rows))
    alarms = [row for row in rows if row["alarm"]]
    head = ["planted", "runs", "inside", "bounds", "half-width (median)", "blocks (median)"]
    outside = [
        [
            pct(row["effect"]),
            f"{row['truth']:.4f}",
            "{:.4f} [{:.4f}, {:.4f}]".format(*row["ratio"]),
            row["blocks"],
        ]
        for row in rows
        if not holds(row)
    ]
    low, high = clopper_pearson(sum(map(holds, rows)), len(rows))
    verdict = "not rejected" if low <= LEVEL <= high else "rejected"
    text = f"""\
One burner with N rounds, and with N (1 + e): the true ratio of their times is known, with what a process takes to start. Each run
is `contend ab` as it is, which stops by its own looks.{of_neighbours(neighbours)} {len(d["rows"]) - len(rows)} runs failed.

{table(head, lines, "lrrrrr")}

That 95 % of such intervals hold the truth is {verdict}.

**Controls**: in {len(alarms)} of {len(rows)} runs the same command under two names raised an alarm ({clopper(alarms, rows)}; 5 % are
expected of exact intervals).
"""
    if outside:
        text += "\nOutside:\n\n" + table(["planted", "truth", "said", "blocks"], outside, "lrrr")
    return text


def of_neighbours(names: Sequence[str]) -> str:
    if not names:
        return ""
    return (
        f" Beside each a neighbour works and rests at moments drawn by chance, for 0.3 to 8 s: one of {len(names)} real programs"
        " in turn."
    )


def line(name: str, rows: Sequence[Data]) -> list[object]:
    """Counts of one effect."""
    inside = [row for row in rows if holds(row)]
    half = statistics.median((row["ratio"][2] / row["ratio"][1]) ** 0.5 - 1 for row in rows)
    blocks = statistics.median(row["blocks"] for row in rows)
    return [name, len(rows), len(inside), clopper(inside, rows), pct(half, 1), f"{blocks:.0f}"]


def holds(row: Data) -> bool:
    """The interval holds the truth."""
    return bool(row["ratio"][1] <= row["truth"] <= row["ratio"][2])


def clopper(some: Sequence[Data], of: Sequence[Data]) -> str:
    """Bounds of a rate."""
    return bounds(*clopper_pearson(len(some), len(of)), digits=0) if of else "none"
