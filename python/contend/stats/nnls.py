"""Non-negative least squares, which numpy has not: scipy is no part of the base install (docs/adr/0003)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def nnls(a: Floats, b: Floats) -> Floats:
    """Solve non-negative least squares: x ≥ 0 of shape (columns,) with the least ‖a x - b‖, for `a` of shape (rows,
    columns)

    The active-set method of Lawson & Hanson, Solving Least Squares Problems (1974), ch. 23, on the normal equations as
    Bro & de Jong, J. Chemometrics 11 (1997) 393, have it: columns are few here and rows are no more than some dozens.
    Columns that depend on each other share their weight in some way; what they predict is the same.

    >>> nnls(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([2.0, -1.0, 1.0])).tolist()
    [1.5, 0.0]
    """
    gram, right = a.T @ a, a.T @ b
    columns = len(right)
    x = np.zeros(columns)
    passive = np.zeros(columns, dtype=bool)
    slack = 1e-10 * max(1.0, float(np.abs(right).max(initial=0.0)))
    for _ in range(
        3 * columns + 10
    ):  # Lawson & Hanson's own limit; each turn but the rarest takes a column in
        gradient = right - gram @ x
        gradient[passive] = -np.inf
        best = int(np.argmax(gradient)) if columns else 0
        if passive.all() or gradient[best] <= slack:
            break
        passive[best] = True
        while True:
            tried = np.zeros(columns)
            chosen = np.ix_(passive, passive)
            tried[passive] = _solve(gram[chosen], right[passive])
            negative = passive & (tried <= 0)
            if not negative.any():
                x = tried
                break
            # As far towards it as no weight becomes negative; what reaches zero is let go.
            steps = x[negative] / (x[negative] - tried[negative])
            x = x + float(steps.min()) * (tried - x)
            passive &= x > 1e-14
            x[~passive] = 0.0
            if not passive.any():
                break
    return x


def _solve(gram: Floats, right: Floats) -> Floats:
    """A column in the span of those taken in has no gradient left and is not taken in, but for rounding."""
    try:
        return np.asarray(np.linalg.solve(gram, right), dtype=np.float64)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(gram, right, rcond=None)[0], dtype=np.float64)
