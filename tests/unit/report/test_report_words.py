"""How reports lay out and say what a run found."""

from __future__ import annotations

import dataclasses
import io
import math

import pytest

from contend.document import Layout
from contend.report import words
from contend.report.html import render_html
from contend.report.matrix import matrices, secondary
from contend.report.plots import all_plots
from contend.report.terminal import render, show
from contend.stats.estimate import Estimate
from support import report_samples as samples


def test_a_matrix_has_a_row_a_victim_and_a_column_a_neighbour() -> None:
    (matrix,) = matrices(samples.interference().analysis)
    assert matrix.rows == tuple(samples.VICTIMS)
    assert matrix.columns == samples.NEIGHBOURS
    assert all(c.metric.primary for c in matrix.cells.values())
    assert len(secondary(samples.interference().analysis)) == 9


def test_another_placement_makes_another_table() -> None:
    analysis = samples.interference().analysis
    moved = [dataclasses.replace(c, factors={**c.factors, "placement": "own-cores"}) for c in analysis.cells]
    both = matrices(dataclasses.replace(analysis, cells=(*analysis.cells, *moved)))
    assert [m.group for m in both] == ["placement same-cpu", "placement own-cores"]


def test_a_compare_study_has_a_row_a_metric_and_says_better_or_worse_by_the_metrics_direction() -> None:
    analysis = samples.compare_study().analysis
    (matrix,) = matrices(analysis)
    assert (matrix.rows, matrix.baseline, matrix.columns) == (
        ("wall", "cpu", "throughput"),
        "gzip -6",
        ("zstd -3",),
    )
    effects = [words.effect(matrix.cells[row, "zstd -3"], analysis) for row in matrix.rows]
    assert effects == ["better", matrix.cells["cpu", "zstd -3"].estimate.verdict, "better"]
    assert effects[1] in words.MARKS


OWN = Layout(as_measured=True, rows="metric", column="level", table="input", beside="level", baseline="")


def test_a_study_of_two_factors_of_its_own_is_told_apart_everywhere() -> None:
    report = samples.two_factors(OWN)
    assert [(m.group, m.baseline, m.columns) for m in matrices(report.analysis)] == [
        ("text", "6", ("9",)),
        ("noise", "6", ("9",)),
    ]
    shown = render(report)
    assert "wall (text) " in shown and "wall (noise) " in shown, "each control by its input"
    page = render_html(report)
    assert "level 9" in page and "wall (text)" in page
    (forest,) = (plot for plot in all_plots(report) if plot.role == "answer")
    told = [row[0] for row in forest.table]
    assert len(set(told)) == len(told) == 6 and "wall: level 9, noise" in told
    (strip,) = (plot for plot in all_plots(report) if plot.role == "strip")
    assert set(strip.legend) == {"6", "9", "control"}, "the colours of the tables' columns"
    for plot in (p for p in all_plots(report) if p.role == "points"):
        assert list(dict.fromkeys(row[0] for row in plot.table)) == ["6", "control", "level 9"]


def test_a_layouts_title_stands_above_its_tables() -> None:
    report = samples.two_factors(dataclasses.replace(OWN, title="What a level costs"))
    assert "What a level costs (ratio to 6;" in render(report)
    page = render_html(report)
    assert '<h2 id="matrix">What a level costs</h2>' in page
    assert '<a href="#matrix">What a level costs</a>' in page
    assert '<h2 id="matrix">Comparison</h2>' in render_html(samples.two_factors(OWN))


def test_no_cell_hides_another_whatever_a_layout_says_that_names_tell() -> None:
    layout = dataclasses.replace(OWN, table="", named=frozenset({"input"}))
    both = matrices(samples.two_factors(layout).analysis)
    assert [m.group for m in both] == ["input text", "input noise"]
    assert sum(len(m.cells) for m in both) == 6


def test_an_interval_that_excludes_one_never_reads_as_if_it_held_it() -> None:
    near = Estimate(1.004, 1.0008, 1.008, "ratio", 30, 0.95, "HL", "higher")
    assert words.split_ratio(near) == ("1.004", "[1.001, 1.008]")


def test_the_advised_budget_follows_the_square_of_the_missing_precision() -> None:
    report = samples.interference()
    minutes = int(words.budget_needed(report).removesuffix("m"))
    worst = max(
        c.estimate.relative_half_width
        for c in report.analysis.cells
        if f"{c.factors['victim']} {c.metric.name}" in words.missed(report.analysis)
    )
    exact = report.elapsed_ns / 60e9 * (worst / 0.02) ** 2
    assert exact <= minutes <= exact + 5
    assert words.command_with_budget(report).count("--budget") == 1
    mine = dataclasses.replace(report, command="contend prove shop --for 45s -- ./ask --for 3s")
    assert words.command_with_budget(mine) == f"contend prove shop --budget {minutes}m -- ./ask --for 3s"


def test_without_any_interval_no_budget_is_invented() -> None:
    report = samples.too_few()
    assert words.budget_needed(report) == ""
    assert "more blocks are needed" in words.target_line(report)


def test_a_run_without_a_comparison_has_reached_nothing() -> None:
    report = samples.interference()
    nothing = dataclasses.replace(report, analysis=dataclasses.replace(report.analysis, cells=()))
    assert words.target_line(report) and words.target_line(nothing) == ""


@pytest.mark.parametrize("width", [40, 80, 120, 200])
@pytest.mark.parametrize(
    "name", ["interference", "matrix_8x8", "too_few", "hostile", "compare_study", "one_by_one"]
)
def test_no_line_is_wider_than_the_terminal_except_what_must_be_copied_whole(name: str, width: int) -> None:
    text = render(getattr(samples, name)(), width=width, verbose=width > 80)
    long = [line for line in text.splitlines() if len(line) > width]
    whole = ("verify:", "report:", "a-very-long-workload", "<script>alert(1)</script>")
    assert [line for line in long if not any(w in line for w in whole)] == []


def test_colour_only_adds() -> None:
    from rich.console import Console

    plain, coloured = io.StringIO(), io.StringIO()
    report = samples.interference()
    show(report, Console(file=plain, width=100, no_color=True))
    show(report, Console(file=coloured, width=100, force_terminal=True, color_system="truecolor"))
    from rich.text import Text

    assert "\x1b[" in coloured.getvalue()
    assert Text.from_ansi(coloured.getvalue()).plain.split() == plain.getvalue().split()


def test_nothing_of_a_tools_output_is_taken_for_markup_or_escape_codes() -> None:
    text = render(samples.hostile(), width=100)
    assert "[red]rich[/red]" in text.replace("\n", " ")
    assert "\x1b" not in text
    assert "[bold]x[/bold]" in text


def test_a_terminal_without_unicode_gets_ascii() -> None:
    from rich.console import Console

    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    show(samples.interference(), Console(file=stream, width=80))
    stream.flush()
    text = raw.getvalue().decode("ascii")
    assert "##" in text
    assert "target +/-2 %" in text


def test_a_control_alarm_is_said_aloud() -> None:
    report = samples.interference()
    alarmed = tuple(dataclasses.replace(c, alarm=True) for c in report.analysis.controls)
    report = dataclasses.replace(report, analysis=dataclasses.replace(report.analysis, controls=alarmed))
    assert "ALARM" in render(report)
    assert "ALARM" not in render(samples.one_by_one())


def test_detectable_is_not_a_number_without_an_interval() -> None:
    assert "unknown" in words.detectable(samples.too_few().analysis.controls[0])
    assert words.percent(math.inf) == "any"
