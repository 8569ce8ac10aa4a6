"""The kernel: what jobs waited for in system calls, time off the CPU for what is not on record, and sleeps in rows."""

from __future__ import annotations

from contend.contention.hunting.charges import Charges
from contend.contention.hunting.rows import Poll
from contend.contention.hunting.rules import Candidate, count, listed, seconds, sql, text, went_on
from contend.units import format_duration, of_time

_NAMED = 3  # spans in a sentence
_LIKELY = 0.5  # of sleeps that are always as many: that they are for what is done meanwhile
_DISK = ("fsync", "fdatasync", "write", "read", "sendfile")


def kernel(charges: Charges) -> list[Candidate]:
    """A candidate for each system call that jobs waited in, one for being blocked, and one for looking again and again.
    Other sleep is none: it is asked for."""
    sums: dict[tuple[str, str], dict[str, int]] = {}
    for row in charges.tables.time:
        if row.kind in ("io", "blocked"):
            spans = sums.setdefault((row.kind, row.resource), {})
            spans[row.part] = spans.get(row.part, 0) + row.ns
    return [
        _blocked(charges, spans) if kind == "blocked" else _io(charges, name, spans)
        for (kind, name), spans in sums.items()
    ] + [_polling(charges, row) for row in charges.tables.polls if charges.tables.jobs]


def _in(spans: dict[str, int]) -> str:
    """
    >>> _in({"save": 3, "": 1})
    'save 75 %'
    """
    total = max(sum(spans.values()), 1)
    named = sorted(((ns, name) for name, ns in spans.items() if name), reverse=True)[:_NAMED]
    return listed([f"{name} {of_time(ns / total)}" for ns, name in named]) if named else "no span"


def _io(charges: Charges, name: str, spans: dict[str, int]) -> Candidate:
    tables, ns = charges.tables, sum(spans.values())
    where = sql(
        tables.source,
        f"select part, sum(ns) from along where kind = 'io' and resource = {text(name)} group by 1",
    )
    advice = (
        "Read and write less often and more at a time, do it beside the job, or give it a faster disk."
        if name in _DISK
        else "Ask what is at the other end: a span of kind remote around it would name that."
    )
    return Candidate(
        kind="io",
        resource=name,
        ns=ns,
        sentence=(
            f"{tables.who} waited {format_duration(ns)} in the system call {name}"
            f" ({tables.part(ns)}), inside {_in(spans)}."
        ),
        evidence=(seconds("waited by jobs", ns, where),),
        advice=advice,
        edits="",
    )


def _blocked(charges: Charges, spans: dict[str, int]) -> Candidate:
    tables, ns = charges.tables, sum(spans.values())
    where = sql(tables.source, "select part, sum(ns) from along where kind = 'blocked' group by 1")
    return Candidate(
        kind="blocked",
        resource="",
        ns=ns,
        sentence=(
            f"{tables.who} were off the CPU for {format_duration(ns)} ({tables.part(ns)}),"
            f" not ready to run and in no wait on record, inside {_in(spans)}."
        ),
        evidence=(seconds("off the CPU", ns, where),),
        advice="contend sample --off-cpu-stacks says in which code: native libraries' own locks and files, page faults.",
        edits="",
    )


def _polling(charges: Charges, row: Poll) -> Candidate:
    tables = charges.tables
    where = sql(tables.source, "select * from polls")
    each = format_duration(round(row.ns / max(row.sleeps, 1)))
    # A span that is the job says nothing of what it was at.
    part = "" if row.part in {job.name for job in tables.jobs} else row.part
    looked = charges.looks.get(row, 0)
    ns = round(row.late_ns * _LIKELY) if row.may_be_work else row.ns + looked
    evidence = [
        seconds("slept in rows", row.ns, where),
        count("sleeps", row.sleeps, "", where),
        count("longest row", row.most, "sleeps", where),
    ]
    if row.awaited:
        looks = f"they go on after the sleep in which {row.awaited} had done what they asked for"
        looks += f", {format_duration(row.late_ns)} late in all"
        evidence.append(seconds(f"slept after {row.awaited} was done", row.late_ns, where))
    elif row.refused:
        looks = f"they ask for lock {row.refused} again and again, and do not wait for it"
    else:
        looks = "as one does who looks again and again"
    if row.may_be_work:
        looks += ". Half of that counts: they may have done something else meanwhile"
    inside = f"inside {row.part}" if row.part else "in no span"
    return Candidate(
        kind="polling",
        resource=row.refused or row.awaited or part or "sleep",
        ns=ns,
        sentence=(
            f"{tables.who} slept {format_duration(row.ns)} ({tables.part(row.ns)}) in {row.sleeps:,} sleeps of about {each},"
            f" up to {row.most:,} one after the other, {inside}: {looks}.{went_on(looked)}"
        ),
        evidence=tuple(evidence),
        advice=(
            f"Wait for {row.refused or row.awaited or 'what is looked for'}: a lock, a condition, an event or a queue wakes"
            f" the job at once, a sleep up to {each} late."
        ),
        edits="",
        guessed=not (row.refused or row.awaited),
    )
