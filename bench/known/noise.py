"""Known noise: five ways in which a shared machine disturbs a series of runs.

They are what the estimators of `contend.stats` are checked against. Everything is on the natural-log scale and per run:
a value of 0.05 is about 5 % slower.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from contend.errors import UnknownName

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Noise:
    """A sum of independent disturbances; a parameter of 0 leaves that one out.

    correlation, correlated_sd: first-order autoregression with this lag-1 correlation and this stationary
    standard deviation. drift: linear rise from the first run to the last. switch_on, switch_off, height: a
    two-state neighbour (Markov chain, started in its stationary state) and what a run beside it loses.
    walk_sd: step of a random walk. run_sd: independent Gaussian noise. outlier, outlier_mean: probability
    of a spike and the mean of its exponential height.
    """

    name: str
    correlation: float = 0.0
    correlated_sd: float = 0.0
    drift: float = 0.0
    switch_on: float = 0.0
    switch_off: float = 0.0
    height: float = 0.0
    walk_sd: float = 0.0
    run_sd: float = 0.0
    outlier: float = 0.0
    outlier_mean: float = 0.0

    def series(self, experiments: int, runs: int, rng: np.random.Generator) -> Floats:
        """Log disturbance of each run in the order of time, shape (experiments, runs).

        >>> noise("drift").series(2, 6, np.random.default_rng(1)).shape
        (2, 6)
        """
        shape = (experiments, runs)
        total = self.run_sd * rng.standard_normal(shape)
        if self.correlated_sd:
            total += self._autoregression(rng.standard_normal(shape))
        if self.drift:
            total += self.drift * np.linspace(0.0, 1.0, runs)
        if self.height:
            total += self.height * self._neighbour(rng.random(shape))
        if self.walk_sd:
            total += self.walk_sd * np.cumsum(rng.standard_normal(shape), axis=1)
        if self.outlier:
            spikes = rng.random(shape) < self.outlier
            total += spikes * rng.exponential(self.outlier_mean, shape)
        return total

    def _autoregression(self, shocks: Floats) -> Floats:
        """x₀ from the stationary law, x_t = φ x_{t-1} + √(1-φ²) shock."""
        rest = math.sqrt(1 - self.correlation**2)
        out = shocks.copy()
        for t in range(1, out.shape[1]):
            out[:, t] = self.correlation * out[:, t - 1] + rest * shocks[:, t]
        return self.correlated_sd * out

    def _neighbour(self, uniform: Floats) -> npt.NDArray[np.bool_]:
        on = np.empty(uniform.shape, dtype=np.bool_)
        on[:, 0] = uniform[:, 0] < self.switch_on / (self.switch_on + self.switch_off)
        for t in range(1, uniform.shape[1]):
            stays = uniform[:, t] >= self.switch_off
            starts = uniform[:, t] < self.switch_on
            on[:, t] = np.where(on[:, t - 1], stays, starts)
        return on


GENERATORS: tuple[Noise, ...] = (
    Noise("iid", run_sd=0.05),
    Noise("AR", correlation=0.9, correlated_sd=0.10, run_sd=0.03),
    Noise("drift", drift=0.2, run_sd=0.03, outlier=0.1, outlier_mean=0.3),
    Noise(
        "neighbour",
        correlation=0.8,
        correlated_sd=0.05,
        drift=0.05,
        switch_on=0.05,
        switch_off=0.1,
        height=0.25,
        run_sd=0.03,
        outlier=0.1,
        outlier_mean=0.3,
    ),
    Noise("walk", walk_sd=0.02, run_sd=0.03, outlier=0.1, outlier_mean=0.3),
)


def noise(name: str) -> Noise:
    """One of GENERATORS by its name. Raises UnknownName.

    >>> noise("AR").correlation
    0.9
    """
    for generator in GENERATORS:
        if generator.name == name:
            return generator
    raise UnknownName("noise generator", name, [g.name for g in GENERATORS])


def randomised_blocks(
    generator: Noise, experiments: int, blocks: int, per_arm: int, shift: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Log values of both arms, each of shape (experiments, blocks, per_arm).

    Time runs through the blocks; within one the order of its 2 * per_arm runs is drawn at random. `shift`
    is the true log ratio of treatment to baseline.
    """
    size = 2 * per_arm
    runs = generator.series(experiments, blocks * size, rng).reshape(experiments, blocks, size)
    order = np.argsort(rng.random(runs.shape), axis=2)
    shuffled = np.take_along_axis(runs, order, axis=2)
    return shuffled[:, :, :per_arm], shuffled[:, :, per_arm:] + shift


def randomised_pairs(
    generator: Noise, experiments: int, pairs: int, shift: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Log values of both arms, each of shape (experiments, pairs): blocks of one run an arm."""
    baseline, treatment = randomised_blocks(generator, experiments, pairs, 1, shift, rng)
    return baseline[:, :, 0], treatment[:, :, 0]


def block_order(
    generator: Noise, experiments: int, runs_per_arm: int, shift: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """The design that contend refuses: AAA…BBB. Shapes (experiments, runs_per_arm)."""
    runs = generator.series(experiments, 2 * runs_per_arm, rng)
    return runs[:, :runs_per_arm], runs[:, runs_per_arm:] + shift
