"""Locks that jobs waited for: who held them, and what the holders did meanwhile."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from contend.advice.finding import Evidence
from contend.contention.hunting.charges import Charges, Did
from contend.contention.hunting.rows import Held, Lock
from contend.contention.hunting.rules import (
    Candidate,
    count,
    listed,
    seconds,
    slice_at,
    sql,
    text,
    times,
    went_on,
)
from contend.units import format_duration, of_time

_ACROSS = 0.3  # of the waits passed while its holder was in a call: it is held across that call
_OUTSIDE = (
    "remote",
    "io",
)  # what holders do then is not theirs: a call that leaves the process, a system call
_NAMED = 3  # holders in a sentence
_MANY = 5  # takings of a lock by each job are many


def locks(charges: Charges) -> list[Candidate]:
    """A candidate for each lock that is on the jobs' critical paths; not for a pool's own, which is held while a worker is
    started."""
    candidates = []
    for (kind, name), ns in charges.charged.items():
        if kind == "lock" and name in charges.locks and ns > 0 and name not in charges.pools:
            candidates.append(_lock(charges, charges.locks[name], ns))
    return candidates


def _lock(charges: Charges, lock: Lock, ns: int) -> Candidate:
    tables, did = charges.tables, charges.meanwhile.get(lock.name, ())
    more = charges.woken.get(("lock", lock.name), 0)
    ns_of_lock = ns - more
    waited = max(charges.waited.get(("lock", lock.name), 0), ns_of_lock)
    outside = (d for d in did if d.doing in _OUTSIDE and d.culprit != "sleep")
    across = next((d for d in outside if d.share >= _ACROSS), None)
    by = [
        f"{_culprit_words(d)} {of_time(d.share)}"
        for d in did[:_NAMED]
        if d.share >= 0.01 and d.doing != "nobody"
    ]
    sentence = f"{tables.who} waited {format_duration(waited)} for lock {lock.name} ({tables.part(waited)})"
    sentence += f", while its holders were in {listed(by)}." if by else "."
    a_job = lock.holds / len(tables.jobs) if tables.jobs else 0.0
    held = _calls_inside(tables.held, lock.name)
    if across is not None:
        what = "the call" if across.doing == "remote" else "the system call"
        sentence += f" It is held across {what} {across.culprit}."
    if ns_of_lock < 0.9 * waited:
        sentence += f" {of_time(1 - ns_of_lock / waited)} of that is charged on to what the holders themselves waited for."
    sentence += went_on(more)
    return Candidate(
        kind="lock-across-call" if across is not None else "lock",
        resource=lock.name,
        ns=ns,
        sentence=sentence,
        evidence=tuple(_evidence(charges, lock, waited, did, held)),
        advice=_advice(lock, across, held, did, a_job),
        edits=_edits(lock, across, held),
    )


def _edits(lock: Lock, across: Did | None, held: Held | None) -> str:
    """A hold that is scaled leaves the calls in it as long as they are: these are to be fewer, gone, or out of it."""
    if across is None:
        return f"--hold {shlex.quote(f'{lock.name}=0.5')}"
    if across.doing == "io":
        return f"--unlock {shlex.quote(lock.name)}"
    many = round(held.calls / held.holds) if held is not None and held.name == across.culprit else 1
    if many > 1:
        return f"--coalesce {shlex.quote(f'{across.culprit}={many}')}"
    return f"--remove {shlex.quote(across.culprit)}"


def _culprit_words(did: Did) -> str:
    return f"a wait for {did.culprit}" if did.doing == "waiting" else did.culprit or "no span"


def _calls_inside(held: Sequence[Held], name: str) -> Held | None:
    rows = [row for row in held if row.lock == name]
    return max(rows, key=lambda row: row.ns, default=None)


def _evidence(
    charges: Charges, lock: Lock, waited: int, did: tuple[Did, ...], held: Held | None
) -> Iterator[Evidence]:
    tables = charges.tables
    own = f"name = {text(lock.name)}"
    yield seconds(
        f"waited by {tables.who.lower()}",
        waited,
        sql(tables.source, f"select * from critical where kind = 'lock' and resource = {text(lock.name)}"),
    )
    rows = sql(tables.source, f"select * from locks where {own}")
    yield count("waits, by anybody", lock.waits, "", rows)
    yield seconds("held", lock.hold_ns, rows)
    yield count("holds", lock.holds, "", rows)
    if (longest := tables.longest_of(lock.name, wait=True)) is not None:
        yield seconds("longest wait", longest.ns, slice_at(tables.source, longest, f"wait {lock.name}"))
    query = (
        f"select doing, culprit, sum(blame.ns) from blame join locks using (lock) where {own} group by 1, 2"
    )
    for one in did[:_NAMED]:
        what = "handed over or unknown" if one.doing == "nobody" else f"holders in {_culprit_words(one)}"
        yield count(what, round(one.share, 4), "of the time waited", sql(tables.source, query))
    if held is not None:
        what = f"calls {held.name} in a hold"
        yield count(what, round(held.calls / max(held.holds, 1), 2), "", rows)


def _advice(lock: Lock, across: Did | None, held: Held | None, did: tuple[Did, ...], a_job: float) -> str:
    each = format_duration(lock.hold_ns // max(lock.holds, 1))
    if lock.kind == "semaphore":
        return f"Let more in at a time, or let it go sooner than after {each}."
    if across is not None:
        many = held is not None and held.name == across.culprit and held.calls > held.holds
        fewer = f", or send its {times(held.calls / held.holds)} calls as one" if many and held else ""
        does = f"calling {across.culprit}" if across.doing == "remote" else f"the wait in {across.culprit}"
        return f"Let {lock.name} go before {does}{fewer}."
    first = did[0] if did else None
    if first is not None and first.doing == "waiting" and first.share >= _ACROSS:
        return f"Look at {first.culprit} first: holders of {lock.name} wait for it."
    if a_job >= _MANY:
        return (
            f"Each job takes it {times(a_job)} times for {each}: take it less often, ask for more at a time, or have one"
            " lock for each thing that it protects."
        )
    return f"Hold it for less than its {each}, or have one lock for each thing that it protects."
