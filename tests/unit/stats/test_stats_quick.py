"""The quick reader and the columns give what rows gave: the same estimates, the same words for what is wrong."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import rankdata

from contend.errors import BadInput
from contend.stats import aligned, selection, table_file
from contend.stats.csv_file import compare_csv
from contend.stats.estimate import Estimate
from support import stats_by_rows

FIELDS = {
    "block": ["0", "1", "2", "01", "b 1", " 1", "é", "x", "", "12345678901234567890", "-1"],
    "cell": ["a", "b", "A", " a", "gzip -9", "'q'", '"a"', '"a,b"', "1", ""],
    "value": ["1", "1.5", "2e1", " 3", "+1", "1_0", "inf", "nan", "0", "-1", "", "x", "1e400", "0x1", "١"],
    "order": ["1", "2", "1e3", "inf", "", "2026-05-01T12:00:00Z", "2026-05-01", "x", "-3"],
}


def _file(random_: random.Random) -> str:
    columns = random_.choice(
        [
            ["block", "cell", "value"],
            ["cell", "value"],
            ["block", "cell", "value", "order"],
            ["value", "cell", "order"],
        ]
    )
    delimiter = random_.choice([",", ",", ";", "\t"])
    end = random_.choice(["\n", "\n", "\r\n", "\r", "\n\n"])
    odd = random_.choice([0.0, 0.0, 0.02, 0.2])
    kinds = random_.choice([["a", "b"], ["a", "b", "c"], ["1", "2"]])
    rows = [delimiter.join(columns)]
    order = 0
    for block in range(random_.randrange(12)):
        mine = kinds * random_.choice([1, 1, 2, 4])
        if random_.random() < 0.7:
            random_.shuffle(mine)
        elif random_.random() < 0.5:
            mine = sorted(mine)
        for cell in mine[: random_.randrange(1, 20)]:
            order += random_.choice([1, 1, 1, -2])
            found = {
                "block": str(block),
                "cell": cell,
                "value": f"{random_.lognormvariate(0, 0.1):.5g}",
                "order": str(order),
            }
            for name, values in FIELDS.items():
                if random_.random() < odd:
                    found[name] = random_.choice(values)
            rows.append(delimiter.join(found[name] for name in columns))
    if random_.random() < odd:
        rows.insert(
            random_.randrange(len(rows) + 1),
            random_.choice(["", delimiter * 3, "x", '"', "\x0c", "1,a,1,1,1,1"]),
        )
    return random_.choice(["", "", "\ufeff"]) + end.join(rows) + random_.choice(["", end])


def _of(read: object, path: Path, baseline: str | None) -> object:
    try:
        return read(path, baseline=baseline)  # type: ignore[operator]
    except BadInput as error:
        return type(error).__name__, error.message, error.hint


@pytest.mark.parametrize("seed", range(400))
def test_columns_say_what_rows_said(tmp_path: Path, seed: int) -> None:
    drawn = random.Random(seed)
    path = tmp_path / "runs.csv"
    path.write_bytes(_file(drawn).encode())
    baseline = drawn.choice([None, "a", "1"])
    then, now = (_of(read, path, baseline) for read in (stats_by_rows.compare_csv, compare_csv))
    if not isinstance(then, list) or not isinstance(now, list):
        if "characters)" not in str(now):  # a value beyond 60 characters is shortened now
            assert now == then
        return
    for (cell, one), (other_cell, other) in zip(then, now, strict=True):
        assert isinstance(one, Estimate)
        assert cell == other_cell
        assert (one.n, one.method, one.verdict, one.warnings) == (
            other.n,
            other.method,
            other.verdict,
            other.warnings,
        )
        assert (other.value, other.low, other.high) == pytest.approx(
            (one.value, one.low, one.high), rel=1e-12
        )


def test_a_plain_file_is_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(
        "block,cell,value\n" + "".join(f"{i},{c},{i + 1}.5\n" for i in range(50) for c in ("x", "y z"))
    )
    with table_file.open_table(path) as file:
        found = file.columns([2], [0, 1])
    assert found is not None
    assert found[1].names == ["x", "y z"]
    assert found[2].values[:2].tolist() == [1.5, 1.5]


def test_many_values_in_blocks_have_the_interval_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """False position finds what halvings find, to a thousandth of the interval."""
    rng = np.random.default_rng(5)
    blocks = [rng.normal(rng.normal(), 1, 8) for _ in range(500)]
    a, b = [x[:4] for x in blocks], [x[4:] + 0.3 for x in blocks]
    exact = aligned.estimate(a, b)
    monkeypatch.setattr(aligned, "LARGE", 10)
    assert aligned.estimate(a, b) == pytest.approx(exact, abs=1e-3 * (exact[2] - exact[1]))


def test_many_values_are_ranked_in_parts_and_ties_never_parted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aligned, "_TIED", 7)
    monkeypatch.setattr(aligned, "_BLOCKS", 3)
    rng = np.random.default_rng(7)
    for kinds in (1, 2, 5, 40, 10_000):
        values = rng.integers(0, kinds, size=int(rng.integers(1, 200))).astype(np.float64)
        wanted = [float((values < v).sum() + ((values == v).sum() + 1) / 2) for v in values]
        aligned._rank(values)
        assert values.tolist() == wanted
    values = rng.integers(1, 9, size=(50, 8)) / 4
    values[::3, 5:] = np.inf  # uneven blocks
    treated = np.zeros(values.shape, dtype=np.bool_)
    treated[:, :3] = True
    design = aligned._Design(values, treated)
    for shift in (-0.5, 0.0, 0.1, 0.25):
        assert design.statistic(shift) == pytest.approx(by_definition(values, treated, shift), abs=1e-9)


def by_definition(values: np.ndarray, treated: np.ndarray, shift: float) -> float:
    """The aligned rank test's statistic, block by block."""
    residuals, mine = [], []
    for block, own in zip(values, treated, strict=True):
        there = np.isfinite(block)
        moved = block[there] - shift * own[there]
        residuals.append(moved - np.median(moved))
        mine.append(own[there])
    ranks = np.split(rankdata(np.concatenate(residuals)), np.cumsum([len(of) for of in residuals])[:-1])
    excess = variance = 0.0
    for of, own in zip(ranks, mine, strict=True):
        size, n = len(of), int(own.sum())
        excess += of[own].sum() - n * of.mean()
        variance += n * (size - n) / (size * (size - 1)) * ((of - of.mean()) ** 2).sum()
    return float(np.sign(excess) * max(abs(excess) - 0.5, 0.0) / np.sqrt(variance))


def test_millions_of_values_in_blocks_take_a_few_times_their_own_memory() -> None:
    values = np.random.default_rng(8).normal(size=(100_000, 8)).round(4)
    treated = np.zeros(values.shape, dtype=np.bool_)
    treated[:, 4:] = True
    tracemalloc.start()
    try:
        aligned.interval(values, treated, 0.95)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 5 * values.nbytes, most / values.nbytes


def test_walsh_averages_of_many_are_those_of_sorting(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(6).standard_cauchy(900)
    ranks = [0, 5, 200_000, 200_001, 405_449]
    exact = selection.select_walsh(x, ranks)
    monkeypatch.setattr(selection, "DIRECT", 10)
    assert selection.select_walsh(x, ranks) == pytest.approx(exact, rel=1e-12, abs=1e-12)
