"""Tests of what a replay takes as given: that jobs come when they come, and that their own time is theirs, whoever else is
there.

Where another queue is behind either, which is not on record (a lock of the kernel's, a server's workers, a limit of a
database), an edit changes what is replayed as recorded. Both are tested by rank and by permutation, which take nothing
for granted of how times are spread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contend.stats.quantiles import clopper_pearson

Times = NDArray[np.float64]

PART = 0.1
"""Of the jobs' time: what others add to a stretch, from which a prediction is not believed."""
LEAST = 8
"""Fewest stretches of one kind in a storm."""
BY_TURN = 0.05
"""Of the storm: what the first half of the jobs does more of one kind than the other half, or less, from which drawn jobs
are not believed."""
RARE = 1e-3
"""Chance below which it is not by chance."""
PERMUTATIONS = 2000
MANY = 2000
"""Stretches of a storm, from which the permutations' spread is taken from its formula: they would fill the memory."""
RARE_Z = 3.09
"""Standard deviations of the normal distribution beyond which lies `RARE`."""
ONCE_Z = 2.58
"""Standard deviations beyond which lies a hundredth, on either side together: of one storm."""
LEAST_CAP = 3
AT_ONCE = 0.1
"""Of a job: a job that begins so soon after it came waited for nothing."""
IRREGULAR = 0.8
"""Of the mean: deviation of the times between jobs that come in waves."""
SOON = 0.05
"""Of the mean job, after an end: a begin within it may have been let in by that end."""
ALIKE = 0.5
"""Of the time between later ones: who waits to be let in has come sooner than that after the one before."""
LET_IN = 0.25
"""Of the jobs that begin after another one's end: so many begin soon after one."""


class Dependence(NamedTuple):
    """A part of the jobs' time that depends on other jobs, though the replay takes it as given."""

    what: str
    """Where in the jobs."""
    share: float
    """Of the jobs' time, that is due to others."""


class _Stretches(NamedTuple):
    """Stretches of one kind, in one storm, ns."""

    begin: Times
    took: Times
    part: float
    """Of the jobs' time."""


def dependent_time(recorded: Sequence[Mapping[str, Any]]) -> Dependence | None:
    """The stretch of the jobs' own time that most depends on how many jobs are in it; None where none does."""
    by_kind: dict[str, list[_Stretches]] = {}
    for storm in recorded:
        delays = storm["delays"]
        kind, begin, took = (
            np.frombuffer(delays[key], "<u8").astype(float) for key in ("kind", "begin_ns", "ns")
        )
        for number, text in enumerate(delays["kinds"]):
            of = kind == number
            part = float(took[of].sum()) / max(1, storm["jobs_ns"])
            if of.sum() >= LEAST:
                by_kind.setdefault(text, []).append(_Stretches(begin[of], took[of], part))
    worst: Dependence | None = None
    for text, storms in by_kind.items():
        part = sum(storm.part for storm in storms) / len(recorded)
        due = due_to_others([(storm.begin, storm.took) for storm in storms]) * part if part >= PART else 0.0
        if due >= PART and (worst is None or due > worst.share):
            worst = Dependence(text, due)
    return worst


