"""A hunt over batches of several sizes: which of them are storms, and what the hardware did in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from contend.contention.alibi.verdict import Alibi
from contend.contention.scaling import Scaling, Tables, measure, scale
from contend.errors import BadInput

LEAST_RATIO = 1.5
"""Of the largest batch to the smallest: a service that serves a few requests more or less is of one size."""


class Trace(Tables, Protocol):
    @property
    def source(self) -> str: ...


T = TypeVar("T", bound=Trace)


class Batch(Protocol):
    """Traces of one kind of storm (see `contend.contention.hunt`)."""

    @property
    def traces(self) -> Sequence[Trace]: ...
    @property
    def alibi(self) -> Alibi | None: ...


def by_size(traces: Sequence[T]) -> list[list[T]]:
    """Join traces with as many jobs, the most jobs first; all of them where their sizes are about the same."""
    sizes = [len(trace.jobs) for trace in traces]
    if not sizes or max(sizes) < LEAST_RATIO * max(min(sizes), 1):
        return [list(traces)] if traces else []
    return [
        [trace for trace, size in zip(traces, sizes, strict=True) if size == wanted]
        for wanted in sorted(set(sizes), reverse=True)
    ]


def growth(batches: Sequence[Batch], *, limit_ns: int | None = None) -> tuple[Scaling | None, str]:
    """Measure what grows with the number of jobs. None, and why, where that cannot be done; "" where only one size was
    given.

    Raises BadInput where a limit was asked for and there is no growth to be followed to it.
    """
    scaling, why, hint = None, "", "hunt traces of storms of three sizes or more"
    traces = [trace for batch in batches for trace in batch.traces if trace.jobs]
    sizes = [len(batch.traces[0].jobs) for batch in batches if batch.traces]
    if len(by_size(traces)) > 1 and len(set(sizes)) < len(sizes):
        twice = max(n for n in sizes if sizes.count(n) > 1)
        why = f"several cells have {twice} jobs, so they differ in more than their size"
        hint = "name the traces of one kind of storm for what grows with the number of jobs"
    elif len(by_size(traces)) > 1:
        try:
            storms = [measure(trace, trace.source) for trace in traces]
            scaling = scale(storms, limit_ns=limit_ns, alibi=hardware(batches))
        except BadInput as error:
            why, hint = str(error), error.hint or hint
    if scaling is None and limit_ns is not None:
        raise BadInput(why or "all traces are of one size: no N can be told that breaks a limit", hint=hint)
    return scaling, f"{why}; {hint}" if why else ""


def hardware(batches: Sequence[Batch]) -> str:
    """Sum up the hardware of all batches: "idle" if it was so in each, else what was at its limit in any, "" where one
    has no verdict."""
    verdicts = [batch.alibi.verdict if batch.alibi is not None else "unknown" for batch in batches]
    limits = [verdict for verdict in verdicts if verdict not in ("idle", "unknown")]
    if limits:
        return max(limits, key=limits.count)
    return "idle" if verdicts and "unknown" not in verdicts else ""
