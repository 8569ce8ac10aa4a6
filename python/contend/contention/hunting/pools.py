"""Workers of pools: idle ones beside waiting work, and pools that are too small."""

from __future__ import annotations

import shlex

from contend.contention.hunting.charges import Charges
from contend.contention.hunting.rows import Pool
from contend.contention.hunting.rules import Candidate, count, seconds, sql, text
from contend.units import format_duration, of_time

_WASTED = 0.1  # of the time that items waited: a fixed map of work to workers, not a lack of workers


def pools(charges: Charges) -> list[Candidate]:
    """A candidate for each pool in whose queue jobs waited for a worker."""
    candidates = []
    for (kind, name), ns in charges.charged.items():
        pool = charges.pools.get(name)
        if kind == "pool" and pool is not None and ns > 0:
            candidates.append(_pool(charges, pool, ns))
    return candidates


def _pool(charges: Charges, pool: Pool, ns: int) -> Candidate:
    tables, waited = charges.tables, charges.waited.get(("pool", pool.name), 0)
    fixed = pool.policy == "fixed" and pool.wasted_ns >= _WASTED * pool.queued_ns
    rows = sql(tables.source, f"select * from pools where name = {text(pool.name)}")
    sentence = (
        f"{tables.who} waited {format_duration(ns)} ({tables.part(ns)}) for a worker of"
        f" {pool.name} ({pool.workers} in {pool.process})"
    )
    if ns > 1.1 * waited:
        sentence += f", {format_duration(ns - waited)} of it while they or others held a lock"
    if fixed:
        sentence += (
            f"; during {of_time(pool.wasted_ns / max(pool.queued_ns, 1))} of the time that items waited, another of its"
            " workers was idle."
        )
        advice = "Let all its workers take from one queue: each item is tied to one worker now."
        edits = f"--global-queue {shlex.quote(pool.name)}" if pool.queues else ""
    else:
        sentence += "; all of its workers were busy then."
        advice = f"Give it more workers than {pool.workers}, or less work: fewer or shorter items."
        edits = f"--workers {shlex.quote(f'{pool.name}={2 * pool.workers}')}" if pool.queues else ""
    each = max(pool.items, 1)
    return Candidate(
        kind="pool-fixed" if fixed else "pool-small",
        resource=pool.name,
        ns=ns,
        sentence=sentence,
        evidence=(
            seconds("waited by jobs for a worker", ns, rows),
            seconds("an item waited, mean", pool.queued_ns / each, rows),
            seconds("an item took, mean", pool.busy_ns / each, rows),
            seconds("items waited while a worker was idle", pool.wasted_ns, rows),
            count("items", pool.items, "", rows),
            count("workers", pool.workers, "", rows),
        ),
        advice=advice,
        edits=edits,
    )
