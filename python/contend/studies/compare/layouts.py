"""Layouts of programs in memory: how much they alone make of a difference, and instructions as a second witness.

Two builds of one program differ by several per cent by the order in which it was linked, the size of its environment and
where its stack begins (Mytkowicz et al., "Producing wrong data without doing anything obviously wrong!", ASPLOS 2009;
Curtsinger & Berger, "Stabilizer", ASPLOS 2013). So trials run with layouts drawn by chance, and the answer says what these
make alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from contend.document import CellResult
from contend.store.directory import Row
from contend.text.shape import Count, Limits, Shape

LAYOUTS = 4
"""Layouts that trials are drawn from: environments of different sizes, and of commands that are built each linked in an
order of its own. So few that fifteen blocks have several trials of each."""
LEAST = 3
"""Layouts with several trials, of which a spread can be told."""
DRAWS, SEED = 999, 1
MOST_P = 0.05
SAME = 0.01
"""Relative difference of instructions up to which two commands execute the same, but for a little."""


@dataclass(frozen=True, slots=True)
class Layouts(Shape):
    """Differences that layouts alone make of a program's headline metric."""

    count: Annotated[Count, "that trials were drawn from"]
    linked: Annotated[bool, "each was linked in an order of its own"]
    addresses: Annotated[bool, "the kernel places stacks and libraries at addresses drawn for each process"]
    spread: Annotated[
        float | None,
        Limits(minimum=0),
        "relative standard deviation of a program's value over layouts, without that of its trials; null of too few",
    ]
    p: Annotated[
        float | None, Limits(minimum=0, maximum=1), "of a spread so large if layouts made no difference"
    ]


@dataclass(frozen=True, slots=True)
class Instructions(Shape):
    """Instructions that one run of a variant executed in user mode."""

    variant: str
    count: Annotated[float | None, "null where nobody could count them"]
    by: Annotated[str, "perf (counters of the processor), valgrind, or why there are none"]


@dataclass(frozen=True, slots=True)
class Witnesses(Shape):
    """Facts beside the times of two commands."""

    layouts: Layouts | None
    instructions: tuple[Instructions, ...]


def spread(sides: Iterable[Sequence[tuple[int, float]]]) -> tuple[float, float] | None:
    """Relative standard deviation between layouts, of the (layout, value) of each side: a one-way analysis of variance of
    the logs, within sides; and the probability of one so large if layouts made no difference, by exchanging values within
    sides. None where no side has three layouts with two values each.

    >>> level = [(0, 1.00), (0, 1.01), (1, 1.00), (1, 1.01), (2, 1.00), (2, 1.01)]
    >>> spread([level])[0]
    0.0
    >>> wide, p = spread([[(k // 4, 1.0 + 0.1 * (k // 4) + 0.001 * (k % 4)) for k in range(16)]])
    >>> round(wide, 2), p < 0.01
    (0.11, True)
    """
    kept = []
    for side in sides:
        groups: dict[int, list[float]] = {}
        for layout, value in side:
            groups.setdefault(layout, []).append(math.log(value))
        several = {layout: of for layout, of in groups.items() if len(of) > 1}
        if len(several) >= LEAST:
            labels = np.repeat(np.arange(len(several)), [len(of) for of in several.values()])
            kept.append((np.concatenate(list(several.values())), labels))
    if not kept:
        return None
    rng = np.random.default_rng(SEED)
    between, ratio = _variance(kept)
    larger = sum(
        _variance([(rng.permutation(values), labels) for values, labels in kept])[1] >= ratio
        for _ in range(DRAWS)
    )
    return math.sqrt(between), (1 + larger) / (1 + DRAWS)


