"""Comparison: commands, or settings of one workload, interleaved in one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from contend.advice.finding import Finding
from contend.document import VARIANTS, Layout
from contend.errors import BadInput
from contend.studies.base import OnRecord, Study
from contend.studies.cell import Cell
from contend.studies.compare import checks, downloads
from contend.studies.compare.cells import cells
from contend.studies.compare.model import Compare
from contend.studies.words import compared, known


class CompareStudy(Study[Compare]):
    scenario = Compare

    def cells(self, scenario: Compare) -> tuple[Cell, ...]:
        return cells(scenario)

    def check(self, scenario: Compare) -> None:
        checks.check(scenario)

    def fitted(self, scenario: Compare, runs: Path) -> tuple[Compare, tuple[str, ...]]:
        return checks.fitted(scenario)

    def check_elsewhere(self, scenario: Compare) -> None:
        if any(variant.rev for variant in scenario.variants):
            raise BadInput(
                "revisions of a repository are built here, and not on hosts",
                hint="compare commands or workloads",
            )

    def timeout_s(self, scenario: Compare) -> float:
        return scenario.timeout / 1e9

    def answer(self, scenario: Compare, run: OnRecord, result: None, findings: Sequence[Finding]) -> str:
        return downloads.answer(findings) or " ".join(
            compared(one, scenario.measure.matters) for one in known(run.shown)
        )

    def findings(self, scenario: Compare, run: OnRecord, result: None) -> tuple[Finding, ...]:
        if scenario.workload not in downloads.WORKLOADS:
            return ()
        return downloads.download_findings(scenario, run.results, run.repeat, run.seed)

    def layout(self, result: None) -> Layout:
        return replace(VARIANTS, every_metric=True)


STUDY = CompareStudy()
