"""Conditions that jobs waited for: what the one did meanwhile who notified them."""

from __future__ import annotations

from contend.contention.hunting.charges import GIL, Charges
from contend.contention.hunting.rows import BATCH, Critical, Lock
from contend.contention.hunting.rules import Candidate, count, listed, seconds, sql, text, went_on
from contend.units import format_duration, of_time

_NAMED = 3  # deeds in a sentence
_LEAST = 0.01  # of the waits: less is not named
_IDLE = ("io", "condition", "queue")  # what a thread without work waits for, in no span
_WAITS = ("lock", "pool", "gil", "condition", "queue")


def conditions(charges: Charges) -> list[Candidate]:
    """A candidate for each condition at which jobs waited for others: all of the wait where several jobs wait for one
    condition, else as much of it as somebody on record did something in. What was done for a job is the job's own, and not
    here."""
    candidates = []
    for (kind, name), ns in charges.charged.items():
        lock = charges.conditions.get(name)
        if kind != "condition" or lock is None:
            continue
        deeds = _deeds(charges, lock)
        charged = ns if lock.shared else round(ns * min(1.0, sum(deeds.values())))
        if charged > 0:
            candidates.append(_condition(charges, lock, charged, deeds))
    return candidates


def _deeds(charges: Charges, lock: Lock) -> dict[str, float]:
    """Parts of the waits that were spent in each thing by those who ended them, less what they did for the job itself. At a
    condition of a job's own what these waited for themselves is another finding's."""
    times: dict[tuple[str, bool], int] = {}
    for row in charges.tables.critical:
        idle = row.kind in _IDLE and not row.part
        if row.job != BATCH and row.through == lock.name and not idle:
            _add(times, row, row.ns)
    for own in charges.tables.time:
        if isinstance(own, Critical) and own.through == lock.name:
            _add(times, own, -own.ns)
    whole = max(charges.waited.get(("condition", lock.name), 0), 1)
    left = {
        did: ns / whole for (did, waits), ns in times.items() if ns > 0 and not (waits and not lock.shared)
    }
    left.pop(f"a wait for {lock.name}", None)
    return left


def _add(times: dict[tuple[str, bool], int], row: Critical, ns: int) -> None:
    waits = row.kind in _WAITS or row.resource == GIL
    key = (f"a wait for {row.resource}" if waits else row.part or row.kind), waits
    times[key] = times.get(key, 0) + ns


def _condition(charges: Charges, lock: Lock, charged: int, deeds: dict[str, float]) -> Candidate:
    tables, ns = charges.tables, charges.waited["condition", lock.name]
    most = sorted(deeds.items(), key=lambda item: (-item[1], item[0]))[:_NAMED]
    by = [f"{did} {of_time(share)}" for did, share in most if share >= _LEAST]
    rows = sql(tables.source, f"select * from critical where through = {text(lock.name)}")
    of_lock = sql(tables.source, f"select * from locks where name = {text(lock.name)}")
    those = f"those who notified them {f'were in {listed(by)}' if by else 'are not on record'}"
    # A condition of a job's own is notified when something is done: that has a name.
    name = lock.name if lock.shared or not by else most[0][0]
    more = charges.woken.get(("condition", lock.name), 0)
    return Candidate(
        kind="condition",
        resource=name,
        key=lock.name,
        ns=charged,
        sentence=(
            f"{tables.who} waited {format_duration(ns)} for condition {lock.name} ({tables.part(ns)}), while {those}."
            f"{went_on(more)}"
        ),
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
