"""Storage: pools under fio by everything that a request can be, alone and with a neighbour on the same pool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contend.advice.finding import Finding
from contend.document import Analysis, Layout
from contend.store.directory import Row
from contend.store.ledger import Ledger
from contend.studies.base import Laid, OnRecord, Screening, Study
from contend.studies.cell import Cell
from contend.studies.storage import plan as plans
from contend.studies.storage import pools, verdicts
from contend.studies.storage import result as results
from contend.studies.storage.cells import cells, focused
from contend.studies.storage.cloud_pools import instances_record
from contend.studies.storage.findings import findings
from contend.studies.storage.model import Storage

if TYPE_CHECKING:
    from contend.report.model import ReportInput
    from contend.report.plotkit import Plot
    from contend.report.printer import Printer
    from contend.studies.needs import Needs
    from contend.studies.plan import Plan


class StorageStudy(Study[Storage]):
    scenario = Storage
    key = "sweep"

    def cells(self, scenario: Storage) -> tuple[Cell, ...]:
        return cells(scenario)

    def screening(self, scenario: Storage, seed: int) -> Screening:
        return Screening(*plans.screen(scenario, seed))

    def chosen(self, scenario: Storage, rows: Iterable[Row]) -> dict[str, str]:
        return plans.choose(scenario, rows)

    def focused(self, scenario: Storage, focus: Iterable[str]) -> tuple[Cell, ...]:
        return focused(scenario, focus)

    def check(self, scenario: Storage) -> None:
        pools.check(scenario)

    def fitted(self, scenario: Storage, runs: Path) -> tuple[Storage, tuple[str, ...]]:
        return pools.fitted(scenario, runs)

    def wiring(self, scenario: Storage, runs: Path) -> dict[str, Any]:
        return {"pools": pools.facts(scenario, runs)}

    def lay_out(
        self,
        scenario: Storage,
        run: Path,
        run_id: str,
        ledger: Ledger,
        later: Callable[[Callable[[], None]], object],
    ) -> Laid:
        return pools.lay_out(scenario, run, run_id, ledger, later)

    def prepared(self, scenario: Storage, work: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for cost in pools.preconditioned(work):
            yield "preconditioned", cost
        if scenario.cloud:
            yield "instances", instances_record(work, scenario)

    def needs(self, scenario: Storage, plan: Plan) -> Needs:
        from contend.studies.storage.duration import needs

        return needs(scenario, plan)

    def read(self, scenario: Storage, run: OnRecord) -> results.Sweep:
        return results.read(scenario, run.rows, run.results, run.plan, run.environment, run.events)

    def answer(
        self, scenario: Storage, run: OnRecord, result: results.Sweep, findings: Sequence[Finding]
    ) -> str:
        return verdicts.answer(result)

    def findings(self, scenario: Storage, run: OnRecord, result: results.Sweep) -> tuple[Finding, ...]:
        return findings(result, run.controls, run.repeat, scenario.measure.matters)

    def layout(self, result: results.Sweep) -> Layout:
        return Layout(named=frozenset({"pool", "block_size", "depth", "engine", "read", "pattern"}))

    def steps(self, scenario: Storage, plan: Plan, runs: Path) -> Sequence[str]:
        from contend.studies.storage.duration import lines

        return lines(scenario, plan, runs)

    def show(self, report: ReportInput, printer: Printer, *, verbose: bool) -> bool:
        from contend.studies.storage.terminal import show_sweep

        show_sweep(report.analysis.result, printer.line, printer.columns, verbose=verbose)
        return False

    def plots(self, report: ReportInput) -> list[Plot]:
        from contend.studies.storage.plots import sweep_plots

        return sweep_plots(report.analysis.result)

    def nothing_found(self, analysis: Analysis, *, known: bool) -> str:
        sentence = "none: no pool is shown to be slowed by a neighbour on it."
        return sentence if known else super().nothing_found(analysis, known=known)

    def result_type(self) -> Any:
        return results.Sweep

    def contents(self, analysis: Analysis) -> tuple[tuple[str, str], ...]:
        return (("surfaces", "Response surfaces"),)

    def values(self, report: ReportInput) -> Mapping[str, Any]:
        from contend.studies.storage import words

        return {"sweep": report.analysis.result, "sweep_words": words}


STUDY = StorageStudy()
