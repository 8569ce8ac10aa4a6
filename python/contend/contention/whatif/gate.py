"""The gate of a replay: it is believed if it reproduces the unedited storm, and what it cannot know is little."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from contend.contention.whatif.independence import capped, dependent_time, let_in_by_others
from contend.contention.whatif.regime import Regime
from contend.contention.whatif.times import Times
from contend.text.shape import Limits, Shape
from contend.units import of_time

LIMIT = 0.03  # of the median and of the makespan, on average over the storms; twice that in any of them
LATENCIES = 0.25  # of the jobs' time: handovers and ways of messages, which are replayed as recorded
UNEXPLAINED = 0.05  # of the jobs' time: waits of which it is not known what ended them
GAVE_UP = 0.02  # of the jobs: stopped waiting for something
BATCHED = 0.05  # of the jobs: what is done for them is done together with others'
UNSEEN = 0.25  # of the jobs' time: nothing says what they did
POLLING = 0.01  # of the jobs' time: sleeps of those that look again and again
PRIORITY = 0.01  # of the jobs' time: waits in a queue whose order is not known
RESOURCE = 0.05  # of the jobs' time: waits for one lock or pool that come out differently


@dataclass(frozen=True, slots=True)
class Gate(Shape):
    """The test that a prediction must pass to be believed."""

    self_replay_error: Annotated[
        float,
        Limits(minimum=0),
        "of the storms, replayed without edits, on average: median or makespan, whichever is worse; of the batch law that of"
        " its largest size, predicted from the others",
    ]
    passed: bool
    reason: Annotated[str | None, "why not"]
    limit: Annotated[float, Limits(minimum=0)] = LIMIT
    latency_share: Annotated[
        float, Limits(minimum=0), "of the jobs' time that is replayed as recorded ways"
    ] = 0.0
    unexplained_share: Annotated[
        float, Limits(minimum=0), "of the jobs' time: waits whose end has no cause on record"
    ] = 0.0


@dataclass(frozen=True, slots=True)
class Replayed:
    """A recorded storm, and its replay without edits."""

    path: str
    parts: Mapping[str, Any]
    recorded: Mapping[str, Any]
    outcome: Mapping[str, Any]

    @property
    def error(self) -> float:
        """The part of itself by which the median or the makespan is off, whichever is worse."""
        part = Times.of(self.outcome).part_of(Times.of(self.recorded))
        return max(abs(part.median_ns - 1), abs(part.makespan_ns - 1))

    @property
    def is_known(self) -> bool:
        """Nothing was lost of it, its jobs all end in the replay, and they decide nothing that the replay cannot."""
        return not (self.recorded["lost"] or self.outcome["stuck"] or _decisions(self))


def gate(storms: Sequence[Replayed], regime: Regime) -> Gate:
    """Check the replay of all storms: their mean error, and that no one is off by a multiple of its limit (twice; four times
    where interpreters are simulated); of what else is looked at the worst storm counts.
    """
    error, reason = _self_replay(storms)
    latency = max(storm.recorded["latency_ns"] / max(1, storm.recorded["jobs_ns"]) for storm in storms)
    unexplained = max(s.recorded["unexplained_ns"] / max(1, s.recorded["jobs_ns"]) for s in storms)
    reason = reason or _doubt(storms, latency, unexplained, regime)
    return Gate(error, reason is None, reason, LIMIT, latency, unexplained)


def _self_replay(storms: Sequence[Replayed]) -> tuple[float, str | None]:
    """How far medians and makespans are off, the mean over the storms of what is worse, and why that is too much."""
    stuck = next((storm for storm in storms if storm.outcome["stuck"]), None)
    if stuck:
        return 1.0, f"{stuck.path}: {stuck.outcome['stuck']} jobs never end in the replay"
    times = [(storm, Times.of(storm.recorded), Times.of(storm.outcome)) for storm in storms]
    worst, reason = 0.0, None
    # Threads that want their interpreter at once may get it in another order: one storm comes out longer, another shorter.
    takes_turns = all(storm.recorded["regime"]["replayed"] for storm in storms)
    for what, key in (("median", "median_ns"), ("makespan", "makespan_ns")):
        off = [(getattr(now, key) / max(1, getattr(was, key)) - 1, storm) for storm, was, now in times]
        mean = sum(abs(error) for error, _ in off) / len(off)
        error, storm = max(off, key=lambda of: abs(of[0]))
        worst = max(worst, mean)
        counts, most = (abs(sum(one for one, _ in off) / len(off)), 4) if takes_turns else (mean, 2)
        if reason is None and (counts > LIMIT or abs(error) > most * LIMIT):
            reason = f"{storm.path}: the replay's {what} is {abs(error) * 100:.1f} % off: {_worst(storm)}"
    return worst, reason


def _doubt(storms: Sequence[Replayed], latency: float, unexplained: float, regime: Regime) -> str | None:
    lost = sum(storm.recorded["lost"] for storm in storms)
    if lost:
        return f"{lost} events were lost while it was recorded"
    if regime.refused:
        unknown = (
            "who computed when is not on record"
            if regime.by_itself
            else "what else the host did is not in the trace"
        )
        return f"the storm is CPU-bound, and {unknown}: {regime.why}"
    reason = next(filter(None, (_decisions(storm) for storm in storms)), None)
    if reason:
        return reason
    unseen = max(_unseen(storm.recorded) for storm in storms)
    if unseen > UNSEEN:
        return (
            f"in {of_time(unseen)} of the jobs' time they neither compute nor sleep nor wait for anything that is on"
            " record: a"
            ' trace.span(…, kind="remote") around it says that it is somebody else\'s'
        )
    if unexplained > UNEXPLAINED:
        return (
            f"{of_time(unexplained)} of the jobs' time are waits of which it is not on record what ended them"
        )
    if latency > LATENCIES:
        return (
            f"{of_time(latency)} of the jobs' time is between a message and its receipt or a release and the next hold,"
            " where nothing is on record that could be replayed"
        )
    for storm in storms:
        for row, ns in zip(storm.parts["pools"], storm.recorded["pool_ns"], strict=True):
            if row["discipline"] == "priority" and ns > PRIORITY * storm.recorded["jobs_ns"]:
                return (
                    f"items wait in the priority queue {row['name']}, and their priorities are not on record"
                )
        off = _interpreters(storm)
        if abs(off) > RESOURCE:
            return (
                f"{storm.path}: the waits for the interpreter's lock come out {of_time(abs(off))} of the jobs' time"
                f" {'longer' if off > 0 else 'shorter'}: not all that computes needs it, or threads do not take turns"
            )
        name, off = _resources(storm)
        if abs(off) > RESOURCE:
            return f"{storm.path}: the waits for {name} come out {of_time(abs(off))} of the jobs' time off"
    return _given([storm.recorded for storm in storms])


def _decisions(storm: Replayed) -> str | None:
    """The reason why jobs may decide otherwise with an edit: they decided by the clock, or by what others did."""
    jobs = max(1, len(storm.recorded["begin_ns"]) // 8)
    if storm.recorded["unhosted"]:
        return (
            f"{storm.recorded['unhosted']} of {jobs} jobs are tasks or greenlets of which it is not on record when they ran:"
            " whether they wait for each other's turns is not known"
        )
    for doubt in storm.recorded["doubts"]:
        name, count = doubt["name"], doubt["jobs"]
        match doubt["kind"]:
            case "gave up" if count >= GAVE_UP * jobs:
                return (
                    f"{count} of {jobs} jobs gave up on {name}, by a time-out or because it was not free at once: what they"
                    " do then, and how many would with the edit, is not on record"
                )
            case "polls" if doubt["ns"] >= POLLING * storm.recorded["jobs_ns"]:
                return (
                    f"jobs sleep and look again in {name}, one more often than another: what they wait for is not on"
                    " record"
                )
            case "batched" if doubt["count"] >= BATCHED * jobs:
                return (
                    f"workers of {name} do several items together: how many at a time depends on how many wait, and what"
                    " each of them costs is not on record"
                )
            case "condition":
                return (
                    f"the lock of the condition {name} is taken in {count} pieces of the jobs' work: when they would wait"
                    " there is not on record"
                )
            case "chained":
                return f"jobs are put into the queue {name} by other jobs, and begin when those let them"
    return None


def _unseen(recorded: Mapping[str, Any]) -> float:
    """The part of the jobs' time of which nothing says what was done in it, as far as that can be told."""
    threads, suspended = recorded["unseen_ns"]
    cpu = recorded["regime"]["cpu"]
    blocked = 0
    if recorded["calls_known"] and recorded["regime"]["replayed"]:
        blocked = threads
    elif recorded["calls_known"] and cpu is not None:
        blocked = max(0, threads - sum(ns for _, ns, _ in cpu))
    return float((blocked + suspended) / max(1, recorded["jobs_ns"]))


