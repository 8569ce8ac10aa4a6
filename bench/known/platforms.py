"""Do PTO, PSO, effects and curves hold what is true? Tables of `known.answers`.

A host of 16 CPUs; sizes 1, 2, 4, 8, 16; a block has every size of the platform and the bare host of that size, in random
order. PTO is 1.10; PSO as TRUTHS has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from contend.stats import signed_rank
from contend.stats.platform_curves import curve
from contend.stats.platform_size import Setting, SizeCell, decompositions
from known.noise import GENERATORS, Noise, noise
from known.result import Result, counted

Floats = npt.NDArray[np.float64]

HOST = 16.0
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0)
NOT_MEASURED = 3.0
PTO = math.log(1.10)
LEVEL = 0.95

_CHR = np.array(SIZES) / HOST

TRUTHS: Mapping[str, Callable[[Floats], Floats]] = {
    "constant": lambda chr_: 0 * chr_,
    "1 - CHR": lambda chr_: 0.5 * (1 - chr_),
    "log(1 / CHR)": lambda chr_: -0.2 * np.log(chr_),
    "1 / CHR - 1": lambda chr_: 0.04 * (1 / chr_ - 1),
    "CHR^-0.5 - 1": lambda chr_: 0.2 * (chr_**-0.5 - 1),
    "a step": lambda chr_: np.where(chr_ < 0.15, 0.4, 0.0),
    "a hump": lambda chr_: 0.3 * np.exp(-((np.log(chr_ / 0.25)) ** 2) / 0.5),
    "levels off": lambda chr_: 0.5 * (1 - np.exp(-(1 / chr_ - 1) / 2)),
}
"""log PSO by CHR. The last three have a form that no curve here can take."""

OTHER_FORMS = tuple(TRUTHS)[-3:]


def runs(noise: Noise, experiments: int, blocks: int, cells: int, rng: np.random.Generator) -> Floats:
    """Log disturbance of (experiments, blocks, cells): each block's cells in a random order of their own."""
    found = noise.series(experiments, blocks * cells, rng).reshape(experiments, blocks, cells)
    return np.take_along_axis(found, np.argsort(rng.random(found.shape), axis=2), axis=2)


def sized(
    noise: Noise, truth: str, experiments: int, blocks: int, rng: np.random.Generator, unequal: bool = False
) -> tuple[Floats, Floats]:
    """Log values of the platform and of the bare host, each (experiments, blocks, sizes).

    unequal: the smallest size is disturbed three times as much as the largest.
    """
    both = runs(noise, experiments, blocks, 2 * len(SIZES), rng)
    bare, platform = both[:, :, : len(SIZES)], both[:, :, len(SIZES) :]
    if unequal:
        scale = np.linspace(3.0, 1.0, len(SIZES))
        bare, platform = bare * scale, platform * scale
    return platform + PTO + TRUTHS[truth](_CHR), bare


def cells_of(platform: Floats, bare: Floats) -> list[SizeCell]:
    """Of one experiment: two of shape (blocks, sizes)."""
    return [
        SizeCell(
            Setting("made up", "container", "vanilla", size, HOST),
            np.exp(platform[:, i]).tolist(),
            np.exp(bare[:, i]).tolist(),
        )
        for i, size in enumerate(SIZES)
    ]


def pto(generator: Noise, blocks: int, experiments: int, seed: int) -> Result:
    """One PTO by itself."""
    rng = np.random.default_rng([seed, 20, blocks])
    platform, bare = sized(generator, "1 / CHR - 1", experiments, blocks, rng)
    _, low, high = signed_rank.intervals((platform - bare)[:, :, -1], LEVEL)
    return counted("PTO", generator, blocks, (low <= PTO) & (high >= PTO), high - low)


def pso(generator: Noise, blocks: int, experiments: int, seed: int) -> Result:
    """One PSO by itself, of the smallest size; beside it the worst of the four."""
    rng = np.random.default_rng([seed, 21, blocks])
    platform, bare = sized(generator, "1 / CHR - 1", experiments, blocks, rng)
    ratios = platform - bare
    quotients = np.swapaxes(ratios[:, :, :-1] - ratios[:, :, -1:], 1, 2)
    _, low, high = signed_rank.intervals(quotients, LEVEL)
    truth = TRUTHS["1 / CHR - 1"](_CHR)[:-1]
    held = (low <= truth) & (high >= truth)
    found = counted("PSO", generator, blocks, held[:, 0], (high - low)[:, 0])
    return replace(found, extra=f"worst of {len(truth)} sizes: {held.mean(axis=0).min():.1%}")


def whole_decomposition(
    generator: Noise, blocks: int, experiments: int, seed: int, unequal: bool = False
) -> Result:
    """How often PTO and all four PSOs of one platform hold at once, by `decompositions`."""
    rng = np.random.default_rng([seed, 22, blocks, unequal])
    platform, bare = sized(generator, "1 / CHR - 1", experiments, blocks, rng, unequal)
    truth = TRUTHS["1 / CHR - 1"](_CHR)
    count, widths = 0, []
    for e in range(experiments):
        (found,) = decompositions(cells_of(platform[e], bare[e]), seed=e, randomisations=400)
        parts = [(found.pto, PTO), *((p.ratio, t) for p, t in zip(found.pso, truth[:-1], strict=True))]
        count += all(p.low <= math.exp(t) <= p.high for p, t in parts)
        widths.append(math.log(found.pso[0].ratio.high / found.pso[0].ratio.low))
    extra = "smaller sizes noisier" if unequal else ""
    width = float(np.mean(widths))
    return Result("PTO and four PSO together", generator.name, blocks, count, experiments, width, extra)


