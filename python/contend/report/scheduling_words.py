"""Words on the scheduler in each cell, beside those on its baseline: they show where a platform's cost may lie."""

from __future__ import annotations

from contend.contention.scheduling import CellSchedule
from contend.document import Analysis, CellResult
from contend.platforms.sizes import sized
from contend.probes.observed import Observations, Observed
from contend.report.matrix import platform_name, subject
from contend.store.cells import SizedPlatform
from contend.units import format_duration

NOTHING = "-"

ABOUT = (
    "Medians over trials, bare → there. CPU time: used, over the bare host's. Waiting: time that tasks were runnable without"
    " a CPU, of all together, for a second of the clock. Throttled: by the quota, on all its CPUs together, for a second."
    " Switched away: how often a process lost its CPU before it wanted to. - is what is not told here."
)


def headers() -> tuple[str, ...]:
    """Headers of `rows`."""
    return "application", "where", "CPU time, × bare", "waiting, ms/s", "throttled, ms/s", "switched away, /s"


def rows(analysis: Analysis) -> list[tuple[str, ...]]:
    """A row for each cell of the headline metric, in the order of the analysis; empty where the scheduler was not
    recorded."""
    cell_rows = [_row(cell) for cell in analysis.cells if cell.metric.primary]
    return cell_rows if any(set(row[2:]) != {NOTHING} for row in cell_rows) else []


WAITS_ABOUT = (
    "All times that tasks of a cell's trials waited for a CPU, and ran on one at a stretch: medians and 99th percentiles,"
    " within 9 %. Of a guest: the threads of its emulator, whose waits the guest takes for stolen time."
)


def schedules(analysis: Analysis) -> list[CellSchedule]:
    """Schedules of an overhead study's cells without controls, sorted by application and size, the bare host first."""
    measured = [
        (of, cell.values.platform)
        for of in analysis.schedules
        if (cell := analysis.planned.get(of.cell)) is not None
        and not cell.control
        and cell.values.platform is not None
    ]
    order = list(dict.fromkeys(subject(of.factors) for of, _ in measured))

    def position(each: tuple[CellSchedule, SizedPlatform]) -> tuple[object, ...]:
        of, platform = each
        return (
            order.index(subject(of.factors)),
            -(platform.host or 0),
            platform.cpus,
            platform.kind != "bare",
            platform_name(of.factors),
        )

    return [of for of, _ in sorted(measured, key=position)]


def where(of: CellSchedule) -> str:
    bare = of.factors["platform"] == "bare"
    return f"{'bare' if bare else platform_name(of.factors)}, {sized(of.factors)}"


def waits_headers() -> tuple[str, ...]:
    """Headers of `waits_rows`."""
    return "application", "where", "waited, median", "p99", "ran, median", "p99", "moved, /s"


def waits_rows(analysis: Analysis) -> list[tuple[str, ...]]:
    """A row a cell, bare ones too; empty where no histograms were recorded."""
    return [waited_row(of) for of in schedules(analysis)]


def waited_row(of: CellSchedule) -> tuple[str, ...]:
    times = (of.quantile_ns(kind, share) for kind in ("run_queue", "on_cpu") for share in (0.5, 0.99))
    return (
        subject(of.factors),
        where(of),
        *(NOTHING if ns is None else "< 0.13 µs" if not ns else format_duration(ns) for ns in times),
        _figure(of.a_second(of.migrations)),
    )


def _row(cell: CellResult) -> tuple[str, ...]:
    bare, there = cell.baseline_evidence, cell.evidence
    cpu, base = there.value(Observed.CPU), bare.value(Observed.CPU)
    return (
        subject(cell.factors),
        f"{platform_name(cell.factors)}, {sized(cell.factors)}",
        NOTHING if cpu is None or not base else f"{cpu / base:.2f}",
        _both(bare, there, Observed.RUN_DELAY, 1000),
        _both(bare, there, Observed.THROTTLED, 1000),
        _both(bare, there, Observed.INVOLUNTARY_SWITCHES, 1),
    )


def _both(bare: Observations, there: Observations, name: Observed, scale: float) -> str:
    now = _rate(there, name, scale)
    if now is None:
        return NOTHING
    before = _rate(bare, name, scale)
    return _figure(now) if before is None else f"{_figure(before)} → {_figure(now)}"


def _rate(evidence: Observations, name: Observed, scale: float) -> float | None:
    value, wall = evidence.value(name), evidence.value(Observed.WALL)
    return None if value is None or not wall else scale * value / wall


def _figure(value: float) -> str:
    """
    >>> _figure(0.04), _figure(3.21), _figure(312.4)
    ('0', '3.2', '312')
    """
    return f"{value:.0f}" if value >= 10 or value < 0.05 else f"{value:.1f}"
