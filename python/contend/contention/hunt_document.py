"""A hunt as machines read it: what `contend hunt --json` prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from contend.advice.finding import Finding
from contend.contention.alibi.verdict import Alibi
from contend.contention.hunt import Hunt, Jobs
from contend.contention.hunt_changes import Change, changes
from contend.contention.hunting.charges import Charges
from contend.contention.scaling_document import ScalingDocument, scaling_document
from contend.text.shape import Count, Limits, Shape

Nanoseconds = Annotated[Count, "ns"]


@dataclass(frozen=True, slots=True)
class SharesDocument(Shape):
    """The whole that shares of findings are parts of: the time of all jobs in sum; where there are none, the length of the
    trace (of all traces in sum), of which threads together may wait more than all."""

    what: Literal["jobs", "trace"]
    ns: Nanoseconds


@dataclass(frozen=True, slots=True)
class TimeDocument(Shape):
    """Where the jobs' time went, in sum; the largest first."""

    kind: Annotated[
        str, "running, lock, pool, reply, queue, condition, gil, cpu, suspended, io, sleep, blocked"
    ]
    resource: Annotated[str, "name of lock, pool or call; of what is no wait for one the span; or empty"]
    ns: Nanoseconds


@dataclass(frozen=True, slots=True)
class BlameDocument(Shape):
    """Who waited for which lock, and what its holders did meanwhile; the largest first."""

    lock: str
    victim: Annotated[str, "the span that waited, or empty"]
    doing: Annotated[str, Limits(enum=["span", "remote", "waiting", "track", "io", "nobody"])]
    culprit: Annotated[str, "its name"]
    ns: Nanoseconds


@dataclass(frozen=True, slots=True)
class OtherDocument(Shape):
    """Beside it: other cells, or --vs."""

    source: str
    traces: Count
    jobs: Jobs
    changes: Annotated[
        tuple[Change, ...],
        "what each cause takes of a job here (after) and in the batch (before); most first",
    ]


@dataclass(frozen=True, slots=True)
class HuntDocument(Shape):
    """Causes that held a batch of jobs up, ranked. Times are integers in ns."""

    source: str
    traces: Annotated[Count, "that were put together"]
    chosen: Annotated[str, "what the jobs are, in a sentence"]
    alibi: Alibi | None
    no_alibi: Annotated[str, "why there is none, and how to get one"]
    jobs: Jobs
    findings: tuple[Finding, ...]
    hidden: Annotated[Count, "findings below least_share, or beyond --top"]
    least_share: Annotated[float, Limits(minimum=0, maximum=1)]
    shares_of: SharesDocument
    looked_at: tuple[str, ...]
    time: tuple[TimeDocument, ...]
    whereabouts: Annotated[str, "where the jobs' time is, in a sentence; empty without jobs"]
    blame: tuple[BlameDocument, ...]
    others: tuple[OtherDocument, ...]
    growth: ScalingDocument | None
    notes: tuple[str, ...]


def hunt_document(hunt: Hunt) -> HuntDocument:
    batch, whole = hunt.batch, hunt.batch.whole
    waited = sorted(Charges(whole).waited.items(), key=lambda item: (-item[1], item[0]))
    blame = sorted(whole.blame, key=lambda row: (-row.ns, row.lock, row.victim, row.culprit))
    return HuntDocument(
        source=batch.name,
        traces=len(batch.traces),
        chosen=whole.chosen,
        alibi=batch.alibi or None,
        no_alibi=batch.no_alibi,
        jobs=batch.jobs,
        findings=hunt.findings,
        hidden=hunt.hidden,
        least_share=hunt.least_share,
        shares_of=SharesDocument("jobs" if whole.jobs else "trace", whole.total_ns),
        looked_at=hunt.looked_at,
        time=tuple(TimeDocument(kind, resource, ns) for (kind, resource), ns in waited),
        whereabouts=hunt.whereabouts,
        blame=tuple(
            BlameDocument(
                whole.lock_names.get(row.lock, ""),
                row.victim,
                row.doing,
                row.culprit,
                row.ns,
            )
            for row in blame
        ),
        others=tuple(
            OtherDocument(of.name, len(of.traces), of.jobs, tuple(changes(batch, of))) for of in hunt.others
        ),
        growth=None if hunt.growth is None else scaling_document(hunt.growth),
        notes=(*whole.notes, *([hunt.no_growth] if hunt.no_growth else [])),
    )
