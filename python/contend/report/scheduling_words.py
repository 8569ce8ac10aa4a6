"""What the scheduler did in each cell, beside the same on its baseline: where a platform's cost is to be looked for."""

from __future__ import annotations

from collections.abc import Mapping

from contend.analysis import Analysis, CellResult
from contend.report.matrix import platform_name, subject

Evidence = Mapping[str, tuple[float, str]]
NOTHING = "-"

ABOUT = (
    "Medians over trials, bare → there. CPU time: used, over the bare host's. Waiting: time that tasks were runnable without"
    " a CPU, of all together, for a second of the clock. Throttled: by the quota, on all its CPUs together, for a second."
    " Switched away: how often a process lost its CPU before it wanted to. - is what is not told here."
)


def headers() -> tuple[str, ...]:
    """Of `rows`."""
    return "application", "where", "CPU time, × bare", "waiting, ms/s", "throttled, ms/s", "switched away, /s"


def rows(analysis: Analysis) -> list[tuple[str, ...]]:
    """A row a cell of the headline metric, in the order of the analysis; empty where nothing was seen of any."""
    told = [_row(cell) for cell in analysis.cells if cell.metric.primary]
    return told if any(set(row[2:]) != {NOTHING} for row in told) else []


def _row(cell: CellResult) -> tuple[str, ...]:
    bare, there = cell.baseline_evidence, cell.evidence
    cpu, base = _of(there, "cpu"), _of(bare, "cpu")
    return (
        subject(cell.factors),
        f"{platform_name(cell.factors)}, {cell.factors['size']}",
        NOTHING if cpu is None or not base else f"{cpu / base:.2f}",
        _both(bare, there, "run_delay", 1000),
        _both(bare, there, "throttled", 1000),
        _both(bare, there, "involuntary_switches", 1),
    )


def _of(evidence: Evidence, name: str) -> float | None:
    return evidence[name][0] if name in evidence else None


def _both(bare: Evidence, there: Evidence, name: str, scale: float) -> str:
    now = _rate(there, name, scale)
    if now is None:
        return NOTHING
    before = _rate(bare, name, scale)
    return _figure(now) if before is None else f"{_figure(before)} → {_figure(now)}"


def _rate(evidence: Evidence, name: str, scale: float) -> float | None:
    value, wall = _of(evidence, name), _of(evidence, "wall")
    return None if value is None or not wall else scale * value / wall


def _figure(value: float) -> str:
    """
    >>> _figure(0.04), _figure(3.21), _figure(312.4)
    ('0', '3.2', '312')
    """
    return f"{value:.0f}" if value >= 10 or value < 0.05 else f"{value:.1f}"
