"""Times of a storm's jobs, and their prediction for the next storm."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any

import numpy as np

from contend.stats.quantiles import t_quantile
from contend.text.shape import Count, Shape, Through

LEAST_STORMS = 4  # for an interval: jobs of one storm share its queues and are no sample
LEVEL = 0.95
# Of what an edit takes away, root mean square; chosen, not measured: small things that a replay has wrong stay, and
# weigh more the less is left.
GONE = 0.02
CLOSE = 0.06  # of the jobs, on each side: a few more of one kind and the median is theirs


def _whole(ns: float) -> Count:
    return round(ns)


def _whole_bound(ns: float | None) -> Count | None:
    return None if ns is None else round(ns)


Nanoseconds = Annotated[float, Through(_whole), "ns"]
Bound = Annotated[float | None, Through(_whole_bound), "null where fewer than four storms were given"]


@dataclass(frozen=True, slots=True)
class Times(Shape):
    """The jobs' times of one storm, from the first begin to the last end.

    Quantiles are by linear interpolation.
    """

    median_ns: Nanoseconds
    p90_ns: Nanoseconds
    max_ns: Nanoseconds
    makespan_ns: Nanoseconds

    @classmethod
    def of(cls, outcome: Mapping[str, Any]) -> Times:
        """Make times of `begin_ns` and `end_ns`, as the native module gives them."""
        begin, end = (np.frombuffer(outcome[key], "<u8").astype(float) for key in ("begin_ns", "end_ns"))
        if not len(begin):
            return cls(0, 0, 0, 0)
        took = end - begin
        return cls(
            float(np.median(took)),
            float(np.quantile(took, 0.9)),
            float(took.max()),
            float(end.max() - begin.min()),
        )

    def part_of(self, of: Times) -> Times:
        """Each time as a part of the other's."""
        return Times(*(getattr(self, name) / max(1.0, getattr(of, name)) for name in KEYS))

    def times(self, parts: Times) -> Times:
        """Each time, so many times."""
        return Times(*(getattr(self, name) * getattr(parts, name) for name in KEYS))

    @classmethod
    def mean(cls, of: Sequence[Times]) -> Times:
        """The mean of each time."""
        return cls(*(sum(getattr(one, name) for one in of) / len(of) for name in KEYS))


def median_gap(outcome: Mapping[str, Any]) -> float:
    """The widest step between two jobs' times that are next to each other, close to the median, as a part of it.

    Takes `begin_ns` and `end_ns`, as the native module gives them.

    >>> import numpy as np
    >>> took = np.array([*range(90, 120, 2), *range(140, 170, 2)], dtype="<u8")
    >>> round(median_gap({"begin_ns": bytes(took.nbytes), "end_ns": took.tobytes()}), 2)
    0.17
    """
    begin, end = (np.frombuffer(outcome[key], "<u8").astype(float) for key in ("begin_ns", "end_ns"))
    took = np.sort(end - begin)
    if len(took) < 1 / CLOSE:  # of so few each has a time of its own
        return 0.0
    close = took[int((0.5 - CLOSE) * len(took)) : int((0.5 + CLOSE) * len(took)) + 2]
    return float(np.diff(close).max() / max(1.0, np.median(took)))


KEYS = tuple(field.name for field in fields(Times))


@dataclass(frozen=True, slots=True)
class Predicted(Shape):
    """For the next storm of the kind, ns."""

    value: Nanoseconds
    low: Bound
    high: Bound


@dataclass(frozen=True, slots=True)
class PredictedTimes(Shape):
    """Predictions of the jobs' times, and from the first begin to the last end."""

    median_ns: Predicted
    p90_ns: Predicted
    max_ns: Predicted
    makespan_ns: Predicted


def predicted_times(by_key: Mapping[str, Predicted]) -> PredictedTimes:
    return PredictedTimes(**by_key)


def predict(
    storms: Sequence[Sequence[Times]],
    level: float = LEVEL,
    error: float = 0.0,
    whole: Times | None = None,
) -> dict[str, Predicted]:
    """Predict the times of the next storm, by key of Times, from the draws of each recorded storm.

    A prediction interval over whole storms: the storms' spread (their mean is known from as many), and the spread over
    the orders in which jobs of one storm may come; and `error`, by which part of itself a replay is off, root mean
    square. `whole`: the times without the edits; what of them is gone is off by `GONE`.
    """
    return {
        key: _predict(
            [[getattr(draw, key) for draw in draws] for draws in storms],
            level,
            error,
            0.0 if whole is None else getattr(whole, key),
        )
        for key in KEYS
    }


def average(
    storms: Sequence[Sequence[Times]], level: float = LEVEL, error: float = 0.0, whole: float = 0.0
) -> dict[str, Predicted]:
    """Estimate the mean over all storms of the kind, by key of Times, as `predict` does for the next one."""
    return {
        key: _average(
            [sum(getattr(draw, key) for draw in draws) / len(draws) for draws in storms], level, error, whole
        )
        for key in KEYS
    }


def _of_replay(value: float, level: float, error: float, whole: float) -> float:
    """Half of the interval that is the replay's own.

    >>> round(_of_replay(20.0, 0.95, 0.0, 100.0), 2), _of_replay(200.0, 0.95, 0.0, 100.0)
    (3.14, 0.0)
    """
    gone = max(0.0, whole - value)
    return float(t_quantile((1 + level) / 2, 1e6) * math.hypot(error * value, GONE * gone))


def _average(means: list[float], level: float, error: float, whole: float) -> Predicted:
    """
    >>> _average([9.0, 10.0, 11.0, 10.0], 0.95, 0.0, 0.0).high < 11.5
    True
    """
    count = len(means)
    value = sum(means) / count
    if count < LEAST_STORMS:
        return Predicted(value, None, None)
    half = t_quantile((1 + level) / 2, count - 1) * (_variance(means) / count) ** 0.5
    half = math.hypot(half, _of_replay(value, level, error, whole))
    return Predicted(value, max(0.0, value - half), value + half)


def _predict(storms: list[list[float]], level: float, error: float, whole: float) -> Predicted:
    """
    >>> _predict([[3.0], [5.0]], 0.95, 0.0, 0.0)
    Predicted(value=4.0, low=None, high=None)
    >>> _predict([[9.0], [10.0], [11.0], [10.0]], 0.95, 0.0, 0.0).low < 8
    True
    >>> round(_predict([[100.0]] * 4, 0.95, 0.02, 0.0).high, 1)
    103.9
    """
    means = [sum(draws) / len(draws) for draws in storms]
    count = len(means)
    value = sum(means) / count
    if count < LEAST_STORMS:
        return Predicted(value, None, None)
    between = sum((mean - value) ** 2 for mean in means) / (count - 1)
    within = sum(_variance(draws) for draws in storms) / count
    half = t_quantile((1 + level) / 2, count - 1) * (between * (1 + 1 / count) + within) ** 0.5
    half = math.hypot(half, _of_replay(value, level, error, whole))
    return Predicted(value, max(0.0, value - half), value + half)


def _variance(of: Sequence[float]) -> float:
    if len(of) < 2:
        return 0.0
    mean = sum(of) / len(of)
    return sum((one - mean) ** 2 for one in of) / (len(of) - 1)
