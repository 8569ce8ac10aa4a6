"""Throughput under sustained concurrency: the universal scalability law, and a closed network with one queue.

For N that are always in the system, a new one for each that ends. Not for storms (`contend.stats.scaling`): fitted to
batches of up to 32, the one was 19 % and the other 69 % off at 256, where the batch law was within 7 %. The unit is a
run at one N; its value is jobs per second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from contend.errors import BadInput, NoVerdict
from contend.stats.estimate import Estimate, verdict_of_difference
from contend.stats.quantiles import t_quantile
from contend.stats.scaling import Load

Floats = npt.NDArray[np.float64]
_ROUNDS = 60


@dataclass(frozen=True)
class Usl:
    """X(N) = N / (T + C (N - 1) + K N (N - 1)): Gunther's law with T = 1/X(1), contention sigma = C/T and coherency
    kappa = K/T. N/X is a straight combination of the three, so they are fitted by relative least squares with none
    below nought; intervals are Student's t in N/X. Made by `usl`."""

    jobs: Floats
    rates: Floats
    level: float
    _beta: Floats
    _covariance: Floats
    _relative: float
    _free: int
    """Degrees of freedom."""

    @property
    def _t(self) -> float:
        return t_quantile((1 + self.level) / 2, self._free)

    @property
    def method(self) -> str:
        return "universal scalability law by relative least squares in N/X, Student's t"

    def _per(self, at: int) -> Estimate:
        """A coefficient over T, by the delta method."""
        time = float(self._beta[0])
        value = float(self._beta[at]) / time
        gradient = np.zeros(3)
        gradient[0], gradient[at] = -value / time, 1 / time
        half = self._t * math.sqrt(max(float(gradient @ self._covariance @ gradient), 0.0))
        verdict = verdict_of_difference(value - half, value + half)
        return self._estimate(value, max(value - half, 0.0), value + half, "per job", verdict)

    def _estimate(
        self, value: float, low: float, high: float, unit: str, verdict: str = "level", *why: str
    ) -> Estimate:
        return Estimate(value, low, high, unit, len(self.jobs), self.level, self.method, verdict, why)

    @cached_property
    def contention(self) -> Estimate:
        """sigma: the part of a job that only one can do at a time."""
        return self._per(1)

    @cached_property
    def coherency(self) -> Estimate:
        """kappa: what each pair costs."""
        return self._per(2)

    def at(self, jobs: float) -> Estimate:
        """Predict the jobs per second that one more run at this N would measure."""
        x = _row(jobs)
        cost = float(x @ self._beta)
        half = self._t * math.sqrt(float(x @ self._covariance @ x) + (self._relative * cost) ** 2)
        low = jobs / (cost + half)
        high = jobs / (cost - half) if cost > half else math.inf
        method = f"{self.method}; prediction interval"
        return replace(self._estimate(jobs / cost, low, high, "1/s"), method=method)

    @cached_property
    def peak(self) -> Estimate:
        """Estimate the N of most throughput, sqrt((1 - sigma) / kappa). Refused where the range of N does not show that
        there is one: the interval of kappa holds 0, or the peak lies beyond twice the largest N."""
        kappa, sigma = self.coherency, self.contention
        most = float(self.jobs.max())
        reason = ""
        value = math.inf
        if kappa.value > 0 and sigma.value < 1:
            value = math.sqrt((1 - sigma.value) / kappa.value)
        if kappa.verdict != "higher":
            reason = f"throughput does not bend down for certain up to N = {most:.0f}: measure larger N"
        elif value > 2 * most:
            reason = f"a peak at N = {value:.0f} is beyond twice the largest N measured ({most:.0f})"
        if reason:
            return self._estimate(value, 0, math.inf, "jobs", "refused", reason)
        low = math.sqrt(max(1 - min(sigma.high, 1.0), 0.0) / kappa.high)
        high = math.sqrt((1 - sigma.low) / kappa.low)
        return self._estimate(value, low, high, "jobs")


def _row(jobs: float) -> Floats:
    return np.array([1.0, jobs - 1, jobs * (jobs - 1)])


def usl(points: Sequence[tuple[float, float]], load: Load, level: float = 0.95) -> Usl:
    """Fit the universal scalability law through (N, jobs per second) of each run.

    Raises NoVerdict for what is no sustained load, or a range of N that cannot determine it; BadInput for values that
    are none.

    >>> fitted = usl([(n, n / (1 + 0.05 * (n - 1))) for n in (1, 2, 4, 8, 16, 32)], "sustained")
    >>> round(fitted.contention.value, 3), fitted.peak.verdict
    (0.05, 'refused')
    """
    jobs, rates = _checked(points, load, least=5)
    design = np.array([_row(n) for n in jobs])
    cost = jobs / rates
    beta, scale = np.zeros(3), cost.copy()
    for _ in range(_ROUNDS):
        before = beta
        beta = _at_least_nought(design / scale[:, None], cost / scale)
        scale = design @ beta
        if np.allclose(beta, before, rtol=1e-10, atol=0):
            break
    free = len(jobs) - 3  # also where one was left out: that it is nought was chosen by the data
    residuals = (cost - scale) / scale
    relative = math.sqrt(float(residuals @ residuals) / free)
    # What is at its bound may still be more than nought: the covariance is that of all three.
    weighted = design / scale[:, None]
    covariance = np.asarray(relative**2 * np.linalg.inv(weighted.T @ weighted), dtype=np.float64)
    return Usl(jobs, rates, level, beta, covariance, relative, free)


