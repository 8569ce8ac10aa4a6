"""The kernel: what jobs waited for in system calls, and time off the CPU for what is not on record."""

from __future__ import annotations

from contend.contention.hunting.charges import Charges
from contend.contention.hunting.rules import Candidate, listed, seconds, sql, text
from contend.units import format_duration, of_time

_NAMED = 3  # spans in a sentence
_DISK = ("fsync", "fdatasync", "write", "read", "sendfile")


def kernel(charges: Charges) -> list[Candidate]:
    """A candidate for each system call that jobs waited in, and one for being blocked. Sleep is none: it is asked for."""
    sums: dict[tuple[str, str], dict[str, int]] = {}
    for row in charges.tables.time:
        if row.kind in ("io", "blocked"):
            spans = sums.setdefault((row.kind, row.resource), {})
            spans[row.part] = spans.get(row.part, 0) + row.ns
    return [
        _blocked(charges, spans) if kind == "blocked" else _io(charges, name, spans)
        for (kind, name), spans in sums.items()
    ]


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
