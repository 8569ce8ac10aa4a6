"""Sensitivity: what presses on each workload, and how hard each presses, to predict pairs that never met."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from contend.advice.finding import Finding
from contend.errors import CannotHonour
from contend.studies.base import OnRecord, Placing, Study, works
from contend.studies.cell import Cell
from contend.studies.model import Scenario
from contend.studies.sensitivity import result as results
from contend.studies.sensitivity.cells import cells, held_out
from contend.studies.sensitivity.findings import findings
from contend.studies.sensitivity.model import Sensitivity


class SensitivityStudy(Study[Sensitivity]):
    scenario = Sensitivity
    key = "sensitivity"

    def cells(self, scenario: Sensitivity) -> tuple[Cell, ...]:
        return cells(scenario)

    def held_out(self, scenario: Sensitivity, cells: Sequence[Cell], seed: int) -> tuple[str, ...]:
        return held_out(tuple(cells), scenario.held_out, seed)

    def without_missing(
        self, scenario: Sensitivity, check: Callable[[Scenario], None]
    ) -> tuple[Sensitivity, tuple[str, ...]]:
        """Workloads and injectors by themselves."""
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
        return results.read(run.primary, held, scenario.measure.level, run.seed)

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
        return () if result is None else findings(result, scenario)


STUDY = SensitivityStudy()
