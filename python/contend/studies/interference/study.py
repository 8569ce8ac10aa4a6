"""Interference: who slows whom on one host."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from contend.advice.finding import Finding
from contend.document import CellResult
from contend.errors import CannotHonour
from contend.studies.base import OnRecord, Placing, Study, works
from contend.studies.cell import Cell
from contend.studies.interference import copies
from contend.studies.interference.cells import cells
from contend.studies.interference.copies import CopiesCurve
from contend.studies.interference.findings import findings
from contend.studies.interference.model import Interference
from contend.studies.model import Scenario, WorkloadRef
from contend.studies.words import bounds, known, stretched, verdicts
from contend.text.printable import short
from contend.units import within

if TYPE_CHECKING:
    from contend.document import Analysis
    from contend.report.model import ReportInput
    from contend.report.plotkit import Plot
    from contend.report.printer import Printer


MOST_CLAUSES = 4
"""Neighbours of one victim that an answer names one by one."""


class InterferenceStudy(Study[Interference]):
    scenario = Interference
    key = "crowds"

    def cells(self, scenario: Interference) -> tuple[Cell, ...]:
        return cells(scenario)

    def measuring(
        self, scenario: Interference, command: Mapping[str, Any], beside: Sequence[str | Mapping[str, Any]]
    ) -> Mapping[str, Any]:
        values: dict[str, Any] = {
            "title": f"What do its neighbours cost {short(command['command']['run'], 60)}?",
            "victims": [command],
        }
        if scenario.mixes or scenario.copies:
            values["mixes"] = [[command, each] for each in beside]
        elif beside:
            values["neighbours"] = list(beside)
        return values

    def without_missing(
        self, scenario: Interference, check: Callable[[Scenario], None]
    ) -> tuple[Interference, tuple[str, ...]]:
        left_out: list[str] = []

        def is_here(ref: WorkloadRef, what: str) -> bool:
            alone = scenario.model_copy(update={"victims": (ref,), "neighbours": (ref,), "mixes": ()})
            return works(check, alone, f"{what} {ref.workload}", left_out)

        changes: dict[str, Any] = {}
        for key in ("victims", "neighbours"):
            refs = getattr(scenario, key)
            changes[key] = tuple(ref for ref in refs if is_here(ref, key[:-1]))
            if refs and not changes[key]:
                raise CannotHonour(f"none of the {key} can run here", hint="; ".join(left_out))
        changes["mixes"] = tuple(
            mix for mix in scenario.mixes if all(is_here(ref, "mix with") for ref in mix)
        )
        return scenario.model_copy(update=changes), tuple(dict.fromkeys(left_out))

    def placing(self, scenario: Interference) -> Placing:
        return scenario.placement

    def read(self, scenario: Interference, run: OnRecord) -> tuple[copies.CopiesCurve, ...]:
        given = [len(row["honoured"]["cpus"]) for row in run.counted if row.get("honoured", {}).get("cpus")]
        cpus = min(given, default=int(run.environment.get("cpus", 1)))
        return copies.read(run.primary, cpus)

    def answer(
        self,
        scenario: Interference,
        run: OnRecord,
        result: tuple[copies.CopiesCurve, ...],
        findings: Sequence[Finding],
    ) -> str:
        """A sentence on each neighbour of the only victim, or on the pair that suffers most and the verdicts on the
        others."""
        if not (compared := known(run.shown)):
            return ""
        matters = scenario.measure.matters
        if len(compared) <= MOST_CLAUSES and len({one.factors["victim"] for one in compared}) == 1:
            return _of_one(compared, matters)
        slowed = [one for one in compared if one.estimate.verdict == "higher"]
        if not slowed:
            pairs = f"of {len(compared)} pairs " if len(compared) > 1 else ""
            text = verdicts([one.estimate for one in compared], matters)
            return f"No victim is shown to be slowed by any of these neighbours: {pairs}{text}."
        worst = max(slowed, key=lambda one: abs(math.log(one.estimate.value)))
        others = verdicts([one.estimate for one in compared if one is not worst], matters)
        rest = f" The other pair{'s' if len(compared) > 2 else ''}: {others}." if others else ""
        return (
            f"{worst.factors['victim']} {stretched(worst)} {_beside(worst)} ({bounds(worst.estimate)}).{rest}"
        )

    def findings(
        self, scenario: Interference, run: OnRecord, result: tuple[copies.CopiesCurve, ...]
    ) -> tuple[Finding, ...]:
        return findings(scenario, run.results, run.controls, run.repeat)

    def show_below(self, report: ReportInput, printer: Printer, *, verbose: bool) -> None:
        for curve in report.analysis.result:
            printer.line()
            printer.line("; ".join(copies.lines(curve)) + ".", hang=2)

    def plots(self, report: ReportInput) -> list[Plot]:
        from contend.studies.interference.plots import copies_plots

        return copies_plots(report.analysis.result)

    def result_type(self) -> Any:
        return tuple[CopiesCurve, ...]

    def contents(self, analysis: Analysis) -> tuple[tuple[str, str], ...]:
        return (("crowd", "More of the same"),)

    def values(self, report: ReportInput) -> Mapping[str, Any]:
        return {"curves": report.analysis.result, "curve_lines": copies.lines}


def _of_one(compared: Sequence[CellResult], matters: float) -> str:
    """The cost of each neighbour to the only victim, those that slow it most first."""
    order = {"higher": 0, "lower": 1, "unaffected": 2}
    clauses = []
    for one in sorted(compared, key=lambda of: (order.get(of.estimate.verdict, 3), -of.estimate.value)):
        if one.estimate.differs:
            clauses.append(f"{stretched(one)} {_beside(one)} ({bounds(one.estimate)})")
        elif one.estimate.verdict == "unaffected":
            clauses.append(f"is unaffected {_beside(one)} ({within(matters)})")
        else:
            clauses.append(f"undecided {_beside(one)} ({bounds(one.estimate)})")
    *first, last = clauses
    joined = f"{', '.join(first)}, and {last}" if first else last
    return f"{compared[0].factors['victim']} {joined}."


def _beside(one: CellResult) -> str:
    return f"beside {one.factors['neighbour']}"


STUDY = InterferenceStudy()
