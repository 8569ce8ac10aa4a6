"""What a study is, and which there are.

A study is one question that runs can answer: a folder of this package, or a module of another one that an entry point of the
group `contend.studies` names. What plans, measures and reports asks a study by this protocol, and names none.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar, cast, get_args, get_origin

from contend.document import RESERVED, Analysis, CellResult, Control, Layout, Section, Shown
from contend.errors import BadInput, CannotHonour
from contend.platforms.topology import Topology
from contend.studies.cell import Cell, Party
from contend.studies.model import Scenario
from contend.text.shape import Shape

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from contend.advice.document import PlacementDocument
    from contend.advice.finding import Finding
    from contend.analysis.comparisons import Table
    from contend.platforms.base import Role
    from contend.report.model import ReportInput
    from contend.store.cells import PlannedCell, Values
    from contend.store.directory import Row
    from contend.store.ledger import Ledger
    from contend.studies.needs import Needs
    from contend.studies.plan import Plan

ENTRY_POINTS = "contend.studies"
"""The group in which another package names its studies: NAME = module:OBJECT."""
OWN_DEFECT = "a mistake in contend itself"

_OWN: Mapping[str, str] = {
    "interference": "contend.studies.interference.study",
    "compare": "contend.studies.compare.study",
    "storm": "contend.studies.storm.study",
    "growth": "contend.studies.growth.study",
    "overhead": "contend.studies.overhead.study",
    "placement": "contend.studies.placement.study",
    "imported": "contend.studies.imported.study",
    "sensitivity": "contend.studies.sensitivity.study",
    "storage": "contend.studies.storage.study",
}

S = TypeVar("S", bound=Scenario)
Placing = Literal["same-cpu", "own-cores", "same-host"]


@dataclass(frozen=True, slots=True)
class Screening:
    """The first step of a study that has two: what is measured in it, by block, and how good its design is."""

    trials: Sequence[tuple[int, Cell]]
    told: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Laid:
    """What a study has put on this host for a run: where each party's data is, linked into its directory, and the device
    under each."""

    data: Mapping[tuple[Role, str], Path]
    devices: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class OnRecord:
    """What a run has on record, for its study to read.

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
        """Of each victim's headline metric."""
        return [result for result in self.results if result.metric.primary]

    @property
    def shown(self) -> list[CellResult]:
        """Those that hold together at one level: the headline, without what a forecast is fitted to."""
        return [result for result in self.primary if result.factors.get("role", "pair") == "pair"]


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do by one run.

    refused: why there is none. placement: workloads on hosts, for machines; title, lines, about: the same for people.
    """

    findings: tuple[Finding, ...]
    refused: str = ""
    placement: PlacementDocument | None = None
    title: str = ""
    lines: Sequence[str] = ()
    about: Sequence[str] = ()


class Study(Shown, ABC, Generic[S]):
    """One question, and all that is its own. What is not overridden is as most studies have it.

    scenario: the model of its files. pilot: whether rounds are measured first and thrown away. runs: whether there is
    anything to run. key: under which its result stands in findings.json, "" for its name. below: whether its part of the
    page stands under the tables of comparisons. places: whether its advice is which workloads to put on which hosts.
    """

    scenario: ClassVar[type[Scenario]]
    key: ClassVar[str] = ""
    places: ClassVar[bool] = False
    pilot: ClassVar[bool] = True
    below: ClassVar[bool] = False
    runs: ClassVar[bool] = True

    # What is measured

    @abstractmethod
    def cells(self, scenario: S) -> tuple[Cell, ...]:
        """What is compared. Raises BadInput for unknown workloads and parameters."""

    def screening(self, scenario: S, seed: int) -> Screening | None:
        """The first step, of a study that measures all it can a little and then some of it well."""
        return None

    def chosen(self, scenario: S, rows: Iterable[Row]) -> dict[str, str]:
        """What the screening chose, and why."""
        return {}

    def focused(self, scenario: S, focus: Iterable[str]) -> tuple[Cell, ...]:
        """The cells of what was chosen."""
        return self.cells(scenario)

    def held_out(self, scenario: S, cells: Sequence[Cell], seed: int) -> tuple[str, ...]:
        """Cells that nothing is fitted to, and that a forecast is judged on."""
        return ()

    # Whether and how it can run here

    def check(self, scenario: S) -> None:
        """Raises BadInput for what is wrong, and can be known before anything is made."""

    def settled(self, scenario: S) -> S:
        """With what only trying can tell."""
        return scenario

    def fitted(self, scenario: S, runs: Path) -> tuple[S, tuple[str, ...]]:
        """With what this host gives of what is asked, and what it does not, in words. Raises CannotHonour.

        runs: where runs go.
        """
        return scenario, ()

    def without_missing(self, scenario: S, check: Callable[[Scenario], None]) -> tuple[S, tuple[str, ...]]:
        """Less the workloads that cannot run here, and these in words. check: raises CannotHonour for one that cannot."""
        return scenario, ()

    def check_elsewhere(self, scenario: S) -> None:
        """Raises BadInput for what can be measured on this host and not on others of a fleet."""

    def in_guests(self, scenario: S) -> bool:
        """Whether any victim brings nothing of this host along."""
        return scenario.made_on.in_guest

    def placing(self, scenario: S) -> Placing:
        """Which CPUs victims and neighbours get."""
        return "same-host"

    def hosts(self, scenario: S) -> dict[int | None, Topology]:
        """The CPUs of each size of the host that is varied; of the whole one by None where none is."""
        return {None: Topology.read()}

    def wiring(self, scenario: S, runs: Path) -> dict[str, Any]:
        """What of this host the run's record needs besides the usual."""
        return {}

    def lines(self, scenario: S, plan: Plan) -> Iterator[str]:
        """What will be measured, before it is: a line a cell."""
        compared = {cell.baseline for cell in plan.cells}
        for cell in plan.cells:
            role = "control" if cell.control else "baseline" if cell.id in compared else ""
            yield f"{cell.label + (' (control)' if cell.control else ''):<44} {role}"

    def steps(self, scenario: S, plan: Plan, runs: Path) -> Sequence[str]:
        """The same of a study that has several steps; none of one that has cells and blocks. Raises CannotHonour."""
        return ()

    # While it runs

    def timeout_s(self, scenario: S) -> float | None:
        """Of a trial; None: that of its workloads."""
        return None

    def histograms(self, scenario: S) -> bool:
        """Whether the scheduler's histograms are recorded, where that works."""
        return False

    def lay_out(
        self,
        scenario: S,
        run: Path,
        run_id: str,
        ledger: Ledger,
        later: Callable[[Callable[[], None]], object],
    ) -> Laid | None:
        """Put what all trials need on this host, each in the ledger before it is there. later: takes what removes it."""
        return None

    def prepared(self, scenario: S, work: Path) -> Iterable[tuple[str, Mapping[str, Any]]]:
        """Events for the ledger when all parties have been prepared."""
        return ()

    # How long it takes

    def length_ns(self, scenario: S, cell: Cell) -> int | None:
        """Of the cell's trials, as it is asked for; None where its workload says."""
        return scenario.measure.trial

    def least_blocks(self, scenario: S) -> int | None:
        """The fewest blocks that are an answer; None: as many as an interval takes."""
        return None

    def needs(self, scenario: S, plan: Plan) -> Needs | None:
        """What a run takes, of a study that knows better than the sum of its trials."""
        return None

    # What its rows say

    def read(self, scenario: S, run: OnRecord) -> Any:
        """The study's own result; None of a study without one, and where there is too little. Never raises for that."""
        return None

    def answer(self, scenario: S, run: OnRecord, result: Any, findings: Sequence[Finding]) -> str:
        """The run's answer in a sentence or two; "" where there is none yet."""
        return ""

    def findings(self, scenario: S, run: OnRecord, result: Any) -> tuple[Finding, ...]:
        """What was found, with its evidence and what to do."""
        return ()

    def advice(self, scenario: S, analysis: Analysis, hosts: int | None, *, worst: bool) -> Advice:
        """What to do. hosts: to put workloads on, None for two a host; worst: spare the one that is slowed most."""
        return Advice(analysis.findings)

    def layout(self, result: Any) -> Layout:
        """How its comparisons stand in tables."""
        return Layout()

    def result_type(self) -> Any:
        """The type of what `read` gives, of which the JSON Schema is made: a `Shape`, or a tuple of one kind of them.

        None of a study without a result.
        """
        return None

    # How its result is shown, besides what Shown has

    def contents(self, analysis: Analysis) -> tuple[tuple[str, str], ...]:
        """Anchors and titles of its part of the page, which is `section.html.j2` beside its code; none without that."""
        return ()

    def values(self, report: ReportInput) -> Mapping[str, Any]:
        """What that part names besides the report and the kit."""
        return {}

    def section(self, report: ReportInput) -> Section | None:
        contents = self.contents(report.analysis)
        module = type(self).__module__
        template = f"{module.rpartition('.')[0] or module}:section.html.j2"
        return Section(template, self.values(report), contents, self.below) if contents else None

    def estimand(self, result: Any) -> str:
        """What its intervals are of."""
        return "Hodges–Lehmann median of within-block log ratios, shown as a ratio"

    def unsound(self, rows: Iterable[Row]) -> frozenset[str]:
        """Cells whose trials were not what was asked."""
        return frozenset()

    def part(self, values: Values, loop: str) -> float:
        """Of a CPU's time that the treatment was given: what is compared is what it would take with the whole."""
        return 1.0


