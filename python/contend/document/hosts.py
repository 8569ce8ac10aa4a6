"""Results of each host of a run on several, as plain values: `fleet` of the analysis document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, cast

from contend.stats.estimate import Estimate
from contend.store.host_record import ClockRecord, Done
from contend.text.shape import FLAT, Count, Limits, Shape, Through

STATES = ("waiting", "running", "lost", "given up", "failed", "ended")


@dataclass(frozen=True, slots=True)
class HostRatio(Shape):
    """A headline comparison on this host."""

    label: Annotated[str, "what it compares, in words"]
    cell: str
    metric: str
    estimate: Estimate


def _clock(of: Mapping[str, Any] | None) -> ClockRecord | None:
    return cast("ClockRecord | None", of)  # as hosts.json has it


@dataclass(frozen=True, slots=True)
class HostResult(Shape):
    """One host."""

    host: str
    state: Annotated[str, Limits(enum=[*STATES, "not heard of"])]
    why: str
    done: Annotated[Done, FLAT]
    failures: Count
    losses: Annotated[Count, "how often it was lost"]
    alarm: Annotated[bool, "its own A/A control differs from 1"]
    clock: Annotated[Mapping[str, Any] | None, Through(_clock)]
    start_late_ns: Annotated[
        int | None, "most that a block began after the moment named, where blocks start together"
    ]
    ratios: tuple[HostRatio, ...]


@dataclass(frozen=True, slots=True)
class Fleets(Shape):
    """A run on several hosts."""

    hosts: Annotated[tuple[HostResult, ...], "in the order they were named"]
    pooled: Annotated[bool, "estimates of `cells` are over hosts"]
    reason: Annotated[str, "why they are not; empty where they are"]
    missing: Annotated[tuple[str, ...], "what is not there, a line a host"]
