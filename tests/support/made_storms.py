"""Tables of storms of several sizes, made up: one lock that jobs queue for, one that they hardly wait for, a pool."""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from contend.contention.scaling import Storm, measure

MS = 1_000_000


def tables(jobs: int, seed: int = 1, *, hold_ms: float = 20, noise: float = 0.02, served: bool = True) -> Any:
    """Jobs that prepare for 30 ms, hold `db` in order, and then work a little; columns as `contend.contention.events`."""
    draw = random.Random(f"{seed}/{jobs}")
    slow = 1 + noise * draw.uniform(-1, 1)
    rows: dict[str, list[Any]] = {name: [] for name in ("jobs", "parts", "locks", "pools", "spans")}
    free, held, waited = 0.0, 0.0, 0.0
    for job in range(jobs):
        ready = 30 * draw.uniform(0.9, 1.1) * slow
        hold = hold_ms * draw.uniform(0.9, 1.1) * slow
        begin = max(ready, free)
        free = begin + hold
        held += hold
        waited += begin - ready
        end = int((free + 10) * MS)
        rows["jobs"].append(SimpleNamespace(job=job, name="boot", begin_ns=0, end_ns=end))
        told = {"prepare": ready, "claim": hold, "spawn": 10.0}
        for part, ms in told.items():
            rows["parts"].append(
                SimpleNamespace(job=job, kind="running", part=part, resource="", ns=int(ms * MS))
            )
        ns = int((begin - ready) * MS)
        rows["parts"].append(SimpleNamespace(job=job, kind="lock", part="claim", resource="db", ns=ns))
    locks = (("db", held, waited, 1), ("cache", jobs * 2.0, 0.1, 1), ("own", jobs * 15.0, 0.1, jobs))
    rows["locks"] = [
        SimpleNamespace(
            name=name, kind="lock", instances=instances, hold_ns=int(h * MS), waits=jobs, wait_ns=int(w * MS)
        )
        for name, h, w, instances in locks
    ]
    if served:
        rows["pools"] = [SimpleNamespace(name="rpc", workers=4, busy_ns=int(jobs * 12 * MS), queued_ns=MS)]
    rows["spans"] = [
        SimpleNamespace(name="claim", total_ns=int((held + waited) * MS)),
        SimpleNamespace(name="prepare", total_ns=int(jobs * 30 * MS)),
    ]
    return SimpleNamespace(**rows)


def storms(sizes: Sequence[int] = (4, 8, 16, 32), each: int = 2, **of: float) -> list[Storm]:
    return [
        measure(tables(n, seed, **of), f"traces/{n}-{seed}")  # type: ignore[arg-type]
        for n in sizes
        for seed in range(each)
    ]
