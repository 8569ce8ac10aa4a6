"""Suspects that were planted, and what `contend prove` made of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from contend.stats.quantiles import clopper_pearson
from results.files import Data
from results.words import bounds, table

GUILTY = 1.10
"""A suspect that costs so much, by the lower bound of the truth."""
INNOCENT = ("sleeper", "elsewhere", "yields", "lock")

Row = dict[str, Any]


def body(d: Data) -> str:
    """Convictions and acquittals, by what the suspect did; how the costs agree; whom a watch names."""
    rows = judged(d)
    lines = [
        [
            kind,
            len(of),
            sum(row["verdict"] == "costs" for row in of),
            sum(row["watch_names"] for row in of),
            f"{statistics.median(row['truth'][0] for row in of):.2f} ×",
            f"{statistics.median(row['took_s'] for row in of):.0f} s",
        ]
        for kind in sorted({row["suspect"] for row in rows})
        if (of := [row for row in rows if row["suspect"] == kind])
    ]
    failed = sum("failed" in row for row in d["rows"])
    return f"""\
A victim (a service that logs, a batch, one that copies memory, nginx, redis, PostgreSQL, or a journal that waits for its fsyncs)
runs beside a suspect, both drawn by chance, and on one CPU unless it says otherwise below. What holding the suspect back brings is
measured by turns of the bench's own, half of them before and half after: the truth. In between `contend watch` looks on for ten
seconds, and `contend prove` has a minute.

A **sleeper** does nothing, **elsewhere** burns on another CPU, **yields** has a fiftieth of the weight already, a **lock** is held by
who uses no CPU: holding these back by weight brings nothing. A **burner** and **bursts** burn on the victim's CPU, a **writer** fills
the disk's queue, who **streams** copies memory on another CPU beside a victim that does too: a quota holds it back.

- Innocent, and convicted: {share([row for row in rows if row["suspect"] in INNOCENT], convicted)}.
- Guilty by the truth (it costs at least 10 %, by its lower bound), and convicted: {share(guilty(rows), convicted)}.
- Cost and truth agree within their 95 % intervals: {share([row for row in rows if row["cost"][1] is not None], agrees)}.
- A watch names an innocent (5 % or more of what the victim waited for others):
  {share([row for row in rows if row["suspect"] in INNOCENT], named)}; a guilty one: {share(guilty(rows), named)}.
- The victim's worst second, over its median as it is: with the suspect held back {worst(rows, 0)}; as it is {worst(rows, 1)}.
  The guard asked each nginx twice a second, and would have ended a run in which it did not answer within 500 ms for 2 s.

{len(rows)} draws were judged, {failed} failed, which `--json` told with a reason.

{table(["suspect", "draws", "convicted", "named by a watch", "truth, median", "time, median"], lines, "lrrrrr")}"""


def judged(d: Data) -> list[Row]:
    """Draws of which there is a verdict."""
    return [row for row in d["rows"] if "failed" not in row]


def guilty(rows: Sequence[Row]) -> list[Row]:
    """Draws whose suspect costs something by the truth."""
    return [row for row in rows if row["truth"][1] >= GUILTY]


def convicted(row: Row) -> bool:
    """True where prove says that the suspect costs something."""
    return bool(row["verdict"] == "costs")


def named(row: Row) -> bool:
    """True where a watch names the suspect."""
    return bool(row["watch_names"])


def agrees(row: Row) -> bool:
    """True where cost and truth differ by no more than both intervals together allow."""
    (cost, *of_cost), (truth, *of_truth) = row["cost"], row["truth"]
    halves = [math.log(high / low) / 2 for low, high in (of_cost, of_truth)]
    return abs(math.log(cost / truth)) <= math.hypot(*halves)


def worst(rows: Sequence[Row], at: int) -> str:
    """How many times its median the victim's worst second was."""
    times = sorted(row["worst"][at] for row in rows)
    return f"{statistics.median(times):.2f} × in the median draw, {times[-1]:.1f} × in the worst"


def share(rows: Sequence[Row], what: Any) -> str:
    """A count with its Clopper–Pearson bound."""
    if not rows:
        return "none were drawn"
    count = sum(what(row) for row in rows)
    return f"**{count} of {len(rows)}** (95 %: {bounds(*clopper_pearson(count, len(rows)))})"
