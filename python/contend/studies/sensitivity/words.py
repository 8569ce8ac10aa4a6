"""A forecast of pairs in words and rows, for the terminal and the page alike."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from contend.report.words import split_ratio
from contend.stats.estimate import Estimate
from contend.stats.sensitivity import Errors
from contend.studies.sensitivity.result import Pair, Sensitivities, covers

if TYPE_CHECKING:
    from contend.studies.plan import Plan
    from contend.studies.sensitivity.findings import Placed

TITLE = "Forecast of pairs"
NO_TITLE = "Description of pairs, no forecast"
CURVES = "How each workload is slowed by each injector, and how hard it presses"


def cells_lines(plan: Plan) -> list[str]:
    """Lines on how many cells a plan has of each kind, and which pairs are held out."""
    roles = Counter(cell.factors["role"] for cell in plan.cells)
    kinds = {
        "alone": "a workload or a probe alone, and again as its control",
        "curve": "a workload under an injector",
        "calibration": "a probe under an injector",
        "pressure": "a probe beside a workload",
        "pair": "a workload beside a workload",
    }
    lines = [f"{roles[role]:>4} {what}" for role, what in kinds.items()]
    labels = (plan.cell(cell).label for cell in plan.held_out)
    return [*lines, f"held out, to judge the forecast by: {'; '.join(labels)}"]


def title(of: Sensitivities) -> str:
    return NO_TITLE if of.refused else TITLE


def verdict(of: Sensitivities) -> str:
    """A sentence on whether this is a forecast, and by how much it is nearer than the baseline model."""
    advantage = of.forecast.advantage
    text = "of the pairs held out, which nothing was fitted to"
    if math.isfinite(advantage.value):
        gap = f"{advantage.value:+.3f} [{_bound(advantage.low)}, {_bound(advantage.high)}]"
        text = f"|log error| less the baseline's, {text}: {gap} ({advantage.n} pairs; below 0 is nearer)"
    if of.refused:
        return f"Refused as a forecast: {of.refused}. {text[0].upper()}{text[1:]}."
    return f"Its errors are smaller than a row and column effect's. {text[0].upper()}{text[1:]}."


def _bound(value: float) -> str:
    return f"{value:+.3f}" if math.isfinite(value) else "?"


def error_headers() -> tuple[str, ...]:
    return "error on the held-out pairs", "median", "worst", "median, log", "worst, log"


def error_rows(of: Sensitivities) -> list[tuple[str, ...]]:
    """Rows of the forecast's and the baseline's errors; none where no held-out pair was measured."""
    own, theirs = of.forecast.model_errors, of.forecast.baseline_errors
    if own is None or theirs is None:
        return []
    return [_error("curves × probes", own), _error("row + column effect", theirs)]


def _error(name: str, of: Errors) -> tuple[str, ...]:
    return (
        name,
        f"{of.median_points:.1f} points",
        f"{of.worst_points:.1f} points",
        f"{of.median_log:.3f}",
        f"{of.worst_log:.3f}",
    )


def pair_headers() -> tuple[str, ...]:
    return "victim", "beside", "predicted", "measured", "row + column", "inside", "most by", "note"


def pair_rows(of: Sensitivities, *, held_out: bool) -> list[tuple[str, ...]]:
    """A row a pair: those held out, or all, the held-out ones marked."""
    return [_row(pair, mark=not held_out) for pair in (of.held_out if held_out else of.pairs)]


def _row(pair: Pair, *, mark: bool) -> tuple[str, ...]:
    inside = {True: "yes", False: "no", None: ""}[pair.inside]
    marks = ["held out"] if pair.held_out and mark else []
    marks += ["extrapolation"] if pair.beyond else []
    return (
        pair.victim,
        pair.neighbour,
        estimate(pair.predicted),
        "" if pair.measured is None else estimate(pair.measured),
        f"{pair.baseline:.2f}" if math.isfinite(pair.baseline) else "?",
        inside,
        pair.resource,
        ", ".join(marks),
    )


def estimate(of: Estimate) -> str:
    if math.isnan(of.value):
        return "? (no figure)"
    return f"{of.value:.2f} (too few blocks)" if of.verdict == "too few" else " ".join(split_ratio(of))


def pressure_headers(of: Sensitivities) -> tuple[str, ...]:
    return ("presses as hard as its injector at", *of.resources)


def pressure_rows(of: Sensitivities) -> list[tuple[str, ...]]:
    """A row a workload: in % of each injector's intensity."""
    return [(name, *(pressed(of.intensity[name, r]) for r in of.resources)) for name in of.workloads]


def pressed(value: float) -> str:
    """
    >>> pressed(43.4), pressed(130.0), pressed(float("nan"))
    ('43 %', '> 100 %', '?')
    """
    if math.isnan(value):
        return "?"
    return "> 100 %" if value > 100 else f"{value:.0f} %"


def notes(of: Sensitivities) -> list[str]:
    return [f"predicted intervals hold {covers(of)}", *of.notes]


def placed_lines(of: Sensitivities, placed: Placed) -> list[str]:
    """The assignment, a line a host."""
    lines = []
    for number, group in enumerate(placed.assignment.groups, start=1):
        lines.append(f"host {number}: {', '.join(of.workloads[i] for i in group)}")
    return lines


def placed_about(placed: Placed) -> list[str]:
    """Lines on how good the assignment is, and how that is known."""
    assignment = placed.assignment
    looked = (
        "every assignment was looked at"
        if assignment.exact
        else "the best that a search found, not all were looked at"
    )
    lines = [
        f"predicted: a workload is slowed {assignment.mean:.2f}× on average, the worst {assignment.worst:.2f}×; placed at"
        f" random {assignment.random:.2f}× on average ({looked})"
    ]
    if placed.best is not None:
        lines.append(
            f"by the pairs that were measured: {placed.measured:.2f}× on average, at random {placed.measured_random:.2f}×,"
            f" the best that they know {placed.best.mean:.2f}×"
        )
    if placed.extrapolated:
        lines.append(
            "more than two on a host: each neighbour is taken to add what it adds to a pair, as it was with other workloads"
        )
    return lines
