"""Values of a finished run: the one document that reports, exports, `compare` and machines read.

`Analysis.to_json()` is `findings.json`; its JSON Schema is docs/reference/analysis.schema.json.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from contend.advice.finding import Finding
from contend.contention.alibi.verdict import CellAlibi, PhaseAlibi
from contend.contention.scheduling import CellSchedule
from contend.document.context import Context
from contend.document.hosts import Fleets
from contend.platforms.quotas import Quota
from contend.probes.observed import Observations
from contend.stats.estimate import Estimate
from contend.store.cells import NO_VALUES, PlannedCell, Values
from contend.store.damage import Damage
from contend.text.shape import FLAT, HIDDEN, OPTIONAL, Count, Finite, Limits, Shape, Through, computed, plain

if TYPE_CHECKING:
    from contend.report.model import ReportInput
    from contend.report.plotkit import Plot
    from contend.report.printer import Printer


@dataclass(frozen=True, slots=True)
class MetricInfo(Shape):
    """A metric."""

    name: str
    unit: str
    better: Annotated[str, Limits(enum=["higher", "lower"])]
    loop: Annotated[str, Limits(enum=["open", "closed", ""]), "empty where the metric is no load generator's"]
    primary: Annotated[bool, "the victim's headline metric"]


@dataclass(frozen=True, slots=True)
class Level(Shape):
    """One cell's own level: the median over its trials, and the trials.

    The interval is the exact one of the sign test.
    """

    estimate: Annotated[Estimate, FLAT]
    values: Annotated[tuple[float, ...], "raw points in the order of their blocks"]
    blocks: tuple[Count, ...]
    flagged: Annotated[tuple[Count, ...], "positions in `values` of trials whose surroundings were flagged"]


@dataclass(frozen=True, slots=True)
class Quantity(Shape):
    """A median over the cell's trials."""

    value: float
    unit: str


def _quantities(evidence: Observations) -> dict[str, Quantity]:
    return {name: Quantity(value, unit) for name, (value, unit) in evidence.flat.items()}


def _detectable(effect: float) -> float | None:
    return effect if effect < 1e9 else None


@dataclass(frozen=True, slots=True)
class Decision(Shape):
    """Blocks and time that are expected to decide an undecided comparison, if its value stays as it is."""

    blocks: Annotated[Count, "in all, those counted already among them"]
    seconds: Annotated[
        float | None, "that a run of so many takes; null where nobody knows how long a block takes"
    ]


@dataclass(frozen=True, slots=True)
class Work:
    """Cost of a unit of a cell's work: means over its trials, which add up where medians do not.

    time: of a unit, in any unit that is the same for both sides of a comparison. seen: its evidence, where that is a time, a
    count or bytes, in the same measure.
    """

    time: float
    seen: Observations


@dataclass(frozen=True, slots=True)
class Worked:
    """Costs of a unit of work beside and alone; and the same without each part of the run's blocks in turn, which tells how
    sure is what is made of them (`stats.jackknife`).
    """

    beside: Work
    alone: Work
    without: tuple[tuple[Work, Work], ...] = ()


@dataclass(frozen=True, slots=True)
class CellResult(Shape):
    """A treatment against its baseline. The estimate is a slowdown (> 1 is worse); in a compare study it is treatment /
    baseline as measured.

    A slowdown is baseline / treatment where higher is better.
    """

    cell: str
    factors: Mapping[str, str]
    metric: MetricInfo
    baseline: Level
    treatment: Level
    estimate: Estimate
    evidence: Annotated[Observations, Through(_quantities)]
    baseline_evidence: Annotated[Observations, Through(_quantities)]
    quotas: Annotated[tuple[Quota, ...], OPTIONAL, "the longest first"] = ()
    quotas_unknown: Annotated[
        str, OPTIONAL, "why it cannot be told whether a CPU quota held the victim back"
    ] = ""
    decision: Annotated[Decision | None, OPTIONAL, "of an undecided one: what is expected to decide it"] = (
        None
    )
    values: Annotated[Values, HIDDEN] = NO_VALUES
    """Of the treatment."""
    worked: Annotated[Worked | None, HIDDEN] = None
    """None where trials are not at hand, or nobody will ask."""

    @property
    def all_flagged(self) -> bool:
        """The surroundings of every trial of one side were flagged, so nothing clean is compared."""
        return any(0 < len(side.values) <= len(side.flagged) for side in (self.baseline, self.treatment))


@dataclass(frozen=True, slots=True)
class Control(Shape):
    """The A/A control: the same cell under two labels."""

    factors: Mapping[str, str]
    metric: MetricInfo
    estimate: Estimate
    detectable: Annotated[
        float, Through(_detectable), "smallest relative effect seen with 80 % power, 0.02 = 2 %"
    ]
    alarm: Annotated[
        bool,
        "it differs from 1 beyond what one of the run's controls would in 5 % of runs (Bonferroni over its family), so not"
        " at every interval that just excludes 1",
    ]
    repeats: Annotated[Mapping[str, str], HIDDEN] = field(default_factory=dict)
    """Factors of the cell that it measures once more."""
    values: Annotated[Values, HIDDEN] = NO_VALUES
    """Values of that cell."""


