"""A trend: where the level of runs changed, by how much, and what may be said of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from contend.serve.changes import LEAST_RUNS, available, change_points
from contend.serve.index import Filter, Index, Sessions
from contend.serve.trend import doubt, make_trend
from support.made_many import copies
from support.made_runs import Made
from support.prerequisites import need

STEP = 13  # the first run at the new level


@pytest.fixture(scope="module", autouse=True)
def otava() -> None:
    need(available(), "Apache Otava: scripts/setup.sh installs it")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Made(tmp_path_factory.mktemp("base"), 6, {"ffmpeg|stress-cpu": 2.0}, {})
    made.run.close()
    return made.run.path


def sessions(
    base: Path, place: Path, levels: Sequence[float], metric: str = "wall", **options: object
) -> Sessions:
    copies(base, place, levels, **options)  # type: ignore[arg-type]
    index = Index(place)
    entry = index.page(Filter()).entries[0]
    return index.sessions(
        entry.question, entry.host, "fio|none" if metric == "iops" else "ffmpeg|none", metric
    )


@pytest.mark.parametrize(("metric", "ratio"), [("wall", 1.1), ("iops", 1 / 1.1)])
def test_a_planted_change_is_found_at_its_run(base: Path, tmp_path: Path, metric: str, ratio: float) -> None:
    kernels = {0: {"kernel": "6.1", "tools": {"fio": "3.33"}}, STEP: {"kernel": "6.2"}}
    levels = [1.0] * STEP + [1.1] * 11
    trend = make_trend(sessions(base, tmp_path / "runs", levels, metric, environments=kernels))
    assert [change.first for change in trend.changes] == [STEP]
    change = trend.changes[0]
    assert (change.before, change.after) == ((0, STEP), (STEP, 24))
    assert change.ratio.low < ratio < change.ratio.high
    assert change.alongside == ("kernel 6.1 → 6.2",)
    assert not trend.doubtful
    assert trend.not_looked == ""


def test_changes_of_a_series_that_drifts_are_doubtful(base: Path, tmp_path: Path) -> None:
    trend = make_trend(sessions(base, tmp_path / "runs", [1.01**k for k in range(24)]))
    assert trend.changes
    assert trend.doubtful


@pytest.mark.parametrize("seed", range(3))
def test_a_flat_series_has_none(base: Path, tmp_path: Path, seed: int) -> None:
    trend = make_trend(sessions(base, tmp_path / "runs", [1.0] * 24, spread=0.03, seed=seed))
    assert trend.changes == ()
    assert trend.not_looked == ""
    assert 0.015 < trend.spread < 0.045
    assert trend.apart == pytest.approx(math.exp(2.069 * trend.spread * math.sqrt(2)) - 1, rel=1e-3)


def test_few_runs_are_not_looked_at(base: Path, tmp_path: Path) -> None:
    few = LEAST_RUNS - 1
    trend = make_trend(sessions(base, tmp_path / "runs", [1.0] * 4 + [3.0] * (few - 4)))
    assert trend.changes == ()
    assert "1 more run needed" in trend.not_looked


def test_without_otava_it_says_how_to_get_it(base: Path, tmp_path: Path) -> None:
    def absent(_: Sequence[float]) -> Sequence[int]:
        raise ModuleNotFoundError("otava")

    trend = make_trend(sessions(base, tmp_path / "runs", [1.0] * 12), absent)
    assert trend.changes == ()
    assert "pip install 'contend[serve]'" in trend.not_looked


def test_levels_without_any_spread() -> None:
    assert change_points([1.0] * 20) == ()
    assert change_points([1.0] * 10 + [2.0] * 10) == (10,)


def test_two_changes() -> None:
    rng = np.random.default_rng(1)
    values = np.exp(rng.normal(0, 0.01, 45)) * np.repeat([1.0, 1.2, 0.9], 15)
    assert change_points(values.tolist()) == (15, 30)


def test_the_doubt_needs_five_runs() -> None:
    assert all(map(math.isnan, doubt([1.0, 1.1, 1.0, 1.1])))
    assert not any(map(math.isnan, doubt([1.0, 1.1, 1.0, 1.1, 1.0])))
