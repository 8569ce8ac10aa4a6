"""Predicted, measured, inside the interval: yes or no."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contend.contention.whatif.prediction import SCHEMA_VERSION
from contend.contention.whatif.storms import Source
from contend.contention.whatif.times import KEYS, LEAST_STORMS, Times
from contend.errors import BadInput

# The maximum of a storm is one job's, and is told beside these.
JUDGED = ("median_ns", "p90_ns", "makespan_ns")


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure, in ns. `measured` has a value a storm."""

    key: str
    predicted: float
    low: float | None
    high: float | None
    measured: tuple[float, ...]

    @property
    def mean(self) -> float:
        return sum(self.measured) / len(self.measured)

    @property
    def error(self) -> float:
        """The prediction's error, as a part of what was measured."""
        return self.predicted / self.mean - 1 if self.mean else 0.0

    @property
    def inside(self) -> bool | None:
        """Every storm: the interval is for the next one. A mean of several may not hide one that is outside."""
        if self.low is None or self.high is None:
            return None
        return all(self.low <= one <= self.high for one in self.measured)

    def to_json(self) -> dict[str, Any]:
        return {
            "predicted": {
                "value": round(self.predicted),
                "low": None if self.low is None else round(self.low),
                "high": None if self.high is None else round(self.high),
            },
            "measured": {"value": round(self.mean), "storms": [round(one) for one in self.measured]},
            "error": self.error,
            "inside": self.inside,
        }


@dataclass(frozen=True, slots=True)
class Verification:
    """`inside`: all judged figures of all storms; None where that cannot be said, with `reason`."""

    edits: tuple[str, ...]
    sources: tuple[str, ...]
    compared: tuple[Compared, ...]
    inside: bool | None
    reason: str | None
    hint: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "edits": list(self.edits),
            "sources": list(self.sources),
            "compared": {one.key: one.to_json() for one in self.compared},
            "inside": self.inside,
            "reason": self.reason,
        }


def stored(path: Path) -> dict[str, Any]:
    """A prediction that `contend whatif -o FILE` kept."""
    hint = "contend whatif TRACE… EDITS -o FILE writes one"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}", hint=hint) from error
    except ValueError as error:
        raise BadInput(f"{path} is no prediction: {error}", hint=hint) from error
    if not isinstance(found, dict) or not {"predicted", "gate", "edits"} <= found.keys():
        raise BadInput(f"{path} is no prediction", hint=hint)
    if found.get("schema_version") != SCHEMA_VERSION:
        raise BadInput(f"{path} was written by another version of contend", hint=hint)
    return found


def verify(prediction: Mapping[str, Any], after: Sequence[Source]) -> Verification:
    """Compare with the storms that were recorded after the change."""
    measured = [Times.of(source.storm.recorded()) for source in after]
    return verify_times(prediction, tuple(source.path for source in after), measured)


def verify_times(
    prediction: Mapping[str, Any], sources: tuple[str, ...], measured: Sequence[Times]
) -> Verification:
    """Compare with what storms took. `sources`: where these are from."""
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
    found = [one.inside for one in compared if one.key in JUDGED]
    if None in found:
        return (
            None,
            "the prediction has no interval",
            f"predict from {LEAST_STORMS} or more storms of one kind, and verify that",
        )
    return all(found), None, ""
