"""Forms that overhead over size may have: log ratio = a + b · f(CHR), f(1) = 0, fitted by weighted least squares.

A form with its exponent given is linear in a and b, so a fit is a matrix times the sizes' log ratios, the same matrix for
thousands of resamples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

FOR_POWER = 4
"""Sizes from which on the exponent may be free: three are met by any three parameters."""

EXPONENTS: Mapping[str, tuple[float, ...]] = {
    # f = (CHR^-c - 1) / c: Box and Cox's family, whose members at c = -1, 0 and 1 have names.
    "a": (),
    "a + b·(1 - CHR)": (-1.0,),
    "a + b·log(1 / CHR)": (0.0,),
    "a + b·(1 / CHR - 1)": (1.0,),
    "a + b·(CHR^-c - 1) / c": tuple(k / 4 for k in range(-24, 13)),
}
FORMS: tuple[str, ...] = tuple(EXPONENTS)
POWER = FORMS[-1]


@dataclass(frozen=True, slots=True)
class FittedForm:
    """One form at one exponent as a matrix: coefficients = solve @ y, fitted = hat @ y."""

    form: str
    exponent: float | None
    parameters: int
    solve: Floats
    hat: Floats


def fitted_forms(chr_: Floats, noise: Floats) -> tuple[FittedForm, ...]:
    """Fit every form by weighted least squares, as matrices, for sizes with these CHR and variances."""
    root = 1 / np.sqrt(noise)
    fitted = []
    for form, exponents in EXPONENTS.items():
        if form == POWER and len(chr_) < FOR_POWER:
            continue
        for exponent in exponents or (None,):
            design = design_of(exponent, chr_)
            # By singular values: at small CHR the normal equations of large exponents lose all digits.
            solve = np.asarray(np.linalg.pinv(design * root[:, None]) * root, dtype=np.float64)
            parameters = design.shape[1] + (form == POWER)
            fitted.append(FittedForm(form, exponent, parameters, solve, design @ solve))
    return tuple(fitted)


def design_of(exponent: float | None, chr_: Floats) -> Floats:
    """Design matrix with columns 1 and f: (sizes,) → (sizes, 1 or 2)."""
    ones = np.ones_like(chr_)
    if exponent is None:
        return ones[:, None]
    f = -np.log(chr_) if exponent == 0 else (chr_**-exponent - 1) / exponent
    return np.stack([ones, f], axis=1)
