"""Rows of a run to its Analysis: who was slowed by whom, how sure that is, and whether the control agrees."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from contend.advice.finding import Finding, set_once
from contend.advice.rules import advise
from contend.analysis import Analysis, CellResult, Control, Design, ProbeCost
from contend.comparisons import compare_all, latest, limits_changed, planned_cells, tabulate
from contend.errors import NoVerdict
from contend.masking import mask
from contend.plan import REPEATS
from contend.stats import trend
from contend.stats.estimate import Estimate
from contend.stats.stopping import Stopping
from contend.store import Row, RunDirectory
from contend.studies import (
    Compare,
    Growth,
    Imported,
    NetworkPlacement,
    Overhead,
    Scenario,
    Sensitivity,
    Storage,
    Storm,
)
from contend.studies.compare import downloads
from contend.studies.growth import result as growths
from contend.studies.growth.findings import findings as growth_findings
from contend.studies.imported import result as levels
from contend.studies.interference import crowds
from contend.studies.overhead import result as overheads
from contend.studies.overhead.findings import findings as overhead_findings
from contend.studies.overhead.practices import judge
from contend.studies.placement import claims as placement_claims
from contend.studies.placement import effects as placement_effects
from contend.studies.placement import result as placements
from contend.studies.placement.findings import findings as placement_findings
from contend.studies.sensitivity import result as sensitivities
from contend.studies.sensitivity.findings import findings as forecast_findings
from contend.studies.storage import verdicts
from contend.studies.storage.findings import findings as sweep_findings
from contend.studies.storm import result as storms
from contend.units import format_ratio

if TYPE_CHECKING:
    from contend.studies.storage.result import Sweep

_ESTIMAND = "Hodges–Lehmann median of within-block log ratios, shown as a ratio"


def analyse(
    run: RunDirectory,
    scenario: Scenario,
    *,
    rows: Sequence[Row] | None = None,
    events: Sequence[Mapping[str, Any]] | None = None,
) -> Analysis:
    """The run's analysis, from what is on disk. Works on an unfinished run; never raises for too little data.

    rows, events: of its trials and its ledger, by whoever has read them already.
    """
    plan = run.plan(scenario.study)
    if "fleet" in plan:
        from contend.fleets import analyse_fleet

        return analyse_fleet(run, scenario)
    rows = latest(run.compact_rows(plan) if rows is None else rows)
    environment = run.environment()
    kept = [r for r in rows if r["phase"] != "pilot"]
    counted = [r for r in kept if r["phase"] == "counted"]
    table = tabulate(counted)
    cells = planned_cells(plan)
    results, controls = compare_all(cells, table, counted, scenario, int(plan["seed"]), plan["design"])
    events = run.events() if events is None else events
    pilot: dict[str, Any] = next((e for e in reversed(events) if e["event"] == "pilot"), {})
    target = scenario.measure.target
    primary = [r for r in results if r.metric.primary]
    shown = [r for r in primary if r.factors.get("role", "pair") == "pair"]  # together they have one level
    complete = _complete_blocks(counted, _cells_a_block(plan) * REPEATS[plan["design"]])
    found = _storms(run, scenario, counted)
    grown = _growth(run, scenario, counted)
    repeat = str(plan.get("command", "contend run SCENARIO"))
    placed = _overhead(scenario, primary, counted, environment, int(plan["seed"]))
    stood = _placement(scenario, results, int(plan["seed"]))
    imported = None
    if isinstance(scenario, Imported):
        at = scenario.measure.level
        imported = levels.read(scenario.tool, scenario.settings, environment, cells, table, counted, at)
    forecast = _sensitivity(scenario, primary, plan)
    swept = _sweep(scenario, rows, results, plan, environment, events)
    if forecast is not None and isinstance(scenario, Sensitivity):
        findings = forecast_findings(forecast, scenario)
    else:
        advised = (
            _findings(scenario, results, controls, repeat, grown, placed, stood, int(plan["seed"]))
            if swept is None
            else sweep_findings(swept, controls, repeat)
        )
        findings = tuple(replace(found, verify=set_once(found.verify)) for found in advised)
    design = Design(
        seed=int(plan["seed"]),
        blocks=complete,
        kind=plan["design"],
        estimand=_ESTIMAND if grown is None else trend.METHOD,
        intervals=_describe_intervals(scenario.measure.level, len(shown)),
        simultaneous=len(shown),
        target=target,
        target_reached=_reached_by_victim(shown, target) if target is not None else {},
        stopped=last_stop(events),
        spiky=pilot.get("spiky"),
        warmup={"rounds": int(pilot.get("rounds", 0))} if imported is None else {},  # of which nobody knows
    )
    return Analysis(
        run=run.id,
        study=scenario.study,
        title=mask(scenario.title or scenario.origin),
        answer=("" if forecast is None else sensitivities.answer(forecast))
        or ("" if swept is None else verdicts.answer(swept))
        or _said(found, grown, placed, stood, imported, primary)
        or downloads.answer(findings)
        or answer(scenario.study, shown, complete),
        design=design,
        cells=tuple(results),
        controls=tuple(controls),
        findings=findings,
        skipped=tuple(environment.get("skipped", ())),
        failed=tuple(f"trial {r['trial']}, {r['cell']}: {r['error']}" for r in rows if r["status"] != "ok"),
        flags=dict(Counter(_flag_kind(flag) for r in kept for flag in r["flags"]).most_common()),
        trials=len(kept),
        storms=found,
        growth=grown,
        overhead=placed,
        placement=stood,
        imported=imported,
        crowds=crowds.read(primary, _cpus(environment, counted)),
        sensitivity=forecast,
        sweep=swept,
        practices=() if placed is None else judge(placed, primary, _dominant(plan)),
    )


def _cpus(environment: Mapping[str, Any], counted: Sequence[Row]) -> int:
    """How many the measured parties were given."""
    given = [len(r["honoured"]["cpus"]) for r in counted if r.get("honoured", {}).get("cpus")]
    return min(given, default=int(environment.get("cpus", 1)))


def _findings(
    scenario: Scenario,
    results: Sequence[CellResult],
    controls: Sequence[Control],
    repeat: str,
    grown: growths.Growths | None,
    placed: overheads.Overheads | None,
    stood: placements.Placements | None,
    seed: int,
) -> tuple[Finding, ...]:
    """Of the study's own kind."""
    if isinstance(scenario, Compare) and scenario.workload in downloads.WORKLOADS:
        return downloads.download_findings(scenario, results, repeat, seed)
    if grown is not None:
        return growth_findings(grown, repeat)
    if placed is not None:
        return overhead_findings(placed, [r for r in results if r.metric.primary], repeat)
    if stood is not None:
        return placement_findings(stood, repeat)
    if isinstance(scenario, Imported):
        return ()  # what it waited for was not recorded
    return advise(scenario, results, controls, repeat)


