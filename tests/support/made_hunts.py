"""Tables of traces that were never recorded, with known answers: what a hunt looks at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from contend.advice.finding import Finding
from contend.contention.hunt import Batch, Hunt, hunt
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
from contend.contention.hunting.together import together

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


HOSTILE = "</script><b>lock</b> & 'more'"


def storm(scale: float = 1.0, name: str = "before") -> Tables:
    """Twenty boots, each of which waits longer than the one before; with a name that is hard to bear."""
    jobs, parts = [], []
    update = "rpc call instance_update"
    for number in range(20):
        own = [
            ("lock", "claim", "compute_resources", round(45 * number * scale)),
            ("running", "lab.compute:Compute.fetch_image", "", 300),
            ("running", "lab.compute:Compute.allocate_network", "", 300),
            ("lock", "define", HOSTILE, 120 + 5 * number),
            ("pool", "update", "db-worker", 40 + 3 * number),
            ("reply", update, update, 60),
            ("gil", "", "GIL", 5),
        ]
        begin = 1000 + 3 * number
        took = sum(ms for *_, ms in own)
        client = f"client-{number}"
        jobs.append(Job(number, "boot", number, "driver", client, begin * MS, (begin + took) * MS, "mark"))
        parts += [Part(number, kind, part, resource, ms * MS) for kind, part, resource, ms in own]
    path = [
        Critical(BATCH, "running", "lab.conductor:Database.update", update, "", "conductor", 900 * MS),
        Critical(BATCH, "running", "lab.compute:Compute.fetch_image", "", "", "compute", 300 * MS),
        Critical(BATCH, "pool", "update", "db-worker", "", "conductor", 200 * MS),
    ]
    followed = [Critical(p.job, p.kind, p.part, p.resource, "", "compute", p.ns) for p in parts]
    return Tables(
        source=f"lab/{name}",
        chosen="20 jobs (boot): marked as jobs",
        jobs=jobs,
        parts=parts,
        along=parts,
        critical=[*path, *followed],
        locks=[
            lock(0, "compute_resources", waited=8550, held=900, holds=20),
            lock(1, HOSTILE, waited=3350, held=800, holds=800),
        ],
        blame=[
            Blame(0, "lab.compute:ResourceTracker.claim", "remote", update, 7900 * MS),
            Blame(0, "lab.compute:ResourceTracker.claim", "span", "lab.compute:ResourceTracker._account", 650 * MS),
            Blame(1, "lab.compute:Hypervisor.define", "span", "lab.compute:Hypervisor._call", 3200 * MS),
            Blame(1, "lab.compute:Hypervisor.define", "nobody", "", 150 * MS),
        ],
        pools=[Pool(0, "conductor", "db-worker", 4, 180, 900 * MS, 1300 * MS, 800 * MS, "fixed")],
        calls=[
            call(
                update, calls=180, ns=1800 * MS, digests=180, repeated=60, seen=60, seen_ns=600 * MS,
                repeated_ns=600 * MS, runs=20, run_calls=120, run_ns=1200 * MS, longest_run=6, parent="lab:update",
            )
        ],
        held=[Held("compute_resources", "app.py:7", update, 120, 800 * MS, 20, 6)],
        longest=[Longest(1, "compute_resources", "client-3", "compute", 77, 1_020_000_000, 800 * MS)],
        notes=["3 events were not recorded: the rings were full"],
    )  # fmt: skip


def found(*traces: Tables) -> Hunt:
    """What a hunt in these traces finds."""
    return hunt(Batch("made", traces, together(traces), None, "not recorded"))


def first(tables: Tables) -> Finding:
    """The first thing it finds."""
    return found(tables).findings[0]


def ranked(tables: Tables) -> list[tuple[str, str]]:
    """Kind and resource of each finding, in order."""
    return [(finding.kind, finding.resource) for finding in found(tables).findings]
