"""How a batch of N jobs that begin together grows with N: the batch law, its intervals and its own check.

With one bottleneck of demand D per job the makespan grows by D per extra job, and the median by D/2 where jobs go
through it one after another (by D where they take turns at it). What else a job does, R0, sets where the line begins.
A knee belongs to closed systems (`contend.stats.sustained`), not to batches. A straight line does not prove a serial
section: saturated processors draw the same one.

The unit is a storm, one whole batch: its jobs share the queue and are no replicates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from contend.errors import BadInput
from contend.stats.estimate import MATTERS, Estimate, verdict_of_difference
from contend.stats.quantiles import t_quantile

Floats = npt.NDArray[np.float64]
Load = Literal["storm", "sustained", "unclear"]

FURTHEST = 8.0
"""A line is followed up to so many times the largest N that was measured: as far as the law was tested."""

_LEAST_STORMS, _LEAST_SIZES = 3, 2
_FLOOR = 0.05  # of the largest value: what is nought at small N would have all the weight
_ROUNDS = 50


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The line without the storms of its largest N, followed to them."""

    jobs: int
    predicted: Estimate
    """Of one storm."""
    measured: float
    """Median of the storms held out."""

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted.value / self.measured - 1 if self.measured else math.inf

    @property
    def inside(self) -> bool:
        return self.predicted.low <= self.measured <= self.predicted.high


