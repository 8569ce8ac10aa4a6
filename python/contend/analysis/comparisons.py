"""Comparisons from the rows of a run: each cell against its baseline, with simultaneous intervals."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from contend.analysis.work import Trials, worked
from contend.document import CellResult, Control, Decision, Level, MetricInfo, Worked
from contend.platforms.quotas import Quota
from contend.platforms.standing import limits_changed
from contend.probes.observed import Observations
from contend.stats.compare import compare
from contend.stats.estimate import NO_RATIO, Estimate
from contend.stats.levels import level
from contend.stats.simultaneous import simultaneous
from contend.store.cells import PlannedCell
from contend.store.compact import medians as of_evidence
from contend.store.compact import readings
from contend.store.directory import Row
from contend.studies.model import Scenario
from contend.studies.registry import study_of
from contend.units import NS_PER_S


@dataclass
class Series:
    """All counted values of one metric in one cell, in the order of their blocks."""

    info: MetricInfo
    values: list[float] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    flagged: list[int] = field(default_factory=list)

    def level(self, at: float) -> Level:
        estimate = level(self.values, self.info.unit, level=at)
        return Level(estimate, tuple(self.values), tuple(self.blocks), tuple(self.flagged))


Table = dict[str, dict[str, Series]]  # cell id → metric → values


def tabulate(rows: Iterable[Row]) -> Table:
    table: Table = {}
    for row in sorted((r for r in rows if r["status"] == "ok"), key=lambda r: (r["block"], r["trial"])):
        metrics = table.setdefault(row["cell"], {})
        for m in row["metrics"]:
            series = metrics.get(m["name"])
            if series is None:
                info = MetricInfo(m["name"], m["unit"], m["better"], m["loop"], m["primary"])
                series = metrics[info.name] = Series(info)
            if row["flags"]:
                series.flagged.append(len(series.values))
            series.values.append(float(m["value"]))
            series.blocks.append(int(row["block"]))
    return table


@dataclass(frozen=True)
class _Pair:
    """One comparison to be made: a treatment or control cell against its baseline, for one metric."""

    cell: PlannedCell
    baseline: Series
    treatment: Series
    left: bool = (
        False  # one of the two did not stay on the CPUs that it was given, and comparing that is the question
    )
    changed: str = ""  # the limit of one of the two that somebody changed while it was measured
    part: float = 1.0  # of a CPU's time, that the treatment was given
    as_measured: bool = False  # the ratio is treatment / baseline, whichever is better

    @property
    def key(self) -> tuple[str, str]:
        return self.cell.id, self.treatment.info.name

    @property
    def no_ratio(self) -> str:
        """Why there is none; "" where there is one."""
        if self.cell.no_ratio:
            return self.cell.no_ratio
        if self.changed:
            return f"somebody else changed a limit while it was measured ({self.changed}): measure again without that"
        if self.left:
            return (
                "it left the CPUs it was given: an affinity does not hold a program that sets its own, and so does not make"
                " a smaller host"
            )
        if min(*self.baseline.values, *self.treatment.values, math.inf) <= 0:
            return f"a {self.treatment.info.name} of 0 has no ratio"
        return ""

    @property
    def inverted(self) -> bool:
        """A slowdown is > 1 when worse: baseline / treatment where higher is better."""
        return self.treatment.info.better == "higher" and not self.as_measured

    def scaled(self, series: Series) -> list[float]:
        """Values whose ratio treatment / baseline is the slowdown: of a rate, the time per unit.

        A platform that has a part of a CPU takes the longer for it on any account: what is compared is what it would
        take at that rate with the whole.
        """
        part = self.part if series is self.treatment and series.info.primary else 1.0
        return [part * (1 / v if self.inverted else v) for v in series.values]


def compare_all(
    cells: Sequence[PlannedCell],
    table: Table,
    rows: Sequence[Row],
    scenario: Scenario,
    seed: int,
    design: str,
    timed: Container[str] = (),
) -> tuple[list[CellResult], list[Control]]:
    """Compare every treatment with its baseline and every control with its double.

    rows: the counted trials. timed: cells whose trials take as long as contend tells them to.
    """
    at = scenario.measure.level
    study = study_of(scenario)
    left = study.unsound(rows)
    changed = limits_changed(rows)
    as_measured = study.layout(None).as_measured
    pairs = [
        _Pair(
            cell,
            table[cell.baseline][name],
            table[cell.id][name],
            bool(left & {cell.id, cell.baseline}),
            changed.get(cell.id) or changed.get(cell.baseline, ""),
            study.part(cell.values, table[cell.id][name].info.loop),
            as_measured,
        )
        for cell in cells
        if cell.baseline in table and cell.id in table
        for name in table[cell.id]
        if name in table[cell.baseline] and _of_use(cell, table[cell.id][name])
    ]
    treated = [p for p in pairs if not p.cell.control]
    estimates: dict[tuple[str, str], Estimate] = {}
    for family in _families(treated):
        estimates |= _simultaneous(family, at, seed, design)
    by_cell: dict[str, list[Row]] = {cell: [] for cell in table}
    for row in rows:
        if row["status"] == "ok" and row["cell"] in by_cell:
            by_cell[row["cell"]].append(row)
    evidence = {cell: medians(of) for cell, of in by_cell.items()}
    matters, block_s = scenario.measure.matters, _block_s(rows)
    judged = {p.key: _warned(estimates[p.key].judged(matters), p.cell.warnings) for p in treated}
    results = [
        CellResult(
            cell=p.cell.id,
            factors=p.cell.factors,
            metric=p.treatment.info,
            baseline=p.baseline.level(at),
            treatment=p.treatment.level(at),
            estimate=judged[p.key],
            evidence=evidence[p.cell.id],
            baseline_evidence=evidence[p.cell.baseline],
            **_quotas(by_cell[p.cell.id]),
            decision=_decision(judged[p.key], matters, block_s),
            values=p.cell.values,
            worked=_worked(p, by_cell, timed)
            if p.treatment.info.primary and judged[p.key].value > 1
            else None,
        )
        for p in treated
    ]
    controls = [
        c
        for family in _families([p for p in pairs if p.cell.control])
        for c in _controls(family, at, matters)
    ]
    return results, controls


def _worked(p: _Pair, by_cell: Mapping[str, Sequence[Row]], timed: Container[str]) -> Worked | None:
    """Costs of a unit of work on both sides."""
    if p.no_ratio:
        return None
    beside = Trials(by_cell[p.cell.id], p.scaled(p.treatment), p.treatment.info.name)
    alone = Trials(by_cell[p.cell.baseline], p.scaled(p.baseline), p.baseline.info.name)
    return worked(beside, alone, timed=p.cell.id in timed or p.part != 1.0)


def _block_s(rows: Sequence[Row]) -> float | None:
    """Seconds from the beginning of a block to that of the next, their median: a run that was left for a day and taken up
    again has one that is longer. None where that is not on record, as of an imported run.

    rows: the counted trials.
    """
    begins: dict[int, int] = {}
    ends: dict[int, int] = {}
    for row in rows:
        if row.get("started_ns") is None or row.get("ended_ns") is None:
            continue
        block, began_ns, ended_ns = int(row["block"]), int(row["started_ns"]), int(row["ended_ns"])
        begins[block] = min(begins.get(block, began_ns), began_ns)
        ends[block] = max(ends.get(block, ended_ns), ended_ns)
    if not begins:
        return None
    order = sorted(begins)
    spans = [begins[later] - begins[block] for block, later in itertools.pairwise(order)]
    if not spans:
        spans = [ends[order[0]] - begins[order[0]]]
    span_ns = statistics.median(spans)
    return span_ns / NS_PER_S if span_ns > 0 else None


def _decision(estimate: Estimate, matters: float, block_s: float | None) -> Decision | None:
    blocks = estimate.decided_after(matters)
    return None if blocks is None else Decision(blocks, None if block_s is None else blocks * block_s)


def _warned(estimate: Estimate, warnings: tuple[str, ...]) -> Estimate:
    return replace(estimate, warnings=(*estimate.warnings, *warnings)) if warnings else estimate


def _of_use(cell: PlannedCell, series: Series) -> bool:
    """True but for the lesser metrics of a forecast's curves and probes: those of hundreds of cells say nothing."""
    return series.info.primary or cell.factors.get("role", "pair") == "pair"


