"""A curve of overhead over size: a description of what was measured, and a guess at sizes that were not.

log ratio(CHR) = a + b · f(CHR) with one of several f, f(1) = 0, chosen by the data. Nothing makes nature choose among
them: where the true curve has another form, the fitted one may leave it by many times its interval, so no PTO and no
PSO is ever read off a curve (`contend.stats.platform_size` measures them). What keeps it honest: the interval is from a
bootstrap over blocks in which the form is chosen anew each time (Efron, Estimation and accuracy after model selection,
JASA 109 (2014) 991); where no form fits, the curve has no interval; and each size is left out in
turn and predicted from the others.

Percentiles are expanded as in `contend.stats.joint`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import NormalDist
from typing import Annotated

import numpy as np
import numpy.typing as npt

from contend.errors import BadInput, NoVerdict
from contend.stats import signed_rank
from contend.stats.compare import ratio_estimate
from contend.stats.estimate import Estimate
from contend.stats.joint import expanded, resampled
from contend.stats.platform_forms import FORMS, POWER, FittedForm, design_of, fitted_forms
from contend.stats.platform_size import SizeCell, by_series
from contend.stats.quantiles import incomplete_beta, t_quantile
from contend.stats.samples import check_level, exp
from contend.text.shape import HIDDEN, Limits, Named, Shape, computed

Floats = npt.NDArray[np.float64]

FURTHEST = 2.0
"""A curve is followed down to the smallest measured size over so much, and up to so many times the largest."""

LEAST_SIZES, FOR_LEAVING_OUT = 3, 4
MISFIT = 0.05
"""Chance of so bad a fit if the form were true, below which no form fits and the curve has no intervals."""
SUPPORTED = 7.0  # AICc above the best's up to which a form is not ruled out (Burnham & Anderson 2002, §2.6)

METHOD = (
    "a + b·f(CHR) through Hodges–Lehmann medians by size, form by AICc; bootstrap over blocks with the choice"
)
MEASURED = "Hodges–Lehmann median of within-block log ratios, Student's t of its robust error"


@dataclass(frozen=True, slots=True)
class HeldOut(Shape):
    """One size, predicted from all others by the same procedure, beside what was measured there."""

    size: Annotated[float, Named("cpus")]
    predicted: Estimate
    """Refused where the size lies too far outside the others."""
    measured: Estimate

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted.value / self.measured.value - 1

    @property
    @computed
    def inside(self) -> bool | None:
        """whether both agree within their intervals (half-widths as a root of squares); null where no prediction was made"""
        if self.predicted.verdict == "refused":
            return None
        p, m = self.predicted, self.measured
        gap = math.log(m.value / p.value)
        if gap > 0:
            reach = math.hypot(math.log(p.high / p.value), math.log(m.value / m.low))
        else:
            reach = math.hypot(math.log(p.value / p.low), math.log(m.high / m.value))
        return abs(gap) <= reach


@dataclass(frozen=True)
class Curve(Shape):
    """A curve of overhead over size: a description. Sizes are in CPUs of a host with `host_cpus`."""

    application: str
    platform: str
    provisioning: str
    host_cpus: float
    sizes: Annotated[tuple[float, ...], HIDDEN]
    n: Annotated[int, HIDDEN]
    """Blocks in which every size has a ratio."""
    level: Annotated[float, HIDDEN]
    warnings: Annotated[tuple[str, ...], HIDDEN]
    _centres: Annotated[Floats, HIDDEN]  # (sizes,): Hodges–Lehmann medians of the log ratios
    _noise: Annotated[Floats, HIDDEN]  # (sizes,): their variances
    _draws: Annotated[Floats, HIDDEN]  # (resamples, sizes): the same of resampled blocks
    _maps: Annotated[tuple[FittedForm, ...], HIDDEN] = field(repr=False)

    @property
    @computed
    def why_none(self) -> str:
        """empty: there is a curve"""
        return ""

    @cached_property
    def _best(self) -> int:
        return int(np.argmin(self._criterion(self._centres)))

    @cached_property
    def _best_of_draws(self) -> npt.NDArray[np.intp]:
        """The map that each resample chooses, shape (resamples,)."""
        best: npt.NDArray[np.intp] = np.argmin(self._criterion(self._draws), axis=-1)
        return best

    def _criterion(self, centres: Floats) -> Floats:
        """AICc of every map, up to a constant: (…, sizes) → (…, maps).

        The noise of each size is known from its blocks, so -2 log likelihood is the weighted sum of squares.
        """
        count = self.n * len(self.sizes)
        columns = []
        for m in self._maps:
            gaps = centres - centres @ m.hat.T
            k = m.parameters
            columns.append((gaps**2 / self._noise).sum(axis=-1) + 2 * k + 2 * k * (k + 1) / (count - k - 1))
        return np.stack(columns, axis=-1)

    @property
    @computed
    def form(self) -> Annotated[str, Limits(enum=list(FORMS))]:
        """the form chosen"""
        return self._maps[self._best].form

    @property
    @computed
    def exponent(self) -> float | None:
        """c, where the form has one"""
        return self._maps[self._best].exponent if self.form == POWER else None

    @property
    @computed
    def coefficients(self) -> tuple[float, ...]:
        """a, and b where the form has one, on the natural-log scale; without intervals"""
        return tuple((self._maps[self._best].solve @ self._centres).tolist())

    @cached_property
    @computed
    def chosen(self) -> dict[str, float]:
        """part of the resamples that chose each form: how far the data tell them apart"""
        names = [self._maps[i].form for i in self._best_of_draws.tolist()]
        return {form: names.count(form) / len(names) for form in FORMS if form in names}

    @cached_property
    @computed
    def misfit(self) -> float:
        """chance of gaps as wide as these between the curve and the measured sizes if its form were true

        F of the weighted squares over sizes less parameters, against the blocks' own noise.
        """
        m = self._maps[self._best]
        gaps = self._centres - m.hat @ self._centres
        free, blocks = len(self.sizes) - m.parameters, len(self.sizes) * (self.n - 1)
        f = float((gaps**2 / self._noise).sum()) / free
        return incomplete_beta(blocks / 2, free / 2, blocks / (blocks + free * f))

    def at(self, size: float) -> Estimate:
        """The overhead ratio there by the curve: of a typical block, with the interval of the curve.

        Outside the measured sizes every form that is not ruled out has a say, so the interval is wider. The verdict is
        "refused", without interval and with the reason as its last warning, beyond FURTHEST times the measured sizes, above
        the host's CPUs, and where there is `doubt`. Raises BadInput for a size that is not above 0.
        """
        if not size > 0:
            raise BadInput(f"a size of {size!r} CPUs", hint="above 0")
        estimate = self._at(size)
        if not self.doubt or estimate.verdict == "refused":
            return estimate
        return replace(
            estimate, low=0.0, high=math.inf, verdict="refused", warnings=(*self.warnings, self.doubt)
        )

    def _at(self, size: float) -> Estimate:
        """As `at`, whatever the doubt."""
        row = [self._row(m, size) for m in self._maps]
        value = float(row[self._best] @ self._centres)
        smallest, largest = self.sizes[0], self.sizes[-1]
        far = ""
        if size > self.host_cpus:
            far = f"{size:g} CPUs are more than the host's {self.host_cpus:g}"
        elif not smallest / FURTHEST <= size <= largest * FURTHEST:
            far = f"{size:g} CPUs are more than {FURTHEST:g} times outside the sizes measured, {smallest:g} to {largest:g}"
        if far:
            why = (*self.warnings, far)
            return Estimate(exp(value), 0.0, math.inf, "ratio", self.n, self.level, METHOD, "refused", why)
        chosen = np.stack([self._draws @ r for r in row])[self._best_of_draws, np.arange(len(self._draws))]
        low, high = self._reach(chosen, value)
        if smallest <= size <= largest:
            return ratio_estimate(value, low, high, self.n, self.level, METHOD, self.warnings)
        criterion = self._criterion(self._centres)
        for m in np.flatnonzero(criterion <= criterion.min() + SUPPORTED).tolist():
            its_low, its_high = self._reach(self._draws @ row[m], float(row[m] @ self._centres))
            low, high = min(low, its_low), max(high, its_high)
        outside = (
            f"outside the sizes measured, {smallest:g} to {largest:g}: all forms that are not ruled out",
        )
        return ratio_estimate(value, low, high, self.n, self.level, METHOD, (*self.warnings, *outside))

    def _row(self, m: FittedForm, size: float) -> Floats:
        """Row that a map makes of the centres at this size: value = row @ centres."""
        row: Floats = design_of(m.exponent, np.array([size / self.host_cpus]))[0] @ m.solve
        return row

    def _reach(self, values: Floats, centre: float) -> tuple[float, float]:
        """As `joint.expanded`, of this curve's blocks."""
        return expanded(values, centre, self.n, self.level)

    @property
    @computed
    def doubt(self) -> str:
        """why it has no intervals and predicts nothing: it misses sizes by more than their noise; empty where it has"""
        if self.misfit >= MISFIT:
            return ""
        return f"no form fits the sizes measured (chance {self.misfit:.1g}): the curve has no interval"

    @cached_property
    @computed
    def held_out(self) -> tuple[HeldOut, ...]:
        """each size predicted from the others, from four sizes on; empty with fewer. Also of curves that do not fit"""
        if len(self.sizes) < FOR_LEAVING_OUT:
            return ()
        result = []
        for i, size in enumerate(self.sizes):
            kept = [j for j in range(len(self.sizes)) if j != i]
            rest = self._of(kept)
            half = t_quantile((1 + self.level) / 2, self.n - 1) * math.sqrt(self._noise[i])
            centre = float(self._centres[i])
            measured = ratio_estimate(centre, centre - half, centre + half, self.n, self.level, MEASURED)
            result.append(HeldOut(size, rest._at(size), measured))
        return tuple(result)

    def _of(self, kept: Sequence[int]) -> Curve:
        sizes = tuple(self.sizes[j] for j in kept)
        chr_ = np.array(sizes) / self.host_cpus
        noise = self._noise[kept]
        return Curve(
            self.application, self.platform, self.provisioning, self.host_cpus, sizes, self.n, self.level, (),
            self._centres[kept], noise, self._draws[:, kept], fitted_forms(chr_, noise),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class NoCurve(Shape):
    """A series that carries no curve, and why."""

    application: str
    platform: str
    provisioning: str
    host_cpus: float
    why: Annotated[str, Named("why_none")]


def curves(
    cells: Sequence[SizeCell], *, level: float = 0.95, seed: int = 0, resamples: int = 2000
) -> tuple[Curve | NoCurve, ...]:
    """Fit a curve to each series of cells that differ in size only. Each has its own `level`: descriptions make no
    table."""
    result: list[Curve | NoCurve] = []
    for key, group in by_series(cells).items():
        try:
            result.append(curve(group, level=level, seed=seed, resamples=resamples))
        except NoVerdict as error:
            result.append(NoCurve(*key, error.message))
    return tuple(result)


def curve(cells: Sequence[SizeCell], *, level: float = 0.95, seed: int = 0, resamples: int = 2000) -> Curve:
    """Fit a curve through cells that differ in size only. Same seed, same curve.

    Raises NoVerdict for fewer than three sizes, or blocks than an interval needs; BadInput for cells of two series.

    >>> rng = np.random.default_rng(1)
    >>> from contend.stats.platform_size import Setting
    >>> def cell(size, slow, blocks=20):
    ...     bare, own = np.exp(rng.normal(0, 0.01, (2, blocks)))
    ...     return SizeCell(Setting("ffmpeg", "container", "vanilla", size, 16), slow * own, bare)
    >>> found = curve([cell(size, math.exp(0.1 + 0.3 * (16 / size - 1) / 7)) for size in (2, 4, 8, 16)])
    >>> found.form, round(found.at(6).value, 2), [h.inside for h in found.held_out]
    ('a + b·(1 / CHR - 1)', 1.19, [True, True, True, True])
    >>> found.at(0.5).warnings
    ('0.5 CPUs are more than 2 times outside the sizes measured, 2 to 16',)
    """
    check_level(level)
    if resamples < 100:
        raise BadInput(f"{resamples} resamples", hint="at least 100; 2000 is the default")
    groups = by_series(cells)
    if len(groups) != 1:
        raise BadInput(f"cells of {len(groups)} series", hint="`curves` fits one to each")
    ((key, group),) = groups.items()
    sizes = tuple(float(c.setting.size) for c in group)
    if len(sizes) < LEAST_SIZES:
        raise NoVerdict(
            f"{len(sizes)} size{'s' * (len(sizes) != 1)}: a curve needs {LEAST_SIZES}",
            hint="measure more sizes",
        )
    ratios = np.log(np.stack([c.ratios for c in group], axis=1))
    complete = ratios[np.isfinite(ratios).all(axis=1)]
    n, least = len(complete), signed_rank.smallest_n(level)
    if n < least:
        raise NoVerdict(
            f"{n} blocks hold all sizes: an interval at level {level:g} needs {least}", hint="run more blocks"
        )
    warnings: tuple[str, ...] = ()
    if n < len(ratios):
        warnings += (f"{len(ratios) - n} incomplete blocks left out",)
    centres, noise = _centres_and_noise(complete)
    draws = resampled(complete, resamples, np.random.default_rng(seed))
    maps = fitted_forms(np.array(sizes) / key[3], noise)
    return Curve(*key, sizes, n, level, warnings, centres, noise, draws, maps)


def _centres_and_noise(ratios: Floats) -> tuple[Floats, Floats]:
    """Hodges–Lehmann medians by size and their variances: (blocks, sizes) → two of (sizes,).

    The standard error is Lehmann's, the signed-rank interval's width over twice the Gaussian quantile of its level, so one
    wild run does not take a size's weight. Half of the variance is the sizes' mean: a few blocks tell it badly.
    """
    n = len(ratios)
    # Not at the level that was asked for, on which weights would depend; of fewer blocks the widest interval there is.
    drop = max(signed_rank.cut(n), 0)
    centre, low, high = signed_rank.intervals_at_cut(ratios.T, drop)
    tail = float(signed_rank.cumulative(n)[drop]) if n <= signed_rank.EXACT_UP_TO else 0.025
    own = ((high - low) / (2 * NormalDist().inv_cdf(1 - tail))) ** 2
    floor = max(float(own.mean()), 1e-18)  # arithmetic's own noise where all blocks are the same
    return centre, (own + floor) / 2
