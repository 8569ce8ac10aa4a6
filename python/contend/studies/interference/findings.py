"""Findings of who slows whom: what each victim waited for, and what to do about it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from contend.advice.finding import Evidence, Expected, Finding
from contend.document import CellResult, Control
from contend.platforms.quotas import quota_name
from contend.probes.observed import Observed
from contend.store.cells import Application
from contend.studies.causes.cause import Cause, observed, percent, shares
from contend.studies.causes.explain import explain
from contend.studies.causes.stolen import doubt
from contend.studies.interference.model import Interference
from contend.units import format_times, format_value


def findings(
    scenario: Interference, results: Sequence[CellResult], controls: Sequence[Control], repeat: str
) -> tuple[Finding, ...]:
    """Findings for every victim whose headline metric is slowed beyond its interval and by what matters, the largest first.

    `repeat` is the command line that repeats the run; what verifies a finding is that and one thing changed.

    A victim whose A/A control raised an alarm gets its finding with the warning in its sentence.
    """
    matters = scenario.measure.matters
    slowed = [r for r in results if r.metric.primary and r.estimate.value > 1 and r.estimate.beyond(matters)]
    alarmed = {c.factors["victim"] for c in controls if c.alarm and c.metric.primary}
    made = []
    for number, result in enumerate(sorted(slowed, key=lambda r: -r.estimate.value), start=1):
        finding = _finding(f"F{number}", scenario, result, repeat, alarm=result.factors["victim"] in alarmed)
        together = jointly(result, results)
        made.append(replace(finding, sentence=f"{finding.sentence} {together}") if together else finding)
    return tuple(made)


JOINT = 0.10
"""Of a slowdown beside two: what is less belongs to the one or the other."""


def jointly(result: CellResult, results: Sequence[CellResult]) -> str:
    """A sentence on what removing one of two neighbours gives, where each was measured alone too and effects do not add up;
    else "".

    Beside both the slowdown is S, beside each s and t: removing the first leaves t, so that S - t of S - 1 are its own, and
    s + t - S - 1 are there with either of them. Where S is no more than t, nothing is the first's own.
    """
    beside = result.values.neighbours
    if len(beside) != 2:
        return ""
    same = [
        one
        for one in results
        if one.metric == result.metric and one.factors["victim"] == result.factors["victim"]
    ]
    alone = [next((one for one in same if one.values.neighbours == (each,)), None) for each in beside]
    first, second = alone
    if first is None or second is None:
        return ""
    both = result.estimate
    joint, *bounds = (
        (s + t - of - 1) / (of - 1)
        for s, t, of in (
            (first.estimate.value, second.estimate.value, both.value),
            (first.estimate.low, second.estimate.low, both.high),
            (first.estimate.high, second.estimate.high, max(both.low, 1.001)),
        )
    )
    if not math.isfinite(joint) or abs(joint) <= JOINT or bounds[0] <= 0 <= bounds[1]:
        return ""
    names = [one.factors["neighbour"] for one in (first, second)]
    left = [format_times(of.estimate.value, of.estimate.low, of.estimate.high) for of in (second, first)]
    # To remove one that leaves more than there was took nothing away: the whole is there with the other.
    own = [max(0.0, both.value - rest.estimate.value) for rest in (second, first)]
    share = 1 - sum(own) / (both.value - 1)
    what = "is there with either of them" if joint > 0 else "comes only where both are there"
    text = f"Without {names[0]} it is {left[0]}, without {names[1]} {left[1]}: {percent(min(1.0, abs(share)))} of it {what}"
    in_vain = [
        name for name, rest in zip(names, (second, first), strict=True) if rest.estimate.value > both.value
    ]
    if in_vain:
        text += (
            f"; to remove {in_vain[0] if len(in_vain) == 1 else 'either of them'} alone is not shown to help"
        )
    return f"{text}."


def _finding(id_: str, scenario: Interference, result: CellResult, repeat: str, *, alarm: bool) -> Finding:
    victim, neighbour = result.factors["victim"], result.factors["neighbour"]
    causes = explain(result)
    explained = min(1.0, sum(c.share for c in causes))
    ratio = format_times(result.estimate.value, result.estimate.low, result.estimate.high)
    lead = causes[0] if causes else None
    sentence = f"{victim} is slowed {ratio} beside {neighbour}: "
    sentence += "; ".join(c.words for c in causes) if causes else "no direct evidence says why"
    sentence += f"; unexplained {percent(1 - explained)}"
    sentence += f"; {unsure}." if (unsure := doubt(result, causes)) else "."
    if alarm:
        sentence += " The A/A control of this victim raised an alarm: read with care."
    kind = lead.resource if lead else "unexplained"
    remedy = _remedy(kind, scenario, result, repeat)
    evidence = tuple(e for c in causes for e in c.evidence) + _burning(result)
    return Finding(
        id=id_,
        kind=kind.replace(" ", "-"),
        subject=victim,
        resource=kind,
        sentence=sentence,
        share=explained if causes else None,
        estimate=result.estimate,
        evidence=evidence,
        advice=remedy.advice,
        verify=remedy.verify,
        causes=shares(causes),
        expected=_expected(result, causes, remedy),
    )


def _burning(result: CellResult) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(f"neighbour {name} burnt meanwhile", value, unit, f"cell {result.cell}")
        for name, (value, unit) in result.evidence.neighbours.items()
    )


@dataclass(frozen=True, slots=True)
class Remedy:
    """Advice, and the command that measures it done. removes: resources that are no cause any more then; leaves: the
    slowdown that the remedy itself comes with. A command that only measures again removes none."""

    advice: str
    verify: str
    removes: tuple[str, ...] = ()
    leaves: float = 1.0


_OWN_CPUS = ("run queue", "dearer execution")


def _expected(result: CellResult, causes: Sequence[Cause], remedy: Remedy) -> Expected | None:
    """The slowdown without what a remedy removes; None where it removes nothing."""
    if not remedy.removes:
        return None
    removed = [cause for cause in causes if cause.resource in remedy.removes]
    left = max(0.0, 1 - sum(cause.share for cause in removed))
    within = max(SHARE_WITHIN, sum(cause.within or 0.0 for cause in removed))
    slowed = result.estimate
    value, low, high = (
        min(of, max(0.0, remedy.leaves + part * (of - 1)))
        for of, part in (
            (slowed.value, left),
            (slowed.low, left - within),
            (slowed.high, left + within),
        )
    )
    verdict = "higher" if low > 1 else "undecided"
    estimate = replace(slowed, value=value, low=low, high=high, method=REMAINS, verdict=verdict)
    return Expected(tuple(one.workload for one in result.values.neighbours), estimate)


SHARE_WITHIN = 0.10
"""So near a cause's share is meant to be to what its removal takes away; docs/results/planted-causes.md: how often it is."""
REMAINS = f"the slowdown without its causes' shares, give or take their intervals (at least {percent(SHARE_WITHIN)})"


