"""Do the estimators say 95 % when they mean 95 %? `bench/known_answers.py` prints the tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from contend.stats import aligned, signed_rank
from contend.stats.quantiles import t_quantile
from contend.stats.simultaneous import simultaneous
from contend.stats.stopping import Stopping
from known import joint, platforms
from known.noise import GENERATORS, Noise, block_order, randomised_blocks, randomised_pairs
from known.result import Result, counted
from known.stopping import simulate

Floats = npt.NDArray[np.float64]

SHIFT = math.log(1.05)
SIZES = (10, 20, 40)
LEVEL = 0.95


def coverage(noise: Noise, pairs: int, experiments: int, seed: int) -> Result:
    """Randomised pairs, signed-rank interval, true ratio 1.05."""
    a, b = randomised_pairs(noise, experiments, pairs, SHIFT, np.random.default_rng([seed, 1, pairs]))
    _, low, high = signed_rank.intervals(b - a, LEVEL)
    return counted("coverage", noise, pairs, (low <= SHIFT) & (high >= SHIFT), high - low)


def power(noise: Noise, pairs: int, experiments: int, seed: int) -> Result:
    """How often an injected 5 % is found."""
    a, b = randomised_pairs(noise, experiments, pairs, SHIFT, np.random.default_rng([seed, 2, pairs]))
    _, low, high = signed_rank.intervals(b - a, LEVEL)
    return counted("power", noise, pairs, low > 0, high - low)


def alarms(noise: Noise, pairs: int, experiments: int, seed: int) -> Result:
    """How often an A/A control claims a difference that is not there."""
    a, b = randomised_pairs(noise, experiments, pairs, 0.0, np.random.default_rng([seed, 3, pairs]))
    _, low, high = signed_rank.intervals(b - a, LEVEL)
    return counted("A/A alarms", noise, pairs, (low > 0) | (high < 0), high - low)


def sequential(noise: Noise, most: int, experiments: int, seed: int, rule: Stopping | None = None) -> Result:
    """Coverage when the run stops itself at ±2 %, or at `most` blocks."""
    table = "sequential" if rule is None else f"sequential, first look {rule.first}, then every {rule.step}"
    rule = rule or Stopping(most=most)
    done = simulate(rule, noise, experiments, SHIFT, np.random.default_rng([seed, 4, most]), LEVEL)
    extra = f"{done.mean_blocks:.1f} blocks on average; target reached in {done.reached / experiments:.0%}"
    return Result(table, noise.name, most, done.covered, experiments, None, extra)


def blocks_of_8(noise: Noise, blocks: int, experiments: int, seed: int) -> Result:
    """4 + 4 runs a block, aligned-rank interval."""
    rng = np.random.default_rng([seed, 5, blocks])
    a, b = randomised_blocks(noise, experiments, blocks, 4, SHIFT, rng)
    treated = np.broadcast_to(np.arange(8) >= 4, (blocks, 8))
    each = [aligned.interval(values, treated, LEVEL) for values in np.concatenate([a, b], axis=2)]
    _, low, high = np.array(each).T
    return counted("blocks of 8", noise, blocks, (low <= SHIFT) & (high >= SHIFT), high - low)


def welch_on_block_order(noise: Noise, runs: int, experiments: int, seed: int) -> Result:
    """What is usually done: all of A, then all of B, Welch's t interval. Refused by contend."""
    a, b = block_order(noise, experiments, runs, SHIFT, np.random.default_rng([seed, 6, runs]))
    va, vb = a.var(axis=1, ddof=1) / runs, b.var(axis=1, ddof=1) / runs
    # Welch–Satterthwaite degrees of freedom, to the integer so that the quantile is cached.
    freedom = np.round((va + vb) ** 2 / ((va**2 + vb**2) / (runs - 1)))
    reach = np.array([t_quantile(0.975, float(df)) for df in freedom]) * np.sqrt(va + vb)
    error = b.mean(axis=1) - a.mean(axis=1) - SHIFT
    return counted("Welch on block order", noise, runs, np.abs(error) <= reach, 2 * reach)


def iterations_as_replicates(experiments: int, seed: int, of_runs: bool) -> Result:
    """10 runs an arm of 30 iterations each; runs differ by 3 %, iterations inside one by 3 %.

    of_runs=False takes an interval over all iterations, True one over the run means. Refused by contend.
    """
    runs, iterations = 10, 30
    rng = np.random.default_rng([seed, 7])
    shape = (experiments, 2, runs)
    values = 0.03 * rng.standard_normal((*shape, 1)) + 0.03 * rng.standard_normal((*shape, iterations))
    data = values.mean(axis=3) if of_runs else values.reshape(experiments, 2, -1)
    n = data.shape[2]
    reach = t_quantile(0.975, 2 * (n - 1)) * np.sqrt(data.var(axis=2, ddof=1).sum(axis=1) / n)
    held = np.abs(data[:, 1].mean(axis=1) - data[:, 0].mean(axis=1)) <= reach
    table = "interval over run means" if of_runs else "interval over iterations"
    return Result(table, "iid", n, int(held.sum()), experiments, float(2 * reach.mean()))


