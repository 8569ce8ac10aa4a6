"""Causes of a slowdown: from estimates and evidence to what a slowed victim waited for, and what to do about it.

Direct evidence comes first: time the victim's tasks waited for a CPU, were throttled, lost to the hypervisor,
or its requests waited in the disk's queue. What it explains is stated as a share of the slowdown; the rest is
said to be unexplained. Cache or memory bandwidth is never named without positive evidence: that the same work
took more CPU time is reported as just that.

What the victim waited for when it was off the CPU is its own account, by looks at the system calls of its tasks: a device
that is slower for all explains nothing of a victim that waits for a file's lock. Where nobody could look (a guest, another
user's processes, a run of an earlier version), the growth of the device's requests has to do.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from contend.document import CellResult, Worked
from contend.probes.observed import Observations, Observed
from contend.stats.jackknife import half_width
from contend.studies.causes.cause import Cause, capped, observed, pair, timed
from contend.studies.causes.dearer import dearer_causes
from contend.studies.causes.lost import Lost, is_percentile
from contend.studies.causes.quota import held_of, of_quota
from contend.studies.causes.stolen import Stolen, doubt
from contend.studies.causes.waits import KERNEL_WORKS, own_waits, with_kernel, with_waking
from contend.units import format_value


def explain(result: CellResult) -> list[Cause]:
    """Causes of a slowdown with their shares, largest first; shares are capped so that they never sum to more than one.

    Everything is per unit of work, whose time is that of the whole run of fixed work, or of a part of a timed one. Of a
    waiting time that was w alone and is w' of a unit that took M and takes M', (w' - w) / (M' - M) is explained.
    """
    now, before = result.evidence, result.baseline_evidence
    if result.estimate.value <= 1 or not observed(now, Observed.WALL) or not observed(before, Observed.WALL):
        return []
    lost = Lost.of(result)
    if lost is None:
        return []
    causes = _causes(result, lost)
    return capped(causes, lost.what, _sure(result, {cause.resource for cause in causes}))


def _sure(result: CellResult, resources: Iterable[str]) -> dict[str, float]:
    """Half of the interval of each of these causes' shares, at the level of the slowdown's: by what is found without each
    part of the run's blocks. Where no time is lost without one of them, a share may be any.
    """
    if result.worked is None or not result.worked.without:
        return {}
    without = [_shares(replace(result, worked=Worked(*both))) for both in result.worked.without]
    return {
        resource: half_width(
            [math.inf if of is None else of.get(resource, 0.0) for of in without], result.estimate.level
        )
        for resource in resources
    }


def _shares(result: CellResult) -> dict[str, float] | None:
    """Shares by resource, as they are found; None where no time is lost."""
    lost = Lost.of(result)
    if lost is None:
        return None
    shares: defaultdict[str, float] = defaultdict(float)
    for cause in _causes(result, lost):
        shares[cause.resource] += cause.share
    return shares


def _causes(result: CellResult, lost: Lost) -> list[Cause]:
    """Causes with their shares as the evidence has them, the most direct first: together they may be more than all."""
    now, before = result.evidence, result.baseline_evidence
    causes: list[Cause] = []
    waits = Observed.OWN_PSI_CPU if Observed.OWN_PSI_CPU in now else Observed.RUN_DELAY
    throttled = lost.share(lambda seen: held_of(seen, waits))
    waited = lost.share(lambda seen: max(0.0, observed(seen, waits) - held_of(seen, waits)))
    held = held_of(now, waits)
    looked = Observed.LOOKS in now and Observed.LOOKS in before
    own = list(own_waits(result, lost)) if looked else []
    lead = max(own, key=lambda cause: cause.share, default=None)
    # No more than the wait itself: who wakes more often than it was seen to wait does so for another reason.
    if lead is not None and 0 < (waking := lost.waking(waited)) <= lead.share:
        own[own.index(lead)] = with_waking(lead, waking, result)
        waited -= waking
    if throttled > 0:
        causes.append(of_quota(throttled, held, result))
    if waited > 0:
        words = ""
        if result.quotas_unknown:
            words = f"; whether a CPU quota held it back is unknown: {result.quotas_unknown}"
        elif throttled <= 0 and Observed.THROTTLED in now:
            words = "; not throttled"
        also = (Observed.RUN_DELAY, Observed.INVOLUNTARY_SWITCHES)
        causes.append(
            timed(
                "run queue",
                waited,
                waits,
                "waited for the CPU",
                now,
                before,
                words,
                also,
                seconds=observed(now, waits) - held,
            )
        )
    if (taken := Stolen.of(lost).cause(result)) is not None:
        causes.append(taken)
    causes += own
    if not looked and not is_percentile(result) and (disk := _disk(result)) is not None:
        causes.append(disk)
    if Observed.CPU in now and Observed.CPU in before:
        dearer = lost.share_of(Observed.CPU) - lost.reading
        alone = observed(lost.alone.seen, Observed.CPU)
        lead = max(causes, key=lambda cause: cause.share, default=None)
        # No more than the wait itself: beside a small one, work that grew has a cause that nobody saw.
        if (
            lead is not None
            and lead.resource in KERNEL_WORKS
            and lost.is_kernel_s
            and 0 < dearer <= lead.share
        ):
            causes[causes.index(lead)] = with_kernel(lead, dearer, result)
        elif dearer > 0 and alone > 0:
            causes += dearer_causes(dearer, dearer * lost.time / alone, lost, result)
    return causes


def clauses(result: CellResult, causes: Sequence[Cause]) -> str:
    """The causes of a result as clauses with a subject, then what may be one and is not known; "" for none."""
    every = [*(cause.as_clause for cause in causes), doubt(result, causes)]
    return "; ".join(clause for clause in every if clause)


def _disk(result: CellResult) -> Cause | None:
    """The disk's queue: requests wait longer in it than alone. Busy time is no evidence on a device with many queues."""
    now, before = result.evidence, result.baseline_evidence
    if (
        not observed(now, Observed.DISK_AWAIT)
        or not observed(before, Observed.DISK_AWAIT)
        or observed(before, Observed.DISK_IOPS) < 1
    ):
        return None
    if not (observed(before, Observed.OWN_PSI_IO) > 0 or _uses_disk(result)):
        return None
    # A victim whose requests each take longer by this factor does so much less with the same number in flight, for the part
    # of its time in which it waited for them: alone, no more than in which anybody's were in flight.
    growth = (observed(now, Observed.DISK_AWAIT) / observed(before, Observed.DISK_AWAIT) - 1) / (
        result.estimate.value - 1
    )
    growth *= min(1.0, _in_flight(before))
    if growth <= 0:
        return None
    takes, took = (format_value(observed(e, Observed.DISK_AWAIT) / 1e3, "s") for e in (now, before))
    rate, alone = (format_value(observed(e, Observed.DISK_IOPS), "IOPS") for e in (now, before))
    words = f"a disk request takes {takes} instead of {took} at {rate} in all ({alone} alone)"
    evidence = pair(Observed.DISK_AWAIT, now, before, "time of a request in the disk's queue and service")
    evidence += pair(Observed.DISK_IOPS, now, before, "requests a second of the whole device") + pair(
        Observed.DISK_QUEUE, now, before, "mean requests in the queue"
    )
    return Cause("disk queue", growth, words, evidence, clause=True)


def _in_flight(seen: Observations) -> float:
    """Mean number of requests of the device, by anybody, while the victim worked."""
    wall = observed(seen, Observed.WALL)
    return observed(seen, Observed.DISK_QUEUE) * wall / (observed(seen, Observed.MEASURED) or wall)


def _uses_disk(result: CellResult) -> bool:
    """True if the victim itself keeps the disk busy when alone: at least one request in flight, on average."""
    return observed(result.baseline_evidence, Observed.DISK_QUEUE) >= 0.5