@dataclass(frozen=True, slots=True)
class Design(Shape):
    """How the numbers were made."""

    seed: int
    blocks: Annotated[Count, "counted blocks that are complete"]
    kind: Annotated[str, "pairs, or blocks of 8"]
    estimand: str
    intervals: str
    simultaneous: Annotated[Count, "intervals that hold together"]
    matters: Annotated[float, "relative change up to which something counts as unaffected, 0.03 = 3 %"]
    target: Annotated[float | None, "wanted relative half-width"]
    target_reached: Annotated[Mapping[str, bool], "by victim and metric"]
    stopped: Annotated[str, "target reached, budget spent, planned blocks done, interrupted"]
    spiky: Annotated[float | None, "share of spiky runs in the pilot"]
    warmup: Annotated[Mapping[str, Count], "`rounds` that were measured first, and are not counted"]


@dataclass(frozen=True, slots=True)
class Layout:
    """How a study's comparisons stand in tables.

    as_measured: ratios are treatment / baseline, whose direction says nothing; else they are slowdowns, where above 1 is
    worse. rows: what a row is. column: the factor whose levels are columns. table: the factor whose levels have a table
    each. named: factors that the names of rows and columns say. beside: the word before a column's name. baseline: the name
    of the baseline's column; "" for that of the control's variant. refused: comparisons that were refused stand there too.
    every_metric: all controls are the headline's. position: table, row and column of a cell, where these do not tell;
    condition: what its treatment is, in words. control: whose figure a control is. controlled: by cells of the run, by the
    study's own means, or not at all. finds: that nothing was found is worth saying. title: of the tables, "" for
    one that says what is compared. treated, untreated: where a time was taken, "" for the name of the baseline. forest: all
    of them are drawn together. points: of which tables every point is drawn. effect: what a ratio is called. compared:
    factors in which a row's cells and its control differ, besides victim, neighbour and variant. longest_s: beyond that
    nobody is told to measure on, but what brings an answer sooner.
    """

    as_measured: bool = False
    rows: str = "victim"
    column: str = "neighbour"
    table: str = ""
    named: frozenset[str] = frozenset()
    beside: str = "beside"
    baseline: str = "alone"
    refused: bool = True
    every_metric: bool = False
    position: Callable[[CellResult], tuple[str, str, str]] | None = None
    condition: Callable[[Mapping[str, str]], str] | None = None
    control: Callable[[Control], str] | None = None
    controlled: Literal["cells", "own", "no"] = "cells"
    finds: bool = True
    title: str = ""
    treated: str = "with the treatment"
    untreated: str = ""
    forest: bool = True
    points: Literal["every", "headline", "no"] = "every"
    effect: str = "slowdown"
    compared: frozenset[str] = frozenset()
    longest_s: float = 24 * 3600
    sooner: str = "a quieter host or a wider target (--set measure.target=…)"


VARIANTS = Layout(as_measured=True, rows="metric", column="variant", beside="", baseline="", finds=False)
"""Of studies that compare variants as they were measured: a row a metric."""


@dataclass(frozen=True, slots=True)
class Section:
    """A study's own part of the page.

    template: PACKAGE:FILE, or MODULE:FILE of a module in no package. values: what it names besides the report and the kit.
    contents: anchors and titles. below: under the tables of comparisons.
    """

    template: str
    values: Mapping[str, Any]
    contents: tuple[tuple[str, str], ...]
    below: bool = False


class Shown:
    """A study's way to show its own result. Called only where there is a result."""

    def show(self, report: ReportInput, printer: Printer, *, verbose: bool) -> bool:
        """Print the result above the tables of comparisons. Returns True if these tables follow."""
        return True

    def show_below(self, report: ReportInput, printer: Printer, *, verbose: bool) -> None:
        """Print what stands under the tables of comparisons."""

    def section(self, report: ReportInput) -> Section | None:
        """The study's own section of the HTML page; None for a study without one."""
        return None

    def tabled(self, analysis: Analysis) -> bool:
        """True if the page has tables of comparisons."""
        return True

    def plots(self, report: ReportInput) -> list[Plot]:
        return []

    def facts(self, analysis: Analysis) -> list[tuple[str, str]] | None:
        """Facts (name, text) to print under the answer instead of the numbers of blocks and the seed; None for the usual
        ones."""
        return None

    def design(self, analysis: Analysis) -> str:
        """Describe how the trials were arranged, where contend did not arrange them in blocks."""
        return ""

    def nothing_found(self, analysis: Analysis, *, known: bool) -> str:
        """Say why there is no finding. known: every headline comparison has an interval."""
        if not known:
            return TOO_FEW
        if analysis.layout.as_measured:
            return "none."
        headline = [cell.estimate for cell in analysis.cells if cell.metric.primary]
        undecided = sum(of.verdict == "undecided" for of in headline)
        if undecided:
            rest = f"{undecided} of {len(headline)} comparisons are undecided"
            return f"none: no victim is shown to be slowed by what matters, and {rest}."
        return "none: no victim is slowed by what matters."

    def effects(self, analysis: Analysis) -> tuple[Sequence[str], list[tuple[Sequence[str], str]]] | None:
        """A table for papers of what the cells say together: headers, and rows with the verdict on each."""
        return None


