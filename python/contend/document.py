"""What a run says, as plain values: the one document that reports, exports, `compare` and machines read.

`Analysis.to_json()` is `findings.json`; its JSON Schema is docs/reference/analysis.schema.json.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from contend.advice.finding import Finding
from contend.contention.alibi.verdict import CellAlibi, PhaseAlibi
from contend.platforms.quotas import Quota
from contend.probes.evidence import Observations
from contend.stats.estimate import Estimate

if TYPE_CHECKING:
    from contend.analysis.hosts import Fleets
    from contend.contention.scheduling import CellSchedule
    from contend.context.effect import Context
    from contend.report.model import ReportInput
    from contend.report.plotkit import Plot
    from contend.report.printer import Printer
    from contend.store.damage import Damage

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class MetricInfo:
    name: str
    unit: str
    better: str  # higher, lower
    loop: str  # open, closed or "" where the metric is no load generator's
    primary: bool  # the victim's headline metric

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "unit": self.unit,
            "better": self.better,
            "loop": self.loop,
            "primary": self.primary,
        }


@dataclass(frozen=True, slots=True)
class Level:
    """One cell's own level of one metric: the median over its trials, with its exact sign-test interval.

    `values` are the raw points in the order of their blocks, `flagged` the positions of those whose
    surroundings were contaminated.
    """

    estimate: Estimate
    values: tuple[float, ...]
    blocks: tuple[int, ...]
    flagged: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            **self.estimate.to_json(),
            "values": list(self.values),
            "blocks": list(self.blocks),
            "flagged": list(self.flagged),
        }


@dataclass(frozen=True, slots=True)
class CellResult:
    """One treatment cell against its baseline, for one metric.

    `estimate` is a slowdown in interference and overhead studies: > 1 is worse, whatever the metric's
    direction (baseline / treatment where higher is better). In a compare study (`contend ab`) it is
    treatment / baseline as measured. `evidence` holds medians over the cell's trials, for the
    treatment and for the baseline.
    """

    cell: str
    factors: Mapping[str, str]
    metric: MetricInfo
    baseline: Level
    treatment: Level
    estimate: Estimate
    evidence: Observations
    baseline_evidence: Observations
    quotas: tuple[Quota, ...] = ()  # that held the treatment's victim back, the longest first
    quotas_unknown: str = ""  # why it cannot be told whether one did

    def to_json(self) -> dict[str, Any]:
        def flat(evidence: Observations) -> dict[str, Any]:
            return {k: {"value": v, "unit": u} for k, (v, u) in evidence.flat.items()}

        return {
            "cell": self.cell,
            "factors": dict(self.factors),
            "metric": self.metric.to_json(),
            "baseline": self.baseline.to_json(),
            "treatment": self.treatment.to_json(),
            "estimate": self.estimate.to_json(),
            "evidence": flat(self.evidence),
            "baseline_evidence": flat(self.baseline_evidence),
            **({"quotas": [q.to_json() for q in self.quotas]} if self.quotas else {}),
            **({"quotas_unknown": self.quotas_unknown} if self.quotas_unknown else {}),
        }


@dataclass(frozen=True, slots=True)
class Control:
    """The A/A control: the same cell under two labels. `alarm` when it differs from 1 beyond what one of the run's
    controls would in 5 % of runs (Bonferroni over its family), so not at every interval that just excludes 1.
    """

    factors: Mapping[str, str]
    metric: MetricInfo
    estimate: Estimate
    detectable: float  # smallest relative effect seen with 80 % power, 0.02 = 2 %
    alarm: bool

    def to_json(self) -> dict[str, Any]:
        detectable = self.detectable if self.detectable < 1e9 else None
        return {
            "factors": dict(self.factors),
            "metric": self.metric.to_json(),
            "estimate": self.estimate.to_json(),
            "detectable": detectable,
            "alarm": self.alarm,
        }


@dataclass(frozen=True, slots=True)
class Design:
    """How the numbers were made; printed with them."""

    seed: int
    blocks: int  # counted blocks that are complete
    kind: str  # "pairs" or "blocks of 8"
    estimand: str
    intervals: str
    simultaneous: int  # number of intervals that hold together
    target: float | None  # wanted relative half-width
    target_reached: Mapping[str, bool]  # by "victim metric"
    stopped: str  # target reached, budget spent, planned blocks done, interrupted
    spiky: float | None  # share of spiky runs in the pilot
    warmup: Mapping[str, int]  # trials thrown away before the first counted block, by victim

    def to_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "blocks": self.blocks,
            "kind": self.kind,
            "estimand": self.estimand,
            "intervals": self.intervals,
            "simultaneous": self.simultaneous,
            "target": self.target,
            "target_reached": dict(self.target_reached),
            "stopped": self.stopped,
            "spiky": self.spiky,
            "warmup": dict(self.warmup),
        }


@dataclass(frozen=True, slots=True)
class Layout:
    """How a study's comparisons stand in tables.

    as_measured: ratios are treatment / baseline, whose direction says nothing; else they are slowdowns, where above 1 is
    worse. rows: what a row is. column: the factor whose levels are columns. table: the factor whose levels have a table
    each. named: factors that the names of rows and columns say. beside: the word before a column's name. baseline: the name
    of the baseline's column; "" for that of the control's variant. refused: comparisons that were refused stand there too.
    every_metric: all controls are the headline's. place: table, row and column of a cell, where these do not tell;
    condition: what its treatment is, in words. control: whose figure a control is. controlled: by cells of the run, by the
    study's own means, or not at all. finds: that nothing was found is worth saying. title: of the tables. treated,
    untreated: where a time was taken, "" for the name of the baseline. forest: all of them are drawn together. points: of
    which tables every point is drawn. compared: factors in which a row's cells and its control differ,
    besides victim, neighbour and variant.
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
    place: Callable[[CellResult], tuple[str, str, str]] | None = None
    condition: Callable[[Mapping[str, str]], str] | None = None
    control: Callable[[Mapping[str, str]], str] | None = None
    controlled: Literal["cells", "own", "no"] = "cells"
    finds: bool = True
    title: str = "Slowdown of each victim"
    treated: str = "with the treatment"
    untreated: str = ""
    forest: bool = True
    points: Literal["every", "headline", "no"] = "every"
    compared: frozenset[str] = frozenset()


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
    """How a study shows its own result. Asked only where there is one."""

    def show(self, report: ReportInput, printer: Printer, *, verbose: bool) -> bool:
        """Print it, above the tables of comparisons. Whether these follow."""
        return True

    def show_below(self, report: ReportInput, printer: Printer, *, verbose: bool) -> None:
        """Print what stands under the tables of comparisons."""

    def section(self, report: ReportInput) -> Section | None:
        """Of the page."""
        return None

    def tabled(self, analysis: Analysis) -> bool:
        """True if the page has tables of comparisons."""
        return True

    def plots(self, report: ReportInput) -> list[Plot]:
        return []

    def facts(self, analysis: Analysis) -> list[tuple[str, str]] | None:
        """What stands under the answer in the place of blocks and seed; None: those."""
        return None

    def design(self, analysis: Analysis) -> str:
        """How its trials came about, where that was not by blocks of contend's."""
        return ""

    def nothing_found(self, analysis: Analysis, *, known: bool) -> str:
        """Why there is no finding. known: every headline has a verdict."""
        if not known:
            return TOO_FEW
        return "none." if analysis.layout.as_measured else "none: no victim is detectably slowed."

    def effects(self, analysis: Analysis) -> tuple[Sequence[str], list[tuple[Sequence[str], bool]]] | None:
        """A table for papers of what the cells say together: headers, and rows with whether there is a detectable effect."""
        return None

    def schema(self) -> Mapping[str, Any]:
        """JSON Schema of the study's own result, by its key in the document."""
        return {}


