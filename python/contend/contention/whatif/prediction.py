"""Edits of storms and what they would bring: predicted for the next storm, ranked where none is asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from contend import _native
from contend._native import Storm
from contend.contention.alibi.beside import beside
from contend.contention.alibi.verdict import Alibi
from contend.contention.hunting.calls import says_nothing_new
from contend.contention.hunting.rows import calls_of
from contend.contention.whatif import doubts
from contend.contention.whatif.campaign import MEASURED
from contend.contention.whatif.gate import Gate, Replayed, gate
from contend.contention.whatif.independence import by_turn
from contend.contention.whatif.regime import TESTED, Regime, regime
from contend.contention.whatif.storms import Edit, NativeEdit, Source, check, idle
from contend.contention.whatif.times import (
    LEAST_STORMS,
    LEVEL,
    Predicted,
    Times,
    average,
    predict,
    predicted_times,
)
from contend.text.shape import OPTIONAL, Count, Limits, Shape, Through, computed

DRAWS = 32  # orders in which the jobs of one storm may come, and what else an edit draws
RANKING_DRAWS = 8
BEST = 3
# A storm that is not reproduced may be left out of more than so many: the host disturbed it, or chance decided in it.
LEAST_LEFT = 5
# A fix is tried where its resource makes jobs wait for so much of their time.
WORTH = 0.01
LEAST_GAIN = 0.005
# A span of so much of the jobs' time may be left out, the longest ones.
LONG = 0.05
REMOVALS = 3
ALIKE = 0.02
# A call that follows one of its own kind in so many of its cases may be coalesced.
CHATTY = 0.5
UNLEARNT = (
    "server",
    "shortest",
)  # from where the cost of a call is taken, where what an item costs is not known
COALESCED = 8
HALF_WAYS: NativeEdit = ("ways", "", 0.5)

_Doubt = Callable[[int, Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]], str | None]
"""Of a storm: its jobs, its parts, and its replays without and with the edits."""


def _options(edits: Sequence[Edit]) -> list[str]:
    return [str(edit) for edit in edits]


@dataclass(frozen=True, slots=True)
class Fix(Shape):
    """A fix that suggests itself, best first; the last are the best ones together."""

    edits: Annotated[tuple[Edit, ...], Through(_options), "as options"]
    predicted: Annotated[Mapping[str, Predicted], Through(predicted_times)]
    gain: Annotated[float, "of the median; negative: worse"]
    assumes: Annotated[str, "what it takes for granted, or empty"] = ""


@dataclass(frozen=True, slots=True)
class Whatif(Shape):
    """A storm replayed with edits. Times are integers in ns."""

    method: Annotated[
        str, Limits(enum=["replay", "batch law"]), "batch law: of a run of storms, without traces"
    ] = field(default="replay", kw_only=True)
    sources: Annotated[tuple[str, ...], "a trace each, one storm; or a run of storms of several sizes"]
    edits: Annotated[tuple[Edit, ...], Through(_options), "as options"]
    jobs: Annotated[Count, "of a recorded storm, rounded mean"]
    level: Annotated[float, "of the intervals"] = field(default=LEVEL, init=False)
    baseline: Annotated[Times, "as recorded; the mean over the storms"]
    predicted: Annotated[Mapping[str, Predicted], Through(predicted_times)]
    gate: Gate
    regime: Regime
    fixes: tuple[Fix, ...]
    notes: Annotated[tuple[str, ...], "what a reader must know, a sentence each"]

    @property
    @computed(before="baseline")
    def predicted_jobs(self) -> Annotated[Count | None, OPTIONAL]:
        """of the predicted storm, where --jobs says how many"""
        return next((int(edit.number) for edit in self.edits if edit.kind == "jobs"), None)


def whatif(sources: Sequence[Source], edits: Sequence[Edit] = (), *, rank: bool | None = None) -> Whatif:
    """Replay each storm with the edits; without any (or with `rank`), try the fixes that suggest themselves.

    The answer holds its gate: where that is not passed, the prediction is not to be believed. Raises BadInput where an
    edit names what is not there.
    """
    check(edits, sources)
    replay = _Replay.of(sources)
    if replay.judged.refused and replay.judged.by_itself:
        replay = replay.simulated()
    elif (replay.judged.waiting or 0.0) >= TESTED:
        replay = replay.computing() or replay
    predicted, costs, outcomes = replay.run(edits, DRAWS)
    if edits and replay.gate.passed and replay.computes_then(outcomes) and (again := replay.computing()):
        replay = again
        predicted, costs, outcomes = replay.run(edits, DRAWS)
    judged, replayed, passed = replay.judged, replay.storms, replay.gate
    recorded = [one.recorded for one in replayed]
    notes = list(_notes(replay.sources, recorded, edits))
    notes.extend(_cost_note(cost) for cost in costs)
    if replay.left_out:
        notes.append(
            f"{replay.left_out.path} is left out: its replay is {replay.left_out.error:.0%} off, and no other's as much"
        )
    baseline = Times.mean([Times.of(row) for row in recorded])
    if edits:
        reasons = [replay.refusal(edits, outcomes)]
        if unused := idle(edits, [one.parts for one in replayed]):
            reasons.append(
                f"{unused}: no job on record uses {unused.name}, or it is not on record that they do"
            )
        reasons.append(doubts.forked(edits, [one.parts for one in replayed]))
        reasons.append(replay.in_turns(edits, predicted))
        if any(edit.kind == "jobs" for edit in edits):
            reasons.append(doubts.drawn(by_turn(recorded)))
        unknown = [str(cost["call"]) for cost in costs if cost["source"] in UNLEARNT]
        if unknown:
            other, _, _ = replay.run([edit.other for edit in edits], RANKING_DRAWS)
            note, reason = doubts.unlearnt(unknown, baseline, predicted, other)
            predicted = doubts.between(predicted, other)
            notes.append(note)
            reasons.append(reason)
        alike = [doubts.alike(one.parts, storm[0]) for one, storm in zip(replayed, outcomes, strict=True)]
        notes.extend(note for note in alike[:1] if note)
        reason = next((reason for reason in reasons if reason), None)
        if passed.passed and reason:
            passed = replace(passed, passed=False, reason=reason)
    fixes: tuple[Fix, ...] = ()
    if passed.passed and (rank if rank is not None else not edits):
        fixes = rank_fixes(replay)
        if why := doubts.on_interpreter(replay.waits):
            notes.append(why)
    return Whatif(
        tuple(source.path for source in sources),
        tuple(edits),
        round(sum(len(row["begin_ns"]) // 8 for row in recorded) / len(recorded)),
        baseline,
        predicted,
        passed,
        judged,
        fixes,
        tuple(dict.fromkeys(notes)),
    )


@dataclass(frozen=True, slots=True)
class _Replay:
    """Storms, each replayed without edits, and what that says of them."""

    sources: Sequence[Source]
    storms: Sequence[Replayed]
    judged: Regime
    gate: Gate
    waits: float
    """Part of the median or of the makespan that goes with the waits for the interpreter's lock; 0 where these are
    simulated."""
    hurried: NDArray[np.float64]
    """By storm, draw, and median and makespan: what they are if ways take half as long, as a part of what they are."""
    left_out: Replayed | None = None
    """A storm that the replay does not reproduce, as it does all others."""

    @classmethod
    def of(cls, sources: Sequence[Source]) -> _Replay:
        """Replay all of them; the one that is worst reproduced is left out where those that remain are many and pass."""
        replayed = [
            Replayed(source.path, source.storm.parts(), source.storm.recorded(), source.storm.run([], 0))
            for source in sources
        ]
        one = cls._of(sources, replayed)
        if one.gate.passed or len(sources) <= LEAST_LEFT:
            return one
        worst = max(range(len(replayed)), key=lambda at: replayed[at].error)
        if not replayed[worst].is_known:
            return one  # what the program does in one storm it may do in the next
        rest = [at for at in range(len(replayed)) if at != worst]
        others = cls._of([sources[at] for at in rest], [replayed[at] for at in rest])
        return replace(others, left_out=replayed[worst]) if others.gate.passed else one

    @classmethod
    def _of(cls, sources: Sequence[Source], storms: Sequence[Replayed]) -> _Replay:
        recorded = [one.recorded for one in storms]
        judged = regime(recorded, _alibis(sources, recorded), _loops(storms))
        passed = gate(storms, judged)
        waits = _interpreter_waits(sources, storms) if passed.passed and not judged.replayed else 0.0
        hurried = _hurried(sources, ()) if passed.passed else np.ones((len(sources), 1, 2))
        return cls(sources, storms, judged, passed, waits, hurried)

    def simulated(self) -> _Replay:
        """The storms with their interpreters simulated."""
        return _Replay.of([source.read_again("simulated") for source in self.sources])

    def computing(self) -> _Replay | None:
        """The storms with their interpreters simulated, where that reproduces them; None elsewhere."""
        again = self.simulated()
        return again if again.judged.tested and again.gate.passed else None

    def run(
        self, edits: Sequence[Edit], draws: int
    ) -> tuple[dict[str, Predicted], list[dict[str, Any]], list[list[dict[str, Any]]]]:
        """Predict; the costs of coalesced calls, and what came out in each draw of each storm.

        By as much as a storm's replay is off without edits, it is taken to be off with them.
        """
        native_edits = [edit.native for edit in edits]
        seeds = range(1, draws + 1)
        outcomes = [[source.storm.run(native_edits, seed) for seed in seeds] for source in self.sources]
        costs = [cost for storm in outcomes for cost in storm[0]["costs"]]
        off = [Times.of(one.recorded).part_of(Times.of(one.outcome)) for one in self.storms]
        times = [[draw.times(by) for draw in storm] for storm, by in zip(_times(outcomes), off, strict=True)]
        whole = Times.mean([Times.of(one.recorded) for one in self.storms])
        return predict(times, error=MEASURED.typical, whole=whole), costs, outcomes

    def in_turns(self, edits: Sequence[Edit], predicted: Mapping[str, Predicted]) -> str | None:
        """The reason why the edits are refused since threads would wait for their interpreter, and did not on record;
        None where they would not, or where that is simulated anyway."""
        if self.judged.replayed or not self.gate.passed:
            return None
        again = self.simulated()
        if not (again.judged.replayed and again.gate.passed):
            return None
        return doubts.in_turns(predicted, again.run(edits, RANKING_DRAWS)[0])

    def computes_then(self, outcomes: Sequence[Sequence[Mapping[str, Any]]]) -> str | None:
        """The reason why the storms would compute too much with the edits; None where they would not.

        Where no thread waited for the interpreter of a busy loop, none computed beside it: what runs on that takes turns.
        """
        if self.judged.busiest is None and self._takes_turns:
            return None
        before, after = [one.outcome for one in self.storms], [storm[0] for storm in outcomes]
        return doubts.computes_then(doubts.computing_after(self.judged, before, after))

    def refusal(self, edits: Sequence[Edit], outcomes: Sequence[Sequence[Mapping[str, Any]]]) -> str | None:
        """The reason why edits make the replay wrong, though it is right without; None where there is none."""
        before, after = [one.outcome for one in self.storms], [storm[0] for storm in outcomes]
        recorded = [one.recorded for one in self.storms]
        jobs_ns = float(sum(row["jobs_ns"] for row in recorded))
        return (
            (None if self.judged.replayed else self.computes_then(outcomes))
            or doubts.on_interpreter(self.waits)
            or (None if self.judged.tested else doubts.more_computing(jobs_ns, after))
            or self._of_one(doubts.overdue, after)
            or self._of_one(doubts.beyond, after)
            or self._of_one(doubts.otherwise, after)
            or self._of_one(doubts.order, after)
            or doubts.more_workers(jobs_ns, after)
            or doubts.arrivals(recorded, before, after)
            or doubts.more_outside(jobs_ns, before, after)
            or doubts.on_ways(self._on_ways(edits))
            or doubts.too_wide(_changes(before, outcomes))
        )

    @property
    def _takes_turns(self) -> bool:
        """It is on record that hardly anybody waited for the interpreter's lock.

        Of a storm in which nobody did, older traces do not say so.
        """
        known = any(one.recorded["regime"]["gil_ns"] is not None for one in self.storms)
        return known and (self.judged.waiting or 0.0) < TESTED

    def _on_ways(self, edits: Sequence[Edit]) -> float:
        """Estimate how much more or less of the median or makespan edits would leave if ways took half as long."""
        changes = np.mean(_hurried(self.sources, edits) / self.hurried, axis=(0, 1))
        return float(np.max(np.abs(changes - 1)))

    def _of_one(self, doubt: _Doubt, after: Sequence[Mapping[str, Any]]) -> str | None:
        """The reason why one of the edited storms is doubted; None where none is."""
        reasons = (
            doubt(len(one.recorded["begin_ns"]) // 8, one.parts, one.outcome, now)
            for one, now in zip(self.storms, after, strict=True)
        )
        return next((reason for reason in reasons if reason), None)


def _hurried(sources: Sequence[Source], edits: Sequence[Edit]) -> NDArray[np.float64]:
    """Replay the edited storms as usual and with ways that take half as long: what these leave of the median and makespan.

    By storm and draw: shape (storms, draws, 2).
    """

    def both(storm: Storm, seed: int, *ways: NativeEdit) -> NDArray[np.float64]:
        times = Times.of(storm.run([*(edit.native for edit in edits), *ways], seed))
        return np.maximum(1.0, [times.median_ns, times.makespan_ns])

    seeds = range(1, RANKING_DRAWS + 1)
    return np.array(
        [[both(of.storm, seed, HALF_WAYS) / both(of.storm, seed) for seed in seeds] for of in sources]
    )


def _interpreter_waits(sources: Sequence[Source], storms: Sequence[Replayed]) -> float:
    """Estimate which part of the median or of the makespan goes with the waits for the interpreter's lock."""
    pairs = []
    for source, storm in zip(sources, storms, strict=True):
        with_them = Times.of(storm.outcome)
        waited = storm.recorded["regime"]["gil_ns"] or 0
        if waited < doubts.INTERPRETER * with_them.median_ns:
            without = with_them
        else:
            without = Times.of(source.read_again("left out").storm.run([], 0))
        pairs.append(without.part_of(with_them))
    parts = Times.mean(pairs)
    return 1 - min(parts.median_ns, parts.makespan_ns)