def _quotas(rows: Sequence[Row]) -> dict[str, Any]:
    """The quotas that held a cell's victim back, by group, and why that is unknown of some of its trials."""
    seen: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        for quota in row.get("quotas", ()):
            seen.setdefault((quota["group"], quota["whose"]), []).append(quota)
    quotas = [
        Quota(
            group,
            _median(math.nan if q["cpus"] is None else q["cpus"] for q in of),
            whose,  # type: ignore[arg-type]
            # Of trials in which it did not: 0.
            _median([q["throttled_s"] for q in of] + [0.0] * (len(rows) - len(of))),
            round(_median([q["periods"] for q in of] + [0] * (len(rows) - len(of)))),
        )
        for (group, whose), of in seen.items()
    ]
    quotas.sort(key=lambda quota: (-quota.throttled_s, -len(seen[quota.group, quota.whose])))
    unknown = next((str(row["quotas_unknown"]) for row in rows if row.get("quotas_unknown")), "")
    return {"quotas": tuple(quotas), "quotas_unknown": unknown}


def _median(values: Iterable[float]) -> float:
    return statistics.median(list(values))


def _families(pairs: Sequence[_Pair]) -> list[list[_Pair]]:
    """Comparisons whose intervals hold together: all headline metrics; then, by victim, its other metrics."""
    families: dict[str, list[_Pair]] = {}
    for p in pairs:
        key = "headline" if p.treatment.info.primary else p.cell.baseline
        role = p.cell.factors.get("role", "pair")  # the curves of a forecast: those of each victim together
        if key == "headline" and role != "pair":
            key = f"{role} of {p.cell.baseline}"
        families.setdefault(key, []).append(p)
    return list(families.values())