@cache
def study(name: str) -> Study[Any]:
    """Raises KeyError for one that there is not, BadInput for one of another package that is none."""
    if name in _OWN:
        return cast("Study[Any]", importlib.import_module(_OWN[name]).STUDY)
    for point in _elsewhere():
        if point.name == name:
            return _loaded(point)
    raise KeyError(name)


def _loaded(point: EntryPoint) -> Study[Any]:
    def no_study(why: str) -> BadInput:
        return BadInput(
            f"{_titled(point)} cannot be used: {why}",
            hint=f"mend {point.value}, or uninstall the package",
        )

    try:
        found = point.load()
    except Exception as error:
        raise no_study(f"{type(error).__name__}: {error}") from error
    model = getattr(found, "scenario", None)
    if not isinstance(found, Study):
        raise no_study("it is no object of a subclass of contend.studies.base.Study")
    if not (isinstance(model, type) and issubclass(model, Scenario)):
        raise no_study("its `scenario` is no subclass of contend.studies.model.Scenario")
    if not _has_a_shape(found.result_type()):
        raise no_study("its `result_type` is no class below contend.text.shape.Shape, and no tuple of one")
    if (key := found.key or point.name) in RESERVED:
        raise no_study(f"its result would stand under '{key}', which every findings.json has")
    return found