def _alibis(sources: Sequence[Source], recorded: Sequence[Mapping[str, Any]]) -> list[Alibi]:
    """Alibis of the storms beside which the host was recorded."""
    alibis = []
    for source, row in zip(sources, recorded, strict=True):
        begin, end = (np.frombuffer(row[key], "<u8") for key in ("begin_ns", "end_ns"))
        alibis.append(beside(Path(source.path), int(begin.min()), int(end.max())) if len(begin) else None)
    return [alibi for alibi in alibis if alibi is not None]


def _loops(replayed: Sequence[Replayed]) -> float:
    """Part of a storm in which its busiest loop or hub ran something."""
    return max(
        max(one.outcome["ran_ns"], default=0) / max(1.0, Times.of(one.outcome).makespan_ns)
        for one in replayed
    )


def _times(outcomes: Sequence[Sequence[Mapping[str, Any]]]) -> list[list[Times]]:
    return [[Times.of(draw) for draw in storm] for storm in outcomes]


def _changes(
    before: Sequence[Mapping[str, Any]], outcomes: Sequence[Sequence[Mapping[str, Any]]]
) -> dict[str, Predicted]:
    """Estimate times as a part of what they are replayed without the edits, on average over storms."""
    without = [Times.of(row) for row in before]
    parts = [
        [draw.part_of(was) for draw in storm] for storm, was in zip(_times(outcomes), without, strict=True)
    ]
    return average(parts, error=MEASURED.typical, whole=1.0)


