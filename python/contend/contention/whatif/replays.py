"""Storms replayed without edits, what that says of them, and replayed again with edits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from contend.contention.alibi.beside import beside
from contend.contention.alibi.verdict import Alibi
from contend.contention.whatif import doubts
from contend.contention.whatif.campaign import MEASURED
from contend.contention.whatif.gate import Gate, Replayed, gate
from contend.contention.whatif.regime import TESTED, Regime, regime
from contend.contention.whatif.stability import Stability, own_spread
from contend.contention.whatif.storms import Edit, Source
from contend.contention.whatif.times import LEAST_STORMS, Predicted, Times, average, predict

RANKING_DRAWS = 8
# A storm that is not reproduced may be left out of more than so many: the host disturbed it, or chance decided in it.
LEAST_LEFT = 5
# Edits that draw more than the order in which jobs come.
DRAWN = {"jobs", "workers"}

_Doubt = Callable[[int, Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]], str | None]
"""Of a storm: its jobs, its parts, and its replays without and with the edits."""


@dataclass(frozen=True, slots=True)
class Replay:
    """Storms, each replayed without edits, and what that says of them."""

    sources: Sequence[Source]
    storms: Sequence[Replayed]
    judged: Regime
    gate: Gate
    waits: float
    """Part of the median or of the makespan that goes with the waits for the interpreter's lock; 0 where these are
    simulated."""
    stability: Stability | None
    """Without edits; None where the gate is not passed."""
    left_out: Replayed | None = None
    """A storm that the replay does not reproduce, as it does all others."""

    @classmethod
    def of(cls, sources: Sequence[Source]) -> Replay:
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
    def _of(cls, sources: Sequence[Source], storms: Sequence[Replayed]) -> Replay:
        recorded = [one.recorded for one in storms]
        judged = regime(recorded, _alibis(sources, recorded), _loops(storms))
        passed = gate(storms, judged)
        waits = _interpreter_waits(sources, storms) if passed.passed and not judged.replayed else 0.0
        stability = Stability.of(sources, ()) if passed.passed else None
        return cls(sources, storms, judged, passed, waits, stability)

    def simulated(self) -> Replay:
        """The storms with their interpreters simulated."""
        return Replay.of([source.read_again("simulated") for source in self.sources])

    def computing(self) -> Replay | None:
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
            (
                None
                if self.judged.replayed
                else self.computes_then(outcomes) or self._processors_then(before, after)
            )
            or doubts.on_interpreter(self.waits)
            or (None if self.judged.tested else doubts.more_computing(jobs_ns, after))
            or self._of_one(doubts.overdue, after)
            or self._of_one(doubts.beyond, after)
            or self._of_one(doubts.otherwise, after)
            or self._of_one(doubts.order, after)
            or doubts.more_workers(jobs_ns, after)
            or doubts.arrivals(recorded, before, after)
            or doubts.more_outside(jobs_ns, before, after)
            or doubts.unawaited(jobs_ns, before, after)
            or self._unstable(edits)
            or doubts.between_kinds(before, after)
            or doubts.too_wide(_changes(before, outcomes))
        )

    def _processors_then(
        self, before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
    ) -> str | None:
        then = doubts.processors_after(self.judged, before, after)
        return doubts.in_each_others_way(self.judged.cores, then, [one.recorded for one in self.storms])

    @property
    def _takes_turns(self) -> bool:
        """It is on record that hardly anybody waited for the interpreter's lock.

        Of a storm in which nobody did, older traces do not say so.
        """
        known = any(one.recorded["regime"]["gil_ns"] is not None for one in self.storms)
        return known and (self.judged.waiting or 0.0) < TESTED

    def _unstable(self, edits: Sequence[Edit]) -> str | None:
        if self.stability is None:
            return None
        before, after = self.stability, Stability.of(self.sources, edits)
        if why := doubts.on_ways(before.on_ways(after)):
            return why
        if len(self.storms) < LEAST_STORMS:
            return None  # of so few there is no interval anyway
        own = own_spread([Times.of(one.recorded) for one in self.storms])
        looks_again = any(one.parts["looks_again"] for one in self.storms)
        why = doubts.on_small_things(before.spread, after.spread, own, looks_again=looks_again)
        if why or DRAWN & {edit.kind for edit in edits}:
            return why
        return doubts.on_order(before.on_order(after))

    def _of_one(self, doubt: _Doubt, after: Sequence[Mapping[str, Any]]) -> str | None:
        """The reason why one of the edited storms is doubted; None where none is."""
        reasons = (
            doubt(len(one.recorded["begin_ns"]) // 8, one.parts, one.outcome, now)
            for one, now in zip(self.storms, after, strict=True)
        )
        return next((reason for reason in reasons if reason), None)


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