def _has_a_shape(result: Any) -> bool:
    of = get_args(result)[0] if get_origin(result) is tuple else result
    return of is None or (isinstance(of, type) and issubclass(of, Shape))


def package_on_record(scenario: Scenario) -> dict[str, dict[str, str]]:
    """For plan.json: name and version of the package that brings a scenario's study; nothing where that is contend's own."""
    name = scenario.study
    dist = None if name in _OWN else next((p.dist for p in _elsewhere() if p.name == name), None)
    return {} if dist is None else {"package": {"name": dist.name, "version": dist.version}}


def study_of(scenario: Scenario) -> Study[Any]:
    """Whose scenario it is."""
    return study(scenario.study)


def names() -> tuple[str, ...]:
    """Of all studies."""
    return (*_OWN, *(point.name for point in _elsewhere() if point.name not in _OWN))


def every() -> Iterator[tuple[str, Study[Any]]]:
    """All that load, by name: a broken one of another package is an error to who asks for it, and nobody else."""
    for name in names():
        with suppress(BadInput):
            yield name, study(name)


def described() -> Iterator[tuple[str, str]]:
    """Each study's name and what it is, in a line: the first of its scenario's docstring, and the package it comes from."""
    points = {point.name: point for point in _elsewhere()}
    for name in names():
        package = "" if name in _OWN else f" (package {_package(points[name])})"
        try:
            lines = (study(name).scenario.__doc__ or "").strip().splitlines()
        except BadInput as error:
            lines = [error.message]
            package = ""
        yield name, f"{lines[0].strip() if lines else name}{package}"


def asked() -> tuple[str, ...]:
    """Names of those that can be run."""
    return tuple(name for name, one in every() if one.runs)