def by_turn(recorded: Sequence[Mapping[str, Any]]) -> Dependence | None:
    """The kind of own time that most depends on which jobs come first, as where only they fill a cache; None without one.

    Its share is of the storms' makespans. Jobs that are drawn from the recorded ones would have too much or too little of
    it.
    """
    by_kind: dict[str, list[tuple[Times, float]]] = {}
    for storm in recorded:
        delays = storm["delays"]
        kind, root, took = (np.frombuffer(delays[key], "<u8") for key in ("kind", "root", "ns"))
        job = np.unique(root, return_inverse=True)[1]
        jobs = int(job.max()) + 1 if len(job) else 0
        for number, text in enumerate(delays["kinds"]):
            of = kind == number
            if jobs >= LEAST and of.any():
                done: Times = np.bincount(job[of], weights=took[of].astype(float), minlength=jobs).astype(
                    np.float64
                )
                by_kind.setdefault(text, []).append((done, float(storm["regime"]["makespan_ns"])))
    worst: Dependence | None = None
    for text, storms in by_kind.items():
        more = sum(
            float(done[: len(done) // 2].sum() - done[-(len(done) // 2) :].sum()) for done, _ in storms
        )
        share = abs(more) / sum(makespan for _, makespan in storms)
        if share >= max(BY_TURN, worst.share if worst else 0.0) and _is_by_turn([done for done, _ in storms]):
            worst = Dependence(text, share)
    return worst


def _is_by_turn(storms: Sequence[Times]) -> bool:
    """True if what jobs do, in the order in which they came, hangs together with that order.

    Storms of one program may all have the same jobs in the same order: what is rare must be so in a single one.

    >>> _is_by_turn([np.array([9.0] * 4 + [0.0] * 36)] * 2), _is_by_turn([np.array([9.0, 0.0, 0.0, 0.0] * 10)] * 2)
    (True, False)
    """
    scores = []
    for done in storms:
        ranks, turn = _centred(_ranks(done)), _centred(np.arange(float(len(done))))
        # Of a sum of products under permutation: Hoeffding (1951).
        variance = float(ranks @ ranks) * float(turn @ turn) / (len(done) - 1)
        scores.append(float(ranks @ turn) / variance**0.5 if variance else 0.0)
    return bool(abs(sum(scores)) / len(scores) > ONCE_Z)


def due_to_others(storms: Sequence[tuple[Times, Times]]) -> float:
    """The part of a stretch that grows with the number of others in it; 0 where it may be chance.

    `storms`: begins and lengths of the stretches of each, ns.

    >>> begin = np.arange(20.0)  # one server, which takes 100 for each
    >>> due_to_others([(begin, 100.0 * np.arange(1, 21))]) > 0.8
    True
    >>> due_to_others([(begin, np.random.default_rng(1).permutation(np.arange(100.0, 120.0)))])
    0.0
    >>> begin = np.arange(10_000.0)
    >>> due_to_others([(begin, 100.0 * np.arange(1, 10_001))]) > 0.8
    True
    >>> due_to_others([(begin, np.random.default_rng(1).uniform(100.0, 200.0, 10_000))])
    0.0
    """
    random = np.random.default_rng(1)
    many = max(len(took) for _, took in storms) > MANY
    together, by_chance, variance, added, all_of_it = 0.0, np.zeros(PERMUTATIONS), 0.0, 0.0, 0.0
    for begin, took in storms:
        others = _others(begin, took)
        ranks, by = _centred(_ranks(took)), _centred(_ranks(others))
        together += float(ranks @ by)
        # Of a sum of products under permutation: Hoeffding (1951).
        variance += float(ranks @ ranks) * float(by @ by) / (len(took) - 1)
        if not many:
            by_chance += random.permuted(np.tile(ranks, (PERMUTATIONS, 1)), axis=1) @ by
        if others.std() > 0:
            added += max(0.0, float(np.polyfit(others, took, 1)[0])) * float(others.sum())
        all_of_it += float(took.sum())
    if together <= 0:
        return 0.0
    rare = together > RARE_Z * variance**0.5 if many else (by_chance >= together).sum() <= RARE * PERMUTATIONS
    if not rare:
        return 0.0
    return min(1.0, added / all_of_it)


def _centred(of: Times) -> Times:
    centred: Times = of - of.mean()
    return centred


def _others(begin: Times, took: Times) -> Times:
    """Count the others that are in it at each begin; of those that begin at one moment the earlier ones."""
    order = np.argsort(begin, kind="stable")
    ends = np.sort(begin + took)
    others = np.empty(len(begin))
    others[order] = np.arange(len(begin)) - np.searchsorted(ends, begin[order], side="right")
    return others


def _ranks(of: Times) -> Times:
    _, row, count = np.unique(of, return_inverse=True, return_counts=True)
    ranks: Times = np.cumsum(count) - (count - 1) / 2.0
    return ranks[row]


def capped(recorded: Sequence[Mapping[str, Any]]) -> int:
    """How many jobs are let in at a time, where that shows in every storm though nothing on record lets them in; else 0."""
    caps = {
        _cap(*(np.frombuffer(storm[key], "<u8").astype(float) for key in ("come_ns", "begin_ns", "end_ns")))
        for storm in recorded
    }
    return caps.pop() if len(caps) == 1 else 0


def _cap(come: Times, begin: Times, end: Times) -> int:
    """Count those inside when most are, if jobs come in waves that fill that up; else 0.

    >>> begin = np.repeat(np.arange(4.0), 5) * 100 + np.tile(np.arange(5.0), 4)
    >>> _cap(begin, begin, begin + 90), _cap(begin, begin, begin + 250)
    (5, 0)
    >>> begin = np.arange(40.0) * 30
    >>> _cap(begin, begin, begin + 100)  # at one pace, three more are always inside
    0
    """
    if len(come) < LEAST or len(come) < len(begin):
        return 0
    # Those that are let in by something on record came long before they began.
    if float((np.sort(begin) - np.sort(come)).mean()) > AT_ONCE * float((end - begin).mean()):
        return 0
    left = np.searchsorted(np.sort(end), begin, side="right")
    inside = np.searchsorted(np.sort(begin), begin, side="right") - left
    most = int(inside.max())
    gaps = np.diff(np.sort(begin))
    if most < LEAST_CAP or len(begin) < 2 * most or gaps.std() < IRREGULAR * gaps.mean():
        return 0
    # Each wave fills up what is free: the most of it are inside together, and no one more, ever.
    waves = int((inside == most).sum())
    return most if waves >= len(begin) // most - 1 else 0


def let_in_by_others(recorded: Sequence[Mapping[str, Any]]) -> float:
    """The largest part, of any storm, of the jobs that come as recorded which came soon after another one's end."""
    return max(
        _let_in(
            *(np.frombuffer(storm[key], "<u8").astype(float) for key in ("come_ns", "begin_ns", "end_ns"))
        )
        for storm in recorded
    )


def _let_in(come: Times, begin: Times, end: Times) -> float:
    """Measure the same of one storm, of its jobs that come after the first end; 0 where it may be chance.

    >>> begin, end = np.arange(0.0, 2000.0, 100.0), np.arange(45.0, 2045.0, 100.0)
    >>> _let_in(begin, begin, end), _let_in(end[:-1] + 0.2, begin, end)
    (0.0, 1.0)
    """
    if len(come) < LEAST:
        return 0.0
    soon = SOON * float((end - begin).mean())
    ends = np.sort(end)
    later = come[come > ends[0]]
    if len(later) < LEAST // 2:
        return 0.0
    first = np.sort(come[come <= ends[0]])
    if (
        len(first) > 1
        and np.diff(first).mean() > ALIKE * np.diff(np.append(first[-1:], np.sort(later))).mean()
    ):
        return 0.0  # they come one by one all the time: that some come when others end is by chance
    before = ends[np.searchsorted(ends, later, side="right") - 1]
    count = int((later - before <= soon).sum())
    span = float(max(later.max(), ends[0] + 1.0) - ends[0])
    gaps = np.diff(np.append(ends[ends <= later.max()], later.max()))
    chance = float(np.minimum(gaps, soon).sum()) / span
    if count < LET_IN * len(later) or clopper_pearson(count, len(later), 1 - 2 * RARE)[0] <= chance:
        return 0.0
    return count / len(later)