def _given(recorded: Sequence[Mapping[str, Any]]) -> str | None:
    """The reason why what is replayed as recorded is not given: it depends on others."""
    let_in = let_in_by_others(recorded)
    if let_in:
        return f"{of_time(let_in)} of the jobs begin when another one has ended: what lets them in is not on record"
    most = capped(recorded)
    if most:
        return (
            f"never more than {most} jobs are there at a time, in any storm, and they come in waves: what lets them in is"
            " not on record"
        )
    time = dependent_time(recorded)
    if time:
        return (
            f"the time in {time.what} grows with the number of jobs that are in it, by {of_time(time.share)} of the"
            " jobs' time: what they share there is not on record"
        )
    return None


def _interpreters(storm: Replayed) -> float:
    """How much longer jobs wait for their interpreter than they did, as a part of their time."""
    regime = storm.recorded["regime"]
    if not regime["replayed"]:
        return 0.0
    waited = sum(storm.outcome["interpreter_ns"]) - regime["gil_ns"]
    return float(waited / max(1, storm.recorded["jobs_ns"]))


def _resources(storm: Replayed) -> tuple[str, float]:
    """The resource waited for that is least well reproduced, and by which part of the jobs' time."""
    worst = ("", 0.0)
    for kind, key in (("lock", "lock_ns"), ("pool", "pool_ns")):
        off: dict[str, float] = {}
        for row, was, now in zip(
            storm.parts[f"{kind}s"], storm.recorded[key], storm.outcome[key], strict=True
        ):
            name = f"{kind} {row['name']}"
            off[name] = off.get(name, 0.0) + (now - was) / max(1, storm.recorded["jobs_ns"])
        for name, share in off.items():
            if abs(share) > abs(worst[1]):
                worst = (name, share)
    return worst


def _worst(storm: Replayed) -> str:
    name, off = _resources(storm)
    if abs(off) < 0.005:
        return "time outside of the waits that it knows"
    return f"waits for {name} come out {of_time(abs(off))} of the jobs' time {'longer' if off > 0 else 'shorter'}"
