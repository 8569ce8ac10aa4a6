"""Edits of storms and what they would bring: predicted for the next storm, ranked where none is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from contend.contention.whatif import doubts
from contend.contention.whatif.gate import Gate
from contend.contention.whatif.independence import by_turn
from contend.contention.whatif.ranking import UNLEARNT, Fix, Ranking, cost_note, rank_fixes
from contend.contention.whatif.regime import TESTED, Regime
from contend.contention.whatif.replays import RANKING_DRAWS, Replay
from contend.contention.whatif.storms import Edit, Source, as_options, check, idle
from contend.contention.whatif.times import LEAST_STORMS, LEVEL, Predicted, Times, predicted_times
from contend.text.shape import OPTIONAL, Count, Limits, Shape, Through, computed
from contend.units import of_time

DRAWS = 32  # orders in which the jobs of one storm may come, and what else an edit draws


@dataclass(frozen=True, slots=True)
class Whatif(Shape):
    """A storm replayed with edits. Times are integers in ns."""

    method: Annotated[
        str, Limits(enum=["replay", "batch law"]), "batch law: of a run of storms, without traces"
    ] = field(default="replay", kw_only=True)
    sources: Annotated[tuple[str, ...], "a trace each, one storm; or a run of storms of several sizes"]
    edits: Annotated[tuple[Edit, ...], Through(as_options), "as options"]
    jobs: Annotated[Count, "of a recorded storm, rounded mean"]
    level: Annotated[float, "of the intervals"] = field(default=LEVEL, init=False)
    baseline: Annotated[Times, "as recorded; the mean over the storms"]
    predicted: Annotated[Mapping[str, Predicted], Through(predicted_times)]
    gate: Gate
    regime: Regime
    fixes: tuple[Fix, ...]
    refused: Annotated[
        tuple[Edit, ...], Through(as_options), "fixes that were tried and cannot be predicted"
    ] = field(default=(), kw_only=True)
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
    replay = Replay.of(sources)
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
    notes.extend(cost_note(cost) for cost in costs)
    if replay.left_out:
        notes.append(
            f"{replay.left_out.path} is left out: its replay is {of_time(replay.left_out.error)} off, and no other's as much"
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
    ranking = Ranking()
    if passed.passed and (rank if rank is not None else not edits):
        ranking = rank_fixes(replay)
        notes.extend(ranking.refusals())
        if not ranking.refused and (why := doubts.on_interpreter(replay.waits)):
            notes.append(why)
    return Whatif(
        tuple(source.path for source in sources),
        tuple(edits),
        round(sum(len(row["begin_ns"]) // 8 for row in recorded) / len(recorded)),
        baseline,
        predicted,
        passed,
        judged,
        ranking.best,
        tuple(dict.fromkeys(notes)),
        refused=tuple(edit for edit, _ in ranking.refused),
    )


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
