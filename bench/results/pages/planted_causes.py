"""Names of causes that were planted, and their shares."""

from __future__ import annotations

from collections.abc import Sequence

from causes.planted import KINDS
from contend.stats.quantiles import clopper_pearson
from results.files import Data
from results.words import bounds, table

LEAST = 0.90
"""Of the slowdown, by the first cause, where all of it is that cause's."""
RULED_AFTER = 507
"""Draws from which the last rule was learnt; those since then test it."""
WITHIN = 0.10
"""Of two, a share is right that is no further from what removing it gives."""


def body(d: Data) -> str:
    """Counts by kind, then two at once, then what was wrong, each."""
    rows = [row for row in d["rows"] if "failed" not in row]
    nulls = [row for row in rows if row["kinds"] == ["nothing"]]
    pairs = [row for row in rows if len(row["kinds"]) > 1]
    planted = [row for row in rows if row not in nulls and row not in pairs]
    slowed = [row for row in planted if is_slowed(row)]
    right = [row for row in slowed if is_right(row)]
    shares = [row for row in right if row["beside"][0]["causes"][0][1] >= LEAST]
    reach = [row for row in right if is_reached(row)]
    right_since = [row for row in rows[RULED_AFTER:] if row in right]
    since = [row for row in right_since if row in shares]
    false = [row for row in nulls if row["beside"][0]["causes"]]
    alarms = [row for row in rows if row["alarm"]]
    kinds = [kind for kind in KINDS if any(row["kinds"] == [kind] for row in planted)]
    head = [
        "planted",
        "name",
        "draws",
        "slowed by what matters",
        "named first",
        "bounds",
        "share 90 % or more",
        "interval reaches 90 %",
    ]
    lines = [line(kind, [row for row in planted if row["kinds"] == [kind]]) for kind in kinds]
    wrong = [
        [
            " + ".join(row["kinds"]),
            "{:.2f} [{:.2f}, {:.2f}]".format(*row["beside"][-1]["ratio"]),
            row["beside"][-1]["sentence"].partition(": ")[2],
        ]
        for row in [*[row for row in slowed if not is_right(row)], *false]
    ]
    absent = f" Not planted, since this host cannot: {', '.join(d['absent'])}." if d["absent"] else ""
    failed = len(d["rows"]) - len(rows)
    text = f"""\
A victim and a neighbour share one thing, two, or nothing, and how much the victim does beside that is drawn. The neighbour is
there and not there in randomised turns ({d["blocks"]} blocks), so that all of the slowdown is that thing's.{absent} Stolen time,
the CPU's frequency, its caches and memory bandwidth cannot be planted here, and are not counted. {failed} runs failed.
A campaign may be stopped and go on: the head is of the count, when its last draw was there.

- **Named first**: {len(right)} of {len(slowed)} that were slowed by what matters (95 % bounds, Clopper–Pearson: {clopper(right, slowed)}).
- **Its share** was said to be 90 % or more in {len(shares)} of these {len(right)} ({clopper(shares, right)}). The rule on waits for a CPU that follow other
  waits was written after {RULED_AFTER} draws, from these: of the draws since, in {len(since)} of {len(right_since)} ({clopper(since, right_since)}). Its interval reaches 90 % in
  {len(reach)} of {len(right)} ({clopper(reach, right)}): trials differ, and so few do not tell a share better.
- **Nothing planted**: in {len(false)} of {len(nulls)} draws something was named ({clopper(false, nulls)}).
- **Controls**: in {len(alarms)} of {len(rows)} runs the victim's A/A control raised an alarm ({clopper(alarms, rows)}).

{table(head, lines, "llrrrrrr")}

{of_pairs(pairs)}"""
    return text + ("\n" + table(["planted", "slowdown", "said"], wrong, "lll") if wrong else "")


def of_pairs(pairs: Sequence[Data]) -> str:
    """Two at once: the share of each against what removing it gives, and what planting it alone does."""
    if not pairs:
        return ""
    lines, held, shares = [], 0, 0
    for row in pairs:
        first, second, both = (one["ratio"][0] for one in row["beside"])
        by_name = {name: share for name, share, *_ in row["beside"][-1]["causes"] or ()}
        if both <= 1:
            continue
        for kind, alone, other in zip(row["kinds"], (first, second), (second, first), strict=True):
            removed, added = ((both - other) / (both - 1), (alone - 1) / (both - 1))
            share = by_name.get(KINDS[kind].named, 0.0)
            low, high = sorted((removed, added))
            is_within = low - WITHIN <= share <= high + WITHIN
            held, shares = held + is_within, shares + 1
            numbers = [f"{value:.0%}" for value in (removed, added, share)]
            lines.append(
                [" + ".join(row["kinds"]), f"{both:.2f}", kind, *numbers, "yes" if is_within else "no"]
            )
    head = ["planted", "slowdown", "of it", "less without it", "alone", "said", "between, ± 10"]
    return f"""\
**Two at once**, of different names: what both cost is no sum (a queue hides behind the other). Removing one gives its last part, planting it alone its
first; a share is right between the two, give or take 10 points: {held} of {shares}.

{table(head, lines, "lrlrrrl")}
"""


def named_first(d: Data) -> str:
    """Count the draws of one cause that slowed the victim by what matters, and those of them whose cause was named first."""
    slowed = [row for row in d["rows"] if "failed" not in row and alone(row) and is_slowed(row)]
    return f"{sum(map(is_right, slowed))} of {len(slowed)}"


def named_falsely(d: Data) -> str:
    """Count the draws with nothing planted, and those of them in which a cause was named."""
    nulls = [row for row in d["rows"] if "failed" not in row and row["kinds"] == ["nothing"]]
    return f"{sum(bool(row['beside'][0]['causes']) for row in nulls)} of {len(nulls)}"


def alone(row: Data) -> bool:
    """One thing is planted."""
    return len(row["kinds"]) == 1 and row["kinds"] != ["nothing"]


def line(kind: str, rows: Sequence[Data]) -> list[object]:
    """Counts of one kind."""
    slowed = [row for row in rows if is_slowed(row)]
    right = [row for row in slowed if is_right(row)]
    shares = [row for row in right if row["beside"][0]["causes"][0][1] >= LEAST]
    return [
        kind,
        KINDS[kind].named,
        len(rows),
        len(slowed),
        len(right),
        clopper(right, slowed),
        f"{len(shares)} of {len(right)}",
        f"{sum(map(is_reached, right))} of {len(right)}",
    ]


def is_slowed(row: Data) -> bool:
    """There is a finding."""
    return row["beside"][0]["causes"] is not None


def is_reached(row: Data) -> bool:
    """The interval of the first cause's share reaches what is planted, all but 10 points."""
    _, share, _, high = row["beside"][0]["causes"][0]
    return bool((share if high is None else high) >= LEAST)


def is_right(row: Data) -> bool:
    """Its first cause is the planted one."""
    causes = row["beside"][0]["causes"]
    return bool(causes) and causes[0][0] == KINDS[row["kinds"][0]].named


def clopper(some: Sequence[Data], of: Sequence[Data]) -> str:
    """Bounds of a rate."""
    return bounds(*clopper_pearson(len(some), len(of)), digits=0) if of else "none"
