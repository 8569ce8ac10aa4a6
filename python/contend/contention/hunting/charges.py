"""Whom the waits of the jobs are charged to.

A job's time on its critical path is that of code, or of waiting: for a lock, a pool's worker, a reply, a CPU. What was
waited for at a lock is handed on to what its holders waited for meanwhile: another lock, or a worker of the pool behind
the call that the lock was held across. What is left is the lock's own: the time that a fix of the lock takes away and a
fix of what is behind it does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from contend.contention.hunting.rows import BATCH, Lock, Poll, Pool, Tables

Resource = tuple[str, str]
"""Kind and name: ("lock", "compute_resources")."""

RUNS = ("running", "suspended", "cpu", "blocked", "sleep")
NOT_HELD = ("condition", "queue", "interpreter")
GIL = "GIL"
COMPUTES = 0.5
"""Of the time in which items are served: a pool whose workers run so much of it is no larger with more of them."""
GIL_PART = 0.1
"""Of the time that workers compute or wait for the interpreter's lock: that they wait so much says whose time it is."""
_DEEPEST = 8  # locks whose holders wait for locks
_CALL, _SERVE = "rpc call ", "rpc serve "


class Did(NamedTuple):
    """A share of what a lock's holders did while it was waited for: `doing` as in the table blame; 0–1 of all that was
    waited."""

    doing: str
    culprit: str
    ns: int
    share: float


