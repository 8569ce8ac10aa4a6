"""Several traces of one thing, as the trials of a cell are, as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from contend.contention.hunting.rows import BATCH, Blame, Call, Job, Lock, Tables
from contend.platforms.quota_log import Throttled


def together(traces: Sequence[Tables]) -> Tables:
    """Join traces: jobs one after the other, everything else added up by name. A single trace is returned as it is."""
    if len(traces) == 1:
        return traces[0]
    jobs: list[Job] = []
    parts, along, critical, blame = [], [], [], list[Blame]()
    locks: dict[tuple[str, str, str], Lock] = {}
    for trace in traces:
        first = len(jobs)
        jobs += [job._replace(job=job.job + first) for job in trace.jobs]
        parts += [part._replace(job=part.job + first) for part in trace.parts]
        along += [part._replace(job=part.job + first) for part in trace.along]
        critical += [row if row.job == BATCH else row._replace(job=row.job + first) for row in trace.critical]
        number_of = {}
        for lock in trace.locks:
            key = lock.name, lock.site, lock.kind
            known = locks.get(key)
            locks[key] = _locks(known, lock) if known else lock._replace(lock=len(locks))
            number_of[lock.lock] = locks[key].lock
        blame += [row._replace(lock=number_of[row.lock]) for row in trace.blame]
    return Tables(
        source=traces[0].source,
        chosen=f"{traces[0].chosen}; {len(traces)} traces together",
        jobs=jobs,
        parts=parts,
        along=along,
        critical=critical,
        locks=list(locks.values()),
        blame=blame,
        spans=_added(traces, lambda t: t.spans, ("name", "process"), ("max_ns",)),
        pools=[
            pool._replace(pool=at)
            for at, pool in enumerate(
                _added(
                    traces,
                    lambda t: t.pools,
                    ("process", "name", "policy"),
                    ("pool", "workers", "queues", "serves", "unnamed"),
                )
            )
        ],
        stalls=_added(
            traces,
            lambda t: t.stalls,
            ("loop", "name", "function", "seen_at", "site", "span", "waits_for"),
            ("max_ns",),
        ),
        loans=_added(traces, lambda t: t.loans, ("name", "site", "part"), ("most",)),
        polls=_added(traces, lambda t: t.polls, ("part", "refused", "awaited"), ("most", "least")),
        calls=_calls(traces),
        held=_added(traces, lambda t: t.held, ("lock", "site", "name"), ("most",)),
        longest=[row for trace in traces[:1] for row in trace.longest],
        interpreter=_added(traces, lambda t: t.interpreter, ("kind", "name", "site"), ("max_ns",)),
        notes=list(dict.fromkeys(note for trace in traces for note in trace.notes)),
        makespans=[trace.makespan_ns for trace in traces],
        length_ns=sum(trace.length_ns for trace in traces),
        throttled=_throttled(traces),
    )


def _throttled(traces: Sequence[Tables]) -> Throttled:
    """Throttling of all traces; unknown where one does not know it."""
    absent = next((trace.throttled for trace in traces if trace.throttled.ns is None), None)
    if absent is not None:
        return absent
    most = max(traces, key=lambda trace: trace.throttled.ns or 0).throttled
    return most._replace(ns=sum(trace.throttled.ns or 0 for trace in traces))


def _locks(one: Lock, other: Lock) -> Lock:
    return Lock(
        one.lock, one.name, one.site, one.kind, max(one.instances, other.instances), one.holds + other.holds,
        one.hold_ns + other.hold_ns, max(one.max_hold_ns, other.max_hold_ns), one.waits + other.waits,
        one.wait_ns + other.wait_ns, max(one.max_wait_ns, other.max_wait_ns),
    )  # fmt: skip


def _added(
    traces: Iterable[Tables],
    of: Callable[[Tables], Sequence[Any]],
    key: tuple[str, ...],
    most: tuple[str, ...],
) -> list[Any]:
    """Rows of equal `key` as one: columns of `most` have the largest, all others the sum."""
    sums: dict[tuple[Any, ...], Any] = {}
    for trace in traces:
        for row in of(trace):
            at = tuple(getattr(row, name) for name in key)
            known = sums.get(at)
            if known is None:
                sums[at] = row
                continue
            values = {
                name: max(getattr(known, name), getattr(row, name)) if name in most
                else getattr(known, name) + getattr(row, name)
                for name in row._fields
                if name not in key
            }  # fmt: skip
            sums[at] = known._replace(**values)
    return list(sums.values())


def _calls(traces: Sequence[Tables]) -> list[Any]:
    """The cost of a call is that of the trace that knows most calls of known size."""
    rows = _added(
        traces, lambda t: t.calls, ("name", "parent"),
        ("max_ns", "most", "longest_run", "items", "fixed_ns", "each_ns"),
    )  # fmt: skip
    best: dict[tuple[str, str], Call] = {}
    for trace in traces:
        for row in trace.calls:
            key = row.name, row.parent
            if key not in best or row.sized > best[key].sized:
                best[key] = row
    return [
        row._replace(fixed_ns=best[row.name, row.parent].fixed_ns, each_ns=best[row.name, row.parent].each_ns)
        for row in rows
    ]