def _overhead(
    scenario: Scenario,
    primary: Sequence[CellResult],
    counted: Sequence[Row],
    environment: Mapping[str, Any],
    seed: int,
) -> overheads.Overheads | None:
    if (
        not isinstance(scenario, Overhead) or "cpus" not in environment
    ):  # of a damaged run: what is a part of them?
        return None
    emulated = {r["factors"]["platform"] for r in counted if r.get("honoured", {}).get("emulated")}
    libvirts = {
        r["factors"]["platform"]: uri for r in counted if (uri := r.get("honoured", {}).get("libvirt"))
    }
    changed = limits_changed(counted)  # not one condition: no part of any effect, also of two containers
    usable = [
        r for r in primary if r.cell not in changed and min(*r.treatment.values, *r.baseline.values) > 0
    ]
    return overheads.read(
        [overheads.measured(r) for r in usable],
        int(environment["cpus"]),
        scenario.measure.level,
        seed,
        sorted(emulated),
        dict(sorted(libvirts.items())),
    )


def _placement(scenario: Scenario, results: Sequence[CellResult], seed: int) -> placements.Placements | None:
    if not isinstance(scenario, NetworkPlacement):
        return None
    level = scenario.measure.level
    found = placement_effects.read(results, level, seed)
    return None if found is None else replace(found, claims=placement_claims.judge(found, level))