TOO_FEW = "none yet: too few blocks for a verdict."
PLAIN = Shown()


@dataclass(frozen=True, slots=True)
class ProbeCost:
    """What recording the run cost: CPU time of the probe, of its BPF programs where the kernel counts it, and over what."""

    samples: int
    cpu_ns: int
    bpf_ns: int
    span_ns: int  # time covered by the samples

    @property
    def share(self) -> float:
        """Of one CPU."""
        return (self.cpu_ns + self.bpf_ns) / self.span_ns if self.span_ns > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "samples": self.samples,
            "cpu_ns": self.cpu_ns,
            "bpf_ns": self.bpf_ns,
            "span_ns": self.span_ns,
            "share": self.share,
        }


@dataclass(frozen=True, slots=True)
class Analysis:
    run: str  # run id
    study: str
    title: str  # the question
    answer: str  # one sentence
    design: Design
    cells: tuple[CellResult, ...]
    controls: tuple[Control, ...]
    findings: tuple[Finding, ...]
    skipped: tuple[str, ...]  # what could not run, and why
    failed: tuple[str, ...]  # trials without a result, by message
    flags: Mapping[str, int]  # how many trials carry which flag
    trials: int
    alibis: tuple[CellAlibi, ...] = ()  # by cell, where series were recorded
    phase_alibis: tuple[PhaseAlibi, ...] = ()  # of the whole run, and of its phases
    schedules: tuple[CellSchedule, ...] = ()  # by cell, where scheduler histograms were recorded
    probe: ProbeCost | None = None  # None where nothing was recorded, or the run was killed
    key: str = ""  # under which the study's own result stands in the document
    result: Any = None  # the study's own, None of one without, and where there was too little
    layout: Layout = Layout()
    own: Shown = PLAIN  # how that is shown
    fleet: Fleets | None = None  # of a run on several hosts
    context: Context | None = None  # of a component's cost, where a storm to put it in is known
    in_context: Shown = PLAIN  # how that is shown
    damage: tuple[Damage, ...] = ()  # what of the run's files could not be read, and was left out

    @property
    def shown(self) -> tuple[Shown, ...]:
        """Its own parts of terminal and page, in their order."""
        return self.own, self.in_context

    def to_json(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "run": self.run,
            "study": self.study,
            "title": self.title,
            "answer": self.answer,
            "design": self.design.to_json(),
            "cells": [c.to_json() for c in self.cells],
            "controls": [c.to_json() for c in self.controls],
            "findings": [f.to_json() for f in self.findings],
            "skipped": list(self.skipped),
            "failed": list(self.failed),
            "flags": dict(self.flags),
            "trials": self.trials,
            "alibis": [a.to_json() for a in self.alibis],
            "phase_alibis": [a.to_json() for a in self.phase_alibis],
            **({"schedules": [s.to_json() for s in self.schedules]} if self.schedules else {}),
            "probe": None if self.probe is None else self.probe.to_json(),
            **({self.key: _json(self.result)} if self.result else {}),
            **({} if self.fleet is None else {"fleet": self.fleet.to_json()}),
            **({} if self.context is None else {"context": self.context.to_json()}),
            **({"damage": [d.to_json() for d in self.damage]} if self.damage else {}),
        }


RESERVED = frozenset({"schema_version", *(field.name for field in fields(Analysis))})
"""Under which no study's own result can stand."""


def _json(result: Any) -> Any:
    return [one.to_json() for one in result] if isinstance(result, tuple) else result.to_json()
