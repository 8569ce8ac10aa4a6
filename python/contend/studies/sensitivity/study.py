"""Sensitivity: what presses on each workload, and how hard each presses, to predict pairs that never met."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from contend.advice.finding import Finding
from contend.errors import CannotHonour
from contend.studies.base import Advice, OnRecord, Placing, Study, works
from contend.studies.cell import Cell
from contend.studies.model import Scenario
from contend.studies.sensitivity import findings as placing
from contend.studies.sensitivity import result as results
from contend.studies.sensitivity.cells import cells, held_out
from contend.studies.sensitivity.model import Sensitivity
from contend.text.printable import short

if TYPE_CHECKING:
    from contend.document import Analysis
    from contend.report.model import ReportInput
    from contend.report.plotkit import Plot
    from contend.report.printer import Printer
    from contend.studies.plan import Plan


class SensitivityStudy(Study[Sensitivity]):
    scenario = Sensitivity
    key = "sensitivity"
    below = True
    advises_placement = True

    def cells(self, scenario: Sensitivity) -> tuple[Cell, ...]:
        return cells(scenario)

    def held_out(self, scenario: Sensitivity, cells: Sequence[Cell], seed: int) -> tuple[str, ...]:
        return held_out(tuple(cells), scenario.held_out, seed)

    def measuring(
        self, scenario: Sensitivity, command: Mapping[str, Any], beside: Sequence[str | Mapping[str, Any]]
    ) -> Mapping[str, Any]:
        title = f"Which workloads go together with {short(command['command']['run'], 60)}?"
        others = list(beside) or [placing.as_given(ref) for ref in scenario.workloads]
        return {"title": title, "workloads": [command, *others]}

    def without_missing(
        self, scenario: Sensitivity, check: Callable[[Scenario], None]
    ) -> tuple[Sensitivity, tuple[str, ...]]:
        """The scenario without workloads and injectors that cannot run here, and a line on each."""
        left_out: list[str] = []

        def is_here(what: str, **only: Any) -> bool:
            alone = scenario.model_copy(update={"workloads": (), "injectors": {}, **only})
            return works(check, alone, what, left_out)

        workloads = tuple(
            ref for ref in scenario.workloads if is_here(f"workload {ref.workload}", workloads=(ref,))
        )
        injectors = {
            resource: ref
            for resource, ref in scenario.injectors.items()
            if is_here(f"injector {ref.workload}", injectors={resource: ref})
        }
        if len(workloads) < 2 or not injectors:
            what = "no injector" if len(workloads) > 1 else "not two of the workloads"
            raise CannotHonour(f"{what} can run here", hint="; ".join(left_out))
        return (
            scenario.model_copy(update={"workloads": workloads, "injectors": injectors}),
            tuple(left_out),
        )

    def placing(self, scenario: Sensitivity) -> Placing:
        return scenario.placement

    def read(self, scenario: Sensitivity, run: OnRecord) -> results.Sensitivities | None:
        held = run.plan.get("held_out", ())
        return results.read(run.primary, held, scenario.measure.level, run.seed, scenario.measure.matters)

    def answer(
        self,
        scenario: Sensitivity,
        run: OnRecord,
        result: results.Sensitivities | None,
        findings: Sequence[Finding],
    ) -> str:
        return "" if result is None else results.answer(result)

    def findings(
        self, scenario: Sensitivity, run: OnRecord, result: results.Sensitivities | None
    ) -> tuple[Finding, ...]:
        return () if result is None else placing.findings(result, scenario)

    def lines(self, scenario: Sensitivity, plan: Plan) -> Iterator[str]:
        """Lines on how many cells there are of each kind, as there are hundreds."""
        from contend.studies.sensitivity.words import cells_lines

        yield from cells_lines(plan)

    def advice(self, scenario: Sensitivity, analysis: Analysis, hosts: int | None, *, worst: bool) -> Advice:
        of: results.Sensitivities | None = analysis.result
        if of is None:
            lacking = "there is no trial of every kind of cell yet: curves, probes, and both together"
            return Advice(analysis.findings, refused=lacking)
        if why := of.refused or placing.unpredicted(of):
            return Advice(analysis.findings, refused=why)
        from contend.studies.sensitivity import words

        placed = placing.best_placement(of, hosts or placing.two_a_host(of), "worst" if worst else "total")
        return Advice(
            placing.claims(of, scenario, placed),
            placement=placed.document(of.workloads),
            title=f"On {placed.hosts} host{'s' if placed.hosts != 1 else ''}",
            lines=words.placed_lines(of, placed),
            about=words.placed_about(placed),
        )

    def show_below(self, report: ReportInput, printer: Printer, *, verbose: bool) -> None:
        from contend.studies.sensitivity.terminal import show_forecast

        show_forecast(report.analysis.result, printer.line, printer.columns, verbose=verbose)

    def plots(self, report: ReportInput) -> list[Plot]:
        from contend.studies.sensitivity.plots import forecast_plots

        return forecast_plots(report.analysis.result)

    def nothing_found(self, analysis: Analysis, *, known: bool) -> str:
        if analysis.result.refused:
            return "none: no placement is advised by what is no forecast."
        return super().nothing_found(analysis, known=known)

    def result_type(self) -> Any:
        return results.Sensitivities

    def contents(self, analysis: Analysis) -> tuple[tuple[str, str], ...]:
        title = "Description" if analysis.result.refused else "Forecast"
        return (("forecast", title),)

    def values(self, report: ReportInput) -> Mapping[str, Any]:
        from contend.studies.sensitivity import words

        return {"forecast": report.analysis.result, "forecast_words": words}


STUDY = SensitivityStudy()
