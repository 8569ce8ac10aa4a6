"""How much of a replayed storm turns on what a replay does not know: the ways of messages, who comes first, and small
things."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contend._native import Storm
from contend.contention.whatif.storms import Edit, NativeEdit, Source
from contend.contention.whatif.times import Times

DRAWS = 8
HALF_WAYS: NativeEdit = ("ways", "", 0.5)
SURE = 2.0  # standard errors
UNEVEN: NativeEdit = ("uneven", "", 0.02)


@dataclass(frozen=True, slots=True)
class Stability:
    """Medians and makespans of storms if something else were different, as a part of what they are.

    Each of shape (storms, draws, 2): by storm and draw, median and makespan.
    """

    hurried: NDArray[np.float64]
    """If ways of messages and pickups took half as long."""
    uneven: NDArray[np.float64]
    """If each step took up to 2 % more or less, by chance."""
    reordered: NDArray[np.float64]
    """If jobs that come at once came in another order."""

    @classmethod
    def of(cls, sources: Sequence[Source], edits: Sequence[Edit]) -> Stability:
        """Replay the edited storms as they are, and so."""
        native = [edit.native for edit in edits]

        def times(storm: Storm, seed: int, *more: NativeEdit) -> NDArray[np.float64]:
            return _both(Times.of(storm.run([*native, *more], seed)))

        def all_times(seeds: Sequence[int], *more: NativeEdit) -> NDArray[np.float64]:
            return np.array([[times(source.storm, seed, *more) for seed in seeds] for source in sources])

        seeds = range(1, DRAWS + 1)
        usual = all_times(seeds)
        # Jobs come as recorded in what is drawn with 0.
        in_order = all_times([0])
        return cls(all_times(seeds, HALF_WAYS) / usual, all_times(seeds, UNEVEN) / usual, usual / in_order)

    def on_ways(self, edited: Stability) -> float:
        """Estimate how much more or less of the median or makespan edits would leave if ways took half as long."""
        return _change(self.hurried, edited.hurried)

    def on_order(self, edited: Stability) -> float:
        """Estimate how much more or less of the median or makespan edits would leave if jobs came in another order, whatever
        that is in a storm: 0 where it is more in one storm and less in another."""
        changes = np.mean(edited.reordered / self.reordered, axis=1) - 1
        mean, error = np.mean(changes, axis=0), np.std(changes, axis=0, ddof=1) / len(changes) ** 0.5
        return float(np.max(np.where(np.abs(mean) > SURE * error, np.abs(mean), 0.0)))

    @property
    def spread(self) -> NDArray[np.float64]:
        """Standard deviation that small things alone give a storm's median and makespan, as a part of them: on average over
        storms, of shape (2,)."""
        return np.asarray(np.mean(np.std(self.uneven, axis=1), axis=0))


def own_spread(recorded: Sequence[Times]) -> NDArray[np.float64]:
    """Standard deviation of recorded storms' medians and makespans, as a part of their means: of shape (2,)."""
    both = np.array([_both(of) for of in recorded])
    return np.asarray(np.std(both, axis=0, ddof=1) / np.mean(both, axis=0))


def _both(of: Times) -> NDArray[np.float64]:
    return np.maximum(1.0, [of.median_ns, of.makespan_ns])


def _change(before: NDArray[np.float64], after: NDArray[np.float64]) -> float:
    return float(np.max(np.abs(np.mean(after / before, axis=(0, 1)) - 1)))
