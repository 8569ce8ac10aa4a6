"""How a figure changes with what it is measured beside: a call's latency against the number of entities there are.

The unit is a visit: the population stands still, a call is made several times, their median counts once. A population
that only grows grows with time, and so does whatever drifts; so it is visited on the way up and on the way down, time is
a column of the regression, and so is the control: a call of the same service that does not look at entities, made
between the others in the same visit. What is left of it in neighbouring visits widens the interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from contend.errors import BadInput
from contend.stats.estimate import MATTERS, Estimate, verdict_of_difference
from contend.stats.quantiles import t_quantile
from contend.stats.scaling import crossing

Floats = npt.NDArray[np.float64]
Shape = Literal["flat", "undecided", "linear", "worse than linear", "less than linear", "shrinks"]

SHAPES: tuple[str, ...] = get_args(Shape)

FURTHEST = 4.0
"""A trend is followed up to so many times the largest population that was visited."""
PER = 100.0
"""Slopes are told for so many entities."""
METHOD = "relative least squares over visits, beside control and time; Student's t, widened for neighbours' likeness"

_LEAST_VISITS, _LEAST_POPULATIONS = 5, 3
_FOR_CONTROL, _FOR_TIME = 9, 10  # visits from which on a column more can be afforded
_FOR_BEND = 8
_FLOOR = 0.05  # of the largest value: what is nought would have all the weight
_ROUNDS = 50
_EXACT = 1e-9  # relative: what arithmetic leaves of values that are all the same
_MOST_LIKENESS = 0.9


@dataclass(frozen=True, slots=True)
class Visit:
    """One population, visited once. value: of the call, > 0; control: of the control call there, 0 for none; at_s: when;
    series: the pass it belongs to, whose visits are in the order of time."""

    population: float
    value: float
    control: float = 0.0
    at_s: float = 0.0
    series: str = ""


@dataclass(frozen=True)
class _Fit:
    """value = beta[0] + beta[1] * population (+ beta[2] * population²) where all other columns are at their mean."""

    beta: Floats
    covariance: Floats
    freedom: int
    likeness: float
    terms: int  # of the population: 2, or 3 with its square

    def row(self, population: float) -> Floats:
        terms = np.zeros(len(self.beta))
        terms[: self.terms] = [population**power for power in range(self.terms)]
        return terms

    def value_at(self, population: float) -> float:
        return float(self.row(population) @ self.beta)

    def error_at(self, population: float) -> float:
        """Standard error of the curve there."""
        row = self.row(population)
        return math.sqrt(max(0.0, float(row @ self.covariance @ row)))


@dataclass(frozen=True)
class Trend:
    """A trend over populations. Made by `trend`."""

    visits: tuple[Visit, ...]
    unit: str
    level: float
    matters: float
    _straight: _Fit
    _bent: _Fit | None

    @property
    def n(self) -> int:
        return len(self.visits)

    @cached_property
    def largest(self) -> float:
        return max(visit.population for visit in self.visits)

    @cached_property
    def slope(self) -> Estimate:
        """Estimated increase for PER entities more."""
        return self.slope_at(self.level)

    def slope_at(self, level: float) -> Estimate:
        """The slope with an interval of another level: for verdicts on many calls together."""
        fit = self._straight
        value, error = float(fit.beta[1]), math.sqrt(fit.covariance[1, 1])
        half = t_quantile((1 + level) / 2, fit.freedom) * error
        low, high = (value - half) * PER, (value + half) * PER
        verdict = verdict_of_difference(low, high, self._unnoticed)
        return Estimate(value * PER, low, high, f"{self.unit} per {PER:g}", self.n, level, METHOD, verdict)

    @cached_property
    def bend(self) -> Estimate | None:
        """The gain of the slope for PER entities with every PER more; None where the visits are too few."""
        fit = self._bent
        if fit is None:
            return None
        value, error = 2 * float(fit.beta[2]), 2 * math.sqrt(fit.covariance[2, 2])
        half = t_quantile((1 + self.level) / 2, fit.freedom) * error
        low, high, unit = (value - half) * PER**2, (value + half) * PER**2, f"{self.unit} per {PER:g}²"
        verdict = verdict_of_difference(low, high)
        return Estimate(value * PER**2, low, high, unit, self.n, self.level, METHOD, verdict)

    @cached_property
    def shape(self) -> Shape:
        """The shape that the intervals carry: flat is a slope that is none for certain, or too little to matter; one that is
        not shown to bend is linear."""
        if self.slope.verdict == "lower":
            return "shrinks"
        bent = self.bend.verdict if self.bend is not None else ""
        if bent == "higher" and self._rises:
            return "worse than linear"
        if self.slope.verdict != "higher":
            return "flat" if self.slope.verdict == "unaffected" else "undecided"
        return "less than linear" if bent == "lower" else "linear"

    @property
    def _unnoticed(self) -> float:
        """The slope for PER entities that makes the largest population's value differ by no more than matters."""
        return self.matters * max(self._straight.value_at(0), 0.0) / self.largest * PER

    @property
    def _rises(self) -> bool:
        """True if the bent curve ends above where it begins and where it is at half of the way: a dip is no growth."""
        fit = self._bent
        if fit is None:
            return False
        return fit.value_at(self.largest) > max(fit.value_at(0), fit.value_at(self.largest / 2))

    @property
    def _best(self) -> _Fit:
        bent = self.shape in ("worse than linear", "less than linear")
        return self._bent if bent and self._bent is not None else self._straight

    def at(self, population: float) -> Estimate:
        """Estimate a typical visit's value at that population."""
        fit = self._best
        value, half = fit.value_at(population), self._half(fit, population)
        return Estimate(value, value - half, value + half, self.unit, self.n, self.level, METHOD, "level")

    @cached_property
    def growth(self) -> float:
        """Ratio of the largest population's value to that where the trend begins: 2.0 is twice as much."""
        start = self._straight.value_at(0)
        return self._straight.value_at(self.largest) / start if start > 0 else math.inf

    def breaks(self, limit: float) -> Estimate:
        """The population from which on a typical visit is above `limit`. Refused, with the reason, where the trend does
        not rise for certain, or not to the limit within FURTHEST times the largest population that was visited (where
        the curve bends, within twice): `low` is then where it might at the earliest, infinite where not within that.
        """
        fit = self._best
        furthest = (2.0 if fit is self._bent else FURTHEST) * self.largest
        if self.at(0).low > limit:
            return self._broken(0.0, 0.0, 0.0, warnings=("above it from the first entity on",))
        low = crossing(lambda p: fit.value_at(p) + self._half(fit, p) - limit, 0.0, furthest)
        if self.shape in ("flat", "undecided", "shrinks"):
            slope = self.slope
            reason = f"nothing says that it grows: {slope.value:.3g} [{slope.low:.3g}, {slope.high:.3g}] {slope.unit}"
            return self._refused(low, reason)
        value = crossing(lambda p: fit.value_at(p) - limit, 0.0, furthest)
        if math.isinf(value):
            return self._refused(low, f"not below {furthest:.0f} entities")
        high = crossing(lambda p: fit.value_at(p) - self._half(fit, p) - limit, value, 4 * furthest)
        return self._broken(value, low, high)

    def _half(self, fit: _Fit, population: float) -> float:
        return t_quantile((1 + self.level) / 2, fit.freedom) * fit.error_at(population)

    def _broken(self, value: float, low: float, high: float, warnings: tuple[str, ...] = ()) -> Estimate:
        return Estimate(value, low, high, "entities", self.n, self.level, METHOD, "level", warnings)

    def _refused(self, low: float, why: str) -> Estimate:
        return Estimate(math.inf, low, math.inf, "entities", self.n, self.level, METHOD, "refused", (why,))


