"""The slowdown of pairs of workloads that never met, from what each does to probes and what injectors do to each.

**Form.** A neighbour's pressure on a resource is how much it slows a small probe of that resource; the same in units of an
injector's intensity is `Model.intensity`, read off the probe's own curve. A victim's log slowdown is a sum, over
resources, of a monotone curve of that pressure:

    log S(v, n) = Σ_r f_vr(y_nr),   f_vr piecewise linear from 0, every slope ≥ 0

where y_nr is the log slowdown of probe r beside n. Curves of a single injector each, added up, would be Bubble-Up's (Mars,
Tang, Hundt, Skadron & Soffa, MICRO-44, 2011: one dial, memory) taken to several resources as iBench and Paragon have it
(Delimitrou & Kozyrakis, IISWC and ASPLOS 2013). But no injector presses on one resource alone: on one CPU, all of them take
CPU time, and added curves would count that once for each. So the slopes of all curves of a victim are fitted together, by
non-negative least squares, to its slowdowns under every injector at every intensity, each of which stands in the equations
with all that it does to all probes. Where injectors are pure, that is the curves one by one.

No pair of workloads is used in the fit: the forecast of a pair is of workloads that never met. Pairs that were measured
tell how far off it is, and so give the interval (`Forecast.low`, `high`): split conformal prediction, scaled by the doubt
of each pair (Lei, G'Sell, Rinaldo, Tibshirani & Wasserman, JASA 113, 2018), with that from resampled blocks. A fifth of the
pairs takes no part in this either: on these the forecast is judged, beside a baseline of a row and a column effect fitted
to the others (`judge`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt

from contend.stats import signed_rank
from contend.stats.estimate import Estimate, verdict_of_difference
from contend.stats.nnls import nnls
from contend.stats.selection import walsh_averages
from contend.text.shape import Shape

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

RESAMPLES = 200
# What keeps neighbouring slopes alike where the cells do not tell them apart; a share of the largest column.
SMOOTH = 0.05
# An injector that slows its own probe by less than 2 % at full intensity gives no scale.
LEAST_SCALE = 0.02


@dataclass(frozen=True, slots=True)
class Measured:
    """Log slowdowns by block, NaN where a trial is missing. W workloads, R resources, L intensities, B blocks."""

    workloads: tuple[str, ...]
    resources: tuple[str, ...]
    intensities: tuple[float, ...]  # %, rising
    curves: Floats  # (W, R, L, B): a workload under an injector
    calibration: Floats  # (R, R, L, B): a probe under an injector; the first R are the probes
    pressure: Floats  # (W, R, B): the probes beside a workload
    pairs: Floats  # (W, W, B): a victim beside a neighbour
    held_out: Bools  # (W, W)

    def resampled(self, blocks: npt.NDArray[np.intp]) -> Centres:
        """The values of these blocks only, each as often as it is named."""
        return Centres(
            *(centre(x[..., blocks]) for x in (self.curves, self.calibration, self.pressure, self.pairs))
        )


@dataclass(frozen=True, slots=True)
class Centres:
    """Hodges–Lehmann estimates over blocks: as `Measured`, without its last axis."""

    curves: Floats
    calibration: Floats
    pressure: Floats
    pairs: Floats


@dataclass(frozen=True, slots=True)
class Model:
    """scale: (R, L + 1), log slowdown of each probe under its own injector, from intensity 0 on, made monotone; usable:
    (R,), which resources have one; slopes: (W, R, K), one a piece of a curve; knots: (R, K), where pieces end."""

    intensities: tuple[float, ...]
    scale: Floats
    usable: Bools
    slopes: Floats
    knots: Floats

    def parts(self, pressure: Floats) -> Floats:
        """Parts that each resource adds to the log slowdown of every workload: (N, R) → (W, N, R)."""
        parts: Floats = np.einsum("nrk,wrk->wnr", _pieces(pressure, self.knots, self.usable), self.slopes)
        return parts

    def intensity(self, pressure: Floats) -> Floats:
        """The injector's intensity, %, that slows the probe as much: (N, R) → (N, R); NaN without a scale, and as many
        times 100 as it is the slowdown at 100 where it is beyond that.
        """
        intensities = np.full(pressure.shape, np.nan)
        levels = np.array((0.0, *self.intensities))
        for r in np.flatnonzero(self.usable):
            top = self.scale[r, -1]
            # Rising, or the inverse is none: a flat stretch gives its lower end.
            rise = self.scale[r] + 1e-12 * np.arange(len(levels))
            within = np.interp(np.maximum(pressure[:, r], 0.0), rise, levels)
            intensities[:, r] = np.where(pressure[:, r] > top, levels[-1] * pressure[:, r] / top, within)
        return intensities


@dataclass(frozen=True, slots=True)
class Errors(Shape):
    """|predicted - measured| over the held-out pairs."""

    median_points: Annotated[float, "of slowdowns, in percentage points"]
    worst_points: float
    median_log: float
    worst_log: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """Log slowdowns (W, W): a row a victim, a column a neighbour.

    low, high: hold the measured slowdown of a pair like those measured in this run with probability `level`; where no pair
    was measured, only the doubt that resampled blocks show, and `level` is 0. beyond: pairs whose neighbour presses harder
    on a resource that matters to the victim than any injector did.
    """

    model: Model
    predicted: Floats
    low: Floats
    high: Floats
    level: float
    parts: Floats  # (W, W, R)
    intensity: Floats  # (W, R), %
    pressure: Floats  # (W, R), log slowdown of the probes
    beyond: Bools
    measured: Floats
    baseline: Floats
    model_errors: Errors | None  # None where no held-out pair was measured
    baseline_errors: Errors | None
    advantage: Estimate  # of the model's error over the baseline's, log, on the same pairs: below 0 is better
    refused: str  # why it is a description and no forecast; "" for a forecast

    def top(self) -> npt.NDArray[np.intp]:
        """The resource that slows each pair most: (W, W)."""
        resources: npt.NDArray[np.intp] = np.argmax(self.parts, axis=2)
        return resources


def centre(x: Floats) -> Floats:
    """Hodges–Lehmann estimate along the last axis, of what is there of it; NaN where nothing is.

    >>> centre(np.array([[0.1, 0.3, np.nan], [np.nan] * 3])).tolist()
    [0.2, nan]
    """
    averages = walsh_averages(x)
    if not np.isnan(averages).any():
        medians: Floats = np.median(averages, axis=-1)
        return medians
    medians = np.full(averages.shape[:-1], np.nan)
    some = ~np.isnan(averages).all(axis=-1)
    medians[some] = np.nanmedian(averages[some], axis=-1)
    return medians


def fit(intensities: tuple[float, ...], of: Centres) -> Model:
    """Fit the curves of every workload. Cells that were not measured are left out of the equations."""
    resources = of.calibration.shape[0]
    own = of.calibration[np.arange(resources), np.arange(resources)]  # (R, L)
    scale = np.hstack([np.zeros((resources, 1)), _monotone(np.nan_to_num(own))])
    usable = scale[:, -1] >= LEAST_SCALE
    # A curve bends where the injector's intensities are; on made-up hosts fewer bends were further off.
    knots = np.hstack([scale[:, 1:-1], np.full((resources, 1), np.inf)])
    cells = np.moveaxis(of.calibration, 0, -1).reshape(-1, resources)  # (R·L, probes)
    table = _pieces(cells, knots, usable).reshape(len(cells), -1)
    whole = ~np.isnan(table).any(axis=1)
    smooth = _smoothing(table[whole], knots.shape)
    slopes = np.zeros((len(of.curves), *knots.shape))
    for w, curves in enumerate(of.curves):
        wanted = curves.reshape(-1)
        known = ~np.isnan(wanted) & whole
        rows = np.vstack([table[known], smooth])
        right = np.concatenate([wanted[known], np.zeros(len(smooth))])
        slopes[w] = nnls(rows, right).reshape(knots.shape)
    return Model(intensities, scale, usable, slopes, knots)


def _pieces(pressure: Floats, knots: Floats, usable: Bools) -> Floats:
    """How far each pressure goes into each piece of a curve: (N, R) → (N, R, K)."""
    ends = knots[None]
    starts = np.concatenate([np.zeros((1, len(knots), 1)), ends[..., :-1]], axis=2)
    with np.errstate(invalid="ignore"):
        lengths: Floats = np.clip(np.maximum(pressure, 0.0)[:, :, None] - starts, 0.0, ends - starts)
    return np.where(usable[None, :, None], lengths, 0.0)


def _smoothing(table: Floats, shape: tuple[int, ...]) -> Floats:
    """Rows that hold the slopes of neighbouring pieces together (ridge, so that NNLS stays NNLS)."""
    resources, pieces = shape
    weight = SMOOTH * math.sqrt(float((table**2).sum(axis=0).max(initial=0.0)))
    rows = []
    for r in range(resources):
        for k in range(pieces - 1):
            row = np.zeros(resources * pieces)
            row[r * pieces + k], row[r * pieces + k + 1] = weight, -weight
            rows.append(row)
    return np.array(rows)


def _monotone(rows: Floats) -> Floats:
    """Isotonic regression of each row, not below 0: pool adjacent violators (Barlow et al. 1972), by the min–max formula.

    >>> _monotone(np.array([[0.1, 0.4, 0.2, 0.5]])).round(3).tolist()
    [[0.1, 0.3, 0.3, 0.5]]
    """
    fitted = np.empty_like(rows)
    n = rows.shape[1]
    total = np.hstack([np.zeros((len(rows), 1)), np.cumsum(rows, axis=1)])
    for i in range(n):
        means = [
            np.min([(total[:, k + 1] - total[:, j]) / (k + 1 - j) for k in range(i, n)], axis=0)
            for j in range(i + 1)
        ]
        fitted[:, i] = np.max(means, axis=0)
    return np.maximum(fitted, 0.0)


def row_and_column(pairs: Floats, known: Bools) -> Floats:
    """Fit the baseline: a row effect + a column effect, least squares over the `known` of (W, W) log slowdowns.

    NaN where a row or a column has none that is known.
    """
    n = len(pairs)
    use = known & ~np.isnan(pairs)
    rows, columns = np.nonzero(use)
    design = np.zeros((len(rows), 2 * n))
    design[np.arange(len(rows)), rows] = 1.0
    design[np.arange(len(rows)), n + columns] = 1.0
    effects = np.linalg.lstsq(design, pairs[use], rcond=None)[0] if len(rows) else np.zeros(2 * n)
    table: Floats = effects[:n, None] + effects[None, n:]
    table[~np.logical_or.reduce(use, axis=1), :] = np.nan
    table[:, ~np.logical_or.reduce(use, axis=0)] = np.nan
    return table


def predict(model: Model, pressure: Floats) -> Floats:
    """Predict (W, N) log slowdowns beside neighbours of these pressures (N, R); NaN where one of them is not known."""
    slowdowns: Floats = model.parts(np.nan_to_num(pressure)).sum(axis=2)
    slowdowns[:, np.logical_or.reduce(np.isnan(pressure[:, model.usable]), axis=1)] = np.nan
    return slowdowns


def forecast(measured: Measured, *, level: float, seed: int, resamples: int = RESAMPLES) -> Forecast:
    """Predict every pair with its interval, and decide whether that may be called a forecast."""
    blocks = measured.pairs.shape[-1]
    centres = measured.resampled(np.arange(blocks))
    model = fit(measured.intensities, centres)
    predicted = predict(model, centres.pressure)
    rng = np.random.default_rng([seed, 9])
    drawn = np.empty((resamples, *predicted.shape))
    excess = np.empty((resamples, *centres.pressure.shape))
    for i in range(resamples):
        again = measured.resampled(rng.integers(blocks, size=(blocks,)))
        drawn[i] = predict(fit(measured.intensities, again), again.pressure)
        excess[i] = again.pressure - np.nanmax(np.nan_to_num(again.calibration), axis=(1, 2))
    low, high, reached = _interval(predicted, drawn, centres.pairs, ~measured.held_out, level)
    parts = model.parts(np.nan_to_num(centres.pressure))
    # Harder than any injector, beyond the doubt of the blocks, and of some account to the victim.
    harder = _quantiles(excess, [0.025])[0] > 0
    beyond: Bools = np.logical_or.reduce(harder[None] & (parts > 0.01), axis=2)
    baseline = row_and_column(centres.pairs, ~measured.held_out)
    own, theirs, advantage, refused = judge(predicted, baseline, centres.pairs, measured.held_out, level)
    if not model.usable.any():
        refused = "no injector slows its own probe here by 2 %: there is no scale for any resource"
    return Forecast(
        model, predicted, low, high, reached, parts, model.intensity(centres.pressure), centres.pressure,
        beyond, centres.pairs, baseline, own, theirs, advantage, refused,
    )  # fmt: skip


def _interval(
    predicted: Floats, drawn: Floats, pairs: Floats, learnt: Bools, level: float
) -> tuple[Floats, Floats, float]:
    """Split conformal over the pairs `learnt` from. The level reached is n/(n + 1) where they are too few for `level`.

    A pair has a prediction in those resamples only that drew a block in which its neighbour's pressure was measured.
    """
    doubt = _spread(drawn)
    known = learnt & ~np.isnan(pairs) & ~np.isnan(predicted) & ~np.isnan(doubt)
    n = int(known.sum())
    if not n:
        tail = (1 - level) / 2
        low, high = _quantiles(drawn, [tail, 1 - tail])
        return np.minimum(low, predicted), np.maximum(high, predicted), 0.0
    missed = np.abs(pairs - predicted)
    scale = np.hypot(doubt, max(float(np.median(missed[known])), 1e-6))
    scores = np.sort((missed / scale)[known])
    rank = min(n, math.ceil((n + 1) * level))
    reach = scores[rank - 1] * scale
    return predicted - reach, predicted + reach, min(level, n / (n + 1))


def _spread(drawn: Floats) -> Floats:
    """Standard deviation over resamples, (N, W, W) → (W, W), of those that have a value; NaN where none has."""
    if not np.isnan(drawn).any():
        return np.asarray(drawn.std(axis=0), dtype=np.float64)
    spread = np.full(drawn.shape[1:], np.nan)
    some = ~np.isnan(drawn).all(axis=0)
    spread[some] = np.nanstd(drawn[:, some], axis=0)
    return spread


def _quantiles(drawn: Floats, parts: Sequence[float]) -> Floats:
    """Quantiles over resamples, (N, …) → (parts, …), of those that have a value; NaN where none has."""
    if not np.isnan(drawn).any():
        return np.asarray(np.quantile(drawn, parts, axis=0), dtype=np.float64)
    quantiles = np.full((len(parts), *drawn.shape[1:]), np.nan)
    some = ~np.isnan(drawn).all(axis=0)
    quantiles[:, some] = np.nanquantile(drawn[:, some], parts, axis=0)
    return quantiles


def judge(
    predicted: Floats, baseline: Floats, pairs: Floats, held_out: Bools, level: float
) -> tuple[Errors | None, Errors | None, Estimate, str]:
    """Compare the errors of both on the held-out pairs: each error, their difference, and why this is no forecast (""
    if it is).

    A forecast is nearer where a signed-rank interval, over the held-out pairs, of the difference of both absolute errors
    (log) lies below 0. Pairs share workloads, so it is rather too narrow.
    """
    use = held_out & ~np.isnan(pairs) & ~np.isnan(predicted) & ~np.isnan(baseline)
    n = int(use.sum())
    method = (
        "Hodges–Lehmann median of |log error| of the forecast less that of the baseline, by held-out pair"
    )
    if not n:
        none = Estimate(math.nan, -math.inf, math.inf, "log", 0, level, method, "too few")
        return None, None, none, "no held-out pair was measured: nobody knows how far off the forecast is"
    own, theirs = _errors(predicted[use], pairs[use]), _errors(baseline[use], pairs[use])
    gaps = np.abs(predicted[use] - pairs[use]) - np.abs(baseline[use] - pairs[use])
    value, low, high = signed_rank.estimate(gaps, level)
    verdict = verdict_of_difference(low, high)
    least = signed_rank.smallest_n(level)
    refused = ""
    if n < least:
        verdict = "too few"
        refused = (
            f"{n} held-out pair{'s' if n != 1 else ''} cannot tell whether it beats the baseline: {least} can"
        )
    elif verdict == "higher":
        refused = "a row and a column effect predict the held-out pairs better"
    elif verdict != "lower":
        refused = (
            "its errors on the held-out pairs are not shown to be smaller than a row and column effect's"
        )
    return own, theirs, Estimate(value, low, high, "log", n, level, method, verdict), refused


def _errors(predicted: Floats, measured: Floats) -> Errors:
    points = 100 * np.abs(np.exp(predicted) - np.exp(measured))
    logs = np.abs(predicted - measured)
    return Errors(float(np.median(points)), float(points.max()), float(np.median(logs)), float(logs.max()))
