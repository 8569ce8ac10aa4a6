"""Tables of traces that were never recorded, with known answers: what a hunt looks at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from contend.contention.hunting.rows import (
    BATCH,
    Blame,
    Call,
    Critical,
    Held,
    Job,
    Lock,
    Longest,
    Part,
    Pool,
    Span,
    Tables,
)

MS = 1_000_000
CALL, SERVE = "rpc call update", "rpc serve update"


def job(number: int, ms: int) -> Job:
    """All begin at once."""
    return Job(number, "boot", number, "driver", f"client-{number}", 1000 * MS, (1000 + ms) * MS, "mark")


def lock(number: int, name: str, *, waited: int, held: int, holds: int = 10, kind: str = "lock") -> Lock:
    return Lock(
        number, name, "app.py:7", kind, 1, holds, held * MS, held * MS // holds, holds - 1, waited * MS, waited * MS // 2
    )  # fmt: skip


def call(name: str = CALL, **told: Any) -> Call:
    """Ten calls of 10 ms each by five spans, whose arguments all differ."""
    plain: dict[str, Any] = {
        **dict.fromkeys(Call._fields, 0), "name": name, "parent": "claim", "calls": 10, "ns": 100 * MS,
        "max_ns": 20 * MS, "parents": 5, "most": 2, "digests": 10, "fixed_ns": math.nan, "each_ns": math.nan,
    }  # fmt: skip
    return Call(**{**plain, **told})


def batch(
    *,
    jobs: int = 10,
    ms: int = 100,
    waits: Sequence[tuple[str, str, int]] = (),
    followed: Sequence[tuple[str, str, int]] | None = None,
    **tables: Any,
) -> Tables:
    """So many jobs of `ms`, which waited for (kind, resource, ms in sum) and ran else; `followed`: the same of their
    critical paths, where it differs."""
    found = [Part(0, kind, "claim", resource, ns * MS) for kind, resource, ns in waits]
    found.append(Part(0, "running", "build", "", jobs * ms * MS - sum(part.ns for part in found)))
    critical = [
        Critical(0, kind, "claim", name, "", "compute", ns * MS) for kind, name, ns in followed or waits
    ]
    path = Critical(BATCH, "running", "build", "", "", "compute", ms * MS)
    return Tables(
        source="made",
        chosen=f"{jobs} jobs (boot): marked as jobs",
        jobs=[job(number, ms) for number in range(jobs)],
        parts=found,
        along=found,
        critical=[path, *critical],
        **tables,
    )


def across_a_call() -> Tables:
    """Lock db is held across a call, lock cache is not; the call is not slow by itself."""
    return batch(
        waits=[("lock", "db", 500), ("lock", "cache", 50)],
        locks=[lock(0, "db", waited=500, held=90), lock(1, "cache", waited=50, held=30)],
        blame=[
            Blame(0, "claim", "remote", CALL, 450 * MS),
            Blame(0, "claim", "span", "account", 50 * MS),
            Blame(1, "look", "span", "look", 50 * MS),
        ],
        spans=[Span(CALL, "compute", 100 * MS, 100 * MS, 20 * MS, 10)],
        calls=[call()],
        held=[Held("db", "app.py:7", CALL, 10, 90 * MS, 5, 2)],
        longest=[Longest(1, "db", "client-3", "compute", 77, 1_020_000_000, 80 * MS)],
    )


def behind_a_pool(policy: str = "fixed", wasted: int = 300) -> Tables:
    """Lock db is held across a call that waits for a worker of a pool most of its time."""
    return batch(
        waits=[("lock", "db", 500), ("pool", "writers", 100)],
        followed=[("pool", "writers", 460), ("running", "db", 140)],
        locks=[lock(0, "db", waited=500, held=90)],
        blame=[Blame(0, "claim", "remote", CALL, 450 * MS), Blame(0, "claim", "span", "account", 50 * MS)],
        spans=[
            Span(CALL, "compute", 500 * MS, 500 * MS, 60 * MS, 10),
            Span(SERVE, "conductor", 480 * MS, 480 * MS, 60 * MS, 0),
        ],
        pools=[Pool(0, "conductor", "writers", 4, 20, 90 * MS, 400 * MS, wasted * MS, policy)],
    )