def trend(visits: Sequence[Visit], unit: str, level: float = 0.95, matters: float = MATTERS) -> Trend:
    """Fit a trend through visits of several populations, in the order of time within each series.

    Errors are taken as a part of the fitted value (iteratively reweighted). matters: a change, as a part of the value where
    the trend begins, up to which it counts as flat over the populations that were visited. Raises BadInput for fewer than
    five visits, or than three populations.

    >>> up = [Visit(n, 20 + 0.1 * n + d, at_s=n) for n, d in ((0, 0.3), (30, -0.2), (60, 0.1), (90, 0.2), (120, -0.3))]
    >>> found = trend(up, "ms")
    >>> round(found.slope.value), found.shape, round(found.breaks(40).value, -1)
    (10, 'linear', 200.0)
    >>> found.breaks(500).warnings
    ('not below 480 entities',)
    """
    populations = {visit.population for visit in visits}
    if len(visits) < _LEAST_VISITS or len(populations) < _LEAST_POPULATIONS:
        raise BadInput(
            f"{len(visits)} visits of {len(populations)} populations carry no trend with an interval",
            hint=f"{_LEAST_VISITS} visits of {_LEAST_POPULATIONS} populations at least",
        )
    if not all(math.isfinite(v.value) and v.value > 0 and v.population >= 0 for v in visits):
        raise BadInput("a visit with a value that is none", hint="values > 0, populations ≥ 0")
    bent = len(visits) >= _FOR_BEND and len(populations) > _LEAST_POPULATIONS
    return Trend(tuple(visits), unit, level, matters, _fit(visits, 2), _fit(visits, 3) if bent else None)


