"""The protocol of a study: what plans, measures and reports asks of it.

A study is one question that runs can answer: a folder of this package, or a module of another one that an entry point of the
group `contend.studies` names. What plans, measures and reports asks a study by this protocol, and names none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from contend.document import Analysis, CellResult, Control, Layout, Section, Shown
from contend.errors import BadInput, CannotHonour
from contend.platforms.topology import Topology
from contend.studies.cell import Cell
from contend.studies.model import Scenario

if TYPE_CHECKING:
    from contend.advice.document import PlacementDocument
    from contend.advice.finding import Finding
    from contend.analysis.comparisons import Table
    from contend.platforms.base import Role
    from contend.report.model import ReportInput
    from contend.store.cells import PlannedCell, Values
    from contend.store.directory import Row
    from contend.store.ledger import Ledger
    from contend.studies.needs import Needs
    from contend.studies.plan import Plan, Trial

S = TypeVar("S", bound=Scenario)
Treating = Callable[["Trial", Cell, "Row"], AbstractContextManager[None]]
"""What changes others for the length of a trial of a cell, and notes in the trial's row what it did."""
Placing = Literal["same-cpu", "own-cores", "same-host"]


@dataclass(frozen=True, slots=True)
class Screening:
    """The first step of a study that has two: what is measured in it, by block, and how good its design is."""

    trials: Sequence[tuple[int, Cell]]
    design: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Laid:
    """Data that a study has put on this host for a run: the directory or device of each workload, linked into its working
    directory, and the device under each."""

    data: Mapping[tuple[Role, str], Path]
    devices: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class OnRecord:
    """The record of a run, for its study to read.

    rows: of all trials, the latest of each; counted: of those that count; results: of all cells and metrics; blocks: how
    many are complete; repeat: the command line that repeats the run.
    """

    path: Path
    plan: Mapping[str, Any]
    environment: Mapping[str, Any]
    events: Sequence[Mapping[str, Any]]
    cells: Sequence[PlannedCell]
    table: Table
    rows: Sequence[Row]
    counted: Sequence[Row]
    results: Sequence[CellResult]
    controls: Sequence[Control]
    blocks: int

    @property
    def seed(self) -> int:
        return int(self.plan["seed"])

    @property
    def repeat(self) -> str:
        return str(self.plan.get("command", "contend run SCENARIO"))

    @property
    def primary(self) -> list[CellResult]:
        """Comparisons of each victim's headline metric."""
        return [result for result in self.results if result.metric.primary]

    @property
    def shown(self) -> list[CellResult]:
        """Headline comparisons whose intervals hold simultaneously, without those that a forecast is fitted to."""
        return [result for result in self.primary if result.factors.get("role", "pair") == "pair"]


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice from one run.

    refused: why there is none. placement: workloads on hosts, for machines; title, lines, about: the same for people.
    """

    findings: tuple[Finding, ...]
    refused: str = ""
    placement: PlacementDocument | None = None
    title: str = ""
    lines: Sequence[str] = ()
    about: Sequence[str] = ()


class Study(Shown, ABC, Generic[S]):
    """One question that runs answer, with all that only it needs. Methods that are not overridden do what most studies do.

    scenario: the model of its files. guard_hint: what to do where a guard ended its run. pilot: whether rounds are measured
    first and thrown away. runs: whether there is anything to run. key: under which its result stands in findings.json, ""
    for its name. below: whether its part of the page stands under the tables of comparisons. advises_placement: whether its
    advice is which workloads to put on which hosts.
    """

    scenario: ClassVar[type[Scenario]]
    guard_hint: ClassVar[str] = (
        "lighten the neighbours, like --set neighbours.stress-cpu.intensity=20, or allow more, like"
        " --set guard.run_delay=40%"
    )
    key: ClassVar[str] = ""
    advises_placement: ClassVar[bool] = False
    pilot: ClassVar[bool] = True
    below: ClassVar[bool] = False
    runs: ClassVar[bool] = True

    # What is measured

    @abstractmethod
    def cells(self, scenario: S) -> tuple[Cell, ...]:
        """The cells to compare. Raises BadInput for unknown workloads and parameters."""

    def screening(self, scenario: S, seed: int) -> Screening | None:
        """The first step of a study that first measures everything a little, then some cells well; None for other
        studies."""
        return None

    def chosen(self, scenario: S, rows: Iterable[Row]) -> dict[str, str]:
        """The victims that the screening chose for the second step, with the reason for each."""
        return {}

    def focused(self, scenario: S, focus: Iterable[str]) -> tuple[Cell, ...]:
        """The cells of the victims that the screening chose."""
        return self.cells(scenario)

    def held_out(self, scenario: S, cells: Sequence[Cell], seed: int) -> tuple[str, ...]:
        """Cells that a forecast is not fitted to, so that it can be judged on them."""
        return ()

    def measuring(
        self, scenario: S, command: Mapping[str, Any], beside: Sequence[str | Mapping[str, Any]]
    ) -> Mapping[str, Any]:
        """Values of a scenario that make a command of the user's what it measures.

        command: as a scenario's list of workloads names it; beside: what runs beside it, none for what the scenario has.
        Raises BadInput, as here, for a study that measures no command, or nothing beside it.
        """
        raise BadInput(
            f"'{scenario.study}' measures no command of yours",
            hint="contend run noisy-neighbour -- CMD, platform-overhead, apps or interference-forecast; contend ab compares"
            " two",
        )

    # Whether and how it can run here

    def check(self, scenario: S) -> None:
        """Check the scenario before anything is made. Raises BadInput."""

    def settled(self, scenario: S) -> S:
        """The scenario with values that only trying can tell."""
        return scenario

    def fitted(self, scenario: S, runs: Path) -> tuple[S, tuple[str, ...]]:
        """The scenario fitted to this host, and a line on each thing the host does not offer. Raises CannotHonour.

        runs: where runs go.
        """
        return scenario, ()

    def without_missing(self, scenario: S, check: Callable[[Scenario], None]) -> tuple[S, tuple[str, ...]]:
        """The scenario without workloads that cannot run here, and a line on each of these. check: raises CannotHonour
        for one that cannot."""
        return scenario, ()

    def check_elsewhere(self, scenario: S) -> None:
        """Check that other hosts of a fleet can measure this too. Raises BadInput."""

    def in_guests(self, scenario: S) -> bool:
        """True if some victims run in guests, which use no file or program of this host."""
        return scenario.made_on.in_guest

    def placing(self, scenario: S) -> Placing:
        """The CPUs that victims and neighbours get."""
        return "same-host"

    def hosts(self, scenario: S) -> dict[int | None, Topology]:
        """The CPUs of the host at each size that the study varies; the whole host under None where it varies none."""
        return {None: Topology.read()}

    def wiring(self, scenario: S, runs: Path) -> dict[str, Any]:
        """Facts of this host that the run's record needs besides the usual ones."""
        return {}

    def lines(self, scenario: S, plan: Plan) -> Iterator[str]:
        """Describe what will be measured, before it is: a line a cell."""
        compared = {cell.baseline for cell in plan.cells}
        for cell in plan.cells:
            role = "control" if cell.control else "baseline" if cell.id in compared else ""
            yield f"{cell.label + (' (control)' if cell.control else ''):<44} {role}"

    def steps(self, scenario: S, plan: Plan, runs: Path) -> Sequence[str]:
        """Describe the steps of a study that has several; empty for one that has only cells and blocks. Raises
        CannotHonour."""
        return ()

    # While it runs

    def timeout_s(self, scenario: S) -> float | None:
        """The timeout of a trial in seconds; None for that of its workloads."""
        return None

    def histograms(self, scenario: S) -> bool:
        """True if the scheduler's histograms are recorded, where that works."""
        return False

    def lay_out(
        self,
        scenario: S,
        run: Path,
        run_id: str,
        ledger: Ledger,
        later: Callable[[Callable[[], None]], object],
    ) -> Laid | None:
        """Put the data that all trials need on this host; each item is in the ledger before it is made. later: registers
        what removes it."""
        return None

    def treating(
        self,
        scenario: S,
        run: Path,
        run_id: str,
        ledger: Ledger,
        later: Callable[[Callable[[], None]], object],
    ) -> Treating | None:
        """Make what changes others on this host for the length of a trial; None where nothing does.

        It is entered before a trial and left after it; each change is in the ledger before it is made. later: registers
        what takes all back. Raises CannotHonour, HostFailed.
        """
        return None

    def prepared(self, scenario: S, work: Path) -> Iterable[tuple[str, Mapping[str, Any]]]:
        """Events for the ledger once all workloads have been prepared."""
        return ()

    # How long it takes

    def length_ns(self, scenario: S, cell: Cell) -> int | None:
        """The requested length of the cell's trials in ns; None where its workload decides."""
        return scenario.measure.trial

    def least_blocks(self, scenario: S) -> int | None:
        """The fewest blocks that give an answer; None for as many as an interval takes."""
        return None

    def needs(self, scenario: S, plan: Plan) -> Needs | None:
        """The expected times of a run, from a study that knows better than the sum of its trials; None otherwise."""
        return None

    # What its rows say

    def read(self, scenario: S, run: OnRecord) -> Any:
        """The study's own result; None for a study without one, and where there is too little data. Never raises for
        that."""
        return None

    def answer(self, scenario: S, run: OnRecord, result: Any, findings: Sequence[Finding]) -> str:
        """The run's answer in a sentence or two; "" where there is none yet."""
        return ""

    def findings(self, scenario: S, run: OnRecord, result: Any) -> tuple[Finding, ...]:
        """Findings with their evidence and what to do."""
        return ()

    def advice(self, scenario: S, analysis: Analysis, hosts: int | None, *, worst: bool) -> Advice:
        """Advice from a run. hosts: to put workloads on, None for two a host; worst: spare the workload that is slowed
        most."""
        return Advice(analysis.findings)

    def layout(self, result: Any) -> Layout:
        """The layout of its comparisons in tables."""
        return Layout()

    def result_type(self) -> Any:
        """The type of what `read` gives, of which the JSON Schema is made: a `Shape`, or a tuple of one kind of them.

        None of a study without a result.
        """
        return None

    # How its result is shown, besides what Shown has

    def contents(self, analysis: Analysis) -> tuple[tuple[str, str], ...]:
        """Anchors and titles of its part of the page, which is `section.html.j2` beside its code; empty without that
        file."""
        return ()

    def values(self, report: ReportInput) -> Mapping[str, Any]:
        """Names for the template of its part of the page, besides the report and the kit."""
        return {}

    def section(self, report: ReportInput) -> Section | None:
        contents = self.contents(report.analysis)
        module = type(self).__module__
        template = f"{module.rpartition('.')[0] or module}:section.html.j2"
        return Section(template, self.values(report), contents, self.below) if contents else None

    def estimand(self, result: Any) -> str:
        """The quantity that its intervals are of."""
        return "Hodges–Lehmann estimate of the log ratio within blocks, shown as a ratio"

    def unsound(self, rows: Iterable[Row]) -> frozenset[str]:
        """Cells whose trials did not run as requested."""
        return frozenset()

    def part(self, values: Values, loop: str) -> float:
        """The part of a CPU's time that the treatment was given, 0–1: it is compared as if it had the whole."""
        return 1.0


def works(check: Callable[[Scenario], None], alone: Scenario, what: str, left_out: list[str]) -> bool:
    """True if a scenario of one workload can run here; if not, the reason is added to `left_out`."""
    try:
        check(alone)
    except CannotHonour as error:
        left_out.append(f"{what}: {error.message} ({error.hint.split(';')[0]})")
        return False
    return True
