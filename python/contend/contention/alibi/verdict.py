"""The verdict on one phase, as plain values. Its JSON Schema is docs/reference/alibi.schema.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from contend.advice.finding import Evidence
from contend.contention.alibi.words import paragraph
from contend.text.shape import HIDDEN, Count, Limits, Named, Shape, computed

# In the order in which equal waiting is decided.
RESOURCES = ("memory", "throttling", "steal", "disk", "network", "cpu", "thread")
VERDICTS = (*RESOURCES, "idle", "unknown")
Verdict = Annotated[str, Limits(enum=list(VERDICTS))]


@dataclass(frozen=True, slots=True)
class Saturation(Shape):
    """One resource that was at its limit during a part of the phase.

    What waited for it is the currency by which several are ranked; of a busy thread it is the time it was busy, for nobody
    counts who waits for it. A cause is a disk's that is busy swapping. Ranges are to the width of a bin.
    """

    resource: Annotated[str, Limits(enum=list(RESOURCES))]
    subject: Annotated[str, "CPUs, a thread, a device, an interface, a cgroup"]
    share: Annotated[float, "part of the phase, 0–1"]
    waited: Annotated[float, "part of the phase in which something waited for it: the order of the list"]
    ranges: Annotated[tuple[tuple[int, int], ...], "start and end, ns of CLOCK_MONOTONIC"]
    evidence: tuple[Evidence, ...]
    cause: Annotated[str, "the resource whose shortage explains this one, or empty"] = ""


@dataclass(frozen=True, slots=True)
class CellAlibi(Shape):
    """The hardware while a cell was measured, by the series recorded beside its trials.

    The verdict is that of most of the cell's counted trials, the text that of the trial in their middle.
    """

    cell: str
    factors: Mapping[str, str]
    verdict: Verdict
    subject: str
    trials: Annotated[Count, "counted trials that hold samples, the first thirty"]
    agreeing: Annotated[Count, "of them, those with this verdict"]
    text: str
    workload_verdict: Annotated[
        str,
        Limits(enum=["", *VERDICTS]),
        Named("party_verdict"),
        "what held the measured party up; empty: its processes were not told apart",
    ] = ""
    workload_agreeing: Annotated[Count, Named("party_agreeing")] = 0
    workload_text: Annotated[str, Named("party_text")] = ""


@dataclass(frozen=True, slots=True)
class PhaseAlibi(Shape):
    """The hardware in a phase of the run, or in all of it, by the series recorded."""

    phase: Annotated[str, "run, from its first trial to its last; pilot; counted"]
    verdict: Verdict
    subject: str
    text: str
    start_ns: Annotated[int, "CLOCK_MONOTONIC"]
    end_ns: int


@dataclass(frozen=True, slots=True)
class Alibi(Shape):
    """The hardware during one phase: the resource that was saturated, or that none was.

    "idle": nothing was at its limit for a part of the phase that matters, so the software is to be looked at. "unknown":
    nothing was seen at its limit, but what could not be judged may have been.
    """

    schema_version: Literal[1] = field(default=1, init=False)
    scope: Annotated[str, "the party that it is about; empty: the host"] = field(default="", kw_only=True)
    verdict: Verdict
    subject: str
    saturated: tuple[Saturation, ...]
    idle: Annotated[Mapping[str, float], "unused part by resource, 0–1"]
    unknown: Annotated[tuple[str, ...], "what could not be judged, and why"]
    notes: Annotated[tuple[str, ...], "what a reader should know beside it"]
    start_ns: Annotated[int, "CLOCK_MONOTONIC"]
    end_ns: int
    program: Annotated[str, HIDDEN] = field(default="", kw_only=True)
    """The subject without the numbers of its process and thread, "" where it has none."""

    @property
    @computed
    def text(self) -> str:
        """one paragraph for people"""

        return paragraph(self)
