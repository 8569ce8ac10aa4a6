"""How often controls of the demo's cells alarm, and what is behind it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from contend.stats.compare import compare
from contend.stats.quantiles import clopper_pearson, t_quantile
from results.files import Data
from results.words import bounds, signed, table

CONTROL = " (control)"
ALARMS = 0.05
"""Expected of exact intervals at 95 %."""


def body(d: Data) -> str:
    """Alarms by victim; then what the first block and the time since the start do to a victim alone."""
    runs = [row for row in d["rows"] if "failed" not in row]
    primary = {c["victim"]: c["metric"] for row in runs for c in row["controls"] if c["primary"]}
    by_victim = [
        [
            victim,
            metric,
            *counted([control(row, victim) for row in runs], "alarm"),
            *without_first(runs, victim, metric),
        ]
        for victim, metric in primary.items()
    ]
    every = headline(d)
    low, high = clopper_pearson(sum(c["alarm"] for c in every), len(every))
    than = "more than" if low > ALARMS else "fewer than" if high < ALARMS else "no other than"
    drift = [
        [victim, first_block(runs, victim, metric), by_minute(runs, victim, metric)]
        for victim, metric in primary.items()
    ]
    which = [
        [victim, f"{number + 1}", "{:.4f} [{:.4f}, {:.4f}]".format(*control(row, victim)["ratio"])]
        for victim in primary
        for number, row in enumerate(runs)
        if control(row, victim)["alarm"]
    ]
    return f"""\
Each run is the demo's scenario in {d["blocks"]} blocks: its victims alone, again as their own control, and beside the first of its
neighbours. {len(d["rows"]) - len(runs)} runs failed.

{table(["victim", "metric", "runs", "alarms", "bounds", "without its first block"], by_victim, "llrrrr")}

Of all controls **{alarms(d)}** raised an alarm (95 %: {bounds(low, high, 1)}): {than} the 5 % that are expected of exact intervals.

**What drives them.** The first block over the others, of a victim alone; and how a victim's figure changes with the time since
the run began. Means over runs, with their 95 % intervals.

{table(["victim", "first block", "a minute"], drift, "lrr")}

{table(["victim", "run", "control / alone"], which, "lrr") if which else "No control raised an alarm."}"""


def alarms(d: Data) -> str:
    """How many controls of headline metrics raised an alarm, of how many."""
    every = headline(d)
    return f"{sum(c['alarm'] for c in every)} of {len(every)}"


def headline(d: Data) -> list[Data]:
    """The controls of headline metrics, of all runs."""
    return [c for row in d["rows"] if "failed" not in row for c in row["controls"] if c["primary"]]


def control(row: Data, victim: str) -> Data:
    """The headline metric's control of a victim."""
    return next(c for c in row["controls"] if c["victim"] == victim and c["primary"])


def counted(of: Sequence[Data], key: str) -> list[object]:
    """How many, of how many, and the bounds of that rate."""
    count = sum(bool(one[key]) for one in of)
    return [len(of), count, bounds(*clopper_pearson(count, len(of)), 0)]


def without_first(runs: Sequence[Data], victim: str, metric: str) -> list[object]:
    """Alarms of the same trials less those of the first block."""
    count = 0
    for row in runs:
        alone, again = (
            {
                t["block"]: t["values"][metric]
                for t in row["trials"]
                if t["cell"] == cell and metric in t["values"]
            }
            for cell in cells(victim)
        )
        later = sorted(set(alone) & set(again))[1:]
        count += compare([alone[b] for b in later], [again[b] for b in later]).differs
    return [count]


def cells(victim: str) -> tuple[str, str]:
    return f"{victim}|none", f"{victim}|none{CONTROL}"


def logs(row: Data, victim: str, metric: str) -> list[tuple[int, float, float]]:
    """Block, minutes since the start, and the logarithm of each counted trial of a victim alone: the pilot's come before."""
    last = {(t["cell"], t["block"]): t for t in row["trials"]}
    return [
        (t["block"], t["at_s"] / 60, math.log(t["values"][metric]))
        for t in last.values()
        if t["cell"] in cells(victim) and metric in t["values"]
    ]


def first_block(runs: Sequence[Data], victim: str, metric: str) -> str:
    """How much the first block differs from the others, in percent."""
    apart = []
    for row in runs:
        of = logs(row, victim, metric)
        least = min(block for block, *_ in of)
        parts = [[value for block, _, value in of if (block == least) == first] for first in (True, False)]
        apart.append(statistics.fmean(parts[0]) - statistics.fmean(parts[1]))
    return mean(apart)


def by_minute(runs: Sequence[Data], victim: str, metric: str) -> str:
    """The slope over the time since the start, in percent a minute."""
    slopes = []
    for row in runs:
        _, minutes, values = zip(*logs(row, victim, metric), strict=True)
        slopes.append(statistics.linear_regression(minutes, values).slope)
    return mean(slopes)


def mean(of: Sequence[float]) -> str:
    """A mean of logarithms in percent, with its interval."""
    centre = statistics.fmean(of)
    half = (
        t_quantile(0.975, len(of) - 1) * statistics.stdev(of) / math.sqrt(len(of))
        if len(of) > 1
        else math.inf
    )
    return " to ".join(f"{signed(100 * math.expm1(v))} %" for v in (centre - half, centre + half))