TOO_FEW = "none yet: too few blocks for a verdict."
PLAIN = Shown()


@dataclass(frozen=True, slots=True)
class Span(Shape):
    """A value with its interval; below 0 where it is less."""

    value: Finite
    low: Annotated[Finite, "null where the data give no bound"]
    high: Annotated[Finite, "null where the data give no bound"]


@dataclass(frozen=True, slots=True)
class Cost(Shape):
    """Cost of a comparison at the price that was given: the same work in the same time takes so many cores more."""

    cell: str
    metric: str
    used: Annotated[float, "cores that its baseline uses"]
    cores: Annotated[Span, "cores more"]
    month: Annotated[Span, "their price in a month of 730.5 h"]
    currency: Annotated[str, "as it was given, or empty"]


@dataclass(frozen=True, slots=True)
class ProbeCost(Shape):
    """The cost of recording the run."""

    samples: Count
    cpu_ns: Count
    bpf_ns: Annotated[Count, "of BPF programs; 0 where the kernel does not count it"]
    span_ns: Annotated[Count, "time covered by the samples"]

    @property
    @computed
    def share(self) -> float:
        """of one CPU"""
        return (self.cpu_ns + self.bpf_ns) / self.span_ns if self.span_ns > 0 else 0.0


SCHEMA_VERSION: Final = 2
"""Of the analysis; 1 had "no detectable effect" for what is unaffected or undecided."""


@dataclass(frozen=True, slots=True)
class Analysis(Shape):
    """The analysis of a run: findings.json, and the output of --json."""

    schema_version: Literal[2] = field(default=SCHEMA_VERSION, init=False)
    run: str
    study: str
    title: Annotated[str, "the question"]
    answer: Annotated[str, "a sentence or two"]
    design: Design
    cells: tuple[CellResult, ...]
    controls: tuple[Control, ...]
    findings: tuple[Finding, ...]
    skipped: Annotated[tuple[str, ...], "what could not run, and why"]
    failed: Annotated[tuple[str, ...], "trials without a result, by message"]
    flags: Annotated[Mapping[str, Count], "how many trials carry which flag"]
    trials: Count
    alibis: Annotated[tuple[CellAlibi, ...], "by cell, where series were recorded"] = ()
    phase_alibis: Annotated[tuple[PhaseAlibi, ...], "of the whole run, and of its phases"] = ()
    schedules: Annotated[
        tuple[CellSchedule, ...], OPTIONAL, "by cell, where scheduler histograms were recorded"
    ] = ()
    probe: Annotated[ProbeCost | None, "null where nothing was recorded, or the run was killed"] = None
    key: Annotated[str, HIDDEN] = ""
    """Under which the study's own result stands in the document."""
    result: Annotated[Any, HIDDEN] = None
    """The study's own; None of one without, and where there was too little."""
    layout: Annotated[Layout, HIDDEN] = Layout()
    own: Annotated[Shown, HIDDEN] = PLAIN
    """How that is shown."""
    fleet: Annotated[Fleets | None, OPTIONAL, "of a run on several hosts"] = None
    context: Annotated[
        Context | None, OPTIONAL, "of a component's cost, where a storm to put it in is known"
    ] = None
    in_context: Annotated[Shown, HIDDEN] = PLAIN
    """How that is shown."""
    planned: Annotated[Mapping[str, PlannedCell], HIDDEN] = field(default_factory=dict)
    """By id, the cells of its plan."""
    costs: Annotated[tuple[Cost, ...], OPTIONAL, "where a price was given"] = ()
    damage: Annotated[
        tuple[Damage, ...], OPTIONAL, "what of the run's files could not be read, and was left out"
    ] = ()

    def is_control(self, cell: str) -> bool:
        """True if the cell of that id is an A/A control."""
        return cell in self.planned and self.planned[cell].control

    @property
    def shown(self) -> tuple[Shown, ...]:
        """The parts that only this run has on terminal and page, in their order."""
        return self.own, self.in_context

    def to_json(self) -> dict[str, Any]:
        """The document as plain values, with the study's own result before the parts that only some runs have."""
        document = Shape.to_json(self)
        if self.result:
            last: dict[str, Any] = {
                key: document.pop(key) for key in ("fleet", "context", "damage") if key in document
            }
            document |= {self.key: plain(self.result), **last}
        return document


RESERVED = frozenset(of.name for of in fields(Analysis))
"""Under which no study's own result can stand."""