def _at_least_nought(design: Floats, values: Floats) -> Floats:
    """Least squares with contention and coherency ≥ 0: the best of the four subsets that keeps to it."""
    best: tuple[float, Floats] | None = None
    for with_contention in (True, False):
        for with_coherency in (True, False):
            kept = np.array([True, with_contention, with_coherency])
            part, *_ = np.linalg.lstsq(design[:, kept], values, rcond=None)
            beta = np.zeros(3)
            beta[kept] = part
            error = float(((values - design @ beta) ** 2).sum())
            if (beta >= 0).all() and (best is None or error < best[0]):
                best = (error, beta)
    if best is None:
        raise NoVerdict("no law with a positive time fits", hint="are the rates jobs per second?")
    return best[1]


@dataclass(frozen=True)
class Closed:
    """N customers, each by turns at one queue (demand D, s) and elsewhere (Z, s, nobody in the way): X(N) by exact mean
    value analysis. Made by `closed`."""

    jobs: Floats
    rates: Floats
    level: float
    demand: Estimate
    elsewhere: Estimate
    _covariance: Floats
    _relative: float

    @property
    def knee(self) -> float:
        """N* = (D + Z) / D, from which on the queue is what limits."""
        return (self.demand.value + self.elsewhere.value) / self.demand.value

    def at(self, jobs: int) -> Estimate:
        """Predict the jobs per second that one more run at this N would measure."""
        logs = np.log([self.demand.value, max(self.elsewhere.value, _LEAST * self.demand.value)])
        value, gradient = _log_rate(logs, np.array([float(jobs)]))
        variance = float((gradient @ self._covariance @ gradient.T)[0, 0]) + self._relative**2
        half = t_quantile((1 + self.level) / 2, len(self.jobs) - 2) * math.sqrt(variance)
        centre = float(value[0])
        low, high = math.exp(centre - half), math.exp(centre + half)
        method = f"{_CLOSED}; prediction interval"
        return Estimate(math.exp(centre), low, high, "1/s", len(self.jobs), self.level, method, "level")


_CLOSED = "closed network of one queue and a delay by mean value analysis, log least squares, Student's t"
_LEAST = 1e-3  # of the demand: the least time elsewhere that is told from none


def closed(points: Sequence[tuple[float, float]], load: Load, level: float = 0.95) -> Closed:
    """Fit a closed network through (N, jobs per second) of each run, N whole numbers.

    Raises NoVerdict for what is no sustained load, and where N does not reach from below its knee to beyond it: then one
    of D and Z is a guess.

    >>> fitted = closed([(n, throughput([0.02], 0.1, n)) for n in (1, 2, 4, 8, 16, 32)], "sustained")
    >>> round(fitted.demand.value, 4), round(fitted.elsewhere.value, 4)
    (0.02, 0.1)
    """
    jobs, rates = _checked(points, load, least=4)
    logs = np.log(
        [float(1 / rates.max()), max(float((jobs / rates).min() - 1 / rates.max()), _LEAST / rates.max())]
    )
    target = np.log(rates)
    damping = 1e-3
    value, gradient = _log_rate(logs, jobs)
    for _ in range(200):  # Levenberg–Marquardt
        residual = target - value
        normal = gradient.T @ gradient
        step = np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-12), gradient.T @ residual)
        tried, slope = _log_rate(logs + step, jobs)
        if ((target - tried) ** 2).sum() <= (residual**2).sum():
            logs, value, gradient, damping = logs + step, tried, slope, damping / 3
            if np.abs(step).max() < 1e-10:
                break
        else:
            damping *= 4
            if damping > 1e12:
                break
    demand, elsewhere = (float(v) for v in np.exp(logs))
    knee = (demand + elsewhere) / demand
    if not (jobs.min() < knee < jobs.max()):
        raise NoVerdict(
            f"N from {jobs.min():.0f} to {jobs.max():.0f} does not reach across the knee (about {knee:.1f})",
            hint="measure below and beyond it, or ask for the batch law where this is a storm",
        )
    free = len(jobs) - 2
    residual = target - value
    relative = math.sqrt(float(residual @ residual) / free)
    covariance = np.asarray(relative**2 * np.linalg.inv(gradient.T @ gradient), dtype=np.float64)
    t = t_quantile((1 + level) / 2, free)

    def estimate_of(at: int) -> Estimate:
        half = t * math.sqrt(float(covariance[at, at]))
        low, centre, high = (math.exp(float(logs[at]) + side * half) for side in (-1, 0, 1))
        return Estimate(centre, low, high, "s", len(jobs), level, _CLOSED, "level")

    return Closed(jobs, rates, level, estimate_of(0), estimate_of(1), covariance, relative)


