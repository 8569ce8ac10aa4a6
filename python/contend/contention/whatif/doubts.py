"""Doubts that an edit itself brings, though the unedited storm is reproduced: more computing, calls of unknown cost, two
resources that are busy alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contend.contention.whatif.gate import GAVE_UP
from contend.contention.whatif.independence import Dependence
from contend.contention.whatif.regime import BUSY, Regime
from contend.contention.whatif.storms import Edit
from contend.contention.whatif.times import Predicted, Times, median_gap
from contend.units import format_duration, of_time

CLOSE = 0.1  # of the time of the busier one, by which the next one is less busy
IN_USE = 0.7  # of the time: below, a resource holds nobody up for long
SURE = 0.02  # of the median: a change that is smaller has no sign
FOLLOWS = 0.5
"""Where jobs wait for what is done for them, their time changes by so much of what that waits at the least."""
OUTSIDE = 0.05  # of the jobs' time: calls to somebody whose work is not on record
SPREAD = 0.2  # of the storm: jobs come over so much of it
FURTHER = 0.25  # more of them at a time than ever before
INTERPRETER = 0.05  # of the median or the makespan: due to waits for the interpreter's lock
WAYS = 0.025  # of the median or the makespan: more or less of it left, if ways took half as long
SMALL = 0.03  # of the median or the makespan: what it varies by where steps take a little more or less
ORDER = 0.05  # of the median or the makespan: more or less of it left, if jobs came in another order
ALIKE = 1.75  # times the standard deviation of recorded storms, of which six know it within a factor of two
WIDE = 0.1  # of a predicted change: half of its interval
LATE = 0.05  # of the jobs: what they do by how late they are, or whether they wait, is not known
GUESSED = 0.1  # of the jobs: in an order, or beside so much, that was not seen
GAP = 0.1  # of the median: no job takes a time in between, of those that are next to it
OPENED = 1.5  # times as wide as without the edits
_NAMES = {"median_ns": "median", "makespan_ns": "makespan"}


def computing_after(
    regime: Regime, before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> float:
    """CPU time of the busiest process, or, where that is not known, of the busiest loop, per time of the edited storm.

    CPU time is taken to grow and shrink with the work that is done. `before` and `after` are replays of each storm,
    without and with the edits.
    """
    if regime.busiest is None:
        return max(
            (max(now["ran_ns"], default=0) / max(1.0, Times.of(now).makespan_ns) for now in after),
            default=0.0,
        )
    return regime.busiest * _denser(before, after)


def processors_after(
    regime: Regime, before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> float:
    """Processors that all traced processes would use, as `computing_after`; 0 where CPU times are not on record."""
    return regime.cores * _denser(before, after) if regime.cores is not None else 0.0


def _denser(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> float:
    """How many times as much work is done in a time: of the storm of which that is most."""
    return max(
        (
            now["work_ns"]
            / max(1, was["work_ns"])
            * Times.of(was).makespan_ns
            / max(1.0, Times.of(now).makespan_ns)
            for was, now in zip(before, after, strict=True)
        ),
        default=1.0,
    )


def in_each_others_way(cores: float | None, then: float, recorded: Sequence[Mapping[str, Any]]) -> str | None:
    """The reason why edits are refused with which several processes would use so many processors; None if they may.

    `cores`: what they use without the edits, in the `recorded` storms.
    """
    processors = max(row["processors"] for row in recorded)
    if not processors or cores is None or then < max(BUSY * processors, (1 + CLOSE) * cores):
        return None
    if max(_besides_one(row["regime"]) for row in recorded) < CLOSE * processors:
        return None
    return (
        f"with the edit the traced processes would use {then:.1f} of {processors} processors, and used {cores:.1f}: how"
        " often they would be in each other's way is not known"
    )


def _besides_one(regime: Mapping[str, Any]) -> float:
    """Processors that all traced processes used, but for the one that used most."""
    cpu = [ns for _, ns, _ in regime["cpu"] or []]
    return float((sum(cpu) - max(cpu, default=0)) / max(1, regime["makespan_ns"]))


def computes_then(share: float) -> str | None:
    """The reason why that much computing makes the replay wrong; None if it does not."""
    if share < BUSY:
        return None
    return (
        f"with the edit one process would compute for {of_time(share)} of the storm, and what its threads do at a time would"
        " take longer than recorded, by how much a replay does not know"
    )


def on_interpreter(waits: float) -> str | None:
    """The reason why an edit is refused where that much of the median or the makespan goes with the waits for the
    interpreter's lock, which are replayed as recorded; None where it is little.
    """
    if waits < INTERPRETER:
        return None
    return (
        f"without waits for the interpreter's lock the storm would be {of_time(waits)} shorter: how long these are with"
        " an edit depends on who computes then, which could not be replayed"
    )


def in_turns(one: Mapping[str, Predicted], other: Mapping[str, Predicted]) -> str | None:
    """The reason why predictions with waits for the interpreter as recorded, and with simulated ones, are too far apart;
    None where they are not.
    """
    for key, word in _NAMES.items():
        now, then = (of[key].value for of in (one, other))
        if abs(then - now) > INTERPRETER * max(1.0, now):
            return (
                f"if threads take turns in their interpreter, for which they hardly waited on record, the {word} would be"
                f" {format_duration(then)} with the edit, and not {format_duration(now)}"
            )
    return None


def overdue(
    jobs: int, parts: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]
) -> str | None:
    """The reason why jobs that would wait for a lock for longer than they are ready to make the replay wrong; None if there
    are few. `before` and `after`: replays of one storm, without and with the edits.
    """
    for row, was, now in zip(parts["locks"], before["overdue"], after["overdue"], strict=True):
        if now - was >= GAVE_UP * jobs:
            return (
                f"with the edit jobs would give up on {row['name']} {now - was} times, since they only try it or wait for it"
                " no longer than a time-out: what they do then is not on record"
            )
    return None


def beyond(
    jobs: int, parts: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]
) -> str | None:
    """The reason why it is not known whether jobs would wait for a lock; None if that is so of few.

    `before` and `after`: replays of one storm, without and with the edits.
    """
    for row, was, now in zip(parts["locks"], before["beyond"], after["beyond"], strict=True):
        if now - was < LATE * jobs:
            continue
        if row["seen"] is None:
            return (
                f"with the edit it would be asked {now - was} times whether who shares {row['name']} is let in while another"
                " one waits to have it alone: that is not on record"
            )
        return (
            f"with the edit {now - was} times more than {row['seen']} would be let in by {row['name']} at a time: nobody"
            " waited for it on record, and whether one would then is not known"
        )
    return None


def order(
    jobs: int, parts: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]
) -> str | None:
    """The reason why it is not known what workers would take next; None if that is seldom so.

    `before` and `after`: replays of one storm, without and with the edits.
    """
    for row, was, now in zip(parts["pools"], before["guessed"], after["guessed"], strict=True):
        if now - was >= GUESSED * jobs:
            return (
                f"with the edit it would be asked {now - was} times which of two items the priority queue {row['name']}"
                " gives out first that never waited in it at a time"
            )
    for row, was, now in zip(parts["pools"], before["crowded"], after["crowded"], strict=True):
        if now - was >= GUESSED * jobs:
            return (
                f"with the edit workers of {row['name']} would do more items together than they ever did: what that costs is"
                " not on record"
            )
    return None


def otherwise(
    jobs: int, parts: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]
) -> str | None:
    """The reason why jobs of which it is not known what they would do, by how late they are, make the replay wrong; None if
    there are few. `before` and `after`: replays of one storm, without and with the edits.
    """
    for name, was, now in zip(parts["branches"], before["otherwise"], after["otherwise"], strict=True):
        if now - was >= LATE * jobs:
            return (
                f"jobs do {name} by how late they are, as it seems, and of {now - was} of {jobs} it is not on record whether"
                " they would do it with the edit, or what follows then"
            )
    return None


def forked(edits: Sequence[Edit], parts: Sequence[Mapping[str, Any]]) -> str | None:
    """The reason why another number of workers is refused where these are processes; None where they are not. `parts` of
    each storm.
    """
    named = [edit.name for edit in edits if edit.kind == "workers"]
    pools = {row["name"] for of in parts for row in of["pools"] if row["forked"]}
    name = next((pool for pool in sorted(pools) if any(fnmatchcase(pool, one) for one in named)), None)
    if name is None:
        return None
    return f"workers of {name} are processes: how many of them the host has processors for is not on record"


def drawn(of: Dependence | None) -> str | None:
    """The reason why jobs that are drawn from the recorded ones are not those that would come; None where they are."""
    if of is None:
        return None
    return (
        f"the time in {of.what} depends on which jobs come first, {of_time(of.share)} of the storm's: whether more or"
        " fewer jobs would have as much of it is not on record"
    )


def more_computing(jobs_ns: float, after: Sequence[Mapping[str, Any]]) -> str | None:
    """The reason why jobs that would wait for their interpreter, and did not, make the replay wrong; None if they would
    not. `after` and `jobs_ns` as in `more_outside`.
    """
    share = sum(sum(of["interpreter_ns"]) for of in after) / max(1.0, jobs_ns)
    if share < OUTSIDE:
        return None
    return (
        "with the edit threads would compute at a time that did so one after the other: whether what they do needs the"
        " interpreter's lock is not on record"
    )


def more_workers(jobs_ns: float, after: Sequence[Mapping[str, Any]]) -> str | None:
    """The reason why waits for a pool's workers, for which nobody waited, make the replay wrong; None if there are none.
    `after` and `jobs_ns` as in `more_outside`.
    """
    waits: dict[tuple[str, int], int] = {}
    for name, workers, ns in (row for of in after for row in of["grown"]):
        waits[name, workers] = waits.get((name, workers), 0) + ns
    (name, workers), ns = max(waits.items(), key=lambda item: item[1], default=(("", 0), 0))
    if ns < OUTSIDE * jobs_ns or not ns:
        return None
    return (
        f"with the edit jobs would wait for a worker of {name}, of which {workers} were started as they were needed:"
        " how many it may start is not on record"
    )


def arrivals(
    recorded: Sequence[Mapping[str, Any]],
    before: Sequence[Mapping[str, Any]],
    after: Sequence[Mapping[str, Any]],
) -> str | None:
    """The reason why jobs would not come when they did; None where they would.

    Jobs that are made one after the other in a process that is busy come later than they were to, and sooner where the edits
    leave it less to do. `before` and `after` are replays of each storm, without and with the edits.
    """
    for row, was, now in zip(recorded, before, after, strict=True):
        come = np.frombuffer(row["come_ns"], "<u8")
        if len(come) < 2 or float(come.max() - come.min()) < SPREAD * Times.of(was).makespan_ns:
            continue
        busy, then = (_busy(of) for of in (was, now))
        if max(busy, then) >= BUSY and abs(then - busy) > CLOSE:
            return (
                f"jobs come one after the other while a process, or its loop, is busy for {of_time(busy)} of the storm,"
                f" and for {of_time(then)} with the edit: whether they would come as they did is not on record"
            )
    return None


def _busy(outcome: Mapping[str, Any]) -> float:
    """Part of a replayed storm in which its busiest interpreter or loop ran something: of those in which jobs may come."""
    computed = [ns for at, ns in enumerate(outcome["computed_ns"]) if at not in outcome["of_workers"]]
    most = max([*outcome["ran_ns"], *computed], default=0)
    return float(most / max(1.0, Times.of(outcome).makespan_ns))


def more_outside(
    jobs_ns: float, before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> str | None:
    """The reason why calls to somebody whose work is not on record make the replay wrong; None if they do not.

    `before` and `after` are replays of each storm, without and with the edits; `jobs_ns` is the jobs' time of all storms.
    """
    worst, reason = OUTSIDE, None
    for name in dict.fromkeys(name for of in before for name, _, _ in of["outside"]):
        was, spent = _most(before, name)
        then, _ = _most(after, name)
        share = spent / max(1.0, jobs_ns)
        if share >= worst and then > was * (1 + FURTHER):
            worst = share
            reason = (
                f"with the edit up to {then} at a time would be in {name}, of which at most {was} are on record: whether who"
                " answers there is as fast then is not known"
            )
    return reason


def unawaited(
    jobs_ns: float, before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> str | None:
    """The reason why it is not known whether jobs wait for what an edit changes; None where it is.

    What is done for a job beyond a socket, in a server's pool say, waits more or less, while the job's own time hardly
    changes and it is in a call to somebody meanwhile: probably to that server, and the replay has its time as recorded.
    `before`, `after` and `jobs_ns` as in `more_outside`.
    """
    waits = [sum(sum(of["lock_ns"]) + sum(of["pool_ns"]) for of in storms) for storms in (before, after)]
    took = [sum(_jobs_ns(of) for of in storms) for storms in (before, after)]
    moved = waits[0] - waits[1]
    if abs(moved) < OUTSIDE * jobs_ns or abs(took[0] - took[1]) >= FOLLOWS * abs(moved):
        return None
    names = dict.fromkeys(name for of in before for name, _, _ in of["outside"])
    name, spent = max(
        ((name, _most(before, name)[1]) for name in names), key=lambda row: row[1], default=("", 0)
    )
    if spent < FOLLOWS * abs(moved):
        return None
    less = "less" if moved > 0 else "longer"
    return (
        f"what is done for the jobs would wait {of_time(abs(moved) / max(1.0, jobs_ns))} of their time {less}, while"
        f" they are in {name}: whether they wait for it there is not on record"
    )


def _jobs_ns(outcome: Mapping[str, Any]) -> int:
    """The time of all jobs of a replayed storm together."""
    begins, ends = (np.frombuffer(outcome[key], "<u8") for key in ("begin_ns", "end_ns"))
    return int(ends.sum()) - int(begins.sum())


def _most(storms: Sequence[Mapping[str, Any]], name: str) -> tuple[int, int]:
    """The most calls of a name at a time in any storm, and their time in all of them, ns."""
    rows = [(most, ns) for of in storms for other, most, ns in of["outside"] if other == name]
    return max((most for most, _ in rows), default=0), sum(ns for _, ns in rows)


def on_ways(change: float) -> str | None:
    """The reason why edits are refused that would leave so much more or less of the median or makespan if ways of messages
    and pickups took half as long; None where it is little.
    """
    if change < WAYS:
        return None
    return (
        f"what the edit leaves would be {change * 100:.1f} % more or less if messages and workers came twice as fast:"
        " their ways are replayed as recorded, and how long they are with the edit is not on record"
    )


def on_small_things(
    before: NDArray[np.float64], after: NDArray[np.float64], own: NDArray[np.float64], *, looks_again: bool
) -> str | None:
    """The reason why edits are refused where steps that take a little more or less decide; None where they do not.

    `before`, `after`: standard deviation that these alone give a storm's median and makespan, without and with the edits;
    `own`: of the recorded storms. Where these differ as much, what the edits bring is known as well as the interval says;
    where jobs sleep and look again, small things decide how often.
    """
    moved = float(max(before.max(), after.max()))
    if looks_again and moved >= SMALL:
        return (
            f"jobs sleep and look again, and small things decide how often: if each step took up to 2 % more or less, by"
            f" chance, the median or the makespan would vary by {moved * 100:.1f} % (standard deviation)"
        )
    varies = before >= SMALL
    times = before / np.maximum(own, 1e-9)
    if varies.any() and np.exp(np.mean(np.log(times[varies]))) >= ALIKE:
        at = int(np.argmax(np.where(varies, times, 0.0)))
        word = tuple(_NAMES.values())[at]
        return (
            f"if each step took up to 2 % more or less, by chance, the {word} would vary by {before[at] * 100:.1f} %"
            f" (standard deviation), and the recorded storms' varies by {own[at] * 100:.1f} %: what keeps them alike is"
            " not on record, nor whether it does with the edit"
        )
    return None


def on_order(change: float) -> str | None:
    """The reason why edits are refused that would leave so much more or less of the median or makespan if jobs that come at
    once came in another order; None where it is little.
    """
    if change < ORDER:
        return None
    return (
        f"what the edit leaves would be {change * 100:.1f} % more or less if jobs that come at once did so in another"
        " order: whether they may is not on record"
    )


def between_kinds(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> str | None:
    """The reason why edits are refused that bring the median between two kinds of jobs: a few jobs decide of which kind it
    is, and the recorded storms did not show that the replay has those right; None where they do not.

    `before` and `after`: replays of each storm, without and with the edits.
    """
    was, now = (float(np.mean([median_gap(of) for of in storms])) for storms in (before, after))
    if now < max(GAP, OPENED * was):
        return None
    return (
        f"with the edit the median is between two kinds of jobs, whose times are {of_time(now)} of it apart: of which"
        " kind it is, a few jobs decide"
    )


def too_wide(changes: Mapping[str, Predicted]) -> str | None:
    """The reason why the prediction says too little: what the edits bring is not known to `WIDE`; None where it is.

    `changes`: times as a part of what they are without the edits.
    """
    for key, word in _NAMES.items():
        of = changes[key]
        if of.low is None or of.high is None:
            continue
        half = (of.high - of.low) / 2
        if half > WIDE * of.value:
            return (
                f"what it leaves of the {word} is known to {of_time(half / of.value)} only: storms differ, and small"
                " things weigh more the less is left; more storms, or storms of more jobs, make that narrower"
            )
    return None


def between(one: Mapping[str, Predicted], other: Mapping[str, Predicted]) -> dict[str, Predicted]:
    """The first one's values, with intervals that cover both predictions'."""
    widened = {}
    for key, of in one.items():
        low, high = of.low, of.high
        if low is not None and high is not None:
            low = min(low, other[key].low or 0.0)
            high = max(high, other[key].high or 0.0)
        widened[key] = Predicted(of.value, low, high)
    return widened


def unlearnt(
    calls: Sequence[str], baseline: Times, one: Mapping[str, Predicted], other: Mapping[str, Predicted]
) -> tuple[str, str | None]:
    """A note on calls whose cost an item is not on record, and why that is a refusal, or None.

    `one` and `other` are the predictions for the least and the most that a call may cost besides its items.
    """
    names = " and ".join(dict.fromkeys(calls))
    spans = ", ".join(
        f"{word} {format_duration(min(one[key].value, other[key].value))} to"
        f" {format_duration(max(one[key].value, other[key].value))}"
        for key, word in _NAMES.items()
    )
    note = f"what of {names} is paid for each call, and what for each item, is not on record: between both {spans}"
    changes = [of["median_ns"].value / max(1.0, baseline.median_ns) - 1 for of in (one, other)]
    if min(changes) < -SURE and max(changes) > SURE:
        return note, f"{note}; it may be better or worse"
    for key in _NAMES:
        values = [of[key].value for of in (one, other)]
        if max(values) - min(values) > WIDE * sum(values):
            return note, f"{note}; that is too wide to be of use"
    return note, None


def alike(parts: Mapping[str, Any], outcome: Mapping[str, Any]) -> str | None:
    """The two busiest resources of an edited storm, where they are nearly as busy as each other."""
    makespan = max(1.0, Times.of(outcome).makespan_ns)
    busy: list[tuple[float, str]] = []
    for row, ns in zip(parts["locks"], outcome["held_ns"], strict=True):
        if row["capacity"]:
            busy.append((ns / row["capacity"] / makespan, f"lock {row['name']}"))
    for row, ns in zip(parts["pools"], outcome["busy_ns"], strict=True):
        if row["workers"]:
            busy.append((ns / row["workers"] / makespan, f"pool {row['name']}"))
    busy.sort(reverse=True)
    if len(busy) < 2 or busy[1][0] < IN_USE or busy[1][0] < (1 - CLOSE) * busy[0][0]:
        return None
    (most, first), (next_, second) = busy[:2]
    return (
        f"{first} and {second} are then nearly as busy as each other ({of_time(most)} and {of_time(next_)} of the"
        " time): which of them holds the jobs up, and so the median, turns on small things"
    )
