"""The interpreter's own: its lock, pauses for garbage, loops that one callback kept from all others; and the CPU."""

from __future__ import annotations

from contend.contention.hunting.charges import GIL, Charges
from contend.contention.hunting.rows import HUB, Interpreter, Stall
from contend.contention.hunting.rules import Candidate, count, listed, seconds, sql, text, times
from contend.platforms.quota_log import FILE
from contend.units import format_duration, of_time

_SMALL = 0.02  # of what was waited for the interpreter's lock: less is not told apart


def interpreter(charges: Charges) -> list[Candidate]:
    """The GIL and the CPU where jobs waited for them; pauses and blocked loops by the time in which all stood still."""
    candidates = []
    gil, cpu = (sum(ns for (of, _), ns in charges.charged.items() if of == kind) for kind in ("gil", "cpu"))
    # The kernel counts a throttled thread as waiting for a CPU.
    held = min(cpu, charges.tables.throttled.ns or 0)
    # A loop whose thread waited for that lock was kept from jobs by who had it.
    gil += sum(row.jobs_ns for row in charges.tables.stalls if row.waits_for == GIL)
    for ns, make in ((gil, _gil), (held, _held), (cpu - held, _cpu)):
        if ns > 0:
            candidates.append(make(charges, ns))
    rows = [row for row in charges.tables.interpreter if row.kind == "gc"]
    if rows:
        candidates.append(_gc(charges, rows))
    return candidates + _stalls(charges)


def _where(charges: Charges, kind: str) -> str:
    return sql(charges.tables.source, f"select * from parts where kind = '{kind}'")


def _gil(charges: Charges, ns: int) -> Candidate:
    tables = charges.tables
    # Who waited for that lock, too, had it no more than who is told of.
    others = [d for d in charges.meanwhile.get("GIL", ()) if d.culprit not in ("", GIL)]
    did = [f"{d.culprit} {of_time(d.share)}" for d in others[:3]]
    held = f", held meanwhile by {listed(did)}" if did else ""
    own = sum(waited for (kind, _), waited in charges.waited.items() if kind == "gil")
    own -= sum(charges.woken.values()) + sum(charges.looks.values())
    clauses = [
        f"waited {format_duration(own)} for the interpreter's lock ({tables.part(own)}){held}"
    ] if own else []  # fmt: skip
    evidence = [seconds(f"waited by {tables.who.lower()}", own, _where(charges, "gil"))]
    for name, queued in charges.gil_bound.items():
        pool = charges.pools[name]
        rows = sql(tables.source, f"select * from pools where name = {text(name)}")
        clauses.append(
            f"waited {format_duration(queued)} ({tables.part(queued)}) for a worker of {name} ({pool.workers} in"
            f" {pool.process}), which computed or waited for that lock for {of_time(pool.computing)} of their work"
        )
        evidence.append(seconds(f"waited for a worker of {name}", queued, rows))
        evidence.append(seconds(f"workers of {name} waited for the lock", pool.gil_ns, rows))
        evidence.append(seconds(f"workers of {name} ran", pool.running_ns, rows))
    still_ns = sum(row.jobs_ns for row in tables.stalls if row.waits_for == GIL)
    if still_ns:
        clauses.append(
            f"stood still for {format_duration(still_ns)} ({tables.part(still_ns)}) while their loop waited for it"
        )
    handed = ns - own - still_ns - sum(charges.gil_bound.values())
    if handed > _SMALL * ns:
        clauses.append(
            f"waited {format_duration(handed)} ({tables.part(handed)}) for locks whose holders waited for the interpreter's"
        )
    more = " More threads only wait longer for it." if charges.gil_bound else ""
    return Candidate(
        kind="gil",
        resource="GIL",
        ns=ns,
        sentence=f"{tables.who} {', and '.join(clauses)}.",
        evidence=tuple(evidence),
        advice=f"Compute in other processes, or in native code that lets the lock go.{more}",
        edits="",
    )


def _held(charges: Charges, ns: int) -> Candidate:
    tables = charges.tables
    name = tables.throttled.quota or "CPU quota"
    return Candidate(
        kind="throttled",
        resource="CPU quota",
        ns=ns,
        sentence=(
            f"{tables.who} were ready and held back {format_duration(ns)} by the {name} ({tables.part(ns)}):"
            " no neighbour took the CPU."
        ),
        evidence=(
            seconds("run delay that was throttled", ns, _where(charges, "cpu")),
            seconds(
                "throttled while the jobs ran, over all CPUs",
                tables.throttled.ns or 0,
                f"{FILE} beside the trace",
            ),
        ),
        advice=f"Raise or remove the {name} (cpu.max; v1: cpu.cfs_quota_us).",
        edits="",
    )