def _variance(sides: Sequence[tuple[NDArray[np.float64], NDArray[np.int64]]]) -> tuple[float, float]:
    """Variance between groups without that of values in them, over all sides, and the ratio of mean squares (F)."""
    between = within = each = 0.0
    groups = values_in = 0
    for values, labels in sides:
        sizes = np.bincount(labels)
        means = np.bincount(labels, values) / sizes
        between += float(sizes @ (means - values.mean()) ** 2)
        within += float(np.sum((values - means[labels]) ** 2))
        each += len(values) - float(sizes @ sizes) / len(values)
        groups, values_in = groups + len(sizes) - 1, values_in + len(values) - len(sizes)
    square = within / values_in
    return max(0.0, (between - groups * square) / each), between / groups / max(square, 1e-18)


def read(
    rows: Sequence[Row], metric: str, *, linked: bool, addresses: bool, events: Iterable[Mapping[str, Any]]
) -> Witnesses:
    """Read what rows say of layouts, and events of instructions."""
    by_cell: dict[str, list[tuple[int, float]]] = {}
    count = 0
    for row in rows:
        if "layout" not in row or row["status"] != "ok":
            continue
        count = max(count, int(row["layouts"]))
        value = next((float(m["value"]) for m in row["metrics"] if m["name"] == metric), 0.0)
        if value > 0:
            by_cell.setdefault(str(row["cell"]), []).append((int(row["layout"]), value))
    layouts = None
    if count:
        known = spread(by_cell.values())
        over, p = (None, None) if known is None else known
        layouts = Layouts(count, linked, addresses, over, p)
    counted = {
        event["variant"]: Instructions(event["variant"], event["count"], event["by"])
        for event in events
        if event.get("event") == "instructions"
    }
    return Witnesses(layouts, tuple(counted.values()))


def words(witnesses: Witnesses, result: CellResult | None, baseline: str) -> str:
    """Sentences on what layouts and instructions say of the headline's difference; "" where they say nothing.

    result: of the other variant against `baseline`.
    """
    sentences = []
    counts = {one.variant: one.count for one in witnesses.instructions}
    first = counts.get(baseline)
    second = counts.get(result.factors["variant"]) if result is not None else None
    more = second / first - 1 if first and second else None
    layouts = witnesses.layouts
    if layouts is not None:
        sentences.append(_alone(layouts, result))
    if layouts is not None and not layouts.addresses:
        sentences.append(
            "This kernel draws no addresses (kernel.randomize_va_space): libraries lie where they always do."
        )
    if more is not None:
        sentences.append(f"It executes {_more(more)} instructions.")
        moved = result is not None and result.estimate.verdict in ("higher", "lower")
        if moved and result is not None and abs(more) < SAME < abs(math.log(result.estimate.value)):
            sentences.append(
                "Time moved and instructions did not: suspect layout, caches or what it waits for."
            )
    sentences += [
        f"Instructions were not counted: {one.by}." for one in witnesses.instructions[:1] if one.count is None
    ]
    return " ".join(sentences)


def _alone(layouts: Layouts, result: CellResult | None) -> str:
    """A sentence on what layouts alone make."""
    if layouts.spread is None:
        return "What layouts alone make is not known: too few trials of each."
    if not layouts.spread or layouts.p is None or layouts.p > MOST_P:
        return "Layouts alone make no difference that these trials show."
    alone = math.sqrt(2) * layouts.spread  # two builds have a layout each
    text = f"Layouts alone make two builds of one program differ by {_percent(alone)} (standard deviation)"
    moved = result is not None and result.estimate.verdict in ("higher", "lower")
    if moved and result is not None and abs(math.log(result.estimate.value)) < alone:
        text += ": no less than this difference, which so may be no change of the code"
    return f"{text}."


def _percent(part: float) -> str:
    return f"{part * 100:.2g} %"


def _more(part: float) -> str:
    """
    >>> _more(0.031), _more(-0.5), _more(0.0001)
    ('3.1 % more', '50 % fewer', 'as many')
    """
    if abs(part) < 0.0005:
        return "as many"
    return f"{_percent(abs(part))} {'more' if part > 0 else 'fewer'}"
