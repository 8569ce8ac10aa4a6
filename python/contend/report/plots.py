"""The plots, as Vega-Lite: one function a plot, with its caption, its legend and its figures as a table.

Rows are named inside the drawing, above each row, so that long names and narrow screens need no margin.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contend.errors import BadInput, HostFailed
from contend.files import write
from contend.report import words
from contend.report.matrix import Matrix, is_compare, matrices, subject
from contend.report.model import ReportInput
from contend.report.plotkit import (
    ROW,
    VEGA_LITE,
    Plot,
    Spec,
    chart,
    condition_colours,
    dashed,
    dots,
    marks,
    quantity,
    row_axis,
    row_labels,
)
from contend.report.strip_plot import MOST_POINTS, PointRow, intervals, strip
from contend.report.theme import resolve, var
from contend.report.timeline_plots import timeline_plots
from contend.report.traced_cells import traced_plots
from contend.report.vega import drawable
from contend.stats.estimate import Estimate
from contend.text.masking import mask_value

COMPARED = frozenset({"victim", "neighbour", "variant"})
FOREST_ROWS = 14  # more comparisons than this are in the matrix only
LEAST_POINTS = 200  # dots of one plot, on a page of many
STATIC_WIDTH = 760  # pixels of a plot saved to a file

TICKS = (
    *(
        0.01,
        0.02,
        0.05,
        0.1,
        0.2,
        0.3,
        0.4,
        0.5,
        0.6,
        0.7,
        0.8,
        0.9,
        0.95,
        1,
        1.05,
        1.1,
        1.2,
        1.3,
        1.4,
        1.5,
        1.6,
        1.8,
    ),
    *(2, 2.5, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100, 200, 500, 1000),
)
MOST_TICKS = 9


def all_plots(report: ReportInput, own: Sequence[Plot] | None = None) -> list[Plot]:
    """Every plot this run has data for, in the order of the page.

    own: its study's, by whoever has made them already. Raises BadInput where one of these has the id of another plot.
    """
    layout = report.analysis.layout
    plots: list[Plot | None] = [forest(report)] if report.analysis.cells and layout.forest else []
    plots += report.analysis.own.plots(report) if own is None else own
    if layout.points == "no":
        return _of_different_ids(report, plots)
    shown = [
        (f"{table}-{number}", matrix, row)
        for table, matrix in enumerate(matrices(report.analysis))
        for number, row in enumerate(matrix.rows)
        if layout.points == "every" or (table == 0 and matrix.metric(row).primary)
    ]
    plots += [
        points(report, matrix, row, name, most=max(LEAST_POINTS, MOST_POINTS // len(shown)))
        for name, matrix, row in shown
    ]
    return _of_different_ids(report, [*plots, *traced_plots(report.traced()), *timeline_plots(report)])


def _of_different_ids(report: ReportInput, plots: Sequence[Plot | None]) -> list[Plot]:
    """Those that there are. An id names a plot's place on the page, its data and its file."""
    by_id: dict[str, Plot] = {}
    for plot in filter(None, plots):
        if plot.id in by_id:
            raise BadInput(
                f"the study '{report.analysis.study}' makes a plot with the id '{plot.id}', which another plot has",
                hint="give each plot of the study an id of its own",
            )
        by_id[plot.id] = plot
    return list(by_id.values())


# ---- the answer: every comparison with its interval, the largest first