def without_one(generator: Noise, blocks: int, experiments: int, seed: int) -> Result:
    """Refusals where the largest CHR is 0.5."""
    rng = np.random.default_rng([seed, 23, blocks])
    platform, bare = sized(generator, "1 / CHR - 1", experiments, blocks, rng)
    count = 0
    for e in range(experiments):
        (found,) = decompositions(cells_of(platform[e], bare[e])[:-1], randomisations=100)
        count += bool(found.refused) and not found.pso
    return Result("No PTO without a cell at CHR ≈ 1: refused", generator.name, blocks, count, experiments)


def effect(generator: Noise, blocks: int, experiments: int, seed: int, crossed: bool) -> Result:
    """Vanilla over pinned, true 1.05; crossed: PSO vanilla over PSO pinned. The baselines cancel: a quotient of four runs
    a block.
    """
    rng = np.random.default_rng([seed, 24, blocks, crossed])
    arms = runs(generator, experiments, blocks, 4 if crossed else 2, rng)
    sign = np.array([1, -1, -1, 1]) if crossed else np.array([1, -1])
    truth = math.log(1.05)
    _, low, high = signed_rank.intervals(arms @ sign + truth, LEVEL)
    table = "Effect of pinning on PSO" if crossed else "Effect of pinning"
    found = counted(table, generator, blocks, (low <= truth) & (high >= truth), high - low)
    # Power at the smallest effect that a run of this kind says it could have seen: 80 % by its definition.
    seen = float(np.median(1.43 * np.expm1((high - low) / 2)))
    power = float(np.mean(low - truth + math.log1p(seen) > 0))
    return replace(found, extra=f"an effect of {seen:.1%}, the smallest it could see, found in {power:.0%}")


def curves(
    truth: str, generator: Noise, blocks: int, experiments: int, seed: int, resamples: int = 300
) -> Result:
    """How often the curve's interval holds at a size that was not measured; beside it what is measured there.

    Counted whether or not the curve was refused, so that one sees what the refusals are worth.
    """
    rng = np.random.default_rng([seed, 25, blocks, tuple(TRUTHS).index(truth)])
    platform, bare = sized(generator, truth, experiments, blocks, rng)
    value = float((PTO + TRUTHS[truth](np.array([NOT_MEASURED / HOST])))[0])
    held, refused, widths, inside = [], [], [], []
    for e in range(experiments):
        found = curve(cells_of(platform[e], bare[e]), seed=e, resamples=resamples)
        told = found._at(NOT_MEASURED)
        held.append(math.log(told.low) <= value <= math.log(told.high))
        refused.append(bool(found.doubt))
        widths.append(math.log(told.high / told.low))
        if e < experiments // 4:  # five more fits each
            inside += [h.inside for h in found.held_out if h.inside is not None]
    given = [h for h, r in zip(held, refused, strict=True) if not r]
    measured = _measured(platform - bare, TRUTHS[truth](_CHR))
    left_out = f"sizes left out and inside {np.mean(inside):.0%}"
    extra = f"given in {len(given)}, held in {sum(given)} of them; {left_out}; {measured}"
    other = truth in OTHER_FORMS
    table = "Curve of another form than any fitted" if other else "Curve of a form that is fitted"
    name = f"{generator.name}, {truth}"
    return Result(table, name, blocks, sum(held), experiments, float(np.mean(widths)), extra)


def _measured(ratios: Floats, truth: Floats) -> str:
    """Coverage of PTO and of the smallest size's PSO in the same experiments: what needs no curve."""
    parts = []
    for name, values, true in (
        ("PTO", ratios[:, :, -1], PTO),
        ("PSO", ratios[:, :, 0] - ratios[:, :, -1], float(truth[0])),
    ):
        _, low, high = signed_rank.intervals(values, LEVEL)
        parts.append(f"{name} {np.mean((low <= true) & (high >= true)):.0%}")
    return ", ".join(parts) + " held"


def everything(experiments: int, seed: int) -> list[Result]:
    """All tables, in the order in which they are printed. Whole decompositions: a quarter of the experiments; curves: an
    eighth."""
    few, fewer = max(4, experiments // 4), max(4, experiments // 8)
    results = [
        measure(generator, n, experiments, seed)
        for measure in (pto, pso)
        for generator in GENERATORS
        for n in (6, 10, 20, 40)
    ]
    together: Sequence[tuple[int, bool]] = ((8, False), (12, False), (20, False), (20, True))
    results += [whole_decomposition(g, n, few, seed, unequal) for g in GENERATORS for n, unequal in together]
    results += [without_one(generator, 10, few, seed) for generator in GENERATORS]
    results += [
        effect(generator, n, experiments, seed, crossed)
        for crossed in (False, True)
        for generator in GENERATORS
        for n in (10, 20)
    ]
    results += [
        curves(truth, noise(name), 20, fewer, seed) for name in ("iid", "neighbour") for truth in TRUTHS
    ]
    return sorted(results, key=lambda r: r.table == "Curve of another form than any fitted")
