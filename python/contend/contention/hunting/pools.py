"""Workers of pools: idle ones beside waiting work, and pools that are too small; and queues that lend too few things."""

from __future__ import annotations

import shlex

from contend.contention.hunting.charges import COMPUTES, Charges
from contend.contention.hunting.rows import Loan, Pool
from contend.contention.hunting.rules import Candidate, count, listed, seconds, sql, text
from contend.units import format_duration, of_time

_NAMED = 3  # spans in a sentence
_WASTED = 0.1  # of the time that items waited: a fixed map of work to workers, not a lack of workers


def pools(charges: Charges) -> list[Candidate]:
    """A candidate for each pool in whose queue jobs waited for a worker."""
    candidates = []
    for (kind, name), ns in charges.charged.items():
        pool = charges.pools.get(name)
        if kind == "pool" and pool is not None and ns > 0:
            candidates.append(_pool(charges, pool, ns))
    return candidates


def starved(charges: Charges) -> list[Candidate]:
    """A candidate for each queue at which jobs waited for something that others had got and put back later."""
    by_queue: dict[str, list[Loan]] = {}
    for loan in charges.tables.loans:
        by_queue.setdefault(loan.name, []).append(loan)
    waits = {name: charges.waited.get(("queue", name), 0) for name in by_queue}
    return [_starved(charges, name, loans, waits[name]) for name, loans in by_queue.items() if waits[name]]


def _starved(charges: Charges, name: str, loans: list[Loan], ns: int) -> Candidate:
    tables = charges.tables
    rows = sql(tables.source, f"select * from loans where name = {text(name)}")
    most, times_lent = loans[0].most, max(loans[0].loans, 1)
    out_ns = sum(loan.ns for loan in loans)
    spans = sorted(((loan.ns, loan.part) for loan in loans if loan.part), reverse=True)[:_NAMED]
    inside = [f"{part} {of_time(part_ns / max(out_ns, 1))}" for part_ns, part in spans]
    each = format_duration(round(out_ns / times_lent))
    return Candidate(
        kind="pool-starved",
        resource=name,
        ns=ns,
        sentence=(
            f"{tables.who} waited {format_duration(ns)} ({tables.part(ns)}) for one of what {name} lends: {most} were out"
            f" at a time, each for {each}{f', in {listed(inside)}' if inside else ''}."
        ),
        evidence=(
            seconds(f"waited by {tables.who.lower()}", ns, rows),
            seconds("out, mean", out_ns / times_lent, rows),
            count("times lent", times_lent, "", rows),
            count("out at a time", most, "", rows),
        ),
        advice=f"Put it back sooner than after {each}, or let {name} have more than {most}.",
        edits="",
    )


def _pool(charges: Charges, pool: Pool, ns: int) -> Candidate:
    tables, waited = charges.tables, charges.waited.get(("pool", pool.name), 0)
    fixed = pool.policy == "fixed" and pool.wasted_ns >= _WASTED * pool.queued_ns
    rows = sql(tables.source, f"select * from pools where name = {text(pool.name)}")
    sentence = (
        f"{tables.who} waited {format_duration(ns)} ({tables.part(ns)}) for a worker of"
        f" {pool.label} ({pool.workers} in {pool.process})"
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
    elif pool.computing >= COMPUTES:
        sentence += (
            f"; all of its workers were busy then, and ran for {of_time(pool.running_ns / max(pool.busy_ns, 1))} of their"
            " work, as far as is on record."
        )
        advice = (
            "Let the items compute less. More workers help as long as CPUs are idle; where they run Python, only as"
            " processes."
        )
        edits = ""
    else:
        sentence += "; all of its workers were busy then."
        advice = f"Give it more workers than {pool.workers}, or less work: fewer or shorter items."
        edits = f"--workers {shlex.quote(f'{pool.name}={2 * pool.workers}')}" if pool.queues else ""
    each = max(pool.items, 1)
    return Candidate(
        kind="pool-fixed" if fixed else "pool-busy" if pool.computing >= COMPUTES else "pool-small",
        resource=pool.label,
        key=pool.name,
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
