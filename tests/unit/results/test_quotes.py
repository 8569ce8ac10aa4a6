"""Figures in README, guides and CHANGELOG are what the results say; in README none that was measured lacks its result."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from results import files, quotes
from results.record import ROOT

HINT = "scripts/results.py quote writes the figures anew; then read the sentences again"
ALLOWED = {"3 %"}
"""Figures of README that look measured and are not: which effects matter where nobody says otherwise."""


@pytest.mark.parametrize("path", quotes.pages(), ids=lambda path: path.name)
def test_every_quoted_figure_is_what_the_data_say(path: Path) -> None:
    assert [str(one) for one in quotes.differing(path)] == [], HINT


@pytest.mark.parametrize("path", quotes.pages(), ids=lambda path: path.name)
def test_marks_are_whole_and_outside_of_code(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("<!-- r:") == text.count("<!-- /r -->") == len(quotes.MARK.findall(text))
    for fence in re.findall(r"^ *```.*?^ *```$", text, re.M | re.S):
        assert "<!-- r:" not in fence, "a reader would see it"


def test_readme_quotes_nothing_without_its_result() -> None:
    found = set(quotes.unmarked((ROOT / "README.md").read_text(encoding="utf-8")))
    assert found - ALLOWED == set(), (
        "mark it: bench/results/quotes.py says how; or it is not measured: ALLOWED"
    )
    assert found >= ALLOWED, "no longer in README"


def test_a_wrong_figure_is_told_and_written_anew(tmp_path: Path) -> None:
    page, told = tmp_path / "README.md", files.load("kills")
    kills, recovered = told["kills"], f"{told['recovered']} of {told['kills']}"
    page.write_text(
        f"Of\n<!-- r:kills.recovered -->7 of\n{kills}<!-- /r --> it recovered,"
        f" <!-- r:kills {{{{ kills }}}} -->{kills}<!-- /r -->.\n"
    )
    (one,) = quotes.differing(page, tmp_path)
    assert str(one) == f"README.md:2: r:kills.recovered is '{recovered}', and '7 of {kills}' is written"
    assert f"<!-- r:kills.recovered -->{recovered}<!-- /r --> it" in quotes.rewritten(page.read_text())


@pytest.mark.parametrize(
    ("mark", "says"),
    [
        ("nothing.at", "no result 'nothing'"),
        ("kills.nothing", "no 'nothing'"),
        ("kills {{ nothing }}", "undefined"),
    ],
)
def test_a_mark_of_nothing(mark: str, says: str, tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text(f"<!-- r:{mark} -->1<!-- /r -->")
    (one,) = quotes.differing(page, tmp_path)
    assert says in one.wanted
    with pytest.raises(LookupError):
        quotes.rewritten(page.read_text())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It takes 2.04 [2.01, 2.14] times as long.", ["2.04 [2.01, 2.14]"]),
        ("It lost 3 to 4 % and 12 ns.", ["3 to 4 %", "12 ns"]),
        ("30 of 30 killed", ["30 of 30"]),
        ("`sleep 5 s` and [2 s](page) take `3 s`:\n```\n4 s\n```\n", ["2 s"]),
        ("<!-- r:kills.kills -->108<!-- /r --> kills, Python ≥ 3.11 and 24 GiB", ["24 GiB"]),
    ],
)
def test_what_looks_measured(text: str, found: list[str]) -> None:
    assert quotes.unmarked(text) == found
