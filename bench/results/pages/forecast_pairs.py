"""Pairs of ten workloads, forecast and measured."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from results.files import Data
from results.words import bounds, pct, table

SLOWED = 1.10
"""Pairs that are really slowed by so much are judged."""
DRAWS, SEED = 2000, 1
LEVEL = 0.95
SHUFFLES = 500
TOGETHER, MEETINGS = 0.01, 8
"""A product of two logarithms from which on two resources are said to meet, and in so many pairs at least."""

Floats = npt.NDArray[np.float64]


def body(d: Data) -> str:
    """Errors over all and by workload, what measuring itself leaves open, intervals, and packing."""
    pairs = [pair for pair in d["pairs"] if pair["measured"] and pair["measured"][0] and pair["predicted"][0]]
    slowed = [pair for pair in pairs if pair["measured"][0] >= SLOWED]
    held = [pair for pair in slowed if pair["held_out"]]
    names = d["workloads"]
    head = [
        "of the slowdown",
        "pairs",
        "median error",
        "95 % bounds",
        "p90",
        "95 % bounds",
        "median, of the slowdown",
    ]
    lines = [
        errors("curves and probes", slowed, names, lambda pair: points(pair, pair["predicted"][0])),
        errors("the same, pairs held out", held, names, lambda pair: points(pair, pair["predicted"][0])),
        errors(
            "row and column, pairs held out",
            [pair for pair in held if pair["additive"]],
            names,
            lambda pair: points(pair, pair["additive"]),
        ),
        errors("measuring alone", [pair for pair in slowed if pair["error"]], names, chance),
    ]
    by_workload = [
        [
            name,
            *(
                f"{shown(of)} of {len(of)}" if of else "none"
                for of in (
                    [points(pair, pair["predicted"][0]) for pair in slowed if pair[end] == name]
                    for end in ("victim", "neighbour")
                )
            ),
        ]
        for name in names
    ]
    worst = sorted(slowed, key=lambda pair: -points(pair, pair["predicted"][0]))[:8]
    wrong = [
        [
            pair["victim"],
            pair["neighbour"],
            of(pair["predicted"]),
            of(pair["measured"]),
            ", ".join(f"{name} {part:.2f}" for name, part in pair["parts"].items() if part > 1.02),
        ]
        for pair in worst
    ]
    return f"""\
Ten workloads, on one CPU in turns of two. What is predicted of a pair comes from the victim's curves under injectors and from the
neighbour's pressures on probes, in {d["blocks"]} blocks; no measured pair is in it. {len(slowed)} of {len(pairs)} pairs with a figure were slowed by 10 % and more.
Bounds are of a bootstrap that draws workloads, each with all its pairs. The head of this page, its load too, is of the moment in
which the run was judged; what disturbed the run itself is in the flags of its trials, which are kept: {", ".join(f"{name} {count}" for name, count in d["flags"].items()) or "none"}.

{table(head, lines, "lrrrrrr")}

*Measuring alone*: what the median error would be if every prediction were true, by the standard errors of the measured slowdowns
over blocks. Errors are in points of the slowdown: at 2.5×, 5 points are 2 %.

**Intervals**: {held_text(slowed, names)}

**Errors by workload** (median, points):

{table(["workload", "as a victim", "as a neighbour"], by_workload, "lrr")}

**Where errors come from.** The squared error of the logarithm, and how much of it a linear model of each of these would take away.
*By chance*: 95 % of models with that many figures that mean nothing (shuffled, {SHUFFLES} times) take away no more.

{explained(slowed, names)}

The product of two parts of a prediction is what probes of two resources at once could add. No pair of resources takes away more
than {pct(most_together(slowed))} of it: what is wrong is mostly how hard a neighbour presses, not that two resources meet.

**The largest errors**, with what each resource alone was to make:

{table(["victim", "beside", "predicted", "measured", "by"], wrong, "llrrl")}

**Packing** by measured pairs: mean slowdown of a workload where two tables choose who goes together, at best, and at random.
Of more than two on a host pairs are multiplied, which nobody measured.

{packing(d["packing"])}
"""


def explained(pairs: Sequence[Data], names: Sequence[str]) -> str:
    """Parts of the squared error that workloads, measuring, and two resources at once account for."""
    residuals = np.array([math.log(pair["measured"][0] / pair["predicted"][0]) for pair in pairs])
    whole = float(np.mean(residuals**2))
    noise = [pair["error"] ** 2 for pair in pairs if pair["error"]]
    lines = [["measuring itself", "", pct(statistics.fmean(noise) / whole), ""]]
    for end in ("victim", "neighbour"):
        columns = np.array([[pair[end] == name for name in names] for pair in pairs], dtype=float)
        lines.append([f"who the {end} is", str(len(names)), *against_chance(columns, residuals)])
    lines += [
        [" × ".join(two), "1", *against_chance(products(pairs, two), residuals)]
        for two in resources_together(pairs)
    ]
    return table(["of", "figures", "taken away", "by chance"], lines, "lrrr")


def resources_together(pairs: Sequence[Data]) -> list[tuple[str, str]]:
    """Two resources that both slow somebody in enough pairs to tell."""
    names = sorted({name for pair in pairs for name in pair["parts"]})
    return [
        two
        for two in itertools.combinations(names, 2)
        if int((products(pairs, two) > TOGETHER).sum()) >= MEETINGS
    ]


def products(pairs: Sequence[Data], two: tuple[str, str]) -> Floats:
    """What each pair's parts by two resources come to together, in logarithms: a column."""
    parts = [[math.log(max(pair["parts"].get(name, 1.0), 1.0)) for name in two] for pair in pairs]
    return np.array(parts).prod(axis=1, keepdims=True)