def _controls(family: Sequence[_Pair], at: float, matters: float) -> Iterator[Control]:
    """Controls of one family. Each shows its own interval; the alarm is the family's.

    With an alarm for every interval that excludes 1, one run in seven with three victims would raise one for nothing:
    so an alarm needs the interval at the level that Bonferroni gives each to exclude 1.
    """
    each = 1 - (1 - at) / max(1, len(family))
    for p in family:
        estimate = _one(p, at).judged(matters)
        alarm = _one(p, each).differs
        yield Control(
            p.cell.factors,
            p.treatment.info,
            estimate,
            estimate.detectable,
            alarm,
            p.cell.repeats,
            p.cell.values,
        )


def _one(p: _Pair, at: float) -> Estimate:
    if p.no_ratio:
        return _no_ratio(p, at)
    blocks = (p.baseline.blocks, p.treatment.blocks)
    return compare(p.scaled(p.baseline), p.scaled(p.treatment), blocks=blocks, level=at)


def _no_ratio(p: _Pair, at: float) -> Estimate:
    n = min(len(p.baseline.values), len(p.treatment.values))
    return Estimate(math.nan, 0.0, math.inf, "ratio", n, at, NO_RATIO, "refused", (p.no_ratio,))


def _simultaneous(
    family: Sequence[_Pair], at: float, seed: int, design: str
) -> dict[tuple[str, str], Estimate]:
    estimates = {p.key: _no_ratio(p, at) for p in family if p.no_ratio}
    able = [p for p in family if not p.no_ratio]
    if design == "pairs" and len(able) > 1:
        blocks = sorted({b for p in able for b in (*p.baseline.blocks, *p.treatment.blocks)})
        arms = {p.key: (_by_block(p, p.baseline, blocks), _by_block(p, p.treatment, blocks)) for p in able}
        return estimates | simultaneous(arms, level=at, seed=seed)
    # Bonferroni (Dunn 1961): with several values a block there is no common set of signs to randomise.
    each = 1 - (1 - at) / max(1, len(able))
    together = f"; {len(able)} intervals hold together (Bonferroni)" if len(able) > 1 else ""
    for p in able:
        estimate = _one(p, each)
        estimates[p.key] = replace(estimate, level=at, method=estimate.method + together)
    return estimates


def _by_block(p: _Pair, series: Series, blocks: Sequence[int]) -> list[float]:
    """The series' value in every block, NaN where it has none."""
    values = dict(zip(series.blocks, p.scaled(series), strict=True))
    return [values.get(block, math.nan) for block in blocks]


def medians(rows: Iterable[Row]) -> Observations:
    """Medians over a cell's trials of each piece of evidence, and of the work that each neighbour did."""
    rows = list(rows)
    same = of_evidence(rows)
    seen: list[tuple[str, float, str]] = []
    burnt: list[tuple[str, float, str]] = []
    for row in rows:
        if same is None:
            seen.extend(readings(row))
        burnt.extend((n["name"], float(n["during"]), n["unit"]) for n in row.get("neighbours", ()))
    return Observations(_by_name(seen) if same is None else same, _by_name(burnt))


def _by_name(readings: Iterable[tuple[str, float, str]]) -> dict[str, tuple[float, str]]:
    """The median of each name's values, in the unit that stands last."""
    by_name: dict[str, list[float]] = {}
    units: dict[str, str] = {}
    for name, value, unit in readings:
        by_name.setdefault(name, []).append(value)
        units[name] = unit
    return {name: (statistics.median(values), units[name]) for name, values in by_name.items()}