def throughput(demands_s: Sequence[float], think_s: float, jobs: int) -> float:
    """Jobs per second of a closed network of queues and a delay, by exact mean value analysis (Reiser & Lavenberg 1980).

    >>> throughput([0.5], 0.0, 10), round(throughput([1.0, 1.0], 0.0, 2), 3)
    (2.0, 0.667)
    """
    return _throughputs(demands_s, think_s, jobs)[-1]


def _throughputs(demands_s: Sequence[float], think_s: float, jobs: int) -> list[float]:
    """For 1 to that many jobs."""
    queues, rates = [0.0] * len(demands_s), []
    for n in range(1, jobs + 1):
        times = [demand * (1 + queue) for demand, queue in zip(demands_s, queues, strict=True)]
        rates.append(n / (think_s + sum(times)))
        queues = [rates[-1] * time for time in times]
    return rates


def _log_rate(logs: Floats, jobs: Floats) -> tuple[Floats, Floats]:
    """ln X at each N, and its slopes by ln D and ln Z."""
    most = int(jobs.max())

    def at(point: Floats) -> Floats:
        demand, elsewhere = (float(v) for v in np.exp(point))
        rates: Floats = np.array(_throughputs([demand], elsewhere, most))
        log_rates: Floats = np.log(rates[jobs.astype(int) - 1])
        return log_rates

    width = 1e-5
    slopes = [(at(logs + d) - at(logs - d)) / (2 * width) for d in np.eye(2) * width]
    return at(logs), np.column_stack(slopes)


def _checked(points: Sequence[tuple[float, float]], load: Load, least: int) -> tuple[Floats, Floats]:
    if load != "sustained":
        raise NoVerdict(
            "this law is for a number of jobs that stays the same, a new one for each that ends; "
            + ("these begin together" if load == "storm" else "these do neither that nor begin together"),
            hint="ask for the batch law (contend.stats.scaling.batch_law)"
            if load == "storm"
            else "measure at fixed N",
        )
    jobs = np.array([n for n, _ in points], dtype=np.float64)
    rates = np.array([x for _, x in points], dtype=np.float64)
    if len(points) and not ((jobs >= 1).all() and (rates > 0).all() and np.isfinite(rates).all()):
        raise BadInput("an N below 1, or a rate that is none", hint="give (N, jobs per second) of each run")
    if len(set(jobs)) < least or jobs.max() < 4 * jobs.min():
        raise NoVerdict(
            f"{len(set(jobs))} sizes do not determine it",
            hint=f"{least} sizes or more, the largest at least four times the smallest",
        )
    return jobs, rates


@dataclass(frozen=True, slots=True)
class Choice:
    """The law to use, and why."""

    law: str
    """batch, usl, closed, or none."""
    why: str


def choose(points: Sequence[tuple[float, float]], load: Load) -> Choice:
    """Choose a law by what the load is, then by which law that can be fitted leaves the largest N, held out, least
    wrong.

    >>> choose([(n, throughput([0.02], 0.1, n)) for n in (1, 2, 4, 6, 8, 16, 32)], "sustained").law
    'closed'
    >>> choose([], "storm").law
    'batch'
    """
    if load == "storm":
        return Choice(
            "batch", "the jobs begin together: a batch has no knee, its median and makespan are lines"
        )
    if load != "sustained":
        return Choice(
            "none", "the jobs neither begin together nor keep a steady number open: no law is for that"
        )
    largest = max(n for n, _ in points) if points else 0
    kept = [(n, x) for n, x in points if n < largest]
    errors: dict[str, float] = {}
    refused = []
    for name, fit in (("usl", usl), ("closed", closed)):
        try:
            fitted = fit(kept, load)
        except NoVerdict as error:
            refused.append(f"{name}: {error}")
            continue
        measured = float(np.median([x for n, x in points if n == largest]))
        errors[name] = fitted.at(int(largest)).value / measured - 1
    if not errors:
        return Choice("none", "; ".join(refused))
    best = min(errors, key=lambda name: abs(errors[name]))
    held = ", ".join(f"{name} {100 * error:+.0f} %" for name, error in errors.items())
    return Choice(best, "; ".join([f"error at N = {largest:g}, held out: {held}", *refused]))