def _notes(
    sources: Sequence[Source], recorded: Sequence[Mapping[str, Any]], edits: Sequence[Edit]
) -> Iterator[str]:
    if len(sources) < LEAST_STORMS:
        yield (
            f"no interval from {len(sources)} storm{'s' if len(sources) != 1 else ''}: jobs of one storm share its"
            f" queues; record {LEAST_STORMS} or more and name them all"
        )
    unfinished = sum(row["unfinished"] for row in recorded)
    if unfinished:
        yield f"{unfinished} jobs have no end in the trace and are left out"
    for edit in edits:
        if edit.kind == "jobs":
            yield "jobs are the recorded ones in their order, and come at their rate; what other threads do stays as it was"
        if edit.kind in ("workers", "jobs"):
            yield from _pool_notes(sources[0], edit)


def _pool_notes(source: Source, edit: Edit) -> Iterator[str]:
    parts, recorded = source.storm.parts(), source.storm.recorded()
    for pool, waited in zip(parts["pools"], recorded["pool_ns"], strict=True):
        name = pool["name"]
        if edit.kind == "jobs" and pool["workers"] and not waited:
            yield f"pool {name}: workers seen: {pool['workers']}; if it may have more, the prediction is too slow"
        if edit.kind == "jobs" and pool["queues"] > 1:
            yield (
                f"pool {name}: a drawn job's queue is drawn too, unless the recorded ones are more uneven than"
                " chance makes them; where few keys choose the queue (a host's name), the prediction is too fast"
            )
        if edit.kind == "workers" and edit.name == name and pool["queues"] > 1:
            yield f"pool {name}: which items go to which of the new workers is drawn, as a hash would"


