"""The verdict on one phase, as plain values. Its JSON Schema is docs/reference/alibi.schema.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from contend.advice.finding import Evidence
from contend.contention.alibi.words import paragraph

SCHEMA_VERSION = 1
# In the order in which equal waiting is decided.
RESOURCES = ("memory", "throttling", "steal", "disk", "network", "cpu", "thread")
VERDICTS = (*RESOURCES, "idle", "unknown")


@dataclass(frozen=True, slots=True)
class Saturation:
    """One resource that was at its limit during a part of a phase.

    share: part of the phase (0–1) in which it was. waited: part of the phase in which something waited for it, the
    currency by which several are ranked; of a busy thread, the time it was busy, for nobody counts who waits for it.
    ranges: when, as (start_ns, end_ns) of CLOCK_MONOTONIC, to the width of a bin. cause: the resource whose shortage
    explains this one (a disk that is busy swapping), or "".
    """

    resource: str  # one of RESOURCES
    subject: str  # CPUs, a thread, a device, an interface, a cgroup
    share: float
    waited: float
    ranges: tuple[tuple[int, int], ...]
    evidence: tuple[Evidence, ...]
    cause: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "resource": self.resource,
            "subject": self.subject,
            "share": self.share,
            "waited": self.waited,
            "ranges": [list(r) for r in self.ranges],
            "evidence": [e.to_json() for e in self.evidence],
            "cause": self.cause,
        }


@dataclass(frozen=True, slots=True)
class CellAlibi:
    """The hardware while one cell of a run was measured.

    verdict: that of most of the cell's counted trials; agreeing: of how many of `trials`. text: of the trial in their
    middle. party_*: the same of the party that was measured, "" and 0 where its processes were not told apart.
    """

    cell: str
    factors: Mapping[str, str]
    verdict: str
    subject: str
    trials: int
    agreeing: int
    text: str
    party_verdict: str = ""
    party_agreeing: int = 0
    party_text: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "cell": self.cell,
            "factors": dict(self.factors),
            "verdict": self.verdict,
            "subject": self.subject,
            "trials": self.trials,
            "agreeing": self.agreeing,
            "text": self.text,
            "party_verdict": self.party_verdict,
            "party_agreeing": self.party_agreeing,
            "party_text": self.party_text,
        }


@dataclass(frozen=True, slots=True)
class PhaseAlibi:
    """The hardware in one phase of a run ("pilot", "counted"), or from its first trial to its last ("run")."""

    phase: str
    verdict: str
    subject: str
    text: str
    start_ns: int
    end_ns: int

    def to_json(self) -> dict[str, Any]:
        return {
            "phase": self.phase,
            "verdict": self.verdict,
            "subject": self.subject,
            "text": self.text,
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
        }


@dataclass(frozen=True, slots=True)
class Alibi:
    """The hardware during one phase.

    verdict: one of VERDICTS. "idle": nothing was at its limit for a part of the phase that matters, so the software
    is to be looked at. "unknown": nothing was seen at its limit, but what could not be judged may have been.
    idle: unused part (0–1) by resource. unknown: what could not be judged and why. notes: what a reader should know
    beside it. start_ns, end_ns: the phase, CLOCK_MONOTONIC. scope: of which party ("the command"); "": of the host.
    """

    verdict: str
    subject: str
    saturated: tuple[Saturation, ...]
    idle: Mapping[str, float]
    unknown: tuple[str, ...]
    notes: tuple[str, ...]
    start_ns: int
    end_ns: int
    scope: str = ""

    @property
    def text(self) -> str:
        """One paragraph for people."""
        return paragraph(self)

    def to_json(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "scope": self.scope,
            "verdict": self.verdict,
            "subject": self.subject,
            "saturated": [s.to_json() for s in self.saturated],
            "idle": dict(self.idle),
            "unknown": list(self.unknown),
            "notes": list(self.notes),
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "text": self.text,
        }
