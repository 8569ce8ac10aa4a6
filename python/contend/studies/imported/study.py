"""Imported: what another tool measured. There is nothing to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from contend.advice.finding import Finding
from contend.document import VARIANTS, Analysis, CellResult, Layout
from contend.errors import ScenarioError
from contend.studies.base import OnRecord, Study
from contend.studies.cell import Cell
from contend.studies.imported import result as results
from contend.studies.imported import words
from contend.studies.imported.model import Imported
from contend.studies.imported.plots import imported_plots
from contend.studies.imported.terminal import show_imported
from contend.studies.imported.words import design, files
from contend.studies.words import compared, known

if TYPE_CHECKING:
    from contend.report.model import ReportInput
    from contend.report.plotkit import Plot
    from contend.report.printer import Printer


class ImportedStudy(Study[Imported]):
    scenario = Imported
    key = "imported"
    runs = False

    def cells(self, scenario: Imported) -> tuple[Cell, ...]:
        raise ScenarioError(
            f"{scenario.origin or 'it'} is what {scenario.tool} measured: there is nothing to run",
            hint="contend report RUN shows it again",
        )

    def read(self, scenario: Imported, run: OnRecord) -> results.ImportedRuns:
        level = scenario.measure.level
        return results.read(
            scenario.tool, scenario.settings, run.environment, run.cells, run.table, run.counted, level
        )

    def answer(
        self, scenario: Imported, run: OnRecord, result: results.ImportedRuns, findings: Sequence[Finding]
    ) -> str:
        planned = {cell.id: cell for cell in run.cells}

        def baseline(of: CellResult) -> str:
            cell = next(cell for cell in run.cells if cell.factors == of.factors and cell.baseline)
            return planned[cell.baseline].factors["variant"]

        return " ".join(
            compared(one, baseline(one), scenario.measure.matters) for one in known(run.primary)
        ) or results.answer(result)

    def layout(self, result: results.ImportedRuns | None) -> Layout:
        levels = () if result is None else result.levels
        first = next(filter(None, (level.factors.get("variant", "") for level in levels)), "baseline")
        return replace(
            VARIANTS,
            table="victim",
            baseline=first,
            refused=False,  # whose order allows no ratio, there is no table for
            controlled="no",
            points="no",
        )

    def show(self, report: ReportInput, printer: Printer, *, verbose: bool) -> bool:
        show_imported(report.analysis.result, printer.line, printer.columns, verbose=verbose)
        return True

    def plots(self, report: ReportInput) -> list[Plot]:
        return imported_plots(report.analysis.result)

    def design(self, analysis: Analysis) -> str:
        return design(analysis)

    def facts(self, analysis: Analysis) -> list[tuple[str, str]]:
        return [("Made by", files(analysis.result))]

    def result_type(self) -> Any:
        return results.ImportedRuns

    def contents(self, analysis: Analysis) -> tuple[tuple[str, str], ...]:
        return (("levels", "Levels"),)

    def values(self, report: ReportInput) -> Mapping[str, Any]:
        return {"imported": report.analysis.result, "imported_words": words}


STUDY = ImportedStudy()