def _cost_note(cost: Mapping[str, Any]) -> str:
    fixed, item = cost["fixed_ns"] / 1e6, cost["item_ns"] / 1e6
    learnt = f"{cost['call']}: {cost['before']} calls become {cost['after']}; "
    how = {
        "calls": f"a call costs {fixed:.3g} ms and {item:.3g} ms an item, learnt from {cost['calls']} calls",
        "pool": f"a call costs {fixed:.3g} ms and {item:.3g} ms an item, learnt from other calls of its pool",
        "server": "what an item costs cannot be learnt, since all calls carry the same number: what the server does was"
        " taken as the items' and not saved, the way there and back as the call's",
        "shortest": f"what an item costs cannot be learnt: the shortest call, {fixed:.3g} ms, was taken as what each"
        " call costs without its items",
    }
    return learnt + how[cost["source"]]


def rank_fixes(replay: _Replay) -> tuple[Fix, ...]:
    """Rank the candidates that gain most, and the best three of them together; none of which the prediction is refused."""
    before, _, _ = replay.run((), RANKING_DRAWS)

    def tried(edits: tuple[Edit, ...], assumes: str) -> Fix | None:
        predicted, costs, outcomes = replay.run(edits, RANKING_DRAWS)
        if replay.refusal(edits, outcomes):
            return None
        unknown = dict.fromkeys(_cost_note(cost) for cost in costs if cost["source"] in UNLEARNT)
        gain = 1 - predicted["median_ns"].value / max(1.0, before["median_ns"].value)
        return Fix(edits, predicted, gain, "; ".join(filter(None, [assumes, *unknown])))

    singles = [
        tried((edit,), assumes)
        for edit, assumes in candidates(replay.storms[0], needless(replay.storms[0].path))
    ]
    gaining = (fix for fix in singles if fix and fix.gain > LEAST_GAIN)
    best = sorted(gaining, key=lambda fix: -fix.gain)[:BEST]
    if len(best) > 1:
        assumes = "; ".join(filter(None, dict.fromkeys(fix.assumes for fix in best)))
        together = tried(tuple(edit for fix in best for edit in fix.edits), assumes)
        best.extend([together] if together else [])
    return tuple(best)