@dataclass(frozen=True)
class Line:
    """value = start + slope * jobs, by least squares of relative errors: noise grows with what it disturbs.

    Intervals are Student's t with n - 2 degrees of freedom; the residuals hold the storms' noise and what is not
    straight. Made by `line`.
    """

    jobs: Floats
    values: Floats
    unit: str
    level: float
    matters: float
    _beta: Floats
    _scale: Floats
    """What each storm's error is a part of: its fitted value, or a floor."""
    _covariance: Floats
    """Of beta, n - 2 degrees of freedom."""
    _relative: float
    """Standard deviation of one storm about the line, as a part of its value."""

    @property
    def n(self) -> int:
        return len(self.jobs)

    @property
    def _t(self) -> float:
        return t_quantile((1 + self.level) / 2, self.n - 2)

    @cached_property
    def slope(self) -> Estimate:
        """Estimated increase per extra job; unaffected where it leaves the largest N within what matters of the start."""
        unnoticed = self.matters * max(float(self._beta[0]), 0.0) / float(self.jobs.max())
        return self._coefficient(1, f"{self.unit} per job", unnoticed)

    @cached_property
    def start(self) -> Estimate:
        """Estimated value of the line at N = 0."""
        return self._coefficient(0, self.unit)

    def _coefficient(self, at: int, unit: str, matters: float = 0.0) -> Estimate:
        value, half = float(self._beta[at]), self._t * math.sqrt(self._covariance[at, at])
        low, high = value - half, value + half
        return self._estimate(value, low, high, unit, METHOD, verdict_of_difference(low, high, matters))

    def _estimate(
        self, value: float, low: float, high: float, unit: str, method: str, verdict: str = "level", *why: str
    ) -> Estimate:
        return Estimate(value, low, high, unit, self.n, self.level, method, verdict, why)

    def value_at(self, jobs: float) -> float:
        return float(self._beta[0] + self._beta[1] * jobs)

    def mean_at(self, jobs: float) -> Estimate:
        """Estimated mean at that N, whatever one storm does."""
        x, value = np.array([1.0, jobs]), self.value_at(jobs)
        half = self._t * math.sqrt(float(x @ self._covariance @ x))
        return self._estimate(value, value - half, value + half, self.unit, METHOD)

    def at(self, jobs: float, furthest: float = FURTHEST) -> Estimate:
        """Predict what one more storm with that many jobs would measure: a prediction interval over storms.

        Refused (verdict, and no interval) beyond `furthest` times the largest N measured.
        """
        value, half = self.value_at(jobs), self._half(jobs)
        method = f"{METHOD}; prediction interval of one storm"
        if jobs > furthest * float(self.jobs.max()):
            far = self._far(jobs, furthest)
            return self._estimate(value, -math.inf, math.inf, self.unit, method, "refused", far)
        return self._estimate(value, value - half, value + half, self.unit, method)

    def breaks(self, limit: float, furthest: float = FURTHEST) -> Estimate:
        """Estimate the N, in jobs, from which on a storm takes longer than `limit`.

        The interval has every N at which one storm may be the first to break it, by the prediction interval. Refused
        where the line does not rise for certain, or meets the limit beyond `furthest` times the largest N measured.
        """
        method, most = f"{METHOD}; inverse prediction of one storm", float(self.jobs.max())
        if not self.slope.low > 0:
            slope = self.slope
            reason = f"nothing says that it grows: {slope.value:.3g} [{slope.low:.3g}, {slope.high:.3g}] {slope.unit}"
            return self._estimate(math.inf, 0, math.inf, "jobs", method, "refused", reason)
        value = (limit - float(self._beta[0])) / float(self._beta[1])
        end = furthest * most
        if value > end:
            return self._estimate(value, 0, math.inf, "jobs", method, "refused", self._far(value, furthest))
        low = crossing(lambda n: self.value_at(n) + self._half(n) - limit, 0.0, value)
        # The band's lower edge may never reach it within what was tested.
        high = crossing(lambda n: self.value_at(n) - self._half(n) - limit, value, 4 * end)
        warnings = () if value >= 1 else ("even one job alone takes longer",)
        value, low, high = (max(jobs, 0.0) for jobs in (value, low, high))  # the line may begin above it
        return self._estimate(value, low, high, "jobs", method, "level", *warnings)

    def _half(self, jobs: float) -> float:
        """Half of the prediction interval of one storm."""
        x = np.array([1.0, jobs])
        noise = self._relative * max(abs(self.value_at(jobs)), _FLOOR * float(self.values.max()))
        return self._t * math.sqrt(float(x @ self._covariance @ x) + noise * noise)

    def _far(self, jobs: float, furthest: float) -> str:
        return (
            f"N = {jobs:.0f} is beyond {furthest:g} × the largest that was measured ({self.jobs.max():.0f}): "
            "measure a larger N"
        )

    @cached_property
    def check(self) -> HeldOut | None:
        """The line refitted without the largest N; None where fewer than three sizes, or three storms, would be left to
        fit."""
        largest = float(self.jobs.max())
        kept = self.jobs < largest
        if kept.sum() < _LEAST_STORMS or len(set(self.jobs[kept])) < _LEAST_SIZES:
            return None
        fit = line(
            list(zip(self.jobs[kept], self.values[kept], strict=True)),
            self.unit,
            self.level,
            matters=self.matters,
        )
        predicted = fit.at(largest, furthest=math.inf)
        return HeldOut(int(largest), predicted, float(np.median(self.values[~kept])))

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of the line's own check."""
        check = self.check
        if check is None:
            return (
                f"not checked: {len(set(self.jobs))} sizes; three or more tell whether the line is straight",
            )
        if not check.inside:
            p = check.predicted
            return (
                f"fitted below N = {check.jobs} it predicts {p.value:.4g} [{p.low:.4g}, {p.high:.4g}] {self.unit} there, "
                f"measured {check.measured:.4g}: not a straight line",
            )
        return ()


METHOD = "straight line by relative least squares over storms, Student's t"


