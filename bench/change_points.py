"""How often the trends of `contend serve` mark a change of level where there is none, and find one where there is.

    python bench/change_points.py [--series 1000] [--write docs/results/change-points.md]

Series of runs are drawn from known laws, each run's log level with a standard deviation of 3 % (what cells of one host
varied by from session to session: docs/results/between-sessions.md). Counts, no times: another machine gives the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from contend.serve.changes import LEAST_RUNS, MOST_P, change_points
from results.files import save_at
from results.pages import change_points as page
from results.record import recording

SPREAD = 0.03
SEED = 1
LENGTHS = (LEAST_RUNS, 20, 30, 60)
Draw = Callable[[np.random.Generator, int], npt.NDArray[np.float64]]


def independent(rng: np.random.Generator, n: int) -> npt.NDArray[np.float64]:
    return rng.normal(0, SPREAD, n)


def heavy(rng: np.random.Generator, n: int) -> npt.NDArray[np.float64]:
    return SPREAD * rng.standard_t(3, n) / np.sqrt(3)


def correlated(phi: float) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> npt.NDArray[np.float64]:
        values = np.empty(n)
        values[0] = rng.normal(0, SPREAD)
        for k in range(1, n):
            values[k] = phi * values[k - 1] + rng.normal(0, SPREAD * np.sqrt(1 - phi**2))
        return values

    return draw


def drift(rng: np.random.Generator, n: int) -> npt.NDArray[np.float64]:
    return rng.normal(0, SPREAD, n) + np.linspace(0, 2 * SPREAD, n)


FLAT: dict[str, Draw] = {
    "independent, normal": independent,
    "independent, heavy tails (t, 3 df)": heavy,
    "each like the one before (AR 1, φ = 0.5)": correlated(0.5),
    "much like the one before (AR 1, φ = 0.9)": correlated(0.9),
    "a slow drift by 2 standard deviations": drift,
}
STEPS = (0.03, 0.06, 0.09, 0.15)


@recording()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--series", type=int, default=1000)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    flat = {
        name: [share(given.series, n, lambda rng, n, draw=draw: found(draw(rng, n)) != ()) for n in LENGTHS]  # type: ignore[misc]
        for name, draw in FLAT.items()
    }
    steps = {}
    for step in STEPS:

        def hit(rng: np.random.Generator, n: int, step: float = step) -> bool:
            values = independent(rng, n)
            values[n // 2 :] += np.log1p(step)
            return any(abs(at - n // 2) <= 1 for at in found(values))

        steps[str(step)] = [share(given.series, n, hit) for n in LENGTHS]
    told = {
        "series": given.series,
        "lengths": LENGTHS,
        "spread": SPREAD,
        "most_p": MOST_P,
        "least_runs": LEAST_RUNS,
        "flat": flat,
        "steps": steps,
    }
    print(page.body(told | {"made": {"seed": SEED}}))
    if given.write:
        save_at(given.write, told, seed=SEED)


def found(logs: npt.NDArray[np.float64]) -> tuple[int, ...]:
    return change_points(np.exp(logs).tolist())


def share(series: int, n: int, of: Callable[[np.random.Generator, int], bool]) -> float:
    rng = np.random.default_rng(SEED)
    return sum(of(rng, n) for _ in range(series)) / series


if __name__ == "__main__":
    main()
