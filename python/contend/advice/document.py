"""Advice by runs, as one document: the output of `contend advise --json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from contend.advice.finding import Finding
from contend.text.shape import Count, Finite, Shape


@dataclass(frozen=True, slots=True)
class PredictedMeans(Shape):
    """Mean slowdowns by the forecast."""

    mean: float
    worst: float
    random: float


@dataclass(frozen=True, slots=True)
class MeasuredMeans(Shape):
    """Mean slowdowns by the measured pairs; null where some are missing."""

    mean: Finite
    random: Finite
    best: Annotated[float | None, "of the assignment that they would choose"]
    best_assignment: list[list[str]] | None


@dataclass(frozen=True, slots=True)
class PlacementDocument(Shape):
    """Workloads on hosts, and mean slowdowns of a workload."""

    hosts: Count
    aim: Literal["total", "worst"]
    assignment: list[list[str]]
    exact: Annotated[bool, "every assignment was looked at"]
    more_than_pairs: Annotated[bool, "some host has more than two: pairs' slowdowns multiplied"]
    predicted: PredictedMeans
    measured: MeasuredMeans


@dataclass(frozen=True, slots=True)
class RunAdvice(Shape):
    """One run."""

    run: str
    study: str
    refused: Annotated[str, "why there is no advice on placement; empty where there is, and of other studies"]
    findings: tuple[Finding, ...]
    placement: Annotated[PlacementDocument | None, "of a forecast that was not refused"]


@dataclass(frozen=True, slots=True)
class AdviceDocument(Shape):
    """Advice by run."""

    runs: tuple[RunAdvice, ...]