def line(
    points: Sequence[tuple[float, float]],
    unit: str,
    level: float = 0.95,
    *,
    matters: float = MATTERS,
    part_of: Line | None = None,
) -> Line:
    """Fit a straight line through (jobs, value) of each storm, values ≥ 0.

    Errors are taken as a part of the fitted value (iteratively reweighted), or of that of `part_of`, a line through
    the same storms: the lines of all parts of a whole then add up to its own. matters: a change, as a part of the value at
    the line's start, up to which the largest N counts as unaffected. Raises BadInput for fewer than three storms, or storms
    of one size.

    >>> fitted = line([(4, 30.0), (8, 50.5), (16, 90.0), (32, 169.0)], "ms")
    >>> round(fitted.slope.value, 1), round(fitted.start.value)
    (5.0, 10)
    >>> fitted.at(1000).verdict
    'refused'
    """
    jobs = np.array([n for n, _ in points], dtype=np.float64)
    values = np.array([v for _, v in points], dtype=np.float64)
    if len(points) < _LEAST_STORMS or len(set(jobs)) < _LEAST_SIZES:
        raise BadInput(
            f"{len(points)} storms of {len(set(jobs))} sizes carry no line with an interval",
            hint="three storms or more, of two sizes or more; two storms at each of four sizes are a good start",
        )
    if not (np.isfinite(values).all() and (values >= 0).all() and (jobs > 0).all()):
        raise BadInput("a storm with a value or a number of jobs that is none", hint="values ≥ 0, jobs ≥ 1")
    design = np.column_stack([np.ones_like(jobs), jobs])
    if part_of is None:
        beta, scale = _reweighted(design, values)
    else:
        scale = part_of._scale
        beta = _least_squares(design, values, scale)
    residuals = (values - design @ beta) / scale
    relative = math.sqrt(float(residuals @ residuals) / (len(values) - 2))
    weighted = design / scale[:, None]
    covariance = np.asarray(relative**2 * np.linalg.inv(weighted.T @ weighted), dtype=np.float64)
    return Line(jobs, values, unit, level, matters, beta, scale, covariance, relative)


def _reweighted(design: Floats, values: Floats) -> tuple[Floats, Floats]:
    floor = max(_FLOOR * float(values.max()), 1e-12)
    beta, scale = np.zeros(2), np.maximum(values, floor)
    for _ in range(_ROUNDS):
        before = beta
        beta = _least_squares(design, values, scale)
        scale = np.maximum(design @ beta, floor)
        if np.allclose(beta, before, rtol=1e-10, atol=0):
            break
    return beta, scale


def _least_squares(design: Floats, values: Floats, scale: Floats) -> Floats:
    solution, *_ = np.linalg.lstsq(design / scale[:, None], values / scale, rcond=None)
    return np.asarray(solution, dtype=np.float64)


def crossing(f: Callable[[float], float], low: float, high: float) -> float:
    """Find where the rising f meets 0 between low and high; low where it is above there, inf where it is below at
    high."""
    if f(low) >= 0:
        return low
    if f(high) < 0:
        return math.inf
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if f(middle) < 0 else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True, slots=True)
class StormTimes:
    """One storm: its number of jobs, and the median, the 90th percentile and the makespan of its jobs, ns."""

    jobs: int
    median_ns: float
    p90_ns: float
    makespan_ns: float

    @classmethod
    def of(cls, begins_ns: Sequence[int], ends_ns: Sequence[int]) -> StormTimes:
        """
        >>> StormTimes.of([0, 0, 5], [10, 20, 35])
        StormTimes(jobs=3, median_ns=20.0, p90_ns=28.0, makespan_ns=35.0)
        """
        begins, ends = np.asarray(begins_ns, dtype=np.int64), np.asarray(ends_ns, dtype=np.int64)
        took = ends - begins
        return cls(
            len(took),
            float(np.median(took)),
            float(np.percentile(took, 90)),
            float(ends.max() - begins.min()),
        )


