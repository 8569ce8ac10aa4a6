"""Placement: what it costs that two instances are on different hosts, or in different subnets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from contend.advice.finding import Finding
from contend.document import Layout
from contend.report.matrix import conditions
from contend.studies.base import OnRecord, Study
from contend.studies.cell import Cell
from contend.studies.placement import checks, effects
from contend.studies.placement import result as results
from contend.studies.placement.cells import cells, forecast_lines
from contend.studies.placement.claims import judge
from contend.studies.placement.findings import findings
from contend.studies.placement.model import NetworkPlacement

if TYPE_CHECKING:
    from contend.engine.plan import Plan


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
        level = scenario.measure.level
        found = effects.read(run.results, level, run.seed)
        return None if found is None else replace(found, claims=judge(found, level))

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
        return Layout(
            as_measured=True,
            rows="metric",
            column="",
            beside="",
            baseline="",
            place=lambda cell: (conditions(cell.factors), cell.metric.name, cell.factors["variant"]),
            compared=frozenset({"victim", "neighbour", "variant", "host", "subnet", "encapsulation"}),
        )

    def lines(self, scenario: NetworkPlacement, plan: Plan) -> Iterator[str]:
        yield from super().lines(scenario, plan)
        if scenario.cloud:
            yield from forecast_lines(scenario)


STUDY = PlacementStudy()
