"""Imported: what another tool measured. There is nothing to run."""

from __future__ import annotations

from collections.abc import Sequence

from contend.advice.finding import Finding
from contend.document import Layout
from contend.errors import ScenarioError
from contend.studies.base import OnRecord, Study
from contend.studies.cell import Cell
from contend.studies.imported import result as results
from contend.studies.imported.model import Imported
from contend.studies.words import compared


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
        return " ".join(compared(one) for one in results.known(run.primary)) or results.answer(result)

    def layout(self, result: results.ImportedRuns) -> Layout:
        first = next(filter(None, (level.factors.get("variant", "") for level in result.levels)), "baseline")
        return Layout(
            as_measured=True,
            rows="metric",
            column="variant",
            table="victim",
            beside="",
            baseline=first,
            refused=False,  # whose order allows no ratio, there is no table for
        )


STUDY = ImportedStudy()
