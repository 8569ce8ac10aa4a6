"""Time cut into bins, and counters as what happened in each bin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
Array = np.ndarray[Any, np.dtype[Any]]

MOST_COMPARED = 64  # keys that are looked for one by one, which is faster than to sort all rows by them


@dataclass(frozen=True)
class Grid:
    """n bins between n + 1 sample times `edges` (ns, increasing)."""

    edges: Array

    @property
    def bins(self) -> int:
        return len(self.edges) - 1

    @cached_property
    def widths(self) -> Floats:
        """Widths of the bins, in ns; for reading only."""
        widths = np.diff(self.edges).astype(np.float64)
        widths.flags.writeable = False
        return widths

    def grown(self, t: Array, values: Array) -> Floats:
        """Growth of a cumulative counter in each bin; NaN where it was not read at both ends, or was reset.

        t, values: of equal length, t increasing. values may have more axes, for several counters: t is the last one's.
        """
        if not len(t):
            return np.full((*values.shape[:-1], self.bins), np.nan)
        at = np.searchsorted(t, self.edges, "right") - 1
        known, at = at >= 0, np.maximum(at, 0)
        # The sample must be of this edge: a device that vanished keeps its last value, and grows no more.
        stale = self.edges - t[at] > self.widths.max() / 2
        read = np.where(known & ~stale, values[..., at].astype(np.float64), np.nan)
        grown: Floats = np.diff(read)
        return np.where(grown < 0, np.nan, grown)

    def summed(self, t: Array, values: Array) -> Floats:
        """Sum in each bin of values that are changes already, each up to its time t."""
        which, inside = self.locate(t)
        return np.bincount(which[inside], values[inside].astype(np.float64), self.bins).astype(np.float64)

    def mean(self, t: Array, values: Array) -> Floats:
        """Mean of a gauge over the samples in each bin; NaN in a bin without one."""
        which, inside = self.locate(t)
        n = np.bincount(which[inside], minlength=self.bins)
        total = np.bincount(which[inside], values[inside].astype(np.float64), self.bins)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean: Floats = total / n
        return mean

    def locate(self, t: Array) -> tuple[Array, Flags]:
        """The index of the bin of each time, and whether it lies in one. A sample belongs to the bin that it ends."""
        which = np.searchsorted(self.edges, t, "left") - 1
        return which, (which >= 0) & (which < self.bins)


def make_grid(times: Array, start_ns: int, end_ns: int, least_ns: int) -> Grid | None:
    """Bins of at least `least_ns` between the samples in [start_ns, end_ns]; None with fewer than two samples.

    What lies between the phase's start and its first sample may be idle time of before, so it is left out, and at the
    end likewise. A phase that holds no two samples is judged by the interval that holds it.

    times: increasing, each once.

    >>> make_grid(np.arange(0, 3_000, 100), 250, 2_600, 500).edges.tolist()
    [300, 800, 1300, 1800, 2300, 2600]
    >>> make_grid(np.arange(0, 3_000, 1_000), 1_300, 1_600, 500).edges.tolist()
    [1000, 2000]
    """
    t = times.astype(np.int64, copy=False)
    if len(t) < 2:
        return None
    first, last = int(np.searchsorted(t, start_ns, "left")), int(np.searchsorted(t, end_ns, "right")) - 1
    if first >= last:
        first = max(0, min(int(np.searchsorted(t, (start_ns + end_ns) // 2, "right")) - 1, len(t) - 2))
        last = first + 1
    if (np.diff(t[first : last + 1]) >= least_ns).all():  # as in a day of samples: nothing to put together
        return Grid(t[first : last + 1].copy())
    edges = [int(t[first])]
    for at in t[first + 1 : last + 1].tolist():
        if at - edges[-1] >= least_ns:
            edges.append(at)
    if edges[-1] != t[last]:
        # The rest is a bin of its own if it is most of one, else part of the last.
        if len(edges) > 1 and t[last] - edges[-1] < 0.6 * least_ns:
            edges[-1] = int(t[last])
        else:
            edges.append(int(t[last]))
    return Grid(np.array(edges, dtype=np.int64))


def by_key(keys: Array) -> Iterator[tuple[Any, Array]]:
    """Group rows by key: each distinct key and the positions of its rows, in order."""
    if not len(keys):
        return
    if keys.dtype == object:
        few = sorted(set(keys.tolist()))
    elif (keys == keys[0]).all():
        yield keys[0].item(), np.arange(len(keys))
        return
    else:
        few = np.unique(keys).tolist()
    if len(few) <= MOST_COMPARED:
        for name in few:
            yield name, np.flatnonzero(keys == name)
        return
    names, inverse = np.unique(keys, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    bounds = np.searchsorted(inverse[order], np.arange(len(names) + 1))
    for number, name in enumerate(names):
        yield name, order[bounds[number] : bounds[number + 1]]


def distinct(keys: Array) -> tuple[Array, Array]:
    """`np.unique(keys, return_inverse=True)` of integers, without sorting them where they lie close together.

    >>> [a.tolist() for a in distinct(np.array([7, 5, 7]))]
    [[5, 7], [1, 0, 1]]
    """
    if not len(keys):
        return keys, np.zeros(0, np.int64)
    low, high = int(keys.min()), int(keys.max())
    if high - low > 4 * len(keys):
        values, inverse = np.unique(keys, return_inverse=True)
        return values, inverse
    at = keys - low
    there = np.zeros(high - low + 1, np.bool_)
    there[at] = True
    return np.flatnonzero(there) + low, (np.cumsum(there) - 1)[at]


def first_of_each(keys: Array) -> tuple[Array, Array, Array]:
    """As `distinct`; between its two results the position at which each value comes first.

    >>> [a.tolist() for a in first_of_each(np.array([7, 5, 7]))]
    [[5, 7], [1, 0], [1, 0, 1]]
    """
    values, at = distinct(keys)
    first = np.zeros(len(values), np.int64)
    first[at[::-1]] = np.arange(len(at))[::-1]
    return values, first, at


def ranges(grid: Grid, saturated: Flags) -> tuple[tuple[int, int], ...]:
    """Runs of saturated bins as (start_ns, end_ns).

    >>> ranges(Grid(np.array([0, 5, 10, 15, 20])), np.array([True, True, False, True]))
    ((0, 10), (15, 20))
    """
    change = np.diff(np.concatenate(([0], saturated.astype(np.int8), [0])))
    starts, ends = np.flatnonzero(change == 1), np.flatnonzero(change == -1)
    return tuple((int(grid.edges[a]), int(grid.edges[b])) for a, b in zip(starts, ends, strict=True))
