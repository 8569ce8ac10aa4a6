"""A victim beside two neighbours, by what it is beside each."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from contend.stats.quantiles import clopper_pearson
from results.files import Data
from results.words import bounds, pct, table

Rule = Callable[[float, float], float]
RULES: dict[str, Rule] = {
    "product of both": lambda a, b: a * b,
    "sum of both, less one": lambda a, b: a + b - 1,
    "the larger of both": max,
}


def body(d: Data) -> str:
    """Errors by rule, and every triple."""
    rows = [
        of
        for row in d["rows"]
        for of in row.get("victims", ())
        if all(bound is not None for three in (*of["each"], of["both"]) for bound in three)
    ]
    failed = sum("failed" in row for row in d["rows"])
    lines = [line(name, rule, rows) for name, rule in RULES.items()]
    better = [
        of for of in rows if error(RULES["sum of both, less one"], of) < error(RULES["product of both"], of)
    ]
    every = [
        [
            of["victim"],
            *of["beside"],
            *(f"{three[0]:.2f}" for three in of["each"]),
            "{:.2f} [{:.2f}, {:.2f}]".format(*of["both"]),
        ]
        + [f"{rule(*values(of)):.2f}" for rule in RULES.values()]
        for of in sorted(rows, key=lambda of: -float(of["both"][0]))
    ]
    return f"""\
Three workloads on one CPU, in {d["blocks"]} blocks: each alone, beside each of the others, and beside both. {failed} runs failed.
What a rule makes of the two slowdowns beside one is held against the slowdown beside both.

{table(["rule", "victims", "inside the measured interval", "median error", "largest error", "bias"], lines, "lrrrrr")}

Errors and bias are of the logarithm. The sum is nearer than the product in {len(better)} of {len(rows)}
({bounds(*clopper_pearson(len(better), len(rows)), 0)}).

{table(["victim", "beside", "and", "first", "second", "both", *RULES], every, "lllrrrrrr")}"""


def values(of: Data) -> tuple[float, float]:
    """The slowdowns beside each."""
    first, second = of["each"]
    return first[0], second[0]


def off(rule: Rule, of: Data) -> float:
    return math.log(rule(*values(of)) / of["both"][0])


def error(rule: Rule, of: Data) -> float:
    return abs(off(rule, of))


def line(name: str, rule: Rule, rows: Sequence[Data]) -> list[object]:
    """Errors of one rule."""
    errors = [error(rule, of) for of in rows]
    inside = sum(of["both"][1] <= rule(*values(of)) <= of["both"][2] for of in rows)
    bias = statistics.median(off(rule, of) for of in rows)
    return [name, len(rows), inside, pct(statistics.median(errors)), pct(max(errors)), f"{100 * bias:+.0f} %"]
