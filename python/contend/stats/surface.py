"""A response surface: a second-order polynomial of logarithms over coded factors, by least squares.

Box & Wilson (1951); Box & Draper, Response Surfaces, Mixtures, and Ridge Analyses (2007). A description of what was
measured, not a verdict: an interval here is of the model's mean and holds where the model does. So every fit says how far
off it is at points that it was not told of (PRESS: each left out in turn; Allen, Technometrics 16, 1974).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt

from contend.errors import BadInput
from contend.stats.quantiles import t_quantile
from contend.text.shape import HIDDEN, Count, Shape, computed

Floats = npt.NDArray[np.float64]
_SPARE = 1.3  # points for each coefficient, at least
METHOD = "second-order polynomial of logarithms, least squares; interval of the model's mean"


@dataclass(frozen=True, slots=True)
class Prediction:
    """Prediction of a logarithm, at one point."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Surface(Shape):
    """A response surface: a description, no verdict."""

    powers: Annotated[tuple[tuple[int, ...], ...], HIDDEN]
    """Of each term, the exponent of every factor."""
    coefficients: Annotated[Floats, HIDDEN]
    spread: Annotated[Floats, HIDDEN]  # covariance of the coefficients
    n: Annotated[Count, "points"]
    df: Count
    missed: Annotated[float, "median error factor less 1 at points left out in turn"]
    explained: Annotated[float, "share of the variance of such points that is predicted"]

    def at(self, point: Sequence[float], level: float = 0.95) -> Prediction:
        """Estimate the logarithm there, with the interval of its mean. point: coded, one value a factor."""
        row = _rows([point], self.powers)[0]
        value = float(row @ self.coefficients)
        reach = t_quantile(0.5 + level / 2, self.df) * float(np.sqrt(max(0.0, row @ self.spread @ row)))
        return Prediction(value, value - reach, value + reach)

    @property
    @computed(before="missed")
    def order(self) -> str:
        """what the model holds"""
        if any(sum(p) == 2 and max(p) == 1 for p in self.powers):
            return "second order, with the products of every two factors"
        return "squares without products" if any(max(p) == 2 for p in self.powers) else "first order"


def surface(points: Sequence[Sequence[float]], values: Sequence[float]) -> Surface:
    """Fit logarithms of `values` over coded points, one value a point. Raises BadInput for too few, or none above 0.

    The model is as large as the points allow: straight lines, then squares, then products of two factors.

    >>> at = [(x, y) for x in (-1.0, 0.0, 1.0) for y in (-1.0, 0.0, 1.0)]
    >>> found = surface(at, [np.exp(1 + 0.5 * x - 0.2 * x * y) for x, y in at])
    >>> round(found.at((1.0, -1.0)).value, 3)
    1.7
    """
    x, y = np.array(points, dtype=np.float64), np.array(values, dtype=np.float64)
    if x.ndim != 2 or len(x) != len(y):
        raise BadInput(f"{len(y)} values of {len(x)} points", hint="one value a point")
    if not len(y) or np.any(y <= 0) or not np.all(np.isfinite(y)):
        raise BadInput("a logarithm needs values above 0", hint="leave points without a figure out")
    logs = np.log(y)
    for powers in _models(x):
        rows = _rows(x, powers)
        if len(x) >= _SPARE * len(powers) and np.linalg.matrix_rank(rows) == len(powers):
            return _fit(rows, logs, powers)
    raise BadInput(f"{len(x)} points are too few for a surface", hint="more points")


def _models(x: Floats) -> list[tuple[tuple[int, ...], ...]]:
    """The largest first."""
    width = x.shape[1]
    several = [len(np.unique(x[:, k])) for k in range(width)]
    unit = np.eye(width, dtype=int)
    varied = [k for k in range(width) if several[k] > 1]
    none = [tuple([0] * width)]
    lines = [tuple(int(v) for v in unit[k]) for k in varied]
    squares = [tuple(int(v) for v in 2 * unit[k]) for k in varied if several[k] > 2]
    products = [tuple(int(v) for v in unit[a] + unit[b]) for a, b in itertools.combinations(varied, 2)]
    return [tuple(none + lines + squares + products), tuple(none + lines + squares), tuple(none + lines)]


def _rows(x: Floats | Sequence[Sequence[float]], powers: Sequence[Sequence[int]]) -> Floats:
    at = np.asarray(x, dtype=np.float64)
    return np.stack([np.prod(at ** np.array(p), axis=1) for p in powers], axis=1)


def _fit(rows: Floats, logs: Floats, powers: tuple[tuple[int, ...], ...]) -> Surface:
    n, width = rows.shape
    held = np.linalg.inv(rows.T @ rows)
    coefficients = held @ rows.T @ logs
    residuals = logs - rows @ coefficients
    leverage = np.clip(np.einsum("ij,jk,ik->i", rows, held, rows), 0, 1 - 1e-9)
    left_out = residuals / (1 - leverage)
    df = n - width
    variance = float(residuals @ residuals) / df
    about = float(np.sum((logs - logs.mean()) ** 2))
    explained = 1 - float(left_out @ left_out) / about if about > 0 else 0.0
    missed = float(np.exp(np.median(np.abs(left_out))) - 1)
    return Surface(powers, coefficients, held * variance, n, df, missed, explained)
