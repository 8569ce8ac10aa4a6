"""Prove: what each suspect costs a service that runs already, by holding it back for moments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contend.advice.finding import Evidence, Finding, Treatment
from contend.document import Analysis, CellResult, Layout
from contend.store.ledger import Ledger
from contend.studies.base import OnRecord, Study, Treating
from contend.studies.cell import Cell, cell_workload
from contend.studies.plan import Plan
from contend.studies.prove import holding, policy, result, words
from contend.studies.prove.levels import HELD, NOBODY, SHAM, together
from contend.studies.prove.model import TAKES_CPU, Prove
from contend.studies.words import known

if TYPE_CHECKING:
    from contend.report.model import ReportInput
    from contend.report.plotkit import Plot
    from contend.report.printer import Printer

TRIAL_NS = 2 * 10**9
EVENT = "held-back"
"""Of the ledger: what is written to hold a suspect back."""
LAYOUT = Layout(
    column=HELD,
    beside="without",
    baseline="as it is",
    title="With suspects held back",
    effect="change",
    treated="with it held back",
    untreated="as it is",
    longest_s=3600.0,
    sooner="a quieter host, longer trials (--trial), more requests (--rate), or a figure that varies less (--figure)",
)


class ProveStudy(Study[Prove]):
    scenario = Prove
    guard_hint = "all is put back; hold somebody else back, or by less, like --by quota --cpus 1"
    key = "proved"

    def cells(self, scenario: Prove) -> tuple[Cell, ...]:
        victim = cell_workload(scenario.victim[0])
        # Whoever else runs here is what it is about: no trial is disturbed by that.
        metrics = holding.headline_first(victim.instance.workload.metrics, scenario.figure)
        workload = victim.instance.workload.model_copy(update={"elsewhere": True, "metrics": metrics})
        victim = replace(
            victim,
            label=scenario.called or victim.label,
            instance=replace(victim.instance, workload=workload),
        )

        def cell(level: str, baseline: str = "", *, control: bool = False) -> Cell:
            factors = {"victim": victim.label, HELD: level}
            return Cell(f"{victim.label}|{level}", victim, (), factors, baseline, control)

        first = cell(NOBODY)
        return (
            first,
            cell(SHAM, first.id, control=True),
            *(cell(level, first.id) for level in together(scenario.suspects)),
        )

    def check(self, scenario: Prove) -> None:
        holding.switches(scenario)

    def lines(self, scenario: Prove, plan: Plan) -> Iterator[str]:
        yield from holding.lines(holding.switches(scenario))
        trial = f"{self._trial(scenario) / 1e9:g} s"
        yield f"each for trials of {trial}, in random order among trials in which nothing, or nothing else, is written"
        if len(scenario.suspects) > 1:
            yield "and together, for what they cost beyond what each does"
        yield "control: the same writes of the values that are there"

    def prepared(self, scenario: Prove, work: Path) -> Iterable[tuple[str, Mapping[str, Any]]]:
        for suspect, switches in holding.switches(scenario).items():
            for of in switches:
                yield EVENT, holding.event(suspect, of)

    def treating(
        self,
        scenario: Prove,
        run: Path,
        run_id: str,
        ledger: Ledger,
        later: Callable[[Callable[[], None]], object],
    ) -> Treating | None:
        policy.check(scenario)
        return holding.treating(scenario, self._trial(scenario), run, run_id, ledger, later)

    def _trial(self, scenario: Prove) -> int:
        return scenario.measure.trial or TRIAL_NS

    def layout(self, result: Any) -> Layout:
        return LAYOUT

    def read(self, scenario: Prove, run: OnRecord) -> result.Proved | None:
        measure = scenario.measure
        return result.read(
            scenario.suspects, run.primary, run.table, run.rows, measure.level, measure.matters
        )

    def result_type(self) -> Any:
        return result.Proved

    def answer(
        self, scenario: Prove, run: OnRecord, result: result.Proved | None, findings: Sequence[Finding]
    ) -> str:
        """A sentence on each suspect, those that cost most first."""
        if result is None or not known(run.primary):
            return ""
        victim, matters = self._victim(scenario, run), scenario.measure.matters
        return words.answer(result, victim, matters, takes_cpu=scenario.by in TAKES_CPU)

    def findings(self, scenario: Prove, run: OnRecord, result: result.Proved | None) -> tuple[Finding, ...]:
        by_level = {str(one.factors.get(HELD)): one for one in run.primary}
        costs = () if result is None else result.suspects
        guilty = sorted((cost for cost in costs if cost.verdict == "costs"), key=lambda cost: -cost.value)
        victim = self._victim(scenario, run)
        return tuple(
            _finding(number, cost, by_level[cost.suspect], victim, scenario.measure.matters, scenario.by, run)
            for number, cost in enumerate(guilty, start=1)
        )

    def _victim(self, scenario: Prove, run: OnRecord) -> str:
        return scenario.called or run.primary[0].factors["victim"] if run.primary else scenario.called

    def estimand(self, result: Any) -> str:
        return (
            "Hodges–Lehmann estimate of the log ratio within blocks, with a suspect held back over as it is"
        )

    def show_below(self, report: ReportInput, printer: Printer, *, verbose: bool) -> None:
        for line in self._lines_below(report):
            printer.line(line, "dim", 2, 2)

    def contents(self, analysis: Analysis) -> tuple[tuple[str, str], ...]:
        return (("prove", "When somebody was held back"),)

    def values(self, report: ReportInput) -> Mapping[str, Any]:
        return {"done": self._lines_below(report)}

    def _lines_below(self, report: ReportInput) -> list[str]:
        analysis = report.analysis
        return [*words.done(analysis.result, analysis.design.matters), *words.beside(analysis)]

    def plots(self, report: ReportInput) -> list[Plot]:
        from contend.studies.prove.plots import timeline

        return timeline(report.analysis.result, report.analysis, report.rows)


def _finding(
    number: int, cost: result.Cost, of: CellResult, victim: str, matters: float, by: str, run: OnRecord
) -> Finding:
    held = [row for row in run.events if row.get("event") == EVENT and row.get("suspect") == cost.suspect]
    return Finding(
        id=f"prove-{number}",
        kind="proved by holding it back",
        subject=victim,
        resource="a neighbour",
        sentence=words.sentence(cost, victim, matters),
        share=None,
        estimate=of.estimate,
        evidence=(
            Evidence(
                f"{cost.metric} with {cost.suspect} held back, over that as it is",
                of.estimate.value,
                "",
                f"cell {of.cell}",
            ),
        ),
        advice=holding.keep(cost.suspect, held),
        verify=run.repeat,
        treatment=Treatment(victim, cost.suspect, by),
    )


STUDY = ProveStudy()
