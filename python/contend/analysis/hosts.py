"""Analysis of a run on several hosts: each host by itself, and from five hosts on one ratio over them (METHOD: t over
hosts).

Blocks of different hosts are never pooled: that pretends that hosts do not differ, and its interval covered the truth in
80 % of experiments.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from contend.analysis.hosts_shown import ShownHosts
from contend.analysis.run import analyse_run, last_stop
from contend.document import Analysis, CellResult, Control, Design, Level, MetricInfo
from contend.document.hosts import Fleets, HostRatio, HostResult
from contend.errors import BadInput
from contend.probes.observed import Observations, Quantity
from contend.stats.estimate import Estimate
from contend.stats.hosts import LEAST_HOSTS, METHOD, over_hosts
from contend.stats.levels import level
from contend.store.cells import by_id
from contend.store.damage import note
from contend.store.directory import PLAN_FILE, Row, RunDirectory
from contend.store.host_record import Done
from contend.store.hosts import done, folder_of, missing, states_of_hosts
from contend.store.trial_rows import wrong_row
from contend.studies.model import OnHosts, Scenario
from contend.studies.registry import study_of
from contend.studies.words import verdicts
from contend.text.masking import mask
from contend.units import format_ratio

Key = tuple[str, str]  # cell, metric


class _Part(RunDirectory):
    """A host's part, with its rows as the fleet's run has them."""

    def __init__(self, path: Path, rows: list[Row]) -> None:
        super().__init__(path)
        self._rows = rows

    def each_row(self, plan: Mapping[str, Any] | None = None) -> Iterator[Row]:
        wrong = wrong_row(plan)
        for row in self._rows:
            if why := wrong(row):
                note(self.path, f"trial {row['trial']}", why)
            else:
                yield row

    def compact_rows(self, plan: Mapping[str, Any] | None = None) -> Sequence[Row]:
        return list(self.each_row(plan))


def analyse_fleet(run: RunDirectory, scenario: Scenario) -> Analysis:
    """The analysis of a run on several hosts, from what is on disk; an unfinished one too."""
    assert isinstance(scenario, OnHosts)
    by_host = _by_host(run, scenario)
    plan = run.plan(scenario.study)
    states, counts = states_of_hosts(run), done(run)
    hosts = tuple(
        _host(name, states.get(name, {}), count, by_host.get(name)) for name, count in counts.items()
    )
    at, matters = scenario.measure.level, scenario.measure.matters
    results = _results(list(by_host.values()), at, matters)
    lost = tuple(missing(run))
    able = max((r.estimate.n for r in results), default=0)
    pooled = able >= LEAST_HOSTS
    reason = "" if pooled else _too_few(able, len(hosts))
    primary = [r for r in results if r.metric.primary]
    fleet = Fleets(hosts, pooled, reason, lost)
    parts = list(by_host.values())
    return Analysis(
        run=run.id,
        study=scenario.study,
        title=mask(scenario.title or scenario.origin),
        answer=_answer(fleet, primary, matters),
        design=Design(
            seed=int(plan["seed"]),
            blocks=sum(a.design.blocks for a in parts),
            kind=", ".join(sorted({a.design.kind for a in parts})) or plan["design"],
            estimand="each host's median of within-block log ratios; over hosts their geometric mean",
            intervals=f"{100 * at:g} % over hosts, {len(primary)} together (Bonferroni): {METHOD}"
            if pooled
            else f"each host's own, in its report; none over fewer than {LEAST_HOSTS} hosts",
            simultaneous=len(primary),
            matters=matters,
            target=None,
            target_reached={},
            stopped=last_stop(run.events()),
            spiky=None,
            warmup={},
        ),
        cells=tuple(results) if pooled else (),
        controls=tuple(_controls(parts, at, matters)) if pooled else (),
        findings=(),
        skipped=lost,
        failed=tuple(f"{host}: {text}" for host, a in by_host.items() for text in a.failed),
        flags=dict(sum((Counter(a.flags) for a in parts), Counter()).most_common()),
        trials=sum(a.trials for a in parts),
        fleet=fleet,
        own=ShownHosts(fleet),
        layout=study_of(scenario).layout(None),
        planned=by_id(plan),
    )


def _by_host(run: RunDirectory, scenario: OnHosts) -> dict[str, Analysis]:
    """Each host's own analysis, of those that have any row."""

    alone: Any = scenario.model_copy(update={"hosts": None})
    rows: dict[str, list[Row]] = {}
    for row in run.rows(run.plan()):
        rows.setdefault(str(row["host"]), []).append(row)
    analyses = {}
    for host, own in sorted(rows.items()):
        folder = folder_of(run, host)
        try:
            if all((folder / name).exists() for name in (PLAN_FILE, "environment.json")):
                analyses[host] = analyse_run(_Part(folder, own), alone)
        except BadInput as error:  # its plan is damaged: the others' are not
            note(folder / PLAN_FILE, "", error.message)
        except PermissionError as error:
            note(folder, "", error.strerror or str(error))
    return analyses


def _host(name: str, state: Mapping[str, Any], count: Done, analysis: Analysis | None) -> HostResult:
    ratios = [] if analysis is None else [c for c in analysis.cells if c.metric.primary]
    return HostResult(
        host=name,
        state=str(state.get("state", "not heard of")),
        why=str(state.get("why", "")),
        done=count,
        failures=int(state.get("failures", 0)),
        losses=int(state.get("losses", 0)),
        alarm=analysis is not None and any(c.alarm for c in analysis.controls),
        clock=state.get("clock"),
        start_late_ns=state.get("start_late_ns"),
        ratios=tuple(HostRatio(_label(c), c.cell, c.metric.name, c.estimate) for c in ratios),
    )


