"""Conditions that jobs waited for: what the one did meanwhile who notified them."""

from __future__ import annotations

from contend.contention.hunting.charges import Charges
from contend.contention.hunting.rows import BATCH, Lock
from contend.contention.hunting.rules import Candidate, count, listed, seconds, sql, text
from contend.units import format_duration, of_time

_NAMED = 3  # deeds in a sentence
_LEAST = 0.01  # of the waits: less is not named
_SHARED = 2  # waits for each condition of one name: then several jobs wait for one
_IDLE = ("io", "condition", "queue")  # what a thread without work waits for, in no span
_WAITS = ("lock", "pool", "gil", "condition", "queue")


def conditions(charges: Charges) -> list[Candidate]:
    """A candidate for each condition at which jobs waited for others: all of the wait where several jobs wait for one
    condition, else as much of it as somebody on record did something in. What was done for a job is the job's own, and not
    here."""
    locks = {lock.name: lock for lock in charges.tables.locks if lock.kind == "condition"}
    candidates = []
    for (kind, name), ns in charges.waited.items():
        lock = locks.get(name)
        if kind != "condition" or lock is None:
            continue
        deeds, known = _deeds(charges, name)
        shared = lock.waits >= _SHARED * lock.instances
        charged = ns if shared else round(ns * known)
        if charged > 0:
            candidates.append(_condition(charges, lock, (ns, charged), deeds, shared=shared))
    return candidates


def _deeds(charges: Charges, name: str) -> tuple[dict[str, float], float]:
    """Parts of the waits that were spent in each thing, by those who ended them, and how much of the waits is so known."""
    rows = [row for row in charges.tables.critical if row.job != BATCH and row.through == name]
    whole = max(sum(row.ns for row in rows), 1)
    deeds: dict[str, float] = {}
    for row in rows:
        if (row.kind, row.resource) == ("condition", name) or (row.kind in _IDLE and not row.part):
            continue
        did = f"a wait for {row.resource}" if row.kind in _WAITS else row.part or row.kind
        deeds[did] = deeds.get(did, 0.0) + row.ns / whole
    return deeds, min(1.0, sum(deeds.values()))


def _condition(
    charges: Charges, lock: Lock, waited: tuple[int, int], deeds: dict[str, float], *, shared: bool
) -> Candidate:
    tables, (ns, charged) = charges.tables, waited
    most = sorted(deeds.items(), key=lambda item: (-item[1], item[0]))[:_NAMED]
    by = [f"{did} {of_time(share)}" for did, share in most if share >= _LEAST]
    rows = sql(tables.source, f"select * from critical where through = {text(lock.name)}")
    of_lock = sql(tables.source, f"select * from locks where name = {text(lock.name)}")
    those = f"those who notified them {f'were in {listed(by)}' if by else 'are not on record'}"
    # A condition of a job's own is notified when something is done: that has a name.
    name = lock.name if shared or not by else most[0][0]
    return Candidate(
        kind="condition",
        resource=name,
        key=lock.name,
        ns=charged,
        sentence=f"{tables.who} waited {format_duration(ns)} for condition {lock.name} ({tables.part(ns)}), while {those}.",
        evidence=(
            seconds(f"waited by {tables.who.lower()}", ns, rows),
            *(count(f"others in {did}", round(share, 4), "of the time waited", rows) for did, share in most),
            count("waits, by anybody", lock.waits, "", of_lock),
        ),
        advice=(
            f"Notify {lock.name} sooner: do less before that, or let more go on at a time."
            if by
            else f"Look at who notifies {lock.name}: spans around what is done before would say what jobs wait for."
        ),
        edits="",
    )
