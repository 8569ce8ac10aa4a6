"""Prove: what each suspect costs a service that runs already, by holding it back for moments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from contend.advice.finding import Evidence, Finding
from contend.document import CellResult, Layout
from contend.stats.estimate import Estimate
from contend.store.ledger import Ledger
from contend.studies.base import OnRecord, Study, Treating
from contend.studies.cell import Cell, cell_workload
from contend.studies.plan import Plan
from contend.studies.prove import holding
from contend.studies.prove.holding import HELD, NOBODY, SHAM
from contend.studies.prove.model import Prove
from contend.studies.words import known
from contend.text.shape import Shape
from contend.units import within

TRIAL_NS = 2 * 10**9
EVENT = "held-back"
"""Of the ledger: what is written to hold a suspect back."""
LAYOUT = Layout(
    column=HELD,
    beside="without",
    baseline="as it is",
    title="With each suspect held back",
    treated="with it held back",
    untreated="as it is",
)


@dataclass(frozen=True, slots=True)
class Cost(Shape):
    """The cost of a suspect: the victim's figure as it is, over that with the suspect held back, less 1."""

    suspect: str
    metric: str
    value: float
    low: Annotated[float | None, "null where there are too few blocks"]
    high: Annotated[float | None, "null where there are too few blocks"]
    verdict: str


class ProveStudy(Study[Prove]):
    scenario = Prove
    key = "suspects"

    def cells(self, scenario: Prove) -> tuple[Cell, ...]:
        victim = cell_workload(scenario.victim[0])

        def cell(level: str, baseline: str = "", *, control: bool = False) -> Cell:
            factors = {"victim": victim.label, HELD: level}
            return Cell(f"{victim.label}|{level}", victim, (), factors, baseline, control)

        first = cell(NOBODY)
        return (
            first,
            cell(SHAM, first.id, control=True),
            *(cell(name, first.id) for name in scenario.suspects),
        )

    def check(self, scenario: Prove) -> None:
        holding.switches(scenario)

    def lines(self, scenario: Prove, plan: Plan) -> Iterator[str]:
        yield from holding.lines(holding.switches(scenario))
        trial = f"{self._trial(scenario) / 1e9:g} s"
        yield f"each for trials of {trial}, in random order among trials in which nothing, or nothing else, is written"
        yield "control: the same writes of the values that are there"

    def prepared(self, scenario: Prove, work: Path) -> Iterable[tuple[str, Mapping[str, Any]]]:
        for suspect, switches in holding.switches(scenario).items():
            for of in switches:
                held = {"suspect": suspect, "kind": of.setting.kind, "setting": of.setting.name}
                yield EVENT, {**held, "before": of.before, "during": of.during}

    def treating(
        self,
        scenario: Prove,
        run: Path,
        run_id: str,
        ledger: Ledger,
        later: Callable[[Callable[[], None]], object],
    ) -> Treating | None:
        return holding.treating(scenario, self._trial(scenario), run, run_id, ledger, later)

    def _trial(self, scenario: Prove) -> int:
        return scenario.measure.trial or TRIAL_NS

    def layout(self, result: Any) -> Layout:
        return LAYOUT

    def read(self, scenario: Prove, run: OnRecord) -> tuple[Cost, ...]:
        return tuple(
            _cost(one)
            for one in run.primary
            if one.factors.get(HELD) in scenario.suspects and one.estimate.value > 0
        )

    def result_type(self) -> Any:
        return tuple[Cost, ...]

    def answer(
        self, scenario: Prove, run: OnRecord, result: tuple[Cost, ...], findings: Sequence[Finding]
    ) -> str:
        """A sentence on each suspect, those that cost most first."""
        if not known(run.primary):
            return ""
        order = {"costs": 0, "helps": 1, "undecided": 2}
        ranked = sorted(result, key=lambda cost: (order.get(cost.verdict, 3), -cost.value))
        name = scenario.called or run.primary[0].factors["victim"]
        return " ".join(_sentence(cost, name, scenario.measure.matters) for cost in ranked)

    def findings(self, scenario: Prove, run: OnRecord, result: tuple[Cost, ...]) -> tuple[Finding, ...]:
        by_suspect = {str(one.factors.get(HELD)): one for one in run.primary}
        guilty = sorted((cost for cost in result if cost.verdict == "costs"), key=lambda cost: -cost.value)
        return tuple(
            _finding(number, cost, by_suspect[cost.suspect], scenario, run)
            for number, cost in enumerate(guilty, start=1)
        )

    def estimand(self, result: Any) -> str:
        return "Hodges–Lehmann median of within-block log ratios, with a suspect held back over as it is"


def _cost(of: CellResult) -> Cost:
    e = of.estimate
    verdict = {"lower": "costs", "higher": "helps"}.get(e.verdict, e.verdict)
    bounded = e.known and e.low > 0
    return Cost(
        of.factors[HELD],
        of.metric.name,
        1 / e.value - 1,
        1 / e.high - 1 if bounded else None,
        1 / e.low - 1 if bounded else None,
        verdict,
    )


def _sentence(of: Cost, victim: str, matters: float) -> str:
    spread = (
        f"{_percent(of.low)}–{_percent(of.high)} %"
        if of.low is not None and of.high is not None
        else "no interval yet"
    )
    if of.verdict == "costs":
        return f"{of.suspect} costs {victim} {_percent(of.value)} % of {of.metric} ({spread})."
    if of.verdict == "unaffected":
        return f"{of.suspect} costs {victim} nothing that matters ({within(matters)})."
    if of.verdict == "helps":
        return f"{victim} is worse off while {of.suspect} is held back ({of.metric}: {spread})."
    return f"Undecided whether {of.suspect} costs {victim} anything ({spread})."


def _percent(part: float | None) -> str:
    text = f"{100 * (part or 0.0):.3g}".replace("-", "−")
    return "0" if text == "−0" else text


def _finding(number: int, cost: Cost, result: CellResult, scenario: Prove, run: OnRecord) -> Finding:
    e: Estimate = result.estimate
    name = scenario.called or result.factors["victim"]
    held = next(
        (of for of in run.events if of.get("event") == EVENT and of.get("suspect") == cost.suspect), {}
    )
    return Finding(
        id=f"prove-{number}",
        kind="proved by holding it back",
        subject=name,
        resource="a neighbour",
        sentence=_sentence(cost, name, scenario.measure.matters),
        share=None,
        estimate=e,
        evidence=(
            Evidence(
                f"{cost.metric} with {cost.suspect} held back, over that as it is",
                e.value,
                "",
                f"cell {result.cell}",
            ),
        ),
        advice=f"keep it so: {holding.keep(cost.suspect, held)}",
        verify=run.repeat,
    )


STUDY = ProveStudy()
