"""Of a run of thousands of trials a page draws a part, says which, and stays small."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from contend.cli.common import load_report
from contend.compact import Readings, compacted
from contend.report.html import render_html
from contend.report.plots import all_plots
from contend.report.timeline_plots import MOST_BANDS
from contend.store import RunDirectory
from support.made_big import big_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return big_run(tmp_path_factory.mktemp("big"), 6000)


def test_a_part_is_drawn_and_all_of_it_counts(run: RunDirectory) -> None:
    report = load_report(run)
    plots = {plot.role: plot for plot in all_plots(report)}
    assert {cell.baseline.estimate.n for cell in report.analysis.cells} == {600}
    points, strip = plots["points"], plots["strip"]
    # Two victims share the page's dots: 5 rows of 600 each, every second of them.
    assert "Every 2nd of 3,000 trials is drawn and listed; all of them count." in points.caption
    assert len(points.spec["data"]["values"]) == len(points.table) == 1500
    assert f"every {-(-6002 // MOST_BANDS)}th is drawn" in strip.caption
    assert len(strip.spec["data"]["values"]) <= MOST_BANDS
    wide = sorted(strip.spec["data"]["values"], key=lambda band: float(band["start"]))
    assert all(a["end"] == b["start"] for a, b in pairwise(wide)), "no gap between them"


def test_the_page_is_small_and_lists_few_ranges(run: RunDirectory) -> None:
    page = render_html(load_report(run))
    assert len(page.encode()) < 3 * 2**20
    assert page.count("vegaEmbed = vegaEmbed") <= 1
    assert 100 < len(re.findall(r"<option", page)) <= 210


def test_a_small_run_is_drawn_whole(tmp_path: Path) -> None:
    plots = all_plots(load_report(big_run(tmp_path, 100)))
    for plot in plots:
        assert "is drawn" not in plot.caption


def test_rows_are_read_once_for_a_report(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh, times = RunDirectory(run.path), []
    real = RunDirectory.each_row

    def counting(self: RunDirectory, plan: Mapping[str, Any] | None = None) -> object:
        times.append(self.path)
        return real(self, plan)

    monkeypatch.setattr(RunDirectory, "each_row", counting)
    load_report(fresh)
    assert len(times) == 1
    fresh.append(dict(fresh.rows()[-1]) | {"trial": 10**6})
    times.clear()
    assert len(fresh.compact_rows()) == 6003, "what was added since is read"
    assert len(times) == 1
    lines = run.trials_path.read_bytes().splitlines(keepends=True)
    run.trials_path.write_bytes(b"".join(lines[:-1]))


def test_compact_rows_say_the_same(run: RunDirectory) -> None:
    plain = run.rows()[:50]
    compact = compacted(plain)
    assert isinstance(compact[0]["evidence"], Readings)
    assert [{**row, "evidence": list(row["evidence"])} for row in compact] == plain


@pytest.mark.parametrize(
    "evidence",
    [None, 7, [1], [{}], [{"name": "a", "value": "x", "unit": "s"}], [{"name": [], "value": 1, "unit": 2}]],
)
def test_odd_evidence_stays_as_it_is(evidence: object) -> None:
    row = {"cell": ["odd"], "evidence": evidence, "metrics": [3], "factors": None}
    assert compacted([row]) == [row]