def most_together(pairs: Sequence[Data]) -> float:
    """The most that one product of two resources takes away."""
    residuals = np.array([math.log(pair["measured"][0] / pair["predicted"][0]) for pair in pairs])
    return max((taken(products(pairs, two), residuals) for two in resources_together(pairs)), default=0.0)


def taken(columns: Floats, residuals: Floats) -> float:
    """The part of a squared error that a linear model takes away."""
    fit, *_ = np.linalg.lstsq(columns, residuals, rcond=None)
    return 1 - float(np.sum((residuals - columns @ fit) ** 2) / np.sum(residuals**2))


def against_chance(columns: Floats, residuals: Floats) -> list[str]:
    """What is taken away, and what is with shuffled figures."""
    rng = np.random.default_rng(SEED)
    shuffled = [taken(rng.permutation(columns), residuals) for _ in range(SHUFFLES)]
    return [pct(taken(columns, residuals)), pct(float(np.quantile(shuffled, LEVEL)))]


def points(pair: Data, predicted: float) -> float:
    return 100 * abs(predicted - float(pair["measured"][0]))


def chance(pair: Data) -> float:
    """Median error, in points, of a true prediction: the quartile of the normal distribution."""
    return 100 * float(pair["measured"][0]) * 0.6745 * float(pair["error"])


def errors(
    name: str, pairs: Sequence[Data], names: Sequence[str], of: Callable[[Data], float]
) -> list[object]:
    if not pairs:
        return [name, 0, "", "", "", "", ""]
    values = [of(pair) for pair in pairs]
    logs = [of(pair) / 100 / pair["measured"][0] for pair in pairs]
    rng = random.Random(SEED)
    drawn: list[tuple[float, float]] = []
    for _ in range(DRAWS):
        weight = dict.fromkeys(names, 0)
        for one in rng.choices(names, k=len(names)):
            weight[one] += 1
        again = [
            value
            for pair, value in zip(pairs, values, strict=True)
            for _ in range(weight[pair["victim"]] * weight[pair["neighbour"]])
        ]
        if again:
            drawn.append((statistics.median(again), p90(again)))
    cuts = [
        tuple(sorted(one[of_] for one in drawn)[round(cut * (len(drawn) - 1))] for cut in (0.025, 0.975))
        for of_ in (0, 1)
    ]
    shown_cuts = [f"{low:.1f} – {high:.1f}" for low, high in cuts]
    return [
        name,
        len(pairs),
        f"{statistics.median(values):.1f}",
        shown_cuts[0],
        f"{p90(values):.1f}",
        shown_cuts[1],
        pct(statistics.median(logs), 1),
    ]


def p90(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, math.ceil(0.9 * len(values)) - 1)]


def held_text(pairs: Sequence[Data], names: Sequence[str]) -> str:
    """How many intervals hold: those of the run, of pairs held out; and those that other workloads' pairs teach."""
    from contend.stats.quantiles import clopper_pearson

    own = [pair for pair in pairs if pair["held_out"] and pair["predicted"][1] is not None]
    inside = [pair for pair in own if pair["predicted"][1] <= pair["measured"][0] <= pair["predicted"][2]]
    left_out = taught = 0
    for name in names:
        apart = [pair for pair in pairs if name not in (pair["victim"], pair["neighbour"])]
        mine = [pair for pair in pairs if name in (pair["victim"], pair["neighbour"])]
        scores = sorted(map(miss, apart))
        rank = math.ceil((len(scores) + 1) * LEVEL)
        if rank > len(scores):
            continue
        left_out += len(mine)
        taught += sum(miss(pair) <= scores[rank - 1] for pair in mine)
    text = (
        f"of the held-out pairs {len(inside)} of {len(own)} lie in the run's"
        f" ({bounds(*clopper_pearson(len(inside), len(own)), digits=0)})"
        if own
        else "there are none"
    )
    if left_out:
        text += f"; where a workload's pairs are judged by an interval that the pairs of all others teach, {taught} of {left_out}"
    return f"{text}."


def miss(pair: Data) -> float:
    return abs(math.log(pair["predicted"][0] / pair["measured"][0]))


def shown(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f}"


def of(bounds_: Sequence[float | None]) -> str:
    value, low, high = bounds_
    if value is None:
        return "none"
    return f"{value:.2f}" if low is None or high is None else f"{value:.2f} [{low:.2f}, {high:.2f}]"


def packing(rows: Sequence[Data]) -> str:
    head = ["hosts", "by the forecast", "by row and column", "best", "at random", "regret of the forecast"]
    lines = [
        [
            row["hosts"],
            f"{row['forecast']:.2f}" if "forecast" in row else "none",
            f"{row['additive']:.2f}" if "additive" in row else "none",
            f"{row['best']:.2f}{'' if row['exact'] else ' (searched)'}",
            f"{row['random']:.2f}",
            pct((row["forecast"] - row["best"]) / (row["random"] - row["best"]))
            if "forecast" in row
            else "none",
        ]
        for row in rows
    ]
    return table(head, lines, "rrrrrr")