def _remedy(kind: str, scenario: Interference, result: CellResult, repeat: str) -> Remedy:
    victim, neighbour = result.factors["victim"], result.factors["neighbour"]
    base = narrowed(repeat, scenario, result.values.victim)
    if kind in ("run queue", "dearer execution") and scenario.placement == "same-cpu":
        return Remedy(
            f"give {victim} CPUs of its own (cpuset.cpus, or CPUAffinity= of its unit), or lower {neighbour}'s cpu.weight",
            f"{base} --set placement=own-cores",
            _OWN_CPUS,
        )
    if (
        kind == "run queue"
        and result.values.victim is not None
        and result.values.victim.workload in _RUNS_ALREADY
    ):
        return Remedy(
            f"keep {neighbour} off its CPUs (cpuset.cpus, or CPUAffinity= of its unit), or lower its cpu.weight",
            base,
        )
    if kind == "run queue" and scenario.placement == "same-host":
        return Remedy(
            f"the host has too few CPUs for both: pin them apart, move {neighbour}, or cap it with cpu.max",
            f"{base} --set placement=own-cores",
            _OWN_CPUS,
        )
    if kind == "run queue" and scenario.placement == "own-cores":
        return Remedy(
            f"{neighbour} had other CPUs: somebody else had {victim}'s. `contend watch` names them; measure again when they"
            " are quiet",
            base,
        )
    if kind == "throttling":
        lead = result.quotas[0] if result.quotas else None
        if lead is not None and lead.whose != "own":
            return Remedy(f"raise or remove the {quota_name(lead)} (cpu.max; v1: cpu.cfs_quota_us)", base)
        return Remedy(
            f"raise or remove {victim}'s CPU quota (cpu.max), or pin it instead",
            f"{base} --set platform.cpus=null",
            ("throttling",),
        )
    if kind == "hypervisor":
        return Remedy("the hypervisor runs others on these CPUs: ask for dedicated ones or another host", "")
    if kind == "disk queue":
        beside = result.values.neighbours
        name = beside[0].workload if beside else neighbour
        iops = max(100, round(observed(result.evidence, Observed.DISK_IOPS) * DISK_PART, -2))
        return Remedy(
            f"limit {neighbour} with io.max (cgroup v2) or blkio.throttle (v1), here to"
            f" {format_value(iops, 'IOPS')}, which should leave about 1.1; or give it another device",
            f"{base} --set neighbours.{name}.limit.iops={iops:.0f}",
            ("disk queue",),
            leaves=1 / (1 - DISK_PART),
        )
    if (advice := _WAITED.get(kind)) is not None:
        return Remedy(advice.format(victim=victim, neighbour=neighbour), base)
    if scenario.placement != "own-cores":
        return Remedy(
            f"separate them step by step: if {victim} is still slowed on CPUs of its own,"
            " a shared cache, memory bandwidth or device remains",
            f"{base} --set placement=own-cores",
        )
    return Remedy(
        f"compare placements on hosts that share less, or measure {victim} under single-resource neighbours",
        f"{base} --set neighbours=stress-cache,stress-memory",
    )


