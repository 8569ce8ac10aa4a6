"""Advice by runs, as one document: the output of `contend advise --json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from contend.advice.finding import Finding
from contend.text.shape import Count, Finite, Shape


@dataclass(frozen=True, slots=True)
class PredictedMeans(Shape):
    """Mean slowdowns of a placement by the forecast."""

    mean: float
    worst: float
    random: float


@dataclass(frozen=True, slots=True)
class MeasuredMeans(Shape):
    """Mean slowdowns of a placement by the pairs that were measured; null where some pairs were not."""

    mean: Finite
    random: Finite
    best: Annotated[float | None, "of the assignment that they would choose"]
    best_assignment: list[list[str]] | None


@dataclass(frozen=True, slots=True)
class PlacementDocument(Shape):
    """An assignment of workloads to hosts, and the mean slowdowns of a workload in it."""

    hosts: Count
    aim: Literal["total", "worst"]
    assignment: list[list[str]]
    exact: Annotated[bool, "every assignment was looked at"]
    more_than_pairs: Annotated[bool, "some host has more than two: pairs' slowdowns multiplied"]
    predicted: PredictedMeans
    measured: MeasuredMeans


@dataclass(frozen=True, slots=True)
class RunAdvice(Shape):
    """Advice from one run."""

    run: str
    study: str
    refused: Annotated[str, "why there is no advice on placement; empty where there is, and of other studies"]
    findings: tuple[Finding, ...]
    placement: Annotated[PlacementDocument | None, "of a forecast that was not refused"]


@dataclass(frozen=True, slots=True)
class AdviceDocument(Shape):
    """Advice from one or more runs."""

    runs: tuple[RunAdvice, ...]