def forest(report: ReportInput) -> Plot | None:
    """Ratios with intervals on a log scale around 1, largest effect first."""
    analysis = report.analysis
    tables = matrices(analysis)
    # A row alone says which it is where nothing is compared but one variant.
    alone = len(tables) == 1 and len(tables[0].columns) == 1

    def label(matrix: Matrix, row: str, column: str) -> str:
        group = f", {matrix.group}" if matrix.group and len(tables) > 1 else ""
        if is_compare(analysis):
            return row if alone else f"{row}: {matrix.beside} {column}".replace("  ", " ") + group
        return f"{row} {matrix.beside} {column}".replace("  ", " ") + group

    named = [
        (cell, label(matrix, row, column))
        for matrix in tables
        for (row, column), cell in matrix.cells.items()
        if math.isfinite(cell.estimate.value) and cell.estimate.value > 0
    ]
    if not named:
        return None
    compare = is_compare(analysis)
    caption = (
        "Points are estimates, bars their intervals: right of the dashed line "
        + ("more than the baseline." if compare else "slower, left of it faster.")
        + " A bar that crosses the line is no effect that is shown; a point without a bar had too few blocks."
    )
    rows = [
        Ratio(label, cell.estimate, words.effect(cell, analysis), words.effect_words(cell, analysis))
        for cell, label in named
    ]
    return ratio_plot(rows, "ratio" if compare else "slowdown", "Largest effects", caption)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A row of `ratio_plot`. effect: worse, better, unaffected or another verdict; verdict: the same in words."""

    label: str
    estimate: Estimate
    effect: str
    verdict: str


def ratio_plot(
    rows: Sequence[Ratio],
    what: str,
    title: str,
    caption: str,
    *,
    role: str = "answer",
    number: int = 0,
    each: str = "comparison",
) -> Plot:
    """Ratios above 0 with their intervals on a log scale around 1, the largest effect first.

    what: they are called; each: a row is; number: of several plots of one role.
    """
    ordered = sorted(rows, key=lambda row: -abs(math.log(row.estimate.value)))
    shown = ordered[:FOREST_ROWS]
    values = [
        {
            "y": number,
            "label": f"{words.ratio(row.estimate)}\u2003{row.label}",
            "value": row.estimate.value,
            **_bounds(row.estimate),
            "colour": _effect_colour(row.effect),
            "say": f"{row.label}: {words.ratio(row.estimate)}, n = {row.estimate.n}",
        }
        for number, row in enumerate(shown)
    ]
    edges = [row.estimate.value for row in shown]
    edges += [edge for row in shown for edge in _bounds(row.estimate).values()]
    domain, ticks = ratio_axis(min(edges), max(edges))
    axis = {"values": ticks, "format": ".6~g"}
    x = quantity("value", f"{what} (log scale, 1 = no effect)", axis, type="log", domain=domain)
    y = row_axis("y", len(values))
    spec = chart(
        len(values) * ROW,
        [
            dashed([{"value": 1}], x=x),
            *row_labels("label", len(values)),
            *intervals(values, x, y, strokeWidth=5, opacity=0.45),
            dots(75, 1, x=x, y=y),
        ],
        values,
    )
    rest = len(ordered) - len(shown)
    if rest > 0:
        caption += f" The {len(shown)} largest of {len(ordered)}; all are in the table below."
    table = tuple((row.label, words.ratio(row.estimate), row.verdict) for row in ordered)
    of = f"{len(shown)} of {len(ordered)}" if rest > 0 else str(len(ordered))
    whole = f"{title} ({of} {each}{'s' if len(ordered) > 1 else ''})"
    id_ = f"{role}-{number}" if number else role
    return Plot(id_, role, whole, caption, spec, {}, (each, what, "verdict"), table)


def ratio_axis(low: float, high: float) -> tuple[list[float], list[float]]:
    """The domain of a log axis of ratios, and its ticks: from the one below the data to the one above, 1 among them.

    >>> ratio_axis(0.99, 2.07)
    ([0.95, 2.5], [0.95, 1, 1.2, 1.4, 1.6, 1.8, 2.5])
    >>> ratio_axis(0.3, 40)
    ([0.3, 50], [0.3, 1, 1.8, 4, 8, 15, 50])
    """
    begin = max((t for t in TICKS if t <= min(low, 0.97)), default=TICKS[0])
    end = min((t for t in TICKS if t >= max(high, 1.03)), default=TICKS[-1])
    domain: list[float] = [begin if begin <= low else low, end if end >= high else high]
    within = [t for t in TICKS if begin <= t <= end]
    if len(within) > MOST_TICKS:
        # Evenly spaced by ratio: what is closer than its share to the tick before it goes, but 1 and the ends stay.
        apart = (math.log(end) - math.log(begin)) / MOST_TICKS
        kept = [begin]
        for tick in within[1:-1]:
            far = math.log(tick / kept[-1]) >= apart and (tick >= 1 or math.log(1 / tick) >= apart)
            if tick == 1 or (far and math.log(end / tick) >= apart):
                kept.append(tick)
        within = [*kept, end]
    return domain, within


def _bounds(estimate: Estimate) -> dict[str, float]:
    low, high = estimate.low, estimate.high
    return {"low": low, "high": high} if math.isfinite(high) and low > 0 else {}


def _effect_colour(effect: str) -> str:
    return var({"worse": "bad", "better": "good", "unaffected": "alone"}.get(effect, "warn"))


# ---- every raw point of one victim, the median and its interval beside them


def points(
    report: ReportInput, matrix: Matrix, row: str, plot_id: str, *, most: int = MOST_POINTS
) -> Plot | None:
    """One victim's trials: a dot a block (jittered upwards and downwards), the cell's median and interval."""
    metric = matrix.metric(row)
    rows = _point_rows(report, matrix, row)
    palette = condition_colours(report)
    colours = {name: palette[condition] for condition, (name, *_) in rows}
    title = f"{row}: {metric.name}" if row != metric.name else row
    title += f", {matrix.group}" if matrix.group else ""
    return strip(
        [row for _, row in rows], metric, colours, f"points-{plot_id}", "points", title, seed=row, most=most
    )


def _point_rows(report: ReportInput, matrix: Matrix, row: str) -> list[tuple[str, PointRow]]:
    """The baseline, its control, then every treatment, each with the condition that it has its colour from."""

    def of(name: str, level: Any) -> PointRow:
        low, high = level.estimate.low, level.estimate.high
        known = math.isfinite(low) and math.isfinite(high) and level.estimate.verdict != "too few"
        return name, level.values, level.blocks, level.flagged, (low, high) if known else None

    # Only the treatment of a comparison carries its points; the control's are in the trials.
    rows = [(matrix.baseline, of(matrix.baseline, matrix.level(row)))]
    control = _control_values(report, matrix, row)
    if control:
        flagged = [i for i, (_, _, flags) in enumerate(control) if flags]
        values, blocks = [v for _, v, _ in control], [b for b, _, _ in control]
        rows.append(("control", ("control", values, blocks, flagged, None)))
    treated = [(c, matrix.cells[row, c].treatment) for c in matrix.columns if (row, c) in matrix.cells]
    return rows + [(column, of(f"{matrix.beside} {column}".strip(), level)) for column, level in treated]


def _control_values(report: ReportInput, matrix: Matrix, row: str) -> list[tuple[int, float, bool]]:
    """Block, value and whether it is flagged, of every trial of the row's A/A control."""
    cell = matrix.first(row)
    layout = report.analysis.layout
    mine = subject(cell.factors) if not is_compare(report.analysis) else matrix.baseline
    apart = COMPARED | layout.compared | ({layout.column} if layout.as_measured else set())
    same = {k: v for k, v in cell.factors.items() if k not in apart}

    def whose(factors: Mapping[str, str]) -> str:
        if layout.as_measured and "variant" not in factors and layout.column in factors:
            return factors[layout.column]
        return subject(factors)

    counted = report.counted
    chosen = {
        planned.id
        for planned in report.analysis.planned.values()
        if planned.control
        and whose(planned.repeats) == mine
        and all(planned.repeats.get(k) == v for k, v in same.items())
    }
    return [
        (int(trial.get("block", 0)), float(metric["value"]), bool(trial.get("flags")))
        for trial in counted
        if str(trial.get("cell", "")) in chosen
        for metric in trial.get("metrics", ())
        if metric["name"] == cell.metric.name
    ]