def _fit(visits: Sequence[Visit], terms: int) -> _Fit:
    population = np.array([v.population for v in visits], dtype=np.float64)
    values = np.array([v.value for v in visits], dtype=np.float64)
    # In units of the largest, so that no column drowns another.
    size = float(population.max()) or 1.0
    shape = np.column_stack([(population / size) ** power for power in range(terms)])
    others = _others(visits, population)
    floor = _FLOOR * float(values.max())
    scale = np.maximum(values, floor)
    for _ in range(_ROUNDS):
        # What disturbs a visit disturbs it by a part of what it takes.
        design = np.column_stack([shape, others * scale[:, None]])
        beta, *_ = np.linalg.lstsq(design / scale[:, None], values / scale, rcond=None)
        before, scale = scale, np.maximum(shape @ beta[:terms], floor)
        if np.allclose(before, scale, rtol=1e-9, atol=0):
            break
    design = np.column_stack([shape, others * scale[:, None]])
    residuals = (values - design @ beta) / scale
    freedom = len(values) - design.shape[1]
    weighted = design / scale[:, None]
    likeness = _likeness(residuals, [v.series for v in visits], design.shape[1])
    wider = (1 + likeness) / (1 - likeness)
    variance = max(float(residuals @ residuals) / freedom, _EXACT**2)
    covariance = variance * wider * np.linalg.pinv(weighted.T @ weighted)
    back = np.array([size ** -float(power) for power in range(terms)] + [1.0] * others.shape[1])
    return _Fit(beta * back, covariance * np.outer(back, back), freedom, likeness, terms)


def _others(visits: Sequence[Visit], population: Floats) -> Floats:
    """Columns beside the population, of mean 0: which series, the control's log, time where it can be told apart."""
    columns: list[Floats] = []
    names = list(dict.fromkeys(v.series for v in visits))
    columns += [np.array([v.series == name for v in visits], dtype=np.float64) for name in names[1:]]
    controls = np.array([v.control for v in visits], dtype=np.float64)
    if len(visits) >= _FOR_CONTROL and bool((controls > 0).all()) and float(np.ptp(controls)) > 0:
        # Where all that is slow is slow alike, a call is disturbed by as large a part of it as its control.
        columns.append(controls / float(np.median(controls)))
    times = np.array([v.at_s for v in visits], dtype=np.float64)
    for name in names:
        mine = np.array([v.series == name for v in visits])
        times[mine] -= times[mine].mean()
    if len(visits) >= _FOR_TIME and _apart(times, population):
        columns.append(times / float(np.abs(times).max()))
    matrix = np.column_stack(columns) if columns else np.empty((len(visits), 0))
    return np.asarray(matrix - matrix.mean(axis=0), dtype=np.float64)


def _apart(times: Floats, population: Floats) -> bool:
    """True if time goes its own way: not where a population was only ever larger later."""
    if float(np.ptp(times)) <= 0:
        return False
    return abs(float(np.corrcoef(times, population)[0, 1])) < _MOST_LIKENESS


def _likeness(residuals: Floats, series: Sequence[str], columns: int) -> float:
    """Correlation of what is left in neighbouring visits, 0 or above.

    Residuals of a regression are less alike than the errors were, by about a column's share each.
    """
    pairs = [
        (float(residuals[i]), float(residuals[i + 1]))
        for i in range(len(residuals) - 1)
        if series[i] == series[i + 1]
    ]
    whole = float(residuals @ residuals)
    if whole <= 0 or not pairs:
        return 0.0
    seen = sum(a * b for a, b in pairs) / whole + (columns - 1) / len(residuals) / 2
    return min(max(seen, 0.0), _MOST_LIKENESS)
