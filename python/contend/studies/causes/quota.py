"""Quotas that held a victim back."""

from __future__ import annotations

from dataclasses import replace

from contend.advice.finding import Evidence
from contend.document import CellResult
from contend.platforms.quotas import Quota, quota_name
from contend.probes.observed import Observations, Observed
from contend.studies.causes.cause import Cause, observed, timed


def held_of(seen: Observations, waits: Observed) -> float:
    """Seconds of the waiting that were a quota's: the kernel counts throttled tasks as waiting (run delay and PSI both).

    A pressure counts time in which any task waited, and so does HELD; the run delay adds up the waits of all tasks, and
    meanwhile all that were ready waited. The quota may be of a group that others are in too: never more than the victim
    waited. A run of an earlier version has nothing but throttled time, a sum over CPUs.
    """
    held = seen.value(Observed.HELD)
    if held is None:
        held = observed(seen, Observed.THROTTLED)
    elif waits is Observed.RUN_DELAY and waits in seen and observed(seen, Observed.WALL):
        ready = (observed(seen, Observed.CPU) + observed(seen, waits)) / observed(seen, Observed.WALL)
        held *= max(1.0, ready)
    return min(held, observed(seen, waits)) if waits in seen else held


def of_quota(share: float, seconds: float, result: CellResult) -> Cause:
    words = "was throttled by its CPU quota"  # a run of an earlier version does not say which
    if result.quotas:
        words = f"was limited by {_quota_words(result.quotas[0])} for"
    now, before = result.evidence, result.baseline_evidence
    cause = timed("throttling", share, Observed.THROTTLED, words, now, before, seconds=seconds)
    named = tuple(
        Evidence(f"throttled by {quota_name(quota)}", quota.throttled_s, "s", "quotas, median of the cell")
        for quota in result.quotas
        if quota.throttled_s > 0
    )
    return replace(cause, evidence=cause.evidence + named)


def _quota_words(quota: Quota) -> str:
    """
    >>> _quota_words(Quota("/sys/fs/cgroup/cpu/box", 0.5, "above", 1.0, 10))
    'the CPU quota of 0.5 CPUs in /sys/fs/cgroup/cpu/box'
    >>> _quota_words(Quota("/sys/fs/cgroup/box", 2.0, "own", 1.0, 10))
    'its own CPU quota of 2 CPUs in /sys/fs/cgroup/box'
    """
    return f"{'the' if quota.whose == 'above' else 'its own'} {quota_name(quota)}"
