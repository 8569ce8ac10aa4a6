"""How often the trends of `contend serve` mark a change of level where there is none, and find one where there is.

    python bench/change_points.py [--series 1000] [--write docs/results/change-points]      (70 s of CPU time)

Series of runs are drawn from known laws, each run's log level with a standard deviation of 3 % (what cells of one host
varied by from session to session: docs/results/between-sessions.md). Each figure is told twice: of all marks, and of those
that the page does not call doubtful. Counts, no times: another machine gives the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from contend.serve.changes import LEAST_RUNS, MOST_P, change_points, doubtful
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
LATE = 5
"""Runs after the step, where it is to be seen soon."""


Shares = tuple[float, float]
"""Of series: marked, and marked without doubt."""


@recording()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--series", type=int, default=1000)
    parser.add_argument("--write", type=Path, help="write PATH.json and PATH.md")
    given = parser.parse_args()
    flat = {
        name: [share(given.series, n, draw, lambda _: True) for n in LENGTHS] for name, draw in FLAT.items()
    }
    steps = {f"{step:g}": [planted(given.series, n, step, n // 2) for n in LENGTHS] for step in STEPS}
    late = {f"{step:g}": [planted(given.series, n, step, n - LATE) for n in LENGTHS] for step in STEPS}
    told = {
        "series": given.series,
        "lengths": LENGTHS,
        "spread": SPREAD,
        "most_p": MOST_P,
        "least_runs": LEAST_RUNS,
        "flat": {name: [marked for marked, _ in row] for name, row in flat.items()},
        "flat_sure": {name: [sure for _, sure in row] for name, row in flat.items()},
        "steps": {name: [marked for marked, _ in row] for name, row in steps.items()},
        "steps_sure": {name: [sure for _, sure in row] for name, row in steps.items()},
        "late": LATE,
        "late_steps": {name: [marked for marked, _ in row] for name, row in late.items()},
        "late_steps_sure": {name: [sure for _, sure in row] for name, row in late.items()},
        "late_most": {f"{step:g}": [at_most(given.series, n, step) for n in LENGTHS] for step in STEPS},
    }
    print(page.body(told | {"made": {"seed": SEED}}))
    if given.write:
        save_at(given.write, told, seed=SEED)


def planted(series: int, n: int, step: float, place: int) -> Shares:
    def draw(rng: np.random.Generator, n: int) -> npt.NDArray[np.float64]:
        values = independent(rng, n)
        values[place:] += np.log1p(step)
        return values

    return share(series, n, draw, lambda found: any(abs(at - place) <= 1 for at in found))


def at_most(series: int, n: int, step: float) -> float:
    """Power of a test that knows where the step is, that runs are independent and normal, and that there is no drift:
    Student's, two-sided, at 5 %."""
    from scipy import stats

    rng = np.random.default_rng(SEED)
    values = np.array([independent(rng, n) for _ in range(series)])
    values[:, n - LATE :] += np.log1p(step)
    p = stats.ttest_ind(values[:, : n - LATE], values[:, n - LATE :], axis=1).pvalue
    return float(np.mean(p < 0.05))


def share(series: int, n: int, draw: Draw, counts: Callable[[tuple[int, ...]], bool]) -> Shares:
    """Of so many drawn series of n runs those with a mark that counts, and those of them without doubt."""
    rng = np.random.default_rng(SEED)
    marked = sure = 0
    for _ in range(series):
        values = np.exp(draw(rng, n)).tolist()
        found = change_points(values)
        if found and counts(found):
            marked += 1
            sure += not doubtful(values, found)
    return marked / series, sure / series


if __name__ == "__main__":
    main()