def _sensitivity(
    scenario: Scenario, primary: Sequence[CellResult], plan: Mapping[str, Any]
) -> sensitivities.Sensitivities | None:
    if not isinstance(scenario, Sensitivity):
        return None
    return sensitivities.read(primary, plan.get("held_out", ()), scenario.measure.level, int(plan["seed"]))


def _sweep(
    scenario: Scenario,
    rows: Sequence[Row],
    results: Sequence[CellResult],
    plan: Mapping[str, Any],
    environment: Mapping[str, Any],
    events: Sequence[Mapping[str, Any]],
) -> Sweep | None:
    if not isinstance(scenario, Storage):
        return None
    from contend.studies.storage.result import read

    return read(scenario, rows, results, plan, environment, events)


def _cells_a_block(plan: Mapping[str, Any]) -> int:
    """All of them, but of a sweep those that the screening chose."""
    if "screening" not in plan:
        return len(plan["cells"])
    focus = plan.get("focus") or {}
    return sum(1 for cell in plan["cells"] if cell["factors"].get("victim") in focus)


def _dominant(plan: Mapping[str, Any]) -> dict[str, str]:
    """What each workload of a plan is bound by."""
    return {name: str(workload["dominant"]) for name, workload in plan["workloads"].items()}


def _storms(run: RunDirectory, scenario: Scenario, counted: Sequence[Row]) -> storms.Storms | None:
    if not isinstance(scenario, Storm):
        return None
    traces = str(scenario.parameters.get("traces", ""))
    return storms.read(run.path, counted, scenario.measure.level, traces)


def _growth(run: RunDirectory, scenario: Scenario, counted: Sequence[Row]) -> growths.Growths | None:
    if not isinstance(scenario, Growth):
        return None
    return growths.read(run.path, counted, scenario.kinds, scenario.slo / 1e9, scenario.measure.level)


def _said(
    found: storms.Storms | None,
    grown: growths.Growths | None,
    placed: overheads.Overheads | None,
    stood: placements.Placements | None,
    imported: levels.ImportedRuns | None,
    primary: Sequence[CellResult],
) -> str:
    """The answer of a study that has one of its own, "" of the others."""
    if grown is not None:
        return growths.answer(grown)
    if placed is not None:
        return overheads.answer(primary)
    if stood is not None:
        return placements.answer(stood)
    if imported is not None:
        return " ".join(_compared(r) for r in levels.known(primary)) or levels.answer(imported)
    return "" if found is None else storms.answer(found)


def probe_cost(events: Iterable[Mapping[str, Any]], interval_ns: int) -> ProbeCost | None:
    """What the probe of every part of a run said at its end, summed; None where none did. events: of the ledger.

    >>> event = {"event": "probe-cost", "samples": 600, "cpu_ns": 240_000_000, "bpf_ns": 0}
    >>> probe_cost([event, event], 100_000_000).share
    0.004
    """
    said = [e for e in events if e["event"] == "probe-cost"]
    if not said or not interval_ns:
        return None
    # A run of an earlier version does not say what BPF took.
    samples, cpu_ns, bpf_ns = (
        sum(int(e.get(key, 0)) for e in said) for key in ("samples", "cpu_ns", "bpf_ns")
    )
    return ProbeCost(samples, cpu_ns, bpf_ns, samples * interval_ns)


