"""The analysis of one host's rows: who was slowed by whom, how sure that is, and whether the control agrees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from contend.advice.finding import set_once
from contend.analysis.comparisons import compare_all, tabulate
from contend.document import PLAIN, Analysis, CellResult, Design, ProbeCost
from contend.stats.estimate import Estimate
from contend.stats.stopping import Stopping
from contend.store.cells import planned_cells, timed
from contend.store.directory import Row, RunDirectory
from contend.store.old_labels import flag_kind
from contend.store.rows import latest
from contend.studies.base import OnRecord
from contend.studies.model import Scenario
from contend.studies.plan import REPEATS
from contend.studies.registry import study_of
from contend.studies.words import known, no_answer
from contend.text.masking import mask


def analyse_run(
    run: RunDirectory,
    scenario: Scenario,
    *,
    rows: Sequence[Row] | None = None,
    events: Sequence[Mapping[str, Any]] | None = None,
) -> Analysis:
    """Analyse one host's part of a run from its files. Works on an unfinished run; never raises for too little data.

    rows, events: of its trials and its ledger, by whoever has read them already.
    """
    plan = run.plan(scenario.study)
    study = study_of(scenario)
    rows = latest(run.compact_rows(plan) if rows is None else rows)
    kept = [r for r in rows if r["phase"] != "pilot"]
    counted = [r for r in kept if r["phase"] == "counted"]
    table, cells, seed = tabulate(counted), planned_cells(plan), int(plan["seed"])
    results, controls = compare_all(cells, table, counted, scenario, seed, plan["design"], timed(plan))
    record = OnRecord(
        path=run.path,
        plan=plan,
        environment=run.environment(),
        events=run.events() if events is None else events,
        cells=cells,
        table=table,
        rows=rows,
        counted=counted,
        results=results,
        controls=controls,
        blocks=_complete_blocks(counted, _cells_a_block(plan) * REPEATS[plan["design"]]),
    )
    pilot: dict[str, Any] = next((e for e in reversed(record.events) if e["event"] == "pilot"), {})
    target, shown = scenario.measure.target, record.shown
    result = study.read(scenario, record)
    findings = tuple(
        replace(finding, verify=set_once(finding.verify))
        for finding in study.findings(scenario, record, result)
    )
    design = Design(
        seed=seed,
        blocks=record.blocks,
        kind=plan["design"],
        estimand=study.estimand(result),
        intervals=_describe_intervals(scenario.measure.level, [r.estimate for r in shown]),
        simultaneous=len(shown),
        matters=scenario.measure.matters,
        target=target,
        target_reached=_reached_by_victim(shown, target) if target is not None else {},
        stopped=last_stop(record.events),
        spiky=pilot.get("spiky"),
        warmup={"rounds": int(pilot.get("rounds", 0))} if study.runs else {},  # else nobody knows
    )
    return Analysis(
        run=run.id,
        study=scenario.study,
        title=mask(scenario.title or scenario.origin),
        answer=study.answer(scenario, record, result, findings)
        or ("" if known(shown) else no_answer(record.blocks)),
        design=design,
        cells=tuple(results),
        controls=tuple(controls),
        findings=findings,
        skipped=tuple(record.environment.get("skipped", ())),
        failed=tuple(f"trial {r['trial']}, {r['cell']}: {r['error']}" for r in rows if r["status"] != "ok"),
        flags=dict(Counter(flag_kind(flag) for r in kept for flag in r["flags"]).most_common()),
        trials=len(kept),
        key=study.key or scenario.study,
        result=result,
        layout=study.layout(result),
        own=study if result else PLAIN,
        planned={cell.id: cell for cell in cells},
    )


def _cells_a_block(plan: Mapping[str, Any]) -> int:
    """All of them, but of a sweep those that the screening chose."""
    if "screening" not in plan:
        return len(plan["cells"])
    focus = plan.get("focus") or {}
    return sum(1 for cell in plan["cells"] if cell["factors"].get("victim") in focus)


def probe_cost(events: Iterable[Mapping[str, Any]], interval_ns: int) -> ProbeCost | None:
    """The summed cost of all probes, as they reported at their ends; None where none did. events: of the ledger.

    >>> event = {"event": "probe-cost", "samples": 600, "cpu_ns": 240_000_000, "bpf_ns": 0}
    >>> probe_cost([event, event], 100_000_000).share
    0.004
    """
    costs = [e for e in events if e["event"] == "probe-cost"]
    if not costs or not interval_ns:
        return None
    # A run of an earlier version does not say what BPF took.
    samples, cpu_ns, bpf_ns = (
        sum(int(e.get(key, 0)) for e in costs) for key in ("samples", "cpu_ns", "bpf_ns")
    )
    return ProbeCost(samples, cpu_ns, bpf_ns, samples * interval_ns)


def target_reached(run: RunDirectory, scenario: Scenario) -> bool:
    """True if every headline comparison is as precise as requested. Call it at planned looks only, never after every
    block."""
    rule = Stopping(target=scenario.measure.target) if scenario.measure.target is not None else Stopping()
    return rule.reached(r.estimate for r in headline_comparisons(run, scenario))


def headline_comparisons(run: RunDirectory, scenario: Scenario) -> list[CellResult]:
    """The comparisons of headline metrics as they stand. What is shown of them while a run goes on decides nothing: a run
    stops by its own rule."""
    plan = run.plan(scenario.study)
    rows = [r for r in latest(run.compact_rows(plan)) if r["phase"] == "counted"]
    results, _ = compare_all(
        planned_cells(plan), tabulate(rows), rows, scenario, int(plan["seed"]), plan["design"], timed(plan)
    )
    return [r for r in results if r.metric.primary]


def _reached_by_victim(primary: Sequence[CellResult], target: float) -> dict[str, bool]:
    """True if every comparison of a victim is as precise as asked, by "victim metric"."""
    on_target: dict[str, bool] = {}
    for r in primary:
        key = f"{r.factors.get('victim', r.factors.get('variant', ''))} {r.metric.name}"
        on_target[key] = on_target.get(key, True) and reached(r.estimate, target)
    return on_target


def reached(estimate: Estimate, target: float | None) -> bool:
    return target is not None and estimate.relative_half_width <= target


def _describe_intervals(at: float, shown: Sequence[Estimate]) -> str:
    """The level, and by which methods the intervals were made: these depend on the design and the number of blocks."""
    together = f" simultaneous over {len(shown)} headline comparisons" if len(shown) > 1 else ""
    methods = dict.fromkeys(of.method for of in shown if of.verdict != "refused")
    return ": ".join([f"{100 * at:g} %{together}", *(["; ".join(methods)] if methods else [])])


def _complete_blocks(rows: Sequence[Row], size: int) -> int:
    counts = Counter(int(r["block"]) for r in rows if r["status"] == "ok")
    return sum(1 for n in counts.values() if n >= size)


def last_stop(events: Sequence[Mapping[str, Any]]) -> str:
    """The reason why a run ended, from its ledger; `not finished` where it has not."""
    return next((str(e["stopped"]) for e in reversed(events) if e["event"] == "run-end"), "not finished")
