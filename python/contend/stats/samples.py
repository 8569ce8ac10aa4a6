"""Checks on what is handed to the estimators, with errors that name the offending value."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from contend.errors import BadInput

Floats = npt.NDArray[np.float64]


def check_level(level: float) -> float:
    """Check a confidence level. Raises BadInput."""
    if not 0 < level < 1:
        raise BadInput(f"level {level!r} is not between 0 and 1", hint="0.95 means a 95 % interval")
    return level


def finite(values: Iterable[float], what: str) -> Floats:
    """One-dimensional array of finite numbers. Raises BadInput.

    >>> finite([1, 2.5], "baseline").tolist()
    [1.0, 2.5]
    """
    try:
        array = np.asarray(values if isinstance(values, np.ndarray) else list(values), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"{what} holds something that is not a number: {error}", hint="pass numbers"
        ) from error
    if array.ndim != 1:
        raise BadInput(f"{what} has {array.ndim} dimensions", hint="pass one value per run: a flat sequence")
    if array.size == 0:
        raise BadInput(f"{what} is empty", hint="pass one value per run")
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise BadInput(
            f"{what}[{bad[0]}] is {array[bad[0]]}",
            hint="leave out the whole block of a run that gave no value, and report it as failed",
        )
    return array


def logs(values: Iterable[float], what: str) -> Floats:
    """Natural logs of positive values. Raises BadInput for zero, negative or non-finite ones.

    >>> logs([1.0, math.e], "baseline").tolist()
    [0.0, 1.0]
    """
    array = finite(values, what)
    bad = np.flatnonzero(array <= 0)
    if bad.size:
        value = array[bad[0]]
        reason = "zero" if value == 0 else "negative"
        raise BadInput(
            f"{what}[{bad[0]}] is {value:g}: a ratio needs values above 0",
            hint=f"a {reason} time or rate means that the run did no work: leave out its block",
        )
    result: Floats = np.log(array)
    return result


def exp(x: float) -> float:
    """exp() that ends in infinity instead of an OverflowError.

    >>> exp(-math.inf), exp(1e6)
    (0.0, inf)
    """
    return math.exp(x) if x < 709 else math.inf
