"""Growth: how a cloud's control plane slows down as it fills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from contend.advice.finding import Finding
from contend.clouds.login import find
from contend.document import VARIANTS, Analysis, Layout
from contend.stats import trend
from contend.studies.base import OnRecord, Study
from contend.studies.cell import Cell
from contend.studies.growth import result as results
from contend.studies.growth.cells import cells
from contend.studies.growth.findings import findings
from contend.studies.growth.model import Growth

if TYPE_CHECKING:
    from contend.report.model import ReportInput
    from contend.report.plotkit import Plot
    from contend.report.printer import Printer


class GrowthStudy(Study[Growth]):
    scenario = Growth
    key = "growth"
    pilot = False  # a pass over a growing population warms up by itself, and is too long to be thrown away

    def cells(self, scenario: Growth) -> tuple[Cell, ...]:
        return cells(scenario)

    def check(self, scenario: Growth) -> None:
        find(scenario.cloud)

    def timeout_s(self, scenario: Growth) -> float:
        return scenario.timeout / 1e9

    def length_ns(self, scenario: Growth, cell: Cell) -> int:
        return round(1e9 * float(cell.victim.instance.parameters["within"]))  # a pass has its own time

    def least_blocks(self, scenario: Growth) -> int:
        return 1  # a pass is an answer by itself

    def read(self, scenario: Growth, run: OnRecord) -> results.Growths | None:
        slo_s, measure = scenario.slo / 1e9, scenario.measure
        return results.read(run.path, run.counted, scenario.kinds, slo_s, measure.level, measure.matters)

    def answer(
        self, scenario: Growth, run: OnRecord, result: results.Growths | None, findings: Sequence[Finding]
    ) -> str:
        return "" if result is None else results.answer(result)

    def findings(
        self, scenario: Growth, run: OnRecord, result: results.Growths | None
    ) -> tuple[Finding, ...]:
        return () if result is None else findings(result, run.repeat)

    def estimand(self, result: results.Growths | None) -> str:
        return super().estimand(result) if result is None else trend.METHOD

    def layout(self, result: results.Growths | None) -> Layout:
        by: Literal["cells", "own"] = "cells" if result is None else "own"
        return replace(VARIANTS, column="", controlled=by, finds=result is not None)

    def show(self, report: ReportInput, printer: Printer, *, verbose: bool) -> bool:
        from contend.studies.growth.terminal import show_growth

        show_growth(report.analysis.result, printer.line, printer.columns)
        return True

    def tabled(self, analysis: Analysis) -> bool:
        return False

    def plots(self, report: ReportInput) -> list[Plot]:
        from contend.studies.growth.plots import growth_plots

        return growth_plots(report.analysis.result)

    def nothing_found(self, analysis: Analysis, *, known: bool) -> str:
        return "none: no call is shown to do more work as the cloud fills."

    def result_type(self) -> Any:
        return results.Growths

    def contents(self, analysis: Analysis) -> tuple[tuple[str, str], ...]:
        return (("growth", "Calls by population"),)

    def values(self, report: ReportInput) -> Mapping[str, Any]:
        from contend.studies.growth import words

        return {"growth": report.analysis.result, "growth_words": words}


STUDY = GrowthStudy()