def _cpu(charges: Charges, ns: int) -> Candidate:
    tables = charges.tables
    advice = "Look at the host: what else runs there, and whether the CPUs are the limit."
    if tables.throttled.ns is None:
        advice += f" A CPU quota may hold them back instead: unknown, {tables.throttled.unknown}."
    return Candidate(
        kind="cpu",
        resource="CPU",
        ns=ns,
        sentence=f"{tables.who} were ready and waited {format_duration(ns)} for a CPU ({tables.part(ns)}).",
        evidence=(seconds("run delay", ns, _where(charges, "cpu")),),
        advice=advice,
        edits="",
    )


def _gc(charges: Charges, rows: list[Interpreter]) -> Candidate:
    """Only what is in the jobs' own time: a program that starts collects most."""
    tables = charges.tables
    ns = sum(row.ns for row in tables.time if row.part == "gc")
    worst = max(rows, key=lambda row: row.max_ns)
    where = f"contend report {tables.source}"
    return Candidate(
        kind="gc",
        resource="gc",
        ns=ns,
        sentence=(
            f"{tables.who} stood still for {format_duration(ns)} ({tables.part(ns)}) while"
            f" garbage was collected; the longest pause on record took {format_duration(worst.max_ns)}."
        ),
        evidence=(
            seconds("in jobs", ns, where),
            seconds("longest pause on record", worst.max_ns, where),
        ),
        advice="gc.freeze() after start-up, a higher gc.set_threshold, or fewer objects that live for long.",
        edits="",
    )


def _stalls(charges: Charges) -> list[Candidate]:
    """A candidate for each span or function that kept a loop or hub from jobs of its thread."""
    # A span that is the job says nothing of what it was at.
    tables = charges.tables
    jobs = {job.name for job in tables.jobs}
    # What was not seen is what was seen in the same callback, from the same place on and in the same span, if that is one.
    seen: dict[tuple[str, str, str, str], dict[str, Stall]] = {}
    rows = [row for row in tables.stalls if row.waits_for != GIL]
    for row in rows:
        if row.function:
            seen.setdefault((row.loop, row.name, row.site, row.span), {})[row.function] = row
    by_culprit: dict[str, list[Stall]] = {}
    for row in rows:
        alike = seen.get((row.loop, row.name, row.site, row.span), {})
        if not row.function and len(alike) > 1:
            continue  # one of those, and nobody knows which
        function = row.function or next(iter(alike), "")
        span = "" if row.span in jobs else row.span
        by_culprit.setdefault(span or function or row.name, []).append(row)
    return [_stall(charges, culprit, rows) for culprit, rows in by_culprit.items()]


def _stall(charges: Charges, culprit: str, rows: list[Stall]) -> Candidate:
    tables = charges.tables
    worst = max(rows, key=lambda row: (bool(row.function), row.jobs_ns))
    ns, jobs_ns = sum(row.ns for row in rows), sum(row.jobs_ns for row in rows)
    hub = worst.loop == HUB
    site = worst.seen_at if worst.function else worst.site
    function = worst.function if worst.function != culprit else ""
    location = ", ".join(filter(None, (function, site)))
    inside = [f"run by {worst.name}"] if worst.name not in (culprit, function) else []
    inside += [f"waiting there for lock {worst.waits_for}"] if worst.waits_for else []
    where = sql(tables.source, "select * from stalls order by jobs_ns desc")
    return Candidate(
        kind="blocked-loop",
        resource=culprit,
        ns=jobs_ns,
        sentence=(
            f"{tables.who} stood still for {format_duration(jobs_ns)} ({tables.part(jobs_ns)}) while {culprit}"
            f"{f' ({location})' if location else ''}{''.join(f', {words}' for words in inside)}{',' if inside else ''}"
            f" kept {'a hub' if hub else 'an event loop'} from all others: {times(sum(r.times for r in rows))} times,"
            f" {format_duration(ns)} in all, {format_duration(max(row.max_ns for row in rows))} at most."
        ),
        evidence=(
            seconds("jobs stood still", jobs_ns, where),
            seconds("the loop was kept from them", ns, where),
            seconds("longest", max(row.max_ns for row in rows), where),
            count("times", sum(row.times for row in rows), "", where),
        ),
        advice=(
            f"Run {culprit} in a native thread (tpool, threadpool), or let it use calls that switch greenlets."
            if hub
            else f"Run {culprit} in a thread (asyncio.to_thread), or let it await what it waits for."
        ),
        edits="",
    )