def _results(parts: Sequence[Analysis], at: float, matters: float) -> list[CellResult]:
    """Each comparison over the hosts that have it."""
    by_cell: dict[Key, list[CellResult]] = {}
    for analysis in parts:
        for cell in analysis.cells:
            if _usable(cell.estimate):
                by_cell.setdefault((cell.cell, cell.metric.name), []).append(cell)
    together = sum(cells[0].metric.primary for cells in by_cell.values())
    return [_over(cells, at, matters, together) for cells in by_cell.values()]


def _usable(estimate: Estimate) -> bool:
    return estimate.verdict != "refused" and math.isfinite(estimate.value) and estimate.value > 0


def _over(cells: Sequence[CellResult], at: float, matters: float, together: int) -> CellResult:
    """One comparison. The interval of a headline is wide enough for all of them to hold together (Dunn 1961)."""
    first = cells[0]
    each = 1 - (1 - at) / max(1, together) if first.metric.primary else at
    return replace(
        first,
        baseline=_level([c.baseline for c in cells], at),
        treatment=_level([c.treatment for c in cells], at),
        estimate=replace(over_hosts([c.estimate for c in cells], each), level=at).judged(matters),
        evidence=_medians([c.evidence for c in cells]),
        baseline_evidence=_medians([c.baseline_evidence for c in cells]),
        decision=None,  # more blocks of the same hosts would not do it
        worked=None,
    )


def _level(levels: Sequence[Level], at: float) -> Level:
    """Level of the hosts' medians: a host is one point."""
    values = tuple(each.estimate.value for each in levels)
    return Level(level(values, levels[0].estimate.unit, level=at), values, tuple(range(len(values))), ())


def _medians(evidence: Sequence[Observations]) -> Observations:
    return Observations(_median_of([e.apart for e in evidence]), _median_of([e.neighbours for e in evidence]))


def _median_of(each: Iterable[Mapping[str, Quantity]]) -> dict[str, Quantity]:
    quantities: dict[str, list[Quantity]] = {}
    for one in each:
        for name, value in one.items():
            quantities.setdefault(name, []).append(value)
    return {
        name: (statistics.median(v for v, _ in values), values[0][1]) for name, values in quantities.items()
    }


def _controls(parts: Sequence[Analysis], at: float, matters: float) -> list[Control]:
    """The A/A controls over hosts."""
    groups: dict[tuple[tuple[tuple[str, str], ...], MetricInfo], list[Control]] = {}
    for analysis in parts:
        for control in analysis.controls:
            if _usable(control.estimate):
                groups.setdefault((tuple(sorted(control.factors.items())), control.metric), []).append(
                    control
                )
    family = max(1, sum(metric.primary for _, metric in groups))
    made = []
    for (_, metric), controls in groups.items():
        ratios = [c.estimate for c in controls]
        estimate = over_hosts(ratios, at).judged(matters)
        alarm = over_hosts(ratios, 1 - (1 - at) / family).differs
        first = controls[0]
        made.append(
            Control(first.factors, metric, estimate, estimate.detectable, alarm, first.repeats, first.values)
        )
    return made


def _too_few(able: int, hosts: int) -> str:
    of = (
        f"{able} of {hosts} hosts have"
        if able != hosts
        else f"{hosts} host{'s have' if hosts != 1 else ' has'}"
    )
    return f"{of} a figure; an interval over hosts needs {LEAST_HOSTS}: each host is reported by itself"


def _answer(fleet: Fleets, primary: Sequence[CellResult], matters: float) -> str:
    """In one sentence."""
    if not primary:
        return f"No answer yet: {fleet.reason}."
    if not fleet.pooled:
        # What a host measured without an interval, of one block say, is no answer.
        by_cell: dict[Key, list[Estimate]] = {}
        for ratio in (ratio for host in fleet.hosts for ratio in host.ratios):
            if _usable(ratio.estimate) and ratio.estimate.known:
                by_cell.setdefault((ratio.cell, ratio.metric), []).append(ratio.estimate)
        known = [cell for cell in primary if (cell.cell, cell.metric.name) in by_cell]
        if not known:
            return "No answer yet: no host has blocks enough for an interval."
        worst = max(known, key=lambda c: abs(math.log(c.estimate.value)))
        ratios = by_cell[worst.cell, worst.metric.name]
        low, high = min(e.value for e in ratios), max(e.value for e in ratios)
        span = f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}"
        few = f"each by itself; no interval over fewer than {LEAST_HOSTS}"
        return f"{_named(worst)}: {span} times on {len(ratios)} hosts, {few}."
    effects = [c for c in primary if c.estimate.differs]
    if not effects:
        rest = verdicts([c.estimate for c in primary], matters)
        return f"No effect is shown over {primary[0].estimate.n} hosts: {rest}."
    worst = max(effects, key=lambda c: abs(math.log(c.estimate.value)))
    e = worst.estimate
    return f"{_named(worst)}: {format_ratio(e.value, e.low, e.high)} times over {e.n} hosts."


def _label(cell: CellResult) -> str:
    if not _beside(cell):
        return f"{cell.factors.get('variant', cell.cell)} {cell.metric.name}"
    return f"{cell.factors['victim']} beside {cell.factors['neighbour']}"


def _named(cell: CellResult) -> str:
    if not _beside(cell):
        return f"The {cell.metric.name} of {cell.factors.get('variant', cell.cell)} against the baseline"
    return f"Slowdown of {_label(cell)}"


def _beside(cell: CellResult) -> bool:
    """True if it is of a victim beside a neighbour, and of no variants."""
    return "variant" not in cell.factors and {"victim", "neighbour"} <= cell.factors.keys()
