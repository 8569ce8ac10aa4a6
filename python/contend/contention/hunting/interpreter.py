"""The interpreter's own: its lock, pauses for garbage, loops that one callback kept from all others; and the CPU."""

from __future__ import annotations

from contend.contention.hunting.charges import Charges
from contend.contention.hunting.rows import Interpreter
from contend.contention.hunting.rules import Candidate, listed, seconds, sql
from contend.platforms.quota_log import FILE
from contend.units import format_duration, of_time


def interpreter(charges: Charges) -> list[Candidate]:
    """The GIL and the CPU where jobs waited for them; pauses and blocked loops by the time in which all stood still."""
    candidates = []
    gil, cpu = (sum(ns for (of, _), ns in charges.charged.items() if of == kind) for kind in ("gil", "cpu"))
    # The kernel counts a throttled thread as waiting for a CPU.
    held = min(cpu, charges.tables.throttled.ns or 0)
    for ns, make in ((gil, _gil), (held, _held), (cpu - held, _cpu)):
        if ns > 0:
            candidates.append(make(charges, ns))
    for kind, tell in (("gc", _gc), ("blocked", _blocked)):
        rows = [row for row in charges.tables.interpreter if row.kind == kind]
        if rows:
            candidates.append(tell(charges, rows))
    return candidates


def _where(charges: Charges, kind: str) -> str:
    return sql(charges.tables.source, f"select * from parts where kind = '{kind}'")


def _gil(charges: Charges, ns: int) -> Candidate:
    tables = charges.tables
    did = [f"{d.culprit} {of_time(d.share)}" for d in charges.meanwhile.get("GIL", ())[:3] if d.culprit]
    held = f", held meanwhile by {listed(did)}" if did else ""
    return Candidate(
        kind="gil",
        resource="GIL",
        ns=ns,
        sentence=(
            f"{tables.who} waited {format_duration(ns)} for the interpreter's lock ({tables.part(ns)}){held}."
        ),
        evidence=(seconds("waited by jobs", ns, _where(charges, "gil")),),
        advice="Compute in other processes, or in native code that lets the lock go.",
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


def _blocked(charges: Charges, rows: list[Interpreter]) -> Candidate:
    worst = max(rows, key=lambda row: row.ns)
    ns = sum(row.ns for row in rows)
    where = f"contend report {charges.tables.source}"
    site = f" ({worst.site})" if worst.site else ""
    return Candidate(
        kind="blocked-loop",
        resource=worst.name,
        ns=_at_most(charges, ns),
        sentence=(
            f"An event loop or hub was kept from all others for {format_duration(ns)}, longest"
            f" {format_duration(worst.max_ns)} at a time; most by {worst.name}{site}."
        ),
        evidence=(
            seconds("blocked", ns, where),
            seconds(f"by {worst.name}", worst.ns, where),
            seconds("longest", worst.max_ns, where),
        ),
        advice=f"Let {worst.name} await, or run it in a thread.",
        edits="",
    )


def _at_most(charges: Charges, ns: int) -> int:
    """All jobs that were open stood still with it; that is more than the pauses, and no more than there were jobs."""
    tables = charges.tables
    if not tables.makespan_ns:
        return 0
    return min(tables.total_ns, round(ns * tables.total_ns / tables.makespan_ns))