def target_reached(run: RunDirectory, scenario: Scenario) -> bool:
    """Whether every headline comparison is as precise as asked. Called at looks only, never after every block."""
    plan = run.plan(scenario.study)
    rows = [r for r in latest(run.compact_rows(plan)) if r["phase"] == "counted"]
    results, _ = compare_all(
        planned_cells(plan), tabulate(rows), rows, scenario, int(plan["seed"]), plan["design"]
    )
    rule = Stopping(target=scenario.measure.target) if scenario.measure.target is not None else Stopping()
    return rule.reached(r.estimate for r in results if r.metric.primary)


def _reached_by_victim(primary: Sequence[CellResult], target: float) -> dict[str, bool]:
    """Whether every comparison of a victim is as precise as asked, by "victim metric"."""
    found: dict[str, bool] = {}
    for r in primary:
        key = f"{r.factors.get('victim', r.factors.get('variant', ''))} {r.metric.name}"
        found[key] = found.get(key, True) and reached(r.estimate, target)
    return found


def reached(estimate: Estimate, target: float | None) -> bool:
    return target is not None and estimate.relative_half_width <= target


def answer(study: str, primary: Sequence[CellResult], blocks: int) -> str:
    """The run's answer in one sentence."""
    known = [r for r in primary if r.estimate.verdict not in ("too few", "refused")]
    if not known:
        return (
            f"No answer yet: {blocks} complete block{'s' if blocks != 1 else ''} are too few for an interval."
        )
    effects = sorted(
        (r for r in known if r.estimate.verdict != "no detectable effect"),
        key=lambda r: -abs(math.log(r.estimate.value)),
    )
    if study == "compare":
        return " ".join(_compared(r) for r in known)
    slowed = [r for r in effects if r.estimate.verdict == "higher"]
    quiet = len(known) - len(slowed)
    rest = f" {quiet} of {len(known)} pairs show no detectable slowdown." if quiet else ""
    if not slowed:
        pairs = f"{len(known)} pair{'s' if len(known) != 1 else ''}"
        return f"No victim is detectably slowed by any of these neighbours ({pairs})."
    worst = slowed[0]
    ratio = _ratio(worst.estimate)
    return f"{worst.factors['victim']} suffers most: {ratio} times slower beside {worst.factors['neighbour']}.{rest}"


def _compared(result: CellResult) -> str:
    name, metric, ratio = result.factors["variant"], result.metric.name, _ratio(result.estimate)
    if result.estimate.verdict == "no detectable effect":
        return f"{name}: no detectable difference in {metric} ({ratio} times the baseline's)."
    return f"The {metric} of {name} is {ratio} times the baseline's."


def _ratio(e: Estimate) -> str:
    return format_ratio(e.value, e.low, e.high)


def _describe_intervals(at: float, together: int) -> str:
    if together > 1:
        how = "exact signed-rank with a common cut by randomisation within blocks"
        return f"{at:.0%} simultaneous over {together} headline comparisons, {how}"
    return f"{at:.0%}, exact signed-rank"


def _complete_blocks(rows: Sequence[Row], size: int) -> int:
    counts = Counter(int(r["block"]) for r in rows if r["status"] == "ok")
    return sum(1 for n in counts.values() if n >= size)


def last_stop(events: Sequence[Mapping[str, Any]]) -> str:
    """Why a run ended, by its ledger; `not finished` where it has not."""
    return next((str(e["stopped"]) for e in reversed(events) if e["event"] == "run-end"), "not finished")


def _flag_kind(flag: str) -> str:
    """A flag without its figures, to count by."""
    return flag.split(":")[0]


def require_verdict(analysis: Analysis) -> None:
    """Raise NoVerdict when no headline comparison has an interval at all."""
    primary = [c for c in analysis.cells if c.metric.primary]
    if not primary or all(c.estimate.verdict in ("too few", "refused") for c in primary):
        raise NoVerdict(
            f"{analysis.design.blocks} complete blocks are too few for an interval at this level",
            hint=f"contend run --resume {analysis.run} with a larger --budget",
        )
