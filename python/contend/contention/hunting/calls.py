"""Calls that leave the process and need not: with arguments that were sent before, updates of nothing, many for one."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable

from contend.advice.finding import Evidence
from contend.contention.hunting.charges import Charges
from contend.contention.hunting.rows import BATCH, Call, Critical
from contend.contention.hunting.rules import Candidate, count, seconds, slice_at, sql, text, times
from contend.units import format_duration, of_time

_LEAST_DIGESTS = 2
_NEARLY_ALL = 0.9
_READS = ("SELECT", "HTTP GET", "HTTP HEAD")
_UNKNOWN = 0.5  # of a call's time is taken to be the call's own, where its size is not on record: the rest its items'
_SERVED = 0.2  # of the time on the way: less was worked at it by somebody who is not who served it
_COALESCE = 8  # calls that what-if is asked to make one of


def calls(charges: Charges) -> list[Candidate]:
    """Find calls that were repeated or could be one: candidates for each name of a call."""
    by_name: dict[str, list[Call]] = {}
    for row in charges.tables.calls:
        by_name.setdefault(row.name, []).append(row)
    candidates = []
    for name, rows in by_name.items():
        made_ns = _sum(rows, "ns")
        own, behind_locks = _on_paths(charges, name, made_ns)
        if own > 0:
            # Many calls that could be one: what they wait for a worker is the pool's, what waits for a lock that is held
            # across them the lock's. A call that says nothing new costs all of that.
            once = own * (1 - _queued(charges, name, made_ns))
            both = _again(charges, name, rows, own + behind_locks), _chatty(charges, name, rows, once)
            candidates += [one for one in both if one is not None]
    return candidates


def ways(charges: Charges) -> list[Candidate]:
    """Find calls to somebody on record that were long on their way: a candidate for each, of the time in which nobody
    worked at it."""
    served: dict[str, int] = {}
    for row in charges.tables.time:
        if isinstance(row, Critical) and row.kind != "reply":
            served[row.through] = served.get(row.through, 0) + row.ns
    replies = {name: ns for (kind, name), ns in charges.charged.items() if kind == "reply"}
    replies = {name: ns for name, ns in replies.items() if served.get(name, 0) >= _SERVED * ns}
    return [_way(charges, name, ns) for name, ns in replies.items()]


def _way(charges: Charges, name: str, ns: int) -> Candidate:
    tables = charges.tables
    where = sql(tables.source, f"select * from along where kind = 'reply' and resource = {text(name)}")
    return Candidate(
        kind="way",
        resource=name,
        ns=ns,
        sentence=(
            f"{tables.who} waited {format_duration(ns)} ({tables.part(ns)}) for {name} while nobody worked at it: it was on"
            " its way there, or its answer on the way back."
        ),
        evidence=(seconds(f"waited by {tables.who.lower()}", ns, where),),
        advice="Make fewer of these calls, or look at what is between: a broker, a network, threads that pass it on.",
        edits="",
    )


def says_nothing_new(rows: Iterable[Call]) -> bool:
    """True if nearly all time of the calls of one name is in calls that were made before with the same arguments, or
    that changed no row, so that what leaving them all out would bring is what leaving these out would."""
    rows = list(rows)
    again_ns = max(_sum(rows, "seen_ns"), _sum(rows, "unchanged_ns"))
    known = _sum(rows, "digests") >= _LEAST_DIGESTS and max(_sum(rows, "seen"), _sum(rows, "unchanged")) > 0
    return known and again_ns >= _NEARLY_ALL * max(_sum(rows, "ns"), 1)


def _on_paths(charges: Charges, name: str, made_ns: int) -> tuple[float, float]:
    """Time of the jobs in that call: their own, if their paths lead through it, and while others held locks across it."""
    paths = charges.tables.critical
    if not any(row.job != BATCH and name in (row.resource, row.part) for row in paths):
        return 0.0, 0.0
    waited = sum(
        ns * did.share
        for (kind, lock), ns in charges.waited.items()
        if kind == "lock"
        for did in charges.meanwhile.get(lock, ())
        if (did.doing, did.culprit) == ("remote", name)
    )
    return min(made_ns, charges.tables.total_ns), min(waited, charges.tables.total_ns)


def _queued(charges: Charges, name: str, made_ns: int) -> float:
    """The part of the call in which it waits for a worker of those who serve it."""
    queued = sum(pool.queued_ns for pool in charges.behind(name)) * charges.part_of_served(name)
    return min(1.0, queued / max(made_ns, 1))


def _sum(rows: Iterable[Call], of: str) -> int:
    return sum(getattr(row, of) for row in rows)


def _where(charges: Charges, name: str) -> str:
    longest = charges.tables.longest_of(name, wait=False)
    return slice_at(charges.tables.source, longest, name) if longest is not None else ""


def _again(charges: Charges, name: str, rows: list[Call], cost: float) -> Candidate | None:
    """With the same arguments as before, or changing nothing."""
    made, ns = _sum(rows, "calls"), max(_sum(rows, "ns"), 1)
    repeated, seen, unchanged = (_sum(rows, key) for key in ("repeated", "seen", "unchanged"))
    again_ns = max(_sum(rows, "seen_ns"), _sum(rows, "unchanged_ns"))
    if _sum(rows, "digests") < _LEAST_DIGESTS or not max(seen, unchanged):
        return None
    where = _where(charges, name)
    parts = []
    if seen:
        inside = f", {repeated:,} of them by the same piece of work" if repeated else ""
        parts.append(f"{seen:,} of {made:,} calls {name} had arguments that were sent before{inside}")
    if unchanged:
        parts.append(f"{unchanged:,} of {made:,} calls {name} changed no row")
    reads = name.startswith(_READS)
    advice = (
        "Keep the answer for as long as it holds, or ask once for all." if reads
        else "Leave out what says nothing new: remember what was sent last."
    )  # fmt: skip
    return Candidate(
        kind="repeated-call" if reads or not (repeated or unchanged) else "no-op-call",
        resource=name,
        ns=round(cost * min(1.0, again_ns / ns)),
        sentence="; ".join(parts) + f": {format_duration(again_ns)} of {format_duration(ns)} in that call.",
        evidence=(
            count("calls", made, "", where),
            count("with arguments that anybody sent before", seen, "", where),
            count("with arguments that the same piece of work sent before", repeated, "", where),
            count("that changed no row", unchanged, "", where),
            seconds("in them", again_ns, where),
        ),
        advice=advice,
        edits=f"--remove {shlex.quote(name)}" if says_nothing_new(rows) else "",
        unsure=not (repeated or unchanged),
    )


def _chatty(charges: Charges, name: str, rows: list[Call], cost: float) -> Candidate | None:
    """Many in a row, where one would do."""
    in_rows, runs = _sum(rows, "run_calls"), _sum(rows, "runs")
    if not runs:
        return None
    ns, run_ns = max(_sum(rows, "ns"), 1), _sum(rows, "run_ns")
    main = max(rows, key=lambda row: row.run_ns)
    each_run = in_rows / runs
    # A larger call that takes no longer: the sizes say nothing.
    fixed = main.fixed_ns if main.fixed_ns > 0 and main.each_ns > 0 else math.nan
    mean = ns / max(_sum(rows, "calls"), 1)
    # What all but one call of a row cost of themselves.
    saved = min(1.0, fixed / mean) if math.isfinite(fixed) else _UNKNOWN
    share = run_ns / ns * (1 - 1 / each_run) * saved
    where = _where(charges, name)
    around = f" inside {main.parent}" if main.parent else ""
    reads = name.startswith(_READS)
    evidence = [
        count("calls in rows", in_rows, "", where),
        count("rows", runs, "", where),
        count("longest row", max(row.longest_run for row in rows), "calls", where),
        seconds("in them", run_ns, where),
    ]
    if math.isfinite(fixed):
        unit = "item" if main.items else "byte"
        evidence.append(Evidence("a call costs of itself", round(main.fixed_ns / 1e9, 9), "s", where))
        evidence.append(Evidence(f"and each {unit}", round(main.each_ns / 1e9, 12), "s", where))
    about = "" if math.isfinite(fixed) else "about "
    return Candidate(
        kind="n+1" if reads else "chatty",
        resource=name,
        ns=round(cost * share),
        sentence=(
            f"{in_rows:,} calls {name} were made one after another{around}, {times(each_run)} in a row:"
            f" {about}{format_duration(round(run_ns * (1 - 1 / each_run) * saved))} of"
            f" {format_duration(ns)} ({of_time(share)}) would go if each row were one call."
        ),
        evidence=tuple(evidence),
        advice="Ask for all of them at once." if reads else "Send them together, in one call.",
        edits=f"--coalesce {shlex.quote(f'{name}={max(2, min(_COALESCE, round(each_run)))}')}",
    )
