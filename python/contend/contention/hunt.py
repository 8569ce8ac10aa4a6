"""`hunt`: where the time of a batch of jobs went, and what would be worth changing, ranked."""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from contend.advice.finding import Finding
from contend.contention.alibi.beside import NONE, beside
from contend.contention.alibi.verdict import Alibi
from contend.contention.growth import by_size
from contend.contention.hunting import calls, conditions, interpreter, kernel, locks, pools
from contend.contention.hunting.charges import Charges
from contend.contention.hunting.rows import LIFE, Tables, read
from contend.contention.hunting.rules import Candidate, Rule
from contend.contention.hunting.together import together
from contend.contention.hunting.whereabouts import whereabouts
from contend.contention.scaling import Scaling
from contend.contention.scaling_findings import scaling_findings
from contend.stats.estimate import Estimate
from contend.stats.quantiles import t_quantile
from contend.text.shape import Count, Shape
from contend.units import NS_PER_S

LEAST_SHARE = 0.03
"""Of the jobs' time: less is not worth a finding. What two busy threads wait for each other by chance is below."""
LEAST_DELAY = 0.1
"""As above, of waits for a CPU or the interpreter's lock, for which all wait a little, and of sleeps that may be work."""
LEVEL = 0.95

RULES: tuple[Rule, ...] = (
    locks.locks, conditions.conditions, pools.pools, pools.starved, calls.calls, calls.ways,
    interpreter.interpreter, kernel.kernel,
)  # fmt: skip
# Of equal rank first what is named by its cause.
_ORDER = (
    "lock-across-call",
    "lock",
    "condition",
    "pool-fixed",
    "pool-small",
    "pool-busy",
    "pool-starved",
    "no-op-call",
    "n+1",
    "chatty",
    "repeated-call",
)


@dataclass(frozen=True, slots=True)
class Jobs(Shape):
    """The batch."""

    n: Count
    median_ns: Annotated[Count, "ns"]
    p90_ns: Annotated[Count, "ns"]
    makespan_ns: Annotated[Count, "ns from the first begin to the last end; of several traces the median"]


@dataclass(frozen=True)
class Batch:
    """One or several traces of one thing: those of one cell, or one trace that was named."""

    name: str
    traces: tuple[Tables, ...]
    whole: Tables
    alibi: Alibi | None
    no_alibi: str
    """Why there is none, and how to get one."""
    pattern: str | None = None
    """Of the jobs, where one was given."""

    @property
    def jobs(self) -> Jobs:
        whole = self.whole
        return Jobs(len(whole.jobs), whole.median_ns, whole.p90_ns, whole.makespan_ns)


@dataclass(frozen=True)
class Hunt:
    """The answer. `findings` are ranked; `hidden` were below `least_share`; `looked_at` is what was."""

    batch: Batch
    findings: tuple[Finding, ...]
    hidden: int
    least_share: float
    looked_at: tuple[str, ...]
    others: tuple[Batch, ...] = ()
    growth: Scaling | None = None
    """Over batches of several sizes."""
    no_growth: str = ""
    """Why there is none although sizes differ."""
    whereabouts: str = ""
    """Where the jobs' time is, in a sentence."""


def hunt(
    batch: Batch,
    others: Sequence[Batch] = (),
    *,
    top: int | None = None,
    growth: Scaling | None = None,
    no_growth: str = "",
) -> Hunt:
    """Rank causes in `batch` by the jobs' time that they explain; `others` are shown beside it.

    What grows with the number of jobs comes first, where it is known.
    """
    charges = Charges(batch.whole)
    ranked = sorted(
        candidates(charges),
        key=lambda c: (
            c.unsure,
            -c.ns,
            _ORDER.index(c.kind) if c.kind in _ORDER else len(_ORDER),
            c.resource,
        ),
    )
    shown = [c for c in ranked if c.ns > 0 and c.ns >= least_share(c) * batch.whole.total_ns]
    each = [_by_resource(trace) for trace in batch.traces]
    findings = tuple(
        _finding(number, candidate, batch, each) for number, candidate in enumerate(shown[:top], start=1)
    )
    hidden = len(ranked) - len(findings)
    if growth is not None:
        findings = (*scaling_findings(growth, parts=False), *findings)
    looked = tuple(_looked(charges))
    return Hunt(
        batch, findings, hidden, LEAST_SHARE, looked, tuple(others), growth, no_growth, whereabouts(charges)
    )


def candidates(charges: Charges) -> list[Candidate]:
    """Causes that all rules name, in no order and of any size."""
    return [candidate for rule in RULES for candidate in rule(charges)]


