"""Non-negative least squares, against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls as scipys

from contend.stats.nnls import nnls


@pytest.mark.parametrize("shape", [(3, 2), (5, 5), (25, 15), (40, 6), (6, 12)])
def test_as_good_as_scipys(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng([1, *shape])
    for _ in range(40):
        a, b = rng.normal(size=shape), rng.normal(size=shape[0])
        if rng.random() < 0.3:  # columns that depend on each other
            a[:, -1] = a[:, 0]
        x = nnls(a, b)
        assert (x >= 0).all()
        assert np.linalg.norm(a @ x - b) <= scipys(a, b)[1] + 1e-7


def test_what_has_a_single_answer_is_that_answer() -> None:
    rng = np.random.default_rng(2)
    a = np.abs(rng.normal(size=(30, 8)))
    x = np.where(rng.random(8) < 0.5, 0.0, rng.random(8))
    np.testing.assert_allclose(nnls(a, a @ x), x, atol=1e-9)


@pytest.mark.parametrize("b", [np.zeros(4), -np.ones(4)])
def test_nothing_to_explain_needs_no_column(b: np.ndarray) -> None:
    assert nnls(np.ones((4, 3)), b).tolist() == [0.0, 0.0, 0.0]
