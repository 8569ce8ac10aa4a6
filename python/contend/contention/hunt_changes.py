"""Two hunts finding by finding: what each cause takes of a job before and after a change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from contend.contention.hunt import Batch, candidates, least_share
from contend.contention.hunting.charges import Charges
from contend.contention.hunting.rows import Tables
from contend.text.shape import Count, Limits, Shape

# A cause that goes by another kind of finding after a change is the same one.
_FAMILIES = {
    "lock-across-call": "lock",
    **dict.fromkeys(("pool-fixed", "pool-small", "pool-busy", "pool-starved"), "pool"),
    **dict.fromkeys(("no-op-call", "repeated-call", "chatty", "n+1"), "call"),
}
_ALIKE = 0.1  # a part by which two times of one job may differ and still are about the same

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Change(Shape):
    """A cause in two batches. Times are of one job in the mean: batches may have different numbers of jobs."""

    kind: Annotated[str, "of the finding, in the batch where it takes more"]
    resource: str
    before_ns: Annotated[Count, "ns of a job"]
    after_ns: Annotated[Count, "ns of a job"]
    change: Annotated[str, Limits(enum=["gone", "less", "about the same", "more", "new"])]


def changes(before: Batch, after: Batch) -> list[Change]:
    """Compare all causes that are findings in either batch, those that take most of a job in either first. Empty where
    one of them has no jobs."""
    if not before.whole.jobs or not after.whole.jobs:
        return []
    one, other = _causes(before.whole), _causes(after.whole)
    rows = []
    for key in {**one, **other}:
        if (key in one and one[key][2]) or (key in other and other[key][2]):
            kind, was, is_now = _both(one.get(key), other.get(key))
            rows.append(Change(kind, key[1], was, is_now, _change(was, is_now, one.get(key), other.get(key))))
    return sorted(rows, key=lambda row: (-max(row.before_ns, row.after_ns), row.kind, row.resource))


Cause = tuple[str, int, bool]
"""Kind, ns of a job, and whether it is large enough for a finding."""


def _causes(tables: Tables) -> Mapping[Key, Cause]:
    causes: dict[Key, Cause] = {}
    for candidate in candidates(Charges(tables)):
        key = _FAMILIES.get(candidate.kind, candidate.kind), candidate.resource
        shown = candidate.ns > 0 and candidate.ns >= least_share(candidate) * tables.total_ns
        cause = candidate.kind, round(candidate.ns / len(tables.jobs)), shown
        if key not in causes or cause[1] > causes[key][1]:
            causes[key] = cause
    return causes


def _both(before: Cause | None, after: Cause | None) -> tuple[str, int, int]:
    was, is_now = before or ("", 0, False), after or ("", 0, False)
    return (was[0] if was[1] >= is_now[1] else is_now[0]), was[1], is_now[1]


def _change(was: int, is_now: int, before: Cause | None, after: Cause | None) -> str:
    if abs(was - is_now) <= _ALIKE * max(was, is_now):
        return "about the same"
    if is_now < was:
        return "less" if after is not None and after[2] else "gone"
    return "more" if before is not None and before[2] else "new"
