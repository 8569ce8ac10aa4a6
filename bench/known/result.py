"""How often something held, of experiments whose true answer is known (`known.answers`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from contend.stats.quantiles import clopper_pearson
from known.noise import Noise

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Result:
    """How often something held: `count` of `experiments`, with the bounds within which that had to lie.

    `width` is the mean width of the interval on the log scale (0.06 = about 6 %), None where it has none.
    """

    table: str
    noise: str
    n: int
    count: int
    experiments: int
    width: float | None = None
    extra: str = ""

    @property
    def share(self) -> float:
        return self.count / self.experiments

    @property
    def bounds(self) -> tuple[float, float]:
        """Clopper–Pearson 95 % bounds of the true share."""
        return clopper_pearson(self.count, self.experiments)

    def to_json(self) -> dict[str, Any]:
        low, high = self.bounds
        return {
            "table": self.table,
            "noise": self.noise,
            "n": self.n,
            "count": self.count,
            "experiments": self.experiments,
            "share": self.share,
            "low": low,
            "high": high,
            "width": self.width,
            "extra": self.extra,
        }


def counted(table: str, noise: Noise, n: int, held: npt.NDArray[np.bool_], width: Floats | None) -> Result:
    mean_width = None if width is None else float(width.mean())
    return Result(table, noise.name, n, int(held.sum()), len(held), mean_width)
