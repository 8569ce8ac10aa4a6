"""The protocol of a study, and the registry of all studies.

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
from contend.studies.cell import Cell, CellWorkload
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

    scenario: the model of its files. pilot: whether rounds are measured first and thrown away. runs: whether there is
    anything to run. key: under which its result stands in findings.json, "" for its name. below: whether its part of the
    page stands under the tables of comparisons. advises_placement: whether its advice is which
    workloads to put on which hosts.
    """

    scenario: ClassVar[type[Scenario]]
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
        return "Hodges–Lehmann median of within-block log ratios, shown as a ratio"

    def unsound(self, rows: Iterable[Row]) -> frozenset[str]:
        """Cells whose trials did not run as requested."""
        return frozenset()

    def part(self, values: Values, loop: str) -> float:
        """The part of a CPU's time that the treatment was given, 0–1: it is compared as if it had the whole."""
        return 1.0


@cache
def study(name: str) -> Study[Any]:
    """The study of that name. Raises KeyError where there is none, BadInput for one of another package that is not a
    study."""
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
        study = point.load()
    except Exception as error:
        raise no_study(f"{type(error).__name__}: {error}") from error
    model = getattr(study, "scenario", None)
    if not isinstance(study, Study):
        raise no_study("it is no object of a subclass of contend.studies.base.Study")
    if not (isinstance(model, type) and issubclass(model, Scenario)):
        raise no_study("its `scenario` is no subclass of contend.studies.model.Scenario")
    if not _has_a_shape(study.result_type()):
        raise no_study("its `result_type` is no class below contend.text.shape.Shape, and no tuple of one")
    if (key := study.key or point.name) in RESERVED:
        raise no_study(f"its result would stand under '{key}', which every findings.json has")
    return study


def _has_a_shape(result: Any) -> bool:
    of = get_args(result)[0] if get_origin(result) is tuple else result
    return of is None or (isinstance(of, type) and issubclass(of, Shape))


def package_on_record(scenario: Scenario) -> dict[str, dict[str, str]]:
    """For plan.json: name and version of the package that brings a scenario's study; nothing where that is contend's own."""
    name = scenario.study
    dist = None if name in _OWN else next((p.dist for p in _elsewhere() if p.name == name), None)
    return {} if dist is None else {"package": {"name": dist.name, "version": dist.version}}


def study_of(scenario: Scenario) -> Study[Any]:
    """The study that a scenario belongs to."""
    return study(scenario.study)


def names() -> tuple[str, ...]:
    """Names of all studies."""
    return (*_OWN, *(point.name for point in _elsewhere() if point.name not in _OWN))


def every() -> Iterator[tuple[str, Study[Any]]]:
    """Names and studies of all that load. A broken one of another package is an error only for those who use it."""
    for name in names():
        with suppress(BadInput):
            yield name, study(name)


def described() -> Iterator[tuple[str, str]]:
    """Each study's name and a line on it.

    The line is the docstring of a study's package for contend's own, which are not loaded for it; for another package's the
    first line of its scenario's docstring.
    """
    for name, module in _OWN.items():
        yield name, importlib.import_module(module.rpartition(".")[0]).__doc__ or name
    for point in _elsewhere():
        if point.name not in _OWN:
            try:
                lines = (study(point.name).scenario.__doc__ or "").strip().splitlines()
                yield point.name, f"{lines[0].strip() if lines else point.name} (package {_package(point)})"
            except BadInput as error:
                yield point.name, error.message


def runnable() -> tuple[str, ...]:
    """Names of studies that can be run."""
    return tuple(name for name, one in every() if one.runs)


def folders() -> Iterator[Path]:
    """Directories with the code of contend's own studies."""
    for name in _OWN.values():
        yield Path(__file__).parent / name.split(".")[2]


def folders_elsewhere() -> Iterator[Path]:
    """Directories with the code of other packages' studies. Finding them runs none of it."""
    for point in _elsewhere():
        with suppress(Exception):  # it is broken: that is told to who asks for the study
            spec = importlib.util.find_spec(point.module.rpartition(".")[0] or point.module)
            yield from map(Path, (spec and spec.submodule_search_locations) or ())


@cache
def _elsewhere() -> tuple[EntryPoint, ...]:
    # Looked for only where the name is none of ours: it reads every installed package.
    return tuple(entry_points(group=ENTRY_POINTS))


def cells_of(scenario: Scenario) -> tuple[Cell, ...]:
    """The cells that a scenario compares. Raises BadInput, also where another package's study makes cells that no plan
    can be made of."""
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
    ids, by_label = set[str](), dict[str, CellWorkload]()
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
    """True if a scenario of one workload can run here; if not, the reason is added to `left_out`."""
    try:
        check(alone)
    except CannotHonour as error:
        left_out.append(f"{what}: {error.message} ({error.hint.split(';')[0]})")
        return False
    return True