def save_plots(report: ReportInput, directory: Path, formats: Sequence[str] = ("svg", "png")) -> list[Path]:
    """Every plot as files ID.svg and ID.png, light, with its title. Raises BadInput for another format,
    HostFailed without the extra `plots`."""
    unknown = set(formats) - {"svg", "png"}
    if unknown:
        raise BadInput(f"no plot format is called '{min(unknown)}'", hint="formats are svg and png")
    try:
        import vl_convert
    except ImportError:
        raise HostFailed(
            "plots as files need vl-convert, which is not installed",
            hint="pip install 'contend[plots]'; the report page has the same plots without it",
        ) from None
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for plot in all_plots(report):
        spec = standalone(plot)
        if "svg" in formats:
            paths.append(directory / f"{plot.id}.svg")
            write(paths[-1], vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE).encode("utf-8"))
        if "png" in formats:
            paths.append(directory / f"{plot.id}.png")
            write(paths[-1], vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=2))
    return paths


def standalone(plot: Plot) -> Spec:
    """The spec with a width, a title, a legend and real colours: what a file of its own needs."""
    spec: Spec = json.loads(resolve(json.dumps(plot.spec)))
    spec |= {
        "width": STATIC_WIDTH,
        "background": "#ffffff",
        "padding": 16,
        "title": {
            "text": plot.title,
            "subtitle": textwrap.wrap(plot.caption, 115),
            "anchor": "start",
            "offset": 14,
            "limit": STATIC_WIDTH,
        },
    }
    if plot.legend:
        spec["layer"].append(_static_legend(plot.legend))
    # Titles and legends have names of others, too.
    return drawable(mask_value(spec))


def _static_legend(legend: Mapping[str, str]) -> Spec:
    """An invisible mark that only carries the legend: the page draws its own in HTML, where it can wrap."""
    names = list(legend)
    return marks(
        "square",
        {"opacity": 0},
        values=[{"name": name} for name in names],
        fill={
            "field": "name",
            "type": "nominal",
            "scale": {"domain": names, "range": [resolve(c) for c in legend.values()]},
            "legend": {"columns": 6, "symbolOpacity": 1, "symbolType": "square", "title": None},
        },
    )