def folders() -> Iterator[Path]:
    """Where the code of each of contend's own studies lies."""
    for name in _OWN.values():
        yield Path(__file__).parent / name.split(".")[2]


def folders_elsewhere() -> Iterator[Path]:
    """Where the code of other packages' studies lies. None of it is run to tell that."""
    for point in _elsewhere():
        with suppress(Exception):  # it is broken: that is told to who asks for the study
            spec = importlib.util.find_spec(point.module.rpartition(".")[0] or point.module)
            yield from map(Path, (spec and spec.submodule_search_locations) or ())


@cache
def _elsewhere() -> tuple[EntryPoint, ...]:
    # Looked for only where the name is none of ours: it reads every installed package.
    return tuple(entry_points(group=ENTRY_POINTS))


def cells_of(scenario: Scenario) -> tuple[Cell, ...]:
    """What a scenario compares. Raises BadInput, also for cells of another package's study that no plan can be made of."""
    cells = study_of(scenario).cells(scenario)
    if scenario.study not in _OWN and (why := _not_comparable(cells)):
        raise BadInput(
            f"the study '{scenario.study}' makes cells that cannot be compared: {why}",
            hint="it is the study's own code that is to be mended, not the scenario",
        )
    return cells


def _not_comparable(cells: Sequence[Cell]) -> str:
    """Name the first error of cells: each one here would make a run of other cells than were meant, or none."""
    if not cells:
        return "there is none"
    ids, by_label = set[str](), dict[str, Party]()
    for cell in cells:
        if cell.id in ids:
            return f"two are called '{cell.id}'"
        ids.add(cell.id)
        for name, value in cast("Mapping[str, object]", cell.factors).items():
            if not isinstance(value, str):
                return f"the factor '{name}' of '{cell.id}' is no text: {value!r}"
        known = by_label.setdefault(cell.victim.label, cell.victim)
        if known.instance != cell.victim.instance:
            return f"two parties are called '{cell.victim.label}', and run different things"
        if cell.control and not cell.baseline:
            return f"the control '{cell.id}' has no baseline"
    for cell in cells:
        if cell.baseline and cell.baseline not in ids:
            return f"the baseline of '{cell.id}' is '{cell.baseline}', which there is not"
    return ""


def whose_defect(error: BaseException) -> str:
    """In whose code something unforeseen was raised, in words: that of another package's study, or contend's own.

    What a study has given may be wrong in contend's code only: a study that was used is named there too.
    """
    folders = dict(_folders_of_code())
    packages = {point.module.partition(".")[0]: point for point in _elsewhere()}
    trace = error.__traceback__
    while trace is not None:
        name, file = (
            str(trace.tb_frame.f_globals.get("__name__", "")),
            Path(trace.tb_frame.f_code.co_filename),
        )
        point = packages.get(name.partition(".")[0])
        if point is None and file.suffix == ".j2":  # its part of the page
            point = folders.get(file.parent)
        if point is not None:
            return f"a mistake in {_titled(point)}"
        trace = trace.tb_next
    used = " and ".join(_titled(point) for point in _elsewhere() if point.module in sys.modules)
    return f"{OWN_DEFECT}, or in what {used} gave it" if used else OWN_DEFECT


def _folders_of_code() -> Iterator[tuple[Path, EntryPoint]]:
    """Where the modules of other packages' studies lie."""
    for point in _elsewhere():
        with suppress(Exception):  # it is broken: that is told to who asks for the study
            spec = importlib.util.find_spec(point.module)
            if spec is not None and spec.origin:
                yield Path(spec.origin).parent, point


def _titled(point: EntryPoint) -> str:
    return f"the study '{point.name}' of the package {_package(point)}"


def _package(point: EntryPoint) -> str:
    """The distribution that brings a study; its module where none is named."""
    return point.dist.name if point.dist else point.module


def works(check: Callable[[Scenario], None], alone: Scenario, what: str, left_out: list[str]) -> bool:
    """Whether a scenario of one workload can run here; why not is added to what is left out."""
    try:
        check(alone)
    except CannotHonour as error:
        left_out.append(f"{what}: {error.message} ({error.hint.split(';')[0]})")
        return False
    return True