def needless(path: str) -> set[str]:
    """Names of calls in a trace that, by a hunt, say nothing new."""
    by_name: dict[str, list[Any]] = {}
    for row in calls_of(_native.ctrace_calls([path])):
        by_name.setdefault(row.name, []).append(row)
    return {name for name, rows in by_name.items() if says_nothing_new(rows)}


def _longest(storm: Replayed, unneeded: Collection[str]) -> list[str]:
    """Names of the spans with most of the jobs' time; of two that are always one in the other, the shorter name."""
    calls = {*storm.parts["system_calls"], *unneeded}
    least = LONG * storm.recorded["jobs_ns"]
    spans = [row for row in storm.parts["spans"] if row[3] >= least and row[0] not in calls]
    names: dict[tuple[int, int], str] = {}
    for name, count, _, ns, _ in sorted(spans, key=lambda row: (-row[3], len(row[0]))):
        alike = (known for known in names if known[0] == count and known[1] - ns <= ALIKE * ns)
        key = next(alike, (count, ns))
        names[key] = min(names.get(key, name), name, key=len)
    return list(names.values())[:REMOVALS]


def candidates(storm: Replayed, unneeded: Collection[str] = ()) -> Iterator[tuple[Edit, str]]:
    """List fixes that one storm's waits suggest, each with what it takes for granted. `unneeded`: calls that say
    nothing new."""
    least = WORTH * storm.recorded["jobs_ns"]
    waits: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for row, ns in zip(storm.parts["locks"], storm.recorded["lock_ns"], strict=True):
        waits[row["name"]] = waits.get(row["name"], 0) + ns
        if row["semaphore"] and row["capacity"]:
            sizes[row["name"]] = max(sizes.get(row["name"], 0), row["capacity"])
    for name, ns in waits.items():
        if ns >= least and name in sizes:
            yield Edit("size", name, 2 * sizes[name]), f"who is let in by {name} can be twice as many"
        if ns >= least:
            yield Edit("hold", name, 0.5), f"what is done under {name} itself can be halved"
    pools: dict[str, tuple[int, int, int]] = {}
    for row, ns in zip(storm.parts["pools"], storm.recorded["pool_ns"], strict=True):
        waited, workers, queues = pools.get(row["name"], (0, 0, 0))
        pools[row["name"]] = (waited + ns, max(workers, row["workers"] or 0), max(queues, row["queues"]))
    for name, (ns, workers, queues) in pools.items():
        if ns >= least:
            if queues > 1:
                yield Edit("global_queue", name), "any worker can serve any item"
            if not doubts.forked([Edit("workers", name)], [storm.parts]):
                yield Edit("workers", name, 2 * workers), ""
    spans = storm.parts["spans"]
    for name in _longest(storm, unneeded):
        yield Edit("remove", name), f"{name} need not be done, or not by the job"
    for name, count, calls, _, repeated in spans:
        if name in unneeded:
            yield Edit("remove", name), f"{name} says nothing new and can be left out"
        elif calls and repeated >= CHATTY * count:
            yield Edit("coalesce", name, COALESCED), f"{name} can carry several items"
