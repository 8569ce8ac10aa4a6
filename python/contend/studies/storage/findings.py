"""Findings on what a neighbour costs on each pool, why as far as was recorded, and what to do."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from contend.advice.finding import Evidence, Finding
from contend.document import Control
from contend.probes.observed import Observed
from contend.stats.estimate import MATTERS
from contend.studies.causes.cause import Cause, percent
from contend.studies.causes.explain import explain
from contend.studies.causes.stolen import doubt
from contend.studies.storage.result import Measured, PoolSweep, Sweep, sent_share
from contend.studies.storage.verdicts import levels, loss
from contend.units import format_value

CEILING = 0.1  # with both it does less than a tenth more
_UNSEEN = "why cannot be seen from instances: what the backend's devices and the hosts did is not recorded."
LEAST_PART = 0.2  # of a trial: with less of it under both, what they add is lost in the rest


def findings(
    sweep: Sweep, controls: Sequence[Control], repeat: str, matters: float = MATTERS
) -> tuple[Finding, ...]:
    """A finding for each pool that is slowed beyond the interval and by what matters, at its most slowed cell; the largest
    first."""
    estimates = [(m, m.iops.estimate) for m in sweep.measured]
    slowed = [m for m, estimate in estimates if estimate.value > 1 and estimate.beyond(matters)]
    alarmed = {c.factors["victim"] for c in controls if c.alarm and c.metric.primary}
    worst = [
        max((m for m in slowed if m.pool == name), key=lambda m: m.iops.estimate.value)
        for name in dict.fromkeys(m.pool for m in slowed)
    ]
    worst.sort(key=lambda m: -m.iops.estimate.value)
    return tuple(
        _finding(f"F{n}", sweep, m, repeat, alarm=m.iops.factors["victim"] in alarmed)
        for n, m in enumerate(worst, 1)
    )


def _finding(id_: str, sweep: Sweep, of: Measured, repeat: str, *, alarm: bool) -> Finding:
    pool = sweep.pool(of.pool)
    causes, words, evidence = ((), _UNSEEN, ()) if sweep.cloud else _why(pool, of, sweep.trial_s)
    sentence = (
        f"{of.pool} loses {loss(of)} of its IOPS to a neighbour at {of.point.label} ({levels(of)}): {words}"
    )
    if alarm:
        sentence += " The A/A control of this cell raised an alarm: read with care."
    kind = causes[0].resource if causes else "unexplained"
    return Finding(
        id=id_,
        kind=kind.replace(" ", "-"),
        subject=f"{of.pool} {of.point.label}",
        resource=kind,
        sentence=sentence,
        share=min(1.0, sum(c.share for c in causes)) if causes else None,
        estimate=of.iops.estimate,
        evidence=evidence,
        advice=_advice(sweep, of, causes),
        verify=f"{repeat} --set {shlex.quote('neighbour={fio: {depth: 1}}')}" if of.point.depth > 1 else "",
    )


def _why(
    pool: PoolSweep, of: Measured, trial_s: float
) -> tuple[tuple[Cause, ...], str, tuple[Evidence, ...]]:
    """Causes by this host's counters, in words, and those counters."""
    causes = tuple(explain(of.iops))
    explained = min(1.0, sum(c.share for c in causes))
    words = "; ".join(c.as_clause for c in causes) if causes else "no direct evidence says why"
    ceiling, counted = _at_ceiling(pool, of, trial_s)
    evidence = tuple(e for c in causes for e in c.evidence) + counted + _pressure(of)
    unsure = f"; {clause}" if (clause := doubt(of.iops, causes)) else ""
    return causes, f"{words}; unexplained {percent(1 - explained)}{unsure}.{ceiling}", evidence


def _at_ceiling(pool: PoolSweep, of: Measured, trial_s: float) -> tuple[str, tuple[Evidence, ...]]:
    """Tell if more requests outstanding bring more: at its ceiling a device does as much for one as for two. Its busy time
    says nothing of that, where it serves many at once.

    The counters are of whole trials, in a part of which the measured fio sends requests. Alone the device rests for the
    others; beside, the neighbour has it to itself, so what both add shows in that part only.
    """
    both, counted = (
        of.iops.evidence.value(Observed.DISK_IOPS),
        of.iops.baseline_evidence.value(Observed.DISK_IOPS),
    )
    walls = [
        evidence.value(Observed.WALL) or 0.0 for evidence in (of.iops.baseline_evidence, of.iops.evidence)
    ]
    alone_part, both_part = (sent_share(trial_s, wall) for wall in walls)
    if both is None or counted is None or counted <= 0 or both_part < LEAST_PART:
        return "", ()
    alone = counted / alone_part
    more = both / alone - 1
    rate = format_value(both, "IOPS")
    words = (
        f"The device does no more for both than for one ({rate} in all, {more:+.0%}): that is its ceiling at this load."
        if more < CEILING * both_part
        else f"The device does more for both than for one ({rate} in all, {more:+.0%}): alone it was not at its ceiling."
    )
    evidence = [
        Evidence("requests a second of the device, beside", both, "IOPS", "evidence disk_iops"),
        Evidence("the same, alone, while requests were sent", alone, "IOPS", "evidence disk_iops"),
    ]
    if most := pool.ceiling.get(of.point.block):
        size = of.point.factors["block_size"]
        evidence.append(Evidence(f"most of them in any trial at {size}", most, "IOPS", "evidence disk_iops"))
    return f" {words}", tuple(evidence)


def _pressure(of: Measured) -> tuple[Evidence, ...]:
    """Time in which tasks waited for the disk, beside and alone."""
    waits = []
    for evidence, where in ((of.iops.evidence, "beside"), (of.iops.baseline_evidence, "alone")):
        for name, what in ((Observed.PSI_IO, "host"), (Observed.OWN_PSI_IO, "measured party")):
            if name in evidence:
                value, unit = evidence[name]
                waits.append(
                    Evidence(
                        f"time in which some task of the {what} waited for I/O, {where}",
                        value,
                        unit,
                        f"evidence {name}",
                    )
                )
    return tuple(waits)


def _advice(sweep: Sweep, of: Measured, causes: Sequence[Cause]) -> str:
    calmer = [
        b.first if b.second == of.pool else b.second
        for b in sweep.between
        if (b.second == of.pool and b.suffers.verdict == "higher")
        or (b.first == of.pool and b.suffers.verdict == "lower")
    ]
    own = "volumes of another backend" if sweep.cloud else "a pool of its own"
    separate = f"give what must not be disturbed {own}"
    if calmer:
        separate += f" (of these {max(set(calmer), key=calmer.count)} suffers less)"
    if sweep.cloud:
        limited = f"limit IOPS by a QoS of the volume type (total_iops_sec), or {separate}"
        if len(set(sweep.instances.get("hosts", {}).values())) == 1:
            limited += (
                "; both instances are on one host, whose CPUs and network they share too:"
                " --set parameters.neighbour_host=different tells that apart"
            )
        return limited
    disk = any(c.resource == "disk queue" for c in causes)
    limit = "limit the neighbour's IOPS (io.max of cgroup v2, blkio.throttle of v1, a volume type's QoS)"
    return f"{limit}, or {separate}" if disk or not causes else separate
