"""Forecasts of pairs on made-up hosts whose pair tables are known (METHOD: truth in the model's form, and not)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from contend.stats import sensitivity
from contend.stats.sensitivity import (
    Forecast,
    Measured,
    centre,
    fit,
    forecast,
    judge,
    predict,
    row_and_column,
)
from known.hosts import Host, Truth, host, without_pairs

BLOCKS = 10


def predicted(of: Host) -> tuple[np.ndarray, np.ndarray]:
    """Log slowdowns, and what each resource adds to them, of centres only: quick."""
    centres = of.measured.resampled(np.arange(BLOCKS))
    model = fit(of.measured.intensities, centres)
    return predict(model, centres.pressure), model.parts(centres.pressure)


def passes(of: Host) -> tuple[bool, bool]:
    """Whether it is shown as a forecast, and whether its median error is the smaller."""
    centres = of.measured.resampled(np.arange(BLOCKS))
    table = predict(fit(of.measured.intensities, centres), centres.pressure)
    held_out = of.measured.held_out
    ours, theirs, _, refused = judge(
        table, row_and_column(centres.pairs, ~held_out), centres.pairs, held_out, 0.95
    )
    assert ours is not None
    assert theirs is not None
    return not refused, ours.median_log < theirs.median_log


def test_a_truth_of_the_models_form_is_found() -> None:
    """In 200 made-up hosts of 36 pairs: the resource that slows most, and by how much a pair is slowed."""
    right, errors = [], []
    for seed in range(200):
        of = host(seed)
        table, parts = predicted(of)
        slowed = of.truth > np.log(1.05)  # below that there is no resource to be named
        right += (parts.argmax(axis=2) == of.top)[slowed].tolist()
        errors.append(np.median(100 * np.abs(np.exp(table) - np.exp(of.truth))))
    assert np.mean(right) >= 0.90
    assert np.median(errors) <= 4.0


@pytest.mark.parametrize("truth", ["row and column", "interaction"])
def test_a_truth_of_another_form_is_refused(truth: Truth) -> None:
    """The gate lets at most one in twenty through."""
    assert np.mean([passes(host(seed, truth))[0] for seed in range(100)]) <= 0.05


def test_a_truth_of_the_models_form_is_mostly_let_through() -> None:
    found = [passes(host(seed, workloads=8)) for seed in range(60)]
    assert np.mean([shown for shown, _ in found]) >= 0.8
    assert np.mean([better for _, better in found]) >= 0.95


def whole(seed: int, **changed: object) -> Forecast:
    of = host(seed)
    return forecast(replace(of.measured, **changed), level=0.95, seed=1, resamples=30)  # type: ignore[arg-type]


def test_intervals_hold_the_held_out_pairs() -> None:
    inside = []
    for seed in range(40):
        found, held_out = whole(seed), host(seed).measured.held_out
        inside += ((found.low <= found.measured) & (found.measured <= found.high))[held_out].tolist()
        assert found.level == 0.95
    assert np.mean(inside) >= 0.90


def test_without_pairs_nothing_is_claimed() -> None:
    found = forecast(without_pairs(host(1).measured), level=0.95, seed=1, resamples=20)
    assert (found.model_errors, found.level) == (None, 0.0)
    assert "no held-out pair was measured" in found.refused
    assert np.isfinite(found.predicted).all()
    assert (found.low <= found.high).all()


def test_few_pairs_say_a_lower_level() -> None:
    of = host(2).measured
    few = np.full_like(of.pairs, np.nan)
    few[0, :3] = of.pairs[0, :3]
    found = forecast(
        replace(of, pairs=few, held_out=np.zeros_like(of.held_out)), level=0.95, seed=1, resamples=20
    )
    assert found.level == 0.75


def test_a_neighbour_that_presses_harder_than_any_injector_is_flagged() -> None:
    of = host(4).measured
    pressure = of.pressure.copy()
    pressure[2, 0] = of.calibration[0].max() + 0.5
    found = forecast(replace(of, pressure=pressure), level=0.95, seed=1, resamples=30)
    felt = found.parts[:, 2, 0] > 0.01
    assert felt.any()
    assert found.beyond[felt, 2].all()
    assert found.intensity[2, 0] > 100


def test_an_injector_that_does_nothing_gives_no_scale() -> None:
    of = host(5).measured
    calibration = of.calibration.copy()
    calibration[:, 3] = 0.0
    calibration[3] = 0.0
    found = forecast(replace(of, calibration=calibration), level=0.95, seed=1, resamples=10)
    assert found.model.usable.tolist() == [True, True, True, False, True]
    assert np.isnan(found.intensity[:, 3]).all()
    assert (found.parts[:, :, 3] == 0).all()
    assert np.isfinite(found.predicted).all()
    nothing = replace(of, calibration=np.zeros_like(of.calibration))
    assert "no injector slows its own probe" in forecast(nothing, level=0.95, seed=1, resamples=5).refused


def test_a_pressure_as_of_an_injector_is_read_off_as_its_intensity() -> None:
    of = host(6).measured
    model = fit(of.intensities, of.resampled(np.arange(BLOCKS)))
    own = model.scale[:, 3]  # the third of five intensities
    np.testing.assert_allclose(model.intensity(own[None, :])[0], 60.0, atol=1e-6)
    np.testing.assert_allclose(model.intensity(np.full((1, 5), -0.1)), 0.0)


def test_curves_never_fall() -> None:
    for seed in range(20):
        of = host(seed).measured
        assert (fit(of.intensities, of.resampled(np.arange(BLOCKS))).slopes >= 0).all()


def test_missing_trials_are_left_out() -> None:
    of = host(7).measured
    curves, pairs = of.curves.copy(), of.pairs.copy()
    curves[0, 0, 0] = np.nan  # a cell that gave nothing
    curves[1, 2, 3, :4] = np.nan
    pairs[0, 1] = np.nan
    found = forecast(replace(of, curves=curves, pairs=pairs), level=0.95, seed=1, resamples=20)
    assert np.isfinite(found.predicted).all()
    assert np.isnan(found.measured[0, 1])


def gap(of: Measured, workload: int, blocks: int) -> Measured:
    """A workload whose pressure was measured in so many blocks only: some resamples have none of them."""
    pressure = of.pressure.copy()
    pressure[workload, :, blocks:] = np.nan
    return replace(of, pressure=pressure)


def test_a_pressure_that_some_resamples_lack_takes_no_interval() -> None:
    of = host(7).measured
    whole, found = (forecast(each, level=0.95, seed=1, resamples=40) for each in (of, gap(of, 2, 2)))
    assert np.isfinite(found.predicted).all() and np.isfinite([found.low, found.high]).all()
    assert found.level == whole.level
    others = [n for n in range(len(of.workloads)) if n != 2]
    width = (found.high - found.low)[:, others] / (whole.high - whole.low)[:, others]
    assert 0.5 < np.median(width) < 2
    alone = forecast(without_pairs(gap(of, 2, 2)), level=0.95, seed=1, resamples=40)
    assert (alone.low <= alone.predicted).all() and (alone.predicted <= alone.high).all()


def test_a_pressure_that_nobody_measured_takes_its_own_column_alone() -> None:
    of = host(7).measured
    for measured in (gap(of, 2, 0), without_pairs(gap(of, 2, 0))):
        found = forecast(measured, level=0.95, seed=1, resamples=20)
        lost = np.isnan(found.predicted)
        assert lost[:, 2].all() and lost.sum() == len(of.workloads)
        assert (np.isnan(found.low) == lost).all() and (np.isnan(found.high) == lost).all()


def test_a_neighbour_that_presses_hard_is_flagged_where_some_resamples_lack_it() -> None:
    of = host(4).measured
    pressure = of.pressure.copy()
    pressure[2, 0] = of.calibration[0].max() + 0.5
    found = forecast(gap(replace(of, pressure=pressure), 2, 2), level=0.95, seed=1, resamples=30)
    felt = found.parts[:, 2, 0] > 0.01
    assert felt.any() and found.beyond[felt, 2].all()


def test_a_gap_in_the_calibration_leaves_neighbouring_slopes_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    of = host(7).measured
    calibration = of.calibration.copy()
    calibration[:, 0, 0] = np.nan  # an injector that did not run at one intensity
    centres = replace(of, calibration=calibration).resampled(np.arange(BLOCKS))
    smooth = fit(of.intensities, centres).slopes
    monkeypatch.setattr(sensitivity, "SMOOTH", 0.0)
    rough = fit(of.intensities, centres).slopes
    assert np.abs(np.diff(smooth)).sum() < 0.9 * np.abs(np.diff(rough)).sum()


def test_the_baseline_is_the_two_effects() -> None:
    rows, columns = np.array([0.1, 0.2, 0.5]), np.array([0.0, 0.3, 0.6])
    table = rows[:, None] + columns[None, :]
    known = np.ones((3, 3), dtype=bool)
    known[0, 2] = False
    np.testing.assert_allclose(row_and_column(table, known), table)
    known[:, 1] = False
    assert np.isnan(row_and_column(table, known)[:, 1]).all()


def test_few_held_out_pairs_cannot_tell() -> None:
    table, use = np.zeros((3, 3)), np.zeros((3, 3), dtype=bool)
    use[0] = True
    _, _, advantage, refused = judge(table, table + 1, table, use, 0.95)
    assert advantage.verdict == "too few"
    assert "3 held-out pairs cannot tell" in refused


def test_the_centre_is_hodges_and_lehmanns() -> None:
    x = np.array([[0.1, 0.2, 0.3, 0.4, 0.5, 0.9]])
    assert centre(x).tolist() == pytest.approx([0.35])
    assert sensitivity.RESAMPLES >= 100
