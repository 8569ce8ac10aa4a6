"""The page of a comparison: whole, escaped, with the sentence and the figures of the terminal."""

from __future__ import annotations

from pathlib import Path

from contend.analysis.two_runs import compare_runs
from contend.analysis.two_runs_page import render_comparison, side
from contend.analysis.two_runs_words import changed_cells, headline
from support.made_runs import Made
from unit.report.test_report_html import Page


def test_the_page_has_what_the_terminal_says(tmp_path: Path) -> None:
    slow = {"ffmpeg|stress-cpu": 2.0}
    first, second = (
        Made(tmp_path / name, 12, slow, {}, level=level, seed=seed).run
        for name, level, seed in (("a", 1.0, 1), ("b", 1.5, 2))
    )
    comparison = compare_runs(first, second)
    text = render_comparison(comparison, side(first), side(second), "contend compare '<a>' b")
    page = Page(text)
    assert page.tags["h1"] == page.tags["main"] == 1
    assert all(n == 1 for n in page.ids.values())
    assert f"{headline(comparison)}." in text
    for row in changed_cells(comparison):
        assert row.levels in text and row.ratio in text
    assert "ffmpeg alone" in text and "figure-answer" in text
    assert "'<a>'" not in text, "the command is escaped"
