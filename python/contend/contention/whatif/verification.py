"""Predicted, measured, inside the interval: yes or no."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from contend.contention.whatif.storms import Source
from contend.contention.whatif.times import KEYS, LEAST_STORMS, Nanoseconds, Predicted, Times
from contend.errors import BadInput
from contend.text.answer import READ, data_of
from contend.text.shape import HIDDEN, Count, Named, Shape, Through, computed

# The maximum of a storm is one job's, and is told beside these.
JUDGED = ("median_ns", "p90_ns", "makespan_ns")


def _each(values: Sequence[float]) -> list[Count]:
    return [round(value) for value in values]


@dataclass(frozen=True, slots=True)
class MeasuredDocument(Shape):
    """The mean, and each storm."""

    value: Nanoseconds
    storms: Annotated[Sequence[float], Through(_each), "ns"]


@dataclass(frozen=True, slots=True)
class Compared(Shape):
    """Inside: every measured storm lies in the interval; null where there is none."""

    key: Annotated[str, HIDDEN]
    predicted: Annotated[float, HIDDEN]
    low: Annotated[float | None, HIDDEN]
    high: Annotated[float | None, HIDDEN]
    measured: Annotated[tuple[float, ...], HIDDEN]
    """A value a storm."""

    @property
    @computed
    def prediction(self) -> Annotated[Predicted, Named("predicted")]:
        return Predicted(self.predicted, self.low, self.high)

    @property
    @computed
    def storms(self) -> Annotated[MeasuredDocument, Named("measured")]:
        return MeasuredDocument(self.mean, self.measured)

    @property
    def mean(self) -> float:
        return sum(self.measured) / len(self.measured)

    @property
    @computed
    def error(self) -> float:
        """of the prediction, as a part of what was measured"""
        return self.predicted / self.mean - 1 if self.mean else 0.0

    @property
    @computed
    def inside(self) -> bool | None:
        """every storm: the interval is for the next one

        A mean of several may not hide one that is outside.
        """
        if self.low is None or self.high is None:
            return None
        return all(self.low <= one <= self.high for one in self.measured)


@dataclass(frozen=True, slots=True)
class ComparedTimes(Shape):
    """Comparisons by figure; the maximum is shown and not judged."""

    median_ns: Compared
    p90_ns: Compared
    max_ns: Compared
    makespan_ns: Compared


def _by_key(compared: Sequence[Compared]) -> ComparedTimes:
    return ComparedTimes(**{one.key: one for one in compared})


@dataclass(frozen=True, slots=True)
class Verification(Shape):
    """A prediction beside what was measured."""

    edits: tuple[str, ...]
    sources: Annotated[tuple[str, ...], "storms after the change"]
    compared: Annotated[tuple[Compared, ...], Through(_by_key)]
    inside: Annotated[bool | None, "of median, p90 and makespan; null where it cannot be said"]
    reason: Annotated[str | None, "why it cannot"]
    hint: Annotated[str, HIDDEN] = ""


def stored(path: Path) -> dict[str, Any]:
    """Read a prediction that `contend whatif -o FILE` kept."""
    hint = "contend whatif TRACE… EDITS -o FILE writes one"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}", hint=hint) from error
    except ValueError as error:
        raise BadInput(f"{path} is no prediction: {error}", hint=hint) from error
    prediction = data_of(document)
    if not isinstance(prediction, dict) or not {"predicted", "gate", "edits"} <= prediction.keys():
        raise BadInput(f"{path} is no prediction", hint=hint)
    if document.get("schema_version") not in READ:
        raise BadInput(f"{path} was written by another version of contend", hint=hint)
    if document["schema_version"] == 1:  # which had the number in the words of the option alone
        jobs = [edit.removeprefix("--jobs ") for edit in prediction["edits"] if edit.startswith("--jobs ")]
        return {**prediction, **({"predicted_jobs": int(jobs[0])} if jobs and jobs[0].isdecimal() else {})}
    return prediction


def verify(prediction: Mapping[str, Any], after: Sequence[Source]) -> Verification:
    """Compare a prediction with the storms that were recorded after the change."""
    measured = [Times.of(source.storm.recorded()) for source in after]
    return verify_times(prediction, tuple(source.path for source in after), measured)


def verify_times(
    prediction: Mapping[str, Any], sources: tuple[str, ...], measured: Sequence[Times]
) -> Verification:
    """Compare a prediction with what storms took. `sources`: the names of their files."""
    compared = tuple(
        Compared(
            key,
            prediction["predicted"][key]["value"],
            prediction["predicted"][key]["low"],
            prediction["predicted"][key]["high"],
            tuple(getattr(one, key) for one in measured),
        )
        for key in KEYS
    )
    inside, reason, hint = _verdict(prediction, compared)
    return Verification(tuple(prediction["edits"]), sources, compared, inside, reason, hint)


def _verdict(
    prediction: Mapping[str, Any], compared: Sequence[Compared]
) -> tuple[bool | None, str | None, str]:
    if not prediction["gate"]["passed"]:
        return None, f"the prediction was refused: {prediction['gate']['reason']}", ""
    inside = [one.inside for one in compared if one.key in JUDGED]
    if None in inside:
        return (
            None,
            "the prediction has no interval",
            f"predict from {LEAST_STORMS} or more storms of one kind, and verify that",
        )
    return all(inside), None, ""
