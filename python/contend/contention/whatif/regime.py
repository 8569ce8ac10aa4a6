"""The regime of a storm: it waits, or it computes. Where who computed when is on record that is replayed, else refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from contend.text.shape import Shape
from contend.units import of_time

# Beyond these a storm counts as CPU-bound. Storms of threads of one process that computed for 44 % of the time were
# predicted up to 6 % too fast, at 54 % up to 13 %, at 67 % up to 22 %, though their gates all passed.
BUSY = 0.5
WAITING = 0.1
FULL_USE = 0.7  # of the host's processors, by several processes
# Of the storm, in which the host had no processor left.
FULL = 0.5
# Of their time: jobs waited for the interpreter's lock, and what is replayed can be compared with it.
TESTED = 0.01
# Below these as blocked.
IDLE = 0.35
LITTLE = 0.05

if TYPE_CHECKING:
    from contend.contention.alibi.verdict import Alibi

Kind = Literal["blocked", "mixed", "CPU-bound", "not known"]


@dataclass(frozen=True, slots=True)
class Regime(Shape):
    """The storms: they wait, or they compute.

    Figures are None where they are not on record.
    """

    kind: Kind
    busiest: Annotated[
        float | None,
        "CPU time of the busiest process per time of the storm: 1 is all that threads under one interpreter's lock can use",
    ]
    cores: Annotated[float | None, "processors that all traced processes used"]
    waiting: Annotated[
        float | None, "part of the time in which a processor or the interpreter's lock was waited for"
    ]
    why: str
    full: Annotated[float | None, "part of the storm in which the host's processors were at their limit"] = (
        None
    )

    replayed: Annotated[bool, "who computes is replayed: one thread of a process at a time"] = False

    @property
    def tested(self) -> bool:
        """Enough jobs waited for the interpreter's lock to see that they take turns as replayed."""
        return self.replayed and (self.waiting or 0.0) >= TESTED

    @property
    def by_itself(self) -> bool:
        """If it computes, it is the traced processes that do."""
        return (self.full or 0.0) < FULL

    @property
    def refused(self) -> bool:
        """The replay would be wrong whatever it reproduces."""
        return self.kind == "CPU-bound" and not (self.replayed and self.by_itself)


def regime(
    recorded: Sequence[Mapping[str, Any]],
    alibis: Sequence[Alibi] = (),
    loops: float = 0.0,
) -> Regime:
    """Judge storms from the worst of each kind of evidence. `alibis` of those storms beside which the host was recorded;
    `loops`: part of a storm in which its busiest event loop or hub ran something.
    """
    processors = max(row["processors"] for row in recorded)
    figures = [row["regime"] for row in recorded]
    makespan = [max(1, row["makespan_ns"]) for row in figures]
    cpu = [[ns for _, ns, _ in row["cpu"]] for row in figures if row["cpu"] is not None]
    known = len(cpu) == len(figures)
    busiest = max(map(_busiest, figures)) if known else None
    cores = max(sum(of) / ns for of, ns in zip(cpu, makespan, strict=True)) if known else None
    waits: list[float] = []
    for row in figures:
        gil = row["gil_ns"] / max(1, row["pieces_ns"]) if row["gil_ns"] is not None else None
        delay = row["run_delay_ns"] / row["seen_ns"] if row["seen_ns"] else None
        waits.extend(share for share in (gil, delay) if share is not None)
    waiting = max(waits, default=None)
    kind, why = _judge(busiest, cores, waiting, processors)
    kind, why = _with_loops(kind, why, loops)
    full = max((_full(alibi) for alibi in alibis), default=None)
    if full is not None and kind != "CPU-bound":
        reason = f"the host's processors were at their limit for {of_time(full)} of the storm"
        if full >= FULL:
            kind, why = "CPU-bound", reason
        elif full >= LITTLE:
            kind, why = "mixed", f"{reason}; {why}"
        elif kind == "not known":
            kind, why = "blocked", reason
    return Regime(kind, busiest, cores, waiting, why, full, all(row["replayed"] for row in figures))


def _busiest(row: Mapping[str, Any]) -> float:
    """CPU time of the busiest process per time of the storm. What tasks or greenlets of a loop compute counts only where
    other threads of its process compute, too: else they take turns as in the replay."""
    makespan = max(1, row["makespan_ns"])
    shares = []
    for _, ns, loops in row["cpu"]:
        others = (ns - loops) / makespan
        shares.append(others if loops and others < LITTLE else ns / makespan)
    return max(shares, default=0.0)


def _full(alibi: Alibi) -> float:
    return max((of.share for of in alibi.saturated if of.resource == "cpu"), default=0.0)


def _with_loops(kind: Kind, why: str, loops: float) -> tuple[Kind, str]:
    if not loops or kind == "CPU-bound":
        return kind, why
    reason = f"the busiest event loop or hub ran something for {of_time(loops)} of the storm, one at a time as in the replay"
    if kind == "not known":
        return ("blocked" if loops < IDLE else "mixed"), reason
    return kind, f"{reason}; {why}"


def _judge(
    busiest: float | None, cores: float | None, waiting: float | None, processors: int
) -> tuple[Kind, str]:
    if waiting is not None and waiting >= WAITING:
        return "CPU-bound", (
            f"jobs and workers waited {of_time(waiting)} of their time for the interpreter's lock or for a processor"
        )
    if busiest is not None and busiest >= BUSY:
        return "CPU-bound", (
            f"one process computed for {of_time(busiest)} of the storm, and its threads share an interpreter"
        )
    if cores is not None and processors and cores >= FULL_USE * processors:
        return "CPU-bound", f"{cores:.1f} of {processors} processors were used by the traced processes alone"
    if busiest is None:
        if waiting is None:
            return "not known", (
                "neither CPU time nor waits for the interpreter's lock are on record: if what jobs do is computing, more"
                " of them at a time would be slower than predicted (contend trace --cpu-times --run-delay records it)"
            )
        reason = f"jobs and workers waited {waiting * 100:.1f} % of their time for the interpreter's lock"
        return ("blocked" if waiting < LITTLE else "mixed"), f"{reason}; CPU time is not on record"
    reason = f"the busiest process computed for {of_time(busiest)} of the storm"
    if busiest < IDLE and (waiting is None or waiting < LITTLE):
        return "blocked", reason
    return "mixed", f"{reason}: what runs at the same time may be slower than predicted"
