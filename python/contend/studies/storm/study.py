"""Storms: how long a batch of machines takes to start, and by how much each more of them stretches it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from contend.advice.finding import Finding
from contend.clouds.login import find
from contend.document import VARIANTS, Analysis, Layout
from contend.studies.base import OnRecord, Study
from contend.studies.cell import Cell
from contend.studies.storm import result as results
from contend.studies.storm.cells import cells
from contend.studies.storm.model import Storm

if TYPE_CHECKING:
    from contend.report.model import ReportInput
    from contend.report.plotkit import Plot
    from contend.report.printer import Printer


class StormStudy(Study[Storm]):
    scenario = Storm
    key = "storms"

    def cells(self, scenario: Storm) -> tuple[Cell, ...]:
        return cells(scenario)

    def check(self, scenario: Storm) -> None:
        if scenario.local:
            from contend.clouds.local.settle import check

            check(scenario.parameters, scenario.network)
        else:
            find(scenario.cloud)

    def settled(self, scenario: Storm) -> Storm:
        if not scenario.local:
            return scenario
        from contend.clouds.local.settle import settle

        return scenario.model_copy(update={"parameters": settle(scenario.parameters, scenario.network)})

    def timeout_s(self, scenario: Storm) -> float:
        return scenario.timeout / 1e9

    def read(self, scenario: Storm, run: OnRecord) -> results.Storms | None:
        traces = str(scenario.parameters.get("traces", ""))
        noun = "server"
        if scenario.local:
            from contend.clouds.local.settle import machine_of

            noun = machine_of(scenario.parameters)
        measure = scenario.measure
        return results.read(
            run.path, run.counted, run.cells, measure.level, measure.matters, traces=traces, noun=noun
        )

    def answer(
        self, scenario: Storm, run: OnRecord, result: results.Storms | None, findings: Sequence[Finding]
    ) -> str:
        return "" if result is None else results.answer(result)

    def layout(self, result: results.Storms | None) -> Layout:
        return replace(VARIANTS, named=frozenset({"n", "network"}))

    def show(self, report: ReportInput, printer: Printer, *, verbose: bool) -> bool:
        from contend.studies.storm.terminal import show_storms

        show_storms(report.analysis, report.analysis.result, printer)
        return verbose

    def plots(self, report: ReportInput) -> list[Plot]:
        from contend.studies.storm.plots import storm_plots

        return storm_plots(report.analysis.result)

    def result_type(self) -> Any:
        return results.Storms

    def contents(self, analysis: Analysis) -> tuple[tuple[str, str], ...]:
        return (("storms", "Storms"),)

    def values(self, report: ReportInput) -> Mapping[str, Any]:
        from contend.studies.storm import words

        return {"storms": report.analysis.result, "storm_words": words}


STUDY = StormStudy()
