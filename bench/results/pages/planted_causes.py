"""Whether a finding names what slows a victim, where that was put there."""

from __future__ import annotations

from collections.abc import Sequence

from contend.stats.quantiles import clopper_pearson
from results.files import Data
from results.words import bounds, table

LEAST = 0.90
"""Of the slowdown, by the first cause, where all of it is that cause's."""


def body(d: Data) -> str:
    """Counts by kind, then what was wrong, each."""
    rows = [row for row in d["rows"] if "failed" not in row]
    planted = [row for row in rows if row["kind"] != "nothing"]
    nulls = [row for row in rows if row["kind"] == "nothing"]
    slowed = [row for row in planted if row["named"]]
    right = [row for row in slowed if row["named"] == row["kind"]]
    shares = [row for row in right if within(row)]
    false = [row for row in nulls if named(row)]
    kinds = dict.fromkeys(row["kind"] for row in planted)
    head = ["planted", "draws", "slowed by what matters", "named first", "bounds", "share 90 % or more"]
    wrong = [
        [row["kind"], "{:.2f} [{:.2f}, {:.2f}]".format(*row["ratio"]), row["sentence"].partition(": ")[2]]
        for row in [*[row for row in slowed if row["named"] != row["kind"]], *false]
    ]
    text = f"""\
A victim and a neighbour share one thing, or nothing, and how much the victim does beside that is drawn. The neighbour is there
and not there in randomised turns ({d["blocks"]} blocks), so that all of the slowdown is that thing's.
A campaign may be stopped and go on: the head is of the count, when its last draw was there.

- **Named first**: {len(right)} of {len(slowed)} that were slowed by what matters (95 % bounds, Clopper–Pearson: {clopper(right, slowed)}).
- **Its share** was said to be 90 % or more in {len(shares)} of these {len(right)}.
- **Nothing planted**: in {len(false)} of {len(nulls)} draws something was named ({clopper(false, nulls)}).

{table(head, [line(kind, [row for row in planted if row["kind"] == kind]) for kind in kinds], "lrrrrr")}
"""
    return text + ("\n" + table(["planted", "slowdown", "said"], wrong, "lll") if wrong else "")


def line(kind: str, rows: Sequence[Data]) -> list[object]:
    """Counts of one kind."""
    slowed = [row for row in rows if row["named"]]
    right = [row for row in slowed if row["named"] == kind]
    shares = [row for row in right if within(row)]
    return [
        kind,
        len(rows),
        len(slowed),
        len(right),
        clopper(right, slowed),
        f"{len(shares)} of {len(right)}",
    ]


def within(row: Data) -> bool:
    """The share that is said is within 10 points of the whole."""
    return bool((row.get("first") or 0.0) >= LEAST)


def named(row: Data) -> bool:
    """A cause is named."""
    return row["named"] not in ("", "unexplained")


def clopper(some: Sequence[Data], of: Sequence[Data]) -> str:
    """Bounds of a rate."""
    return bounds(*clopper_pearson(len(some), len(of)), digits=0) if of else "none"
