"""`contend stats FILE.csv`: designs that cannot carry an interval, and files that cannot be read."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from contend.errors import BadInput, UnknownName
from contend.stats import Estimate, compare
from contend.stats.csv_file import compare_csv

Row = tuple[object, ...]


Judge = Callable[..., Estimate]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    def _judge(header: str, rows: list[Row], **options: object) -> Estimate:
        path = tmp_path / "data.csv"
        path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
        [(_, estimate)] = compare_csv(path, **options)  # type: ignore[arg-type]
        return estimate

    return _judge


def paired(blocks: int, seed: int = 1, shuffle: bool = True) -> list[Row]:
    """block, cell, value, order: b is 10 % slower, the order within a block random."""
    rng = random.Random(seed)
    rows: list[Row] = []
    for block in range(blocks):
        cells = ["a", "b"]
        if shuffle:
            rng.shuffle(cells)
        for cell in cells:
            value = (1.1 if cell == "b" else 1.0) * math.exp(rng.gauss(0, 0.01))
            rows.append((block, cell, value, len(rows)))
    return rows


HEADER = "block,cell,value,order"


def test_a_sound_design_is_just_compare(judge: Judge) -> None:
    rows = paired(12)
    estimate = judge(HEADER, rows, baseline="a")
    a, b = ([float(str(r[2])) for r in rows if r[1] == cell] for cell in "ab")
    assert estimate == compare(a, b)
    assert estimate.verdict == "higher"
    assert not estimate.warnings


def test_rows_in_any_order_say_the_same(judge: Judge) -> None:
    rows = paired(12)
    mixed = random.Random(3).sample(rows, len(rows))
    assert judge(HEADER, mixed, baseline="a") == judge(HEADER, rows, baseline="a")


def test_each_cell_in_its_own_stretch_of_time_is_refused_whatever_the_labels(judge: Judge) -> None:
    rows: list[Row] = [(i, "a", 1 + i / 100, i) for i in range(10)]
    rows += [(i, "b", 1.2 + i / 100, 10 + i) for i in range(10)]
    for mixed in (rows, random.Random(3).sample(rows, 20)):
        estimate = judge(HEADER, mixed, baseline="a")
        assert estimate.verdict == "refused"
        assert "block order" in estimate.warnings[0]


def test_a_block_that_holds_only_one_cell_is_refused(judge: Judge) -> None:
    rows: list[Row] = [("first", "a", 1.0)] * 10 + [("second", "b", 1.2)] * 10
    estimate = judge("block,cell,value", rows)
    assert estimate.verdict == "refused"
    assert "AAA…BBB" in estimate.warnings[0]


def test_sorted_rows_without_blocks_are_refused(judge: Judge) -> None:
    rows: list[Row] = [("a", 1.0 + i / 1000) for i in range(30)] + [("b", 1.2 + i / 1000) for i in range(30)]
    estimate = judge("cell,value", rows)
    assert estimate.verdict == "refused"


def test_iterations_of_one_run_are_refused(judge: Judge) -> None:
    rng = random.Random(2)
    rows: list[Row] = [("1", rng.choice("ab"), rng.uniform(1, 1.1)) for _ in range(200)]
    estimate = judge("block,cell,value", rows, baseline="a")
    assert estimate.verdict == "refused"
    assert "iterations" in estimate.warnings[0]


def test_iterations_inside_blocks_count_once_a_run(judge: Judge) -> None:
    rng = random.Random(4)
    rows: list[Row] = []
    for block in range(8):
        for cell in rng.sample("ab", 2):
            run = (1.1 if cell == "b" else 1.0) * math.exp(rng.gauss(0, 0.03))
            rows += [(block, cell, run * math.exp(rng.gauss(0, 0.001)), len(rows) + i) for i in range(50)]
    estimate = judge(HEADER, rows, baseline="a")
    assert estimate.n == 8
    assert "exact signed-rank" in estimate.method
    assert any("iterations" in w for w in estimate.warnings)


def test_iterations_count_once_a_run_even_where_no_order_is_given(judge: Judge) -> None:
    """Two runs of each cell with 100 iterations are two observations, not 200."""
    rows: list[Row] = [
        (block, cell, value + i / 1e4)
        for block in (1, 2)
        for cell, value in (("a", 1.0), ("b", 1.1))
        for i in range(100)
    ]
    estimate = judge("block,cell,value", rows)
    assert (estimate.n, estimate.verdict) == (2, "too few")
    assert any("order or time column" in w for w in estimate.warnings)


def test_runs_in_random_order_within_blocks_all_count(judge: Judge) -> None:
    rng = random.Random(6)
    rows: list[Row] = []
    for block in range(4):
        for cell in rng.sample("aaaabbbb", 8):
            value = (1.1 if cell == "b" else 1.0) * math.exp(rng.gauss(0, 0.01))
            rows.append((block, cell, value, len(rows)))
    estimate = judge(HEADER, rows, baseline="a")
    assert (estimate.n, estimate.verdict, estimate.warnings) == (4, "higher", ())
    assert "median-aligned" in estimate.method


def test_an_order_that_was_never_randomised_is_flagged(judge: Judge) -> None:
    estimate = judge(HEADER, paired(12, shuffle=False))
    assert estimate.verdict == "higher"
    assert any("never randomised" in w for w in estimate.warnings)
    assert not judge(HEADER, paired(6, shuffle=False)).warnings  # chance would give it often enough


def test_rows_sorted_by_cell_without_a_time_are_flagged(judge: Judge) -> None:
    rows: list[Row] = [(i, "a", 1 + i / 100) for i in range(10)] + [(i, "b", 1.2 + i / 90) for i in range(10)]
    estimate = judge("block,cell,value", rows)
    assert estimate.verdict == "higher"
    assert "sorted by cell" in estimate.warnings[0]


def test_blocks_are_taken_from_the_order_where_it_shows_them(judge: Judge) -> None:
    rows = paired(10)
    estimate = judge("cell,value", [(r[1], r[2]) for r in rows], baseline="a")
    assert estimate.n == 10
    assert "exact signed-rank" in estimate.method
    assert any("no block column" in w for w in estimate.warnings)


def test_mixed_rows_without_blocks_are_unpaired(judge: Judge) -> None:
    cells = "aabbbaababbaabba"
    rows: list[Row] = [(c, (1.2 if c == "b" else 1.0) + i / 1000) for i, c in enumerate(cells)]
    estimate = judge("cell,value", rows)
    assert "unpaired" in estimate.method
    assert estimate.warnings


def test_the_baseline_is_the_first_to_appear_unless_named(judge: Judge) -> None:
    header = "cell,value,note"
    rows: list[Row] = [("x", 1.0, "s"), ("y", 2.0, "t")] * 6
    assert judge(header, rows).value == pytest.approx(2)
    assert judge(header, rows, baseline="y").value == pytest.approx(0.5)


def test_several_treatments_come_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "three.csv"
    lines = [
        f"{i};{cell};{value + i / 1000}" for i in range(8) for cell, value in (("n", 1), ("z", 2), ("c", 3))
    ]
    path.write_text("\ufeffBlock; Cell; Value\r\n" + "\r\n".join(lines), encoding="utf-8")
    with pytest.raises(BadInput, match="3 cells"):
        compare_csv(path)
    found = compare_csv(path, baseline="n", level=0.9)
    assert [name for name, _ in found] == ["z", "c"]
    assert [e.level for _, e in found] == [0.9, 0.9]
    with pytest.raises(UnknownName) as caught:
        compare_csv(path, baseline="zz")
    assert "z" in caught.value.hint


def test_times_order_the_rows(judge: Judge) -> None:
    rows: list[Row] = [(i, "a", 1.0, f"2026-05-01T10:{i:02d}:00Z") for i in range(10)]
    rows += [(i, "b", 1.2, f"2026-05-01T11:{i:02d}:00Z") for i in range(10)]
    assert judge("block,cell,value,time", rows).verdict == "refused"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("block,cell,value\n1,a,1.0\n1,b,fast\n", "line 3: 'fast'"),
        ("block,cell,value\n1,a,1.0\n\n1,b,0\n", "line 4: 0"),
        ("block,cell,value\n1,a,nan\n", "line 2: 'nan'"),
        ("block,cell,value\n1,a,-2\n", "line 2: -2"),
        ("block,cell,value\n1,a\n", "line 2: no value"),
        ("block,cell,value,order\n1,a,1.0,noonish\n", "line 2: 'noonish'"),
        ("block,arm,value\n1,a,1.0\n", "line 1: no column 'cell'"),
        ("", "line 1"),
        ("block,cell,value\n", "no rows"),
        ("block,cell,value\n1,a,1.0\n", "only one cell"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(BadInput, match=message) as caught:
        compare_csv(path)
    assert caught.value.hint


def test_files_that_are_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        compare_csv(tmp_path / "none.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="UTF-8"):
        compare_csv(tmp_path / "binary.csv")
