"""When known answers are made at full size, and that a count which changed is seen at any size."""

from __future__ import annotations

from pathlib import Path

import pytest

from known.result import Result
from support.known_counts import RECORD, answer_of, meaning


class Made:
    """Experiments of which all but a tenth hold; it counts how many were made."""

    def __init__(self, off: int = 0) -> None:
        self.off, self.sizes = off, list[int]()

    def __call__(self, experiments: int) -> Result:
        self.sizes.append(experiments)
        return Result(
            "made", "iid", 5, experiments * 9 // 10 + self.off, experiments, 0.1, f"of {experiments}"
        )


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "known.json"
    with monkeypatch.context() as writing:
        writing.setenv("CONTEND_KNOWN_COUNTS", "write")
        answer_of(path, "old", Made(), 2000, 200)
    monkeypatch.delenv("CONTEND_KNOWN_COUNTS", raising=False)  # by which the record of all is renewed
    return path


def test_all_are_made_only_where_the_sources_mean_something_else(record: Path) -> None:
    same, changed = Made(), Made()
    told = answer_of(record, "old", same, 2000, 200)
    assert told == answer_of(record, "new", changed, 2000, 200) == Made()(2000)
    assert (same.sizes, changed.sizes) == ([200], [200, 2000])


def test_a_count_that_is_off_by_one_is_seen_among_the_few(record: Path) -> None:
    for digest in ("old", "new"):
        with pytest.raises(AssertionError, match="made, iid, 5"):
            answer_of(record, digest, Made(off=1), 2000, 200)


def test_what_is_not_on_record_is_not_taken_for_known(record: Path) -> None:
    with pytest.raises(AssertionError, match="has no"):
        answer_of(record, "old", Made(), 2000, 100)


def test_two_kinds_of_experiment_do_not_share_a_name(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEND_KNOWN_COUNTS", "write")
    with pytest.raises(AssertionError, match="two kinds"):
        answer_of(record, "old", Made(off=1), 2000, 200)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ('"""Another docstring."""\n\n\ndef f(x):\n    # why\n    return  x + 1\n', True),
        ('def f(x):\n    """New."""\n    return x + 1\n', True),
        ("def f(x):\n    return x + 2\n", False),
        ("def f(x):\n    return x - 1\n", False),
        ('def f(x):\n    "a".strip()\n    return x + 1\n', False),
    ],
)
def test_comments_and_docstrings_mean_nothing_and_all_else_does(
    tmp_path: Path, text: str, same: bool
) -> None:
    (tmp_path / "a.py").write_text('"""Adds."""\n\n\ndef f(x):\n    return x + 1\n', encoding="utf-8")
    before = meaning(tmp_path)
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    assert (meaning(tmp_path) == before) is same


def test_a_module_more_is_another_meaning(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()
    before = meaning(tmp_path)
    (tmp_path / "b.py").touch()
    assert meaning(tmp_path) != before


def test_the_record_is_there() -> None:
    assert RECORD.is_file()
