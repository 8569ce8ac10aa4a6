"""Placement: what it costs that two instances are on different hosts, or in different subnets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contend.advice.finding import Finding
from contend.document import VARIANTS, Analysis, CellResult, Control, Layout
from contend.studies.base import OnRecord, Study
from contend.studies.cell import Cell
from contend.studies.placement import checks, effects
from contend.studies.placement import result as results
from contend.studies.placement.cells import cells, instance_lines
from contend.studies.placement.claims import judge
from contend.studies.placement.findings import findings
from contend.studies.placement.model import NetworkPlacement

if TYPE_CHECKING:
    from contend.report.model import ReportInput
    from contend.report.plotkit import Plot
    from contend.report.printer import Printer
    from contend.studies.plan import Plan


class PlacementStudy(Study[NetworkPlacement]):
    scenario = NetworkPlacement
    key = "placement"

    def cells(self, scenario: NetworkPlacement) -> tuple[Cell, ...]:
        return cells(scenario)

    def check(self, scenario: NetworkPlacement) -> None:
        checks.check(scenario)

    def fitted(self, scenario: NetworkPlacement, runs: Path) -> tuple[NetworkPlacement, tuple[str, ...]]:
        return checks.fitted(scenario)

    def timeout_s(self, scenario: NetworkPlacement) -> float:
        return scenario.timeout / 1e9

    def read(self, scenario: NetworkPlacement, run: OnRecord) -> results.Placements | None:
        level, matters = scenario.measure.level, scenario.measure.matters
        placements = effects.read(run.results, level, matters, run.seed)
        return None if placements is None else replace(placements, claims=judge(placements, level, matters))

    def answer(
        self,
        scenario: NetworkPlacement,
        run: OnRecord,
        result: results.Placements | None,
        findings: Sequence[Finding],
    ) -> str:
        return "" if result is None else results.answer(result)

    def findings(
        self, scenario: NetworkPlacement, run: OnRecord, result: results.Placements | None
    ) -> tuple[Finding, ...]:
        return () if result is None else findings(result, run.repeat)

    def layout(self, result: results.Placements | None) -> Layout:
        return replace(
            VARIANTS,
            column="",
            position=lambda cell: (_conditions(cell), cell.metric.name, cell.factors["variant"]),
            compared=frozenset({"host", "subnet", "encapsulation"}),
            control=_conditions if result is not None else None,  # one for each kind of traffic
            forest=result is None,
            points="every" if result is None else "headline",
        )

    def lines(self, scenario: NetworkPlacement, plan: Plan) -> Iterator[str]:
        yield from super().lines(scenario, plan)
        if scenario.cloud:
            yield from instance_lines(scenario)

    def show(self, report: ReportInput, printer: Printer, *, verbose: bool) -> bool:
        from contend.studies.placement.terminal import show_placement

        width = printer.console.width
        show_placement(report.analysis.result, printer.line, printer.columns, width=width, verbose=verbose)
        return False

    def tabled(self, analysis: Analysis) -> bool:
        return False

    def plots(self, report: ReportInput) -> list[Plot]:
        from contend.studies.placement.plots import placement_plots

        return placement_plots(report.analysis.result)

    def nothing_found(self, analysis: Analysis, *, known: bool) -> str:
        if not known:
            return super().nothing_found(analysis, known=known)
        return "none: no place is shown to cost throughput or CPU time by 5 % or more."

    def result_type(self) -> Any:
        return results.Placements

    def contents(self, analysis: Analysis) -> tuple[tuple[str, str], ...]:
        return (("placement", "Places"),)

    def values(self, report: ReportInput) -> Mapping[str, Any]:
        from contend.studies.placement import map as maps
        from contend.studies.placement import words

        return {
            "placement": report.analysis.result,
            "placement_words": words,
            "placement_map": maps,
        }


STUDY = PlacementStudy()


def _conditions(cell: CellResult | Control) -> str:
    """Name what was sent: each has a table of its own."""
    return results.conditions_of(cell).label
