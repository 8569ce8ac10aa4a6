"""The page of a comparison of two runs: the answer, the changes with their intervals, before and after."""

from __future__ import annotations

import math
from dataclasses import dataclass

from contend.analysis.two_runs import Comparison
from contend.analysis.two_runs_words import Row, changed_cells, headline, notes
from contend.report.html import page
from contend.report.plotkit import Plot
from contend.report.plots import Ratio, ratio_plot
from contend.store.directory import RunDirectory

_EFFECTS = {"higher": "worse", "lower": "better"}


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs, as the page tells of it."""

    name: str
    facts: str


def side(run: RunDirectory) -> Side:
    """A run by its name, when it began, on what, and by which version."""
    environment = run.environment()
    began = next((str(row["utc"]) for row in run.rows() if row.get("utc")), "")
    version = environment.get("contend")
    facts = (
        f"{began[:16].replace('T', ' ')} UTC" if began else "",
        str(environment.get("cpu", "")),
        str(environment.get("os", "")),
        f"contend {version}" if version else "",
    )
    return Side(run.id, ", ".join(fact for fact in facts if fact))


def render_comparison(comparison: Comparison, first: Side, second: Side, command: str) -> str:
    """The page as text. command: that makes it again."""
    rows = changed_cells(comparison)
    plot = _plot(comparison, rows)
    return page(
        "compare",
        [plot] if plot is not None else [],
        answer=headline(comparison),
        first=first,
        second=second,
        warnings=comparison.warnings,
        plot=plot,
        rows=[row for row in rows if row.primary],
        others=[row for row in rows if not row.primary],
        notes=notes(comparison),
        command=command,
    )


def _plot(comparison: Comparison, rows: list[Row]) -> Plot | None:
    """Headline metrics' changes; None where none has a ratio."""
    shown = [
        Ratio(
            f"{row.name} {row.metric}".strip(),
            change.estimate,
            _EFFECTS.get(change.estimate.verdict, change.estimate.verdict),
            row.verdict,
        )
        for change, row in zip(comparison.cells, rows, strict=True)
        if row.primary and change.estimate.value > 0 and math.isfinite(change.estimate.value)
    ]
    caption = (
        "Second run over first: right of the dashed line worse, left of it better. Points are estimates, bars their"
        " intervals, widened by what unchanged runs vary by. A point without a bar had too few blocks."
    )
    return ratio_plot(shown, "change", "Changes", caption) if shown else None