def five_hosts(experiments: int, seed: int, pooled: bool, hosts: int = 5, pairs: int = 20) -> Result:
    """Hosts whose true ratios differ by 2 % (sd): t over host estimates, or (refused) all blocks pooled."""
    rng = np.random.default_rng([seed, 8])
    own = SHIFT + 0.02 * rng.standard_normal((experiments, hosts))
    noise = GENERATORS[0]
    a, b = randomised_pairs(noise, experiments * hosts, pairs, 0.0, rng)
    differences = b - a + own.reshape(-1, 1)
    if pooled:
        _, low, high = signed_rank.intervals(differences.reshape(experiments, -1), LEVEL)
    else:
        estimates = signed_rank.intervals(differences, LEVEL)[0].reshape(experiments, hosts)
        reach = t_quantile(0.975, hosts - 1) * estimates.std(axis=1, ddof=1) / math.sqrt(hosts)
        centre = estimates.mean(axis=1)
        low, high = centre - reach, centre + reach
    held = (low <= SHIFT) & (high >= SHIFT)
    table = "five hosts, blocks pooled" if pooled else "five hosts, t over hosts"
    return counted(table, noise, hosts, held, high - low)


def family(noise: Noise, blocks: int, families: int, treatments: int, experiments: int, seed: int) -> Result:
    """A matrix of families * treatments comparisons: how often all its intervals hold."""
    cells = families * (treatments + 1)
    rng = np.random.default_rng([seed, 9, blocks, cells])
    runs = noise.series(experiments, blocks * cells, rng).reshape(experiments, blocks, cells)
    runs = np.exp(np.take_along_axis(runs, np.argsort(rng.random(runs.shape), axis=2), axis=2))
    held = 0
    widths: list[float] = []
    for e in range(experiments):
        matrix = {}
        for f in range(families):
            first = f * (treatments + 1)
            for c in range(first + 1, first + treatments + 1):
                matrix[c] = (runs[e, :, first], runs[e, :, c])
        estimates = simultaneous(matrix, LEVEL, seed=e, randomisations=400).values()
        held += all(x.low <= 1 <= x.high for x in estimates)
        finite = [math.log(x.high / x.low) for x in estimates if math.isfinite(x.high)]
        widths.append(float(np.mean(finite)) if finite else math.nan)
    extra = f"{families} × {treatments} comparisons"
    return Result("simultaneous", noise.name, blocks, held, experiments, float(np.nanmean(widths)), extra)


def everything(experiments: int, seed: int) -> list[Result]:
    """All tables, in the order in which they are printed."""
    results: list[Result] = []
    per_noise: tuple[Callable[[Noise, int, int, int], Result], ...]
    per_noise = (coverage, alarms, power, welch_on_block_order)
    for measure in per_noise:
        sizes = (30, 40) if measure is power else SIZES
        results += [measure(noise, n, experiments, seed) for noise in GENERATORS for n in sizes]
    results += [sequential(noise, 60, experiments, seed) for noise in GENERATORS]
    every_block = Stopping(first=6, step=1, most=60)
    results += [sequential(noise, 60, experiments, seed, every_block) for noise in GENERATORS]
    results += [blocks_of_8(noise, n, experiments, seed) for noise in GENERATORS for n in (3, 5, 10)]
    results += [five_hosts(experiments, seed, pooled) for pooled in (False, True)]
    results += [iterations_as_replicates(experiments, seed, of_runs) for of_runs in (True, False)]
    few = max(1, experiments // 4)
    results += [
        family(noise, n, families, treatments, few, seed)
        for noise in GENERATORS
        for n, families, treatments in ((8, 2, 3), (8, 3, 3), (12, 2, 3), (20, 2, 3))
    ]
    results += joint.everything(max(1, experiments // 5), seed)
    return results + platforms.everything(experiments, seed)


def markdown(results: Iterable[Result]) -> str:
    """One table for each kind of experiment."""
    lines: list[str] = []
    table = ""
    for r in results:
        if r.table != table:
            table = r.table
            lines += ["", f"## {table[0].upper()}{table[1:]}", ""]
            lines += ["| noise | n | held | share | 95 % bounds | mean width | |"]
            lines += ["|---|--:|--:|--:|--:|--:|---|"]
        low, high = r.bounds
        width = "" if r.width is None else f"{r.width:.1%}"
        counted = f"{r.count} / {r.experiments} | {r.share:.1%} | {low:.1%} – {high:.1%}"
        lines.append(f"| {r.noise} | {r.n} | {counted} | {width} | {r.extra} |")
    return "\n".join(lines).strip() + "\n"