def least_share(of: Candidate) -> float:
    """Return the part of the jobs' time below which a cause is no finding."""
    return LEAST_DELAY if of.kind in ("cpu", "gil") or (of.kind == "polling" and of.guessed) else LEAST_SHARE


def _by_resource(trace: Tables) -> Mapping[tuple[str, str], int]:
    return {_key(c): c.ns for c in candidates(Charges(trace))}


def _key(candidate: Candidate) -> tuple[str, str]:
    return candidate.kind, candidate.key or candidate.resource


def _finding(
    number: int, candidate: Candidate, batch: Batch, each: Sequence[Mapping[tuple[str, str], int]]
) -> Finding:
    whole = batch.whole
    key = _key(candidate)
    jobs = f" --job {shlex.quote(batch.pattern)}" if batch.pattern is not None else ""
    # What-if knows jobs by spans and marks.
    replayed = candidate.edits if not whole.jobs or whole.jobs[0].how != LIFE else ""
    edits = f"contend whatif {shlex.quote(whole.source)}{jobs} {replayed}" if replayed else ""
    return Finding(
        id=f"hunt-{number}-{candidate.kind}",
        kind=candidate.kind,
        subject="jobs",
        resource=candidate.resource,
        sentence=candidate.sentence,
        share=_share(candidate.ns, whole),
        estimate=_estimate([charged.get(key, 0) / NS_PER_S for charged in each]),
        evidence=candidate.evidence,
        advice=candidate.advice,
        verify=edits,
        edit=replayed,
    )


def _share(ns: float, whole: Tables) -> float | None:
    """Share of the jobs' time, never more than all; without jobs of the trace's length, in which several threads wait."""
    if not whole.total_ns:
        return None
    share = ns / whole.total_ns
    return round(min(1.0, share) if whole.jobs else share, 4)


def _estimate(seconds: Sequence[float]) -> Estimate:
    """Estimate of one batch, from several of them. Jobs of one batch share its queues: of one trace there is no interval."""
    n, mean = len(seconds), statistics.fmean(seconds)
    method = "time of the jobs in sum; mean over traces"
    if n < 2:
        return Estimate(mean, -math.inf, math.inf, "s", n, LEVEL, method, "too few")
    half = t_quantile((1 + LEVEL) / 2, n - 1) * statistics.stdev(seconds) / math.sqrt(n)
    return Estimate(
        mean, max(0.0, mean - half), mean + half, "s", n, LEVEL, f"{method}, Student's t", "level"
    )


def _looked(charges: Charges) -> Iterator[str]:
    """Name what was on record to be looked at."""
    tables = charges.tables
    yield _many(len(tables.jobs), "job")
    yield f"{_many(len(charges.locks), 'lock')}, {_many(sum(k.waits for k in charges.locks.values()), 'wait')}"
    yield _many(len(tables.pools), "pool")
    digests = sum(call.digests for call in tables.calls)
    made = sum(call.calls for call in tables.calls)
    known = "" if not made or digests else ", no arguments to compare (--no-digests)"
    yield f"{_many(made, 'call')} that leave the process{known}"
    yield "the interpreter's lock, garbage collections, event loops, system calls"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def batch_of(name: str, sources: Sequence[Path], jobs: str | None) -> Batch:
    """Read traces of one thing. Raises BadInput, HostFailed."""
    traces = tuple(read(source, jobs) for source in sources)
    alibi, why = alibi_beside(sources, traces)
    return Batch(name, traces, together(traces), alibi, why, jobs)


def by_jobs(batches: Sequence[Batch]) -> list[Batch]:
    """Join batches with as many jobs, the most jobs first; all as one where their sizes are about the same."""
    sizes = by_size([batch.whole for batch in batches])
    return [_joined([b for b in batches if any(b.whole is whole for whole in of)]) for of in sizes]


def _joined(batches: Sequence[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    traces = tuple(trace for batch in batches for trace in batch.traces)
    known = next((batch for batch in batches if batch.alibi is not None), batches[0])
    name = f"{batches[0].name} and {len(batches) - 1} more"
    return Batch(name, traces, together(traces), known.alibi, known.no_alibi)


def alibi_beside(sources: Sequence[Path], traces: Sequence[Tables]) -> tuple[Alibi | None, str]:
    """The hardware's alibi while the jobs ran, or "" and why there is none. From the recording beside the first trace
    that has one, or from the run whose trial it is of; or why there is none.
    """
    for source, trace in zip(sources, traces, strict=True):
        begin = min((job.begin_ns for job in trace.jobs), default=None)
        alibi = beside(source, begin, max((job.end_ns for job in trace.jobs), default=None))
        if alibi is not None:
            return alibi, ""
    return None, NONE