DISK_PART = 0.1
"""Of what a device does, that a limit leaves to a neighbour: the victim has the rest, C - C/10 of C."""

_EXPORTED = {"exported-time", "exported-count", "exported-value"}
_RUNS_ALREADY = {"service", "process", "logged-time", "logged-count"} | _EXPORTED
"""Workloads that contend does not start, and so cannot place."""

_WAITED: Mapping[str, str] = {
    "file lock": "find who holds it (lslocks), and hold it for less, or lock parts",
    "fsync": "put {victim} on a file system, and a device, of its own: a journal commits what all have written; or limit"
    " {neighbour} with io.max",
    "writeback": "limit what {neighbour} may write (io.max, memory.max), or let the kernel begin to write sooner"
    " (vm.dirty_background_bytes)",
    "page cache": "keep memory for {victim} (memory.low), or limit {neighbour}'s (memory.max)",
    "page faults": "keep memory for {victim} (memory.low), or limit {neighbour}'s (memory.max)",
    "threads of one core": "give {victim} whole cores: keep {neighbour} off the other threads of its CPUs (cpuset.cpus)",
    "cache": "give {victim} a part of the last-level cache of its own, or {neighbour} less (L3 in resctrl's schemata)",
    "memory bandwidth": "limit what {neighbour} moves (MB in resctrl's schemata), or put it on another node",
    "network send": "look at what limits its network: a queue of the kernel (tc -s qdisc), or who receives",
    "peers": "measure who it waits for as a victim: {neighbour} slows that, or the way there",
}
"""By what the victim waited for."""


def narrowed(repeat: str, scenario: Interference, victim: Application | None) -> str:
    """The command that repeats the run for one victim only, where one more --set can say that."""
    if victim is None or victim.parameters or victim.limits:
        return repeat
    plain = all(r.workload != victim.workload or not (r.parameters or r.command) for r in scenario.victims)
    if len(scenario.victims) > 1 and plain:
        return f"{repeat} --set victims={shlex.quote(victim.workload)}"
    return repeat