@dataclass(frozen=True)
class Charges:
    """Charges of one batch of jobs; times are sums over its jobs, ns."""

    tables: Tables

    @cached_property
    def waited(self) -> Mapping[Resource, int]:
        """Waiting time by what the jobs waited for, before anything is handed on."""
        waits: dict[Resource, int] = {}
        for row in self.tables.time:
            # Of time that ran it is of no matter what led there.
            key = (row.kind, row.part if row.kind in RUNS else row.resource)
            waits[key] = waits.get(key, 0) + row.ns
        if not waits:  # no jobs are on record: what anybody waited for
            waits |= {("lock", lock.name): lock.wait_ns for lock in self.locks.values()}
            waits |= {("pool", pool.name): pool.queued_ns for pool in self.pools.values()}
            gil_ns = sum(lock.wait_ns for lock in self.tables.locks if _is_gil(lock))
            waits |= {("gil", GIL): gil_ns} if gil_ns else {}
        return waits

    @cached_property
    def locks(self) -> Mapping[str, Lock]:
        """Locks by name that somebody can hold; where several have one name, the one that was waited for longest."""
        ranked = sorted(self.tables.locks, key=lambda lock: lock.wait_ns)
        return {lock.name: lock for lock in ranked if lock.kind not in NOT_HELD}

    @cached_property
    def conditions(self) -> Mapping[str, Lock]:
        """Conditions by name."""
        return {lock.name: lock for lock in self.tables.locks if lock.kind == "condition"}

    @cached_property
    def looks(self) -> Mapping[Poll, int]:
        """Waiting time for the interpreter's lock between sleeps of those who look again and again: for each look they need
        it."""
        left = self.waited.get(("gil", GIL), 0) if self.tables.jobs else 0
        looks: dict[Poll, int] = {}
        for row in self.tables.polls:
            if not (row.refused or row.awaited) or row.may_be_work:
                continue
            looks[row] = min(left, row.between_ns)
            left -= looks[row]
        return looks

    @cached_property
    def woken(self) -> Mapping[Resource, int]:
        """Waiting time of jobs for the interpreter's lock, to go on with a lock, or after a condition that several wait for:
        who had not waited there would not have let it go. By that lock or condition."""
        waits: dict[Resource, int] = {}
        left = self.waited.get(("gil", GIL), 0) - sum(self.looks.values())
        for (kind, name), ns in self.waited.items() if self.tables.jobs else ():
            lock = {"lock": self.locks, "condition": self.conditions}.get(kind, {}).get(name)
            if lock is None or not lock.gil_ns or (kind == "condition" and not lock.shared):
                continue
            more = min(left, round(ns * lock.gil_ns / max(lock.wait_ns - lock.gil_ns, 1)), lock.gil_ns)
            waits[kind, name] = more
            left -= more
        return waits

    @cached_property
    def meanwhile(self) -> Mapping[str, tuple[Did, ...]]:
        """Deeds of the holders of each lock while it was waited for, most first."""
        sums: dict[str, dict[tuple[str, str], int]] = {}
        for row in self.tables.blame:
            of = sums.setdefault(self.tables.lock_names.get(row.lock, ""), {})
            of[row.doing, row.culprit] = of.get((row.doing, row.culprit), 0) + row.ns
        return {
            name: tuple(
                Did(*key, ns, ns / max(sum(of.values()), 1))
                for key, ns in sorted(of.items(), key=lambda item: (-item[1], item[0]))
            )
            for name, of in sums.items()
        }

    @cached_property
    def pools(self) -> Mapping[str, Pool]:
        """Pools by name; where several have one name, the one whose items waited longest."""
        ranked = sorted(self.tables.pools, key=lambda pool: pool.queued_ns)
        return {pool.name: pool for pool in ranked}

    def behind(self, call: str) -> list[Pool]:
        """Pools in whose queues items of what serves the call waited: those of the process that serves it."""
        served = call.replace(_CALL, _SERVE, 1)
        processes = {span.process for span in self.tables.spans if span.name == served != call}
        return [pool for pool in self.pools.values() if pool.process in processes and pool.queued_ns]

    def part_of_served(self, call: str) -> float:
        """The call's part, by time, of all that the processes serve which serve it."""
        served = call.replace(_CALL, _SERVE, 1)
        processes = {span.process for span in self.tables.spans if span.name == served != call}
        there = [s for s in self.tables.spans if s.process in processes and s.name.startswith(_SERVE)]
        whole = sum(span.total_ns for span in there)
        return sum(span.total_ns for span in there if span.name == served) / whole if whole else 0.0

    @cached_property
    def reached(self) -> Mapping[str, int]:
        """Waiting time of jobs for a worker of each pool, also while what they waited for waited there."""
        waits: dict[str, int] = {}
        for row in self.tables.critical:
            if row.job != BATCH and row.kind == "pool":
                waits[row.resource] = waits.get(row.resource, 0) + row.ns
        return waits

    @cached_property
    def charged(self) -> Mapping[Resource, int]:
        """Charges by root: locks and pools with what was handed on to them, and without what they handed on."""
        charges: dict[Resource, float] = {}
        for (kind, name), ns in self.waited.items():
            if kind == "lock" and name in self.locks:
                self._to_locks(name, ns, charges, 0)
            else:
                charges[kind, name] = charges.get((kind, name), 0) + ns
        for key, ns in self.woken.items():
            charges[key] = charges.get(key, 0) + ns
            charges["gil", GIL] -= ns
        if looked := sum(self.looks.values()):
            charges["gil", GIL] -= looked
        for name, ns in self.reached.items():
            self._to_pool(name, ns, charges)
        for name in self.pools:
            if self._is_gil_bound(name) and ("pool", name) in charges:
                # Its own lock is held while its workers start, which wait for the interpreter's too.
                own = charges.pop(("lock", name), 0) + charges.pop(("pool", name))
                charges["gil", GIL] = charges.get(("gil", GIL), 0) + own
        return {key: round(ns) for key, ns in charges.items()}

    @cached_property
    def gil_bound(self) -> Mapping[str, int]:
        """Waiting time for a worker of each pool whose workers have one interpreter's lock between them: what was waited
        for is the lock."""
        waits = {
            name: max(self.waited.get(("pool", name), 0), self.reached.get(name, 0)) for name in self.pools
        }
        return {name: ns for name, ns in waits.items() if ns and self._is_gil_bound(name)}

    def _is_gil_bound(self, name: str) -> bool:
        pool = self.pools[name]
        waits = pool.gil_ns >= GIL_PART * (pool.running_ns + pool.gil_ns) > 0
        return pool.computing >= COMPUTES and waits

    def _to_locks(self, name: str, ns: float, charges: dict[Resource, float], depth: int) -> None:
        """Waits for a lock whose holders wait for another lock are that one's."""
        own = ns
        for did in self.meanwhile.get(name, ()) if depth < _DEEPEST else ():
            if did.doing == "waiting" and did.culprit in self.locks and did.culprit != name:
                self._to_locks(did.culprit, ns * did.share, charges, depth + 1)
                own -= ns * did.share
            elif (did.doing, did.culprit) == ("waiting", GIL):
                charges["gil", GIL] = charges.get(("gil", GIL), 0) + ns * did.share
                own -= ns * did.share
        charges["lock", name] = charges.get(("lock", name), 0) + max(own, 0.0)

    def _to_pool(self, name: str, ns: int, charges: dict[Resource, float]) -> None:
        """Charge what is more than the jobs waited for a worker themselves to locks, by the calls these are held across."""
        more = max(0.0, ns - charges.get(("pool", name), 0))
        from_lock = {
            lock: min(
                charges.get(("lock", lock), 0.0),
                self.waited.get(("lock", lock), 0)
                * sum(d.share for d in did if d.doing == "remote" and self._is_behind(name, d.culprit)),
            )
            for lock, did in self.meanwhile.items()
        }
        whole = sum(from_lock.values())
        more = min(more, whole)
        if more <= 0:
            return
        for lock, ns_of in from_lock.items():
            if ns_of:
                charges["lock", lock] -= more * ns_of / whole
        charges["pool", name] = charges.get(("pool", name), 0) + more

    def _is_behind(self, pool: str, call: str) -> bool:
        return any(other.name == pool for other in self.behind(call))


def _is_gil(lock: Lock) -> bool:
    return (lock.name, lock.kind) == (GIL, "interpreter")