@dataclass(frozen=True)
class BatchLaw:
    """Three lines over N, and what their slopes say. Made by `batch_law`."""

    median: Line
    p90: Line
    makespan: Line

    @property
    def demand(self) -> Estimate:
        """D, ns per job: what the bottleneck is busy for each, whatever the order in which jobs go through it."""
        return self.makespan.slope

    @cached_property
    def order(self) -> Estimate:
        """Slope of the median over that of the makespan: 0.5 where jobs go through the bottleneck one after another
        (the median is halfway), towards 1 where they take turns and all end late.

        The interval is that of the log ratio by the storms' influence on both slopes, Student's t.
        """
        method = "ratio of slopes; delta method over storms, Student's t"
        n, level = self.median.n, self.median.level
        top, bottom = self.median.slope.value, self.makespan.slope.value
        if not (top > 0 and bottom > 0):
            return Estimate(math.nan, -math.inf, math.inf, "ratio", n, level, method, "too few")
        moved = _influence(self.median) / top - _influence(self.makespan) / bottom
        half = t_quantile((1 + level) / 2, n - 2) * math.sqrt(float(moved @ moved) * n / (n - 2))
        centre = math.log(top / bottom)
        value, low, high = (math.exp(centre + side * half) for side in (0, -1, 1))
        return Estimate(value, low, high, "ratio", n, level, method, "level")

    @property
    def lines(self) -> Mapping[str, Line]:
        return {"median": self.median, "p90": self.p90, "makespan": self.makespan}

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(f"{name}: {warning}" for name, of in self.lines.items() for warning in of.warnings)


def _influence(of: Line) -> Floats:
    """The influence of each storm on the slope."""
    design = np.column_stack([np.ones_like(of.jobs), of.jobs])
    weighted = design / of._scale[:, None]
    pull: Floats = np.linalg.inv(weighted.T @ weighted)[1] @ weighted.T
    return pull * (of.values - design @ of._beta) / of._scale


def batch_law(storms: Sequence[StormTimes], level: float = 0.95, matters: float = MATTERS) -> BatchLaw:
    """Fit the batch law to storms of several sizes. Raises BadInput as `line` does.

    >>> law = batch_law([StormTimes(n, 50 + 5.1 * n, 50 + 9 * n, 50.5 + 10 * n) for n in (4, 8, 16, 32)])
    >>> round(law.demand.value, 2), round(law.order.value, 2)
    (10.0, 0.51)
    """

    def fit(value: Callable[[StormTimes], float]) -> Line:
        return line([(storm.jobs, value(storm)) for storm in storms], "ns", level, matters=matters)

    return BatchLaw(fit(lambda s: s.median_ns), fit(lambda s: s.p90_ns), fit(lambda s: s.makespan_ns))


def load_of(begins_ns: Sequence[int], ends_ns: Sequence[int]) -> Load:
    """Tell the kind of load: "storm", jobs that begin together; "sustained", others begin as some end, at a number of
    open jobs that stays about the same; "unclear" else.

    >>> load_of([0, 1, 2, 3], [10, 20, 30, 40])
    'storm'
    >>> load_of([0, 0, 10, 10, 20, 20, 30, 30], [10, 10, 20, 20, 30, 30, 40, 40])
    'sustained'
    """
    begins = np.sort(np.asarray(begins_ns, dtype=np.int64))
    ends = np.sort(np.asarray(ends_ns, dtype=np.int64))
    if len(begins) < 2:
        return "unclear"
    late = float((begins >= ends[0]).mean())
    if late <= _LATE:
        return "storm"
    # While new ones still come: how many are open, by time.
    times = np.unique(np.concatenate([begins, ends]))
    open_ = np.searchsorted(begins, times, "right") - np.searchsorted(ends, times, "right")
    during = (times >= ends[0]) & (times < begins[-1])
    length = np.diff(times, append=times[-1])[during]
    kept = open_[during] >= _STEADY * float(open_.max())
    steady = length.sum() > 0 and float(length[kept].sum()) >= 0.9 * float(length.sum())
    return "sustained" if late >= 0.5 and steady else "unclear"


_LATE = 0.1  # of the jobs of a storm may begin after the first has ended
_STEADY = 0.5  # of the most that are ever open
