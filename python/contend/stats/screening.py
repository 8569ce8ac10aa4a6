"""A few points of a full factorial to measure first: a D-optimal subset.

Of all subsets of so many points, that one is looked for whose least-squares fit is the most precise as a whole (largest
determinant of X'X), by exchanging points for better ones (Fedorov, Theory of Optimal Experiments, 1972; the exchange of
Cook & Nachtsheim, Technometrics 22, 1980, from several random starts). The model that it is optimal for holds every
level of every factor (so that each comes up, the outer ones oftener, and no two factors are confounded) and the
product of every two factors' linear terms. Points are taken once: each is then run twice anyway, alone and beside.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from contend.errors import BadInput

Floats = npt.NDArray[np.float64]
_STARTS = 4
_LEAST_GAIN = 1e-3  # of the determinant, for which a point is exchanged


@dataclass(frozen=True, slots=True)
class Screening:
    """Points as level numbers, one a factor. efficiency: the fit's precision, a run, against the full factorial's (more than
    1 where the outer levels tell more); aliasing: largest correlation of two factors' linear terms, 0 for none."""

    points: tuple[tuple[int, ...], ...]
    efficiency: float
    aliasing: float


def terms(levels: Sequence[int]) -> int:
    """Number of coefficients of the model of such factors: at least as many points are needed.

    >>> terms((5, 5, 2, 4, 2))
    24
    """
    varied = [n for n in levels if n > 1]
    return 1 + sum(n - 1 for n in varied) + len(varied) * (len(varied) - 1) // 2


def screening(factors: Sequence[Sequence[float]], runs: int, seed: int = 0) -> Screening:
    """Choose `runs` points, D-optimal. factors: of each the coded values of its levels, like (-1, 0, 1).

    The same seed gives the same points, in no order. Raises BadInput for fewer runs than coefficients; more than there
    are points gives the full factorial.

    >>> chosen = screening([(-1, 0, 1), (-1, 1)], 6)
    >>> len(chosen.points), round(chosen.efficiency, 3), chosen.aliasing
    (6, 1.0, 0.0)
    """
    return _screening(tuple(tuple(float(v) for v in f) for f in factors), runs, seed)


@functools.lru_cache(maxsize=32)  # a run makes its plan several times
def _screening(factors: tuple[tuple[float, ...], ...], runs: int, seed: int) -> Screening:
    levels = [len(f) for f in factors]
    every = list(itertools.product(*(range(n) for n in levels)))
    model = _model(factors, every)
    if runs < min(terms(levels), len(every)):
        raise BadInput(
            f"{runs} points cannot tell {terms(levels)} coefficients apart",
            hint="more points, or fewer levels",
        )
    if runs >= len(every):
        chosen = list(range(len(every)))
    else:
        rng = np.random.default_rng(seed)
        designs = [_exchanged(model, _start(model, runs, rng)) for _ in range(_STARTS)]
        best = int(np.argmax([_log_determinant(model[rows]) for rows in designs]))
        chosen = sorted(designs[best])
    rows = model[chosen]
    efficiency = float(np.exp(_log_determinant(rows) / model.shape[1]) / len(chosen))
    return Screening(
        tuple(every[i] for i in chosen), efficiency, aliasing(factors, [every[i] for i in chosen])
    )


def aliasing(factors: Sequence[Sequence[float]], points: Sequence[Sequence[int]]) -> float:
    """The largest absolute correlation between two factors' coded values over these points."""
    coded = [np.array([f[p[i]] for p in points]) for i, f in enumerate(factors)]
    varied = [c - c.mean() for c in coded if np.ptp(c) > 0]
    correlations = [
        abs(float(a @ b)) / float(np.sqrt((a @ a) * (b @ b))) for a, b in itertools.combinations(varied, 2)
    ]
    return round(max(correlations, default=0.0), 12)


def _model(factors: Sequence[Sequence[float]], every: Sequence[tuple[int, ...]]) -> Floats:
    """A row a candidate; columns are orthonormal over the full factorial (their mean square is 1)."""
    at = np.array(every)
    columns = [np.ones(len(every))]
    linear: list[Floats] = []
    for number, values in enumerate(factors):
        if len(values) < 2:
            continue
        powers = np.vander(np.array(values, dtype=np.float64), increasing=True)
        contrasts = np.linalg.qr(powers)[0][:, 1:] * np.sqrt(len(values))
        columns += [contrasts[at[:, number], k] for k in range(contrasts.shape[1])]
        linear.append(contrasts[at[:, number], 0])
    columns += [a * b for a, b in itertools.combinations(linear, 2)]
    return np.stack(columns, axis=1)


def _start(model: Floats, runs: int, rng: np.random.Generator) -> list[int]:
    """A random subset that determines the model, made so by a few points that stand out where it does not."""
    width = model.shape[1]
    chosen = [int(i) for i in rng.permutation(len(model))[: max(1, runs // 3)]]
    while len(chosen) < runs:
        held = np.linalg.inv(model[chosen].T @ model[chosen] + 1e-3 * np.eye(width))
        gain = np.sum((model @ held) * model, axis=1)
        gain[chosen] = -1
        chosen.append(int(np.argmax(gain)))
    return chosen


def _exchanged(model: Floats, chosen: list[int]) -> list[int]:
    """Exchange the pair that gains most, until none gains."""
    chosen = list(chosen)
    for _ in range(20 * len(chosen)):
        rows = model[chosen]
        held = np.linalg.inv(rows.T @ rows + 1e-9 * np.eye(model.shape[1]))
        across = rows @ held @ model.T  # (chosen, candidates)
        other = np.sum((model @ held) * model, axis=1)
        own = other[chosen]
        # Fedorov 1972, section 3.3: the determinant's ratio after the exchange.
        ratio = (1 - own[:, None]) * (1 + other[None, :]) + across**2
        ratio[:, chosen] = 0
        best = int(np.argmax(ratio))
        out, into = divmod(best, ratio.shape[1])
        if ratio[out, into] <= 1 + _LEAST_GAIN:
            break
        chosen[out] = into
    return chosen


def _log_determinant(rows: Floats) -> float:
    sign, value = np.linalg.slogdet(rows.T @ rows)
    return float(value) if sign > 0 else -np.inf
