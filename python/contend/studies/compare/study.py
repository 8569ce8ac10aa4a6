"""Comparison: commands, or settings of one workload, interleaved in one run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from contend.advice.finding import Finding
from contend.document import VARIANTS, Layout
from contend.errors import BadInput
from contend.studies.base import OnRecord, Study
from contend.studies.cell import Cell
from contend.studies.compare import checks, downloads, layouts
from contend.studies.compare.cells import COUNTED, cells
from contend.studies.compare.layouts import Witnesses
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

    def wiring(self, scenario: Compare, runs: Path) -> dict[str, Any]:
        commits = checks.revisions(scenario)
        return {"revisions": commits} if commits else {}

    def timeout_s(self, scenario: Compare) -> float:
        return scenario.timeout / 1e9

    def prepared(self, scenario: Compare, work: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for counted in sorted(work.glob(f"*/{COUNTED}")):
            yield "instructions", json.loads(counted.read_text(encoding="utf-8"))

    def read(self, scenario: Compare, run: OnRecord) -> Witnesses | None:
        if not (scenario.randomise or scenario.instructions):
            return None
        metric = next((one.metric.name for one in run.results if one.metric.primary), "")
        addresses = run.environment.get("address_randomisation", "2") == "2"
        return layouts.read(
            run.counted, metric, linked=scenario.linked, addresses=addresses, events=run.events
        )

    def result_type(self) -> Any:
        return Witnesses

    def answer(
        self, scenario: Compare, run: OnRecord, result: Witnesses | None, findings: Sequence[Finding]
    ) -> str:
        text = downloads.answer(findings) or " ".join(
            compared(one, scenario.variants[0].name, scenario.measure.matters) for one in known(run.shown)
        )
        if result is None or not text:
            return text
        other = next(iter(known(run.shown)), None)
        return f"{text} {layouts.words(result, other, scenario.variants[0].name)}".rstrip()

    def findings(self, scenario: Compare, run: OnRecord, result: Witnesses | None) -> tuple[Finding, ...]:
        if scenario.workload not in downloads.WORKLOADS:
            return ()
        return downloads.download_findings(scenario, run.results, run.repeat, run.seed)

    def layout(self, result: Witnesses | None) -> Layout:
        return replace(VARIANTS, every_metric=True)


STUDY = CompareStudy()
