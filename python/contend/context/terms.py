"""Shares of the parts of a whole, the effect of another variant on each, and their sums, with intervals.

A share is measured in the storms, or is how many a boot makes times what one costs in the run. Centres and intervals are
those of `contend.stats.joint`: storms are drawn anew, and blocks, each with all that was measured in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from contend.context.costs import Costs
from contend.document.context import Share
from contend.stats.estimate import Estimate
from contend.stats.joint import joint

Floats = npt.NDArray[np.float64]


class Term(NamedTuple):
    """One part. x: one value a storm, its share, or with `cost` how many of these a CPU second (or second) of the whole
    has. metric: whose ratio is the part's; "" where the run does not tell. on_top: it is not in what was measured of the
    storm, and comes to the whole."""

    what: str
    how: str
    bound: str
    x: Floats
    cost: str
    metric: str
    on_top: bool = False


def shares(costs: Costs, terms: Sequence[Term]) -> tuple[Share, ...]:
    """The share of each of some parts of one whole."""
    return tuple(
        Share(
            term.what,
            term.how,
            term.bound,
            bool(term.metric),
            _figure(costs, costs.baseline, terms, _only(at), "fraction", None),
        )
        for at, term in enumerate(terms)
    )


def share(costs: Costs, terms: Sequence[Term]) -> Estimate:
    """The share of all these parts together, a fraction of the whole."""
    return _figure(costs, costs.baseline, terms, lambda parts, _: sum(parts), "fraction", None)


def effect(costs: Costs, variant: str, terms: Sequence[Term]) -> Estimate:
    """The change of the whole by a variant, a fraction: Σ share × (ratio - 1), below 0 where the variant saves."""

    def of(parts: Sequence[Floats], changes: Sequence[Floats]) -> Any:
        return sum(part * change for part, change in zip(parts, changes, strict=True))

    return _figure(costs, variant, terms, of, "fraction", 0.0)


def cost(costs: Costs, variant: str, terms: Sequence[Term]) -> Estimate:
    """The cost of all these parts by a variant over that by the baseline, as this whole spends it: 1 + effect / share."""

    def of(parts: Sequence[Floats], changes: Sequence[Floats]) -> Any:
        return 1 + sum(part * change for part, change in zip(parts, changes, strict=True)) / sum(parts)

    return _figure(costs, variant, terms, of, "ratio", 1.0)


def effect_of(costs: Costs, variant: str, terms: Sequence[Term], share: float) -> Estimate:
    """The change of the whole by a variant, a fraction, where all these parts together are `share` of it."""

    def of(parts: Sequence[Floats], changes: Sequence[Floats]) -> Any:
        return share * sum(part * change for part, change in zip(parts, changes, strict=True)) / sum(parts)

    return _figure(costs, variant, terms, of, "fraction", 0.0)


def _only(at: int) -> Callable[[Sequence[Floats], Sequence[Floats]], Any]:
    return lambda parts, _: parts[at]


def metrics_of(terms: Sequence[Term]) -> list[str]:
    """Metrics of the run that these terms need, each once."""
    return list(dict.fromkeys(name for term in terms for name in (term.cost, term.metric) if name))


def _figure(
    costs: Costs,
    variant: str,
    terms: Sequence[Term],
    of: Callable[[Sequence[Floats], Sequence[Floats]], Any],
    unit: str,
    null: float | None,
) -> Estimate:
    """`of` the parts' shares of the whole, and of what changes in each, ratio - 1."""
    needed = metrics_of(terms)
    where = {metric: at for at, metric in enumerate(needed)}

    def figure(x: Floats, y: Floats) -> Floats:
        raw = [
            x[..., at] * (np.exp(y[..., where[term.cost]]) if term.cost else 1.0)
            for at, term in enumerate(terms)
        ]
        more = sum(part for part, term in zip(raw, terms, strict=True) if term.on_top)
        changes = [
            np.expm1(y[..., len(needed) + where[term.metric]]) if term.metric else np.zeros(())
            for term in terms
        ]
        combined: Floats = of([part / (1 + more) for part in raw], changes)
        return combined

    storms = np.stack([term.x for term in terms], axis=1)
    if null is None and not any(term.cost for term in terms):  # nothing of the run is in it
        nothing = np.zeros(2 * len(needed))
        return joint([storms], lambda x: figure(x, nothing), unit=unit, level=costs.level, seed=costs.seed)
    logs = costs.both(variant, *needed)
    base = logs[:, : len(needed)]
    # Ratios within blocks: what a block has in common goes.
    blocks = np.hstack([base, logs[:, len(needed) :] - base])
    return joint(
        [storms, blocks],
        figure,
        unit=unit,
        null=null,
        matters=costs.matters,
        level=costs.level,
        seed=costs.seed,
    )
