"""Results of a forecast: curves, pressures, and the table of pairs, predicted beside measured.

The arithmetic is `contend.stats.sensitivity`'s; here are a run's comparisons put into its arrays, and its figures into words
that reports and the advisor share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from contend.document import CellResult
from contend.stats.estimate import MATTERS, Estimate, verdict_of
from contend.stats.sensitivity import Errors, Forecast, Measured, forecast
from contend.studies.overhead.result import by_block
from contend.text.shape import HIDDEN, Finite, Named, Shape, Through, computed

METHOD = (
    "curves by non-negative least squares over probes; interval by split conformal prediction over the measured pairs that"
    " are not held out"
)
NO_PAIRS = (
    "curves by non-negative least squares over probes; interval of resampled blocks only, which is too narrow"
)


@dataclass(frozen=True, slots=True)
class Pair(Shape):
    """One victim beside one neighbour. Estimates are slowdowns."""

    victim: str
    neighbour: str
    cell: str
    predicted: Estimate
    baseline: Annotated[Finite, "what a row and a column effect say"]
    measured: Estimate | None
    held_out: Annotated[bool, "nothing was fitted to it"]
    beyond: Annotated[bool, Named("extrapolation"), "the neighbour presses harder than any injector did"]
    parts: Annotated[Mapping[str, float], "by resource, what it alone would slow, as a ratio"]

    @property
    @computed(before="parts")
    def resource(self) -> str:
        """the one that slows most; empty where none does"""
        largest = max(self.parts, key=lambda name: self.parts[name], default="")
        return largest if self.parts.get(largest, 1.0) > 1.0 + 1e-9 else ""

    @property
    @computed(before="extrapolation")
    def inside(self) -> bool | None:
        """whether the measured slowdown is in the predicted interval; null where one of the two is not known"""
        if (
            self.measured is None
            or not math.isfinite(self.measured.value)
            or math.isnan(self.predicted.value)
        ):
            return None
        return self.predicted.low <= self.measured.value <= self.predicted.high


@dataclass(frozen=True, slots=True)
class ErrorsDocument(Shape):
    """Errors of both."""

    forecast: Errors | None
    baseline: Errors | None


@dataclass(frozen=True, slots=True)
class WorkloadCurve(Shape):
    """A workload's slowdowns by intensity."""

    workload: str
    resource: str
    slowdown: tuple[Estimate, ...]


@dataclass(frozen=True, slots=True)
class ScaleDocument(Shape):
    """A probe under its own injector."""

    resource: str
    slowdown: tuple[Estimate, ...]


@dataclass(frozen=True, slots=True)
class PressureDocument(Shape):
    """How hard a workload presses."""

    workload: str
    resource: str
    intensity: Annotated[Finite, "% of the injector's that slows the probe as much; above 100 beyond it"]


def _curves(of: Mapping[tuple[str, str], tuple[Estimate, ...]]) -> list[WorkloadCurve]:
    return [WorkloadCurve(*key, estimates) for key, estimates in of.items()]


def _scale(of: Mapping[str, tuple[Estimate, ...]]) -> list[ScaleDocument]:
    return [ScaleDocument(resource, estimates) for resource, estimates in of.items()]


def _pressure(of: Mapping[tuple[str, str], float]) -> list[PressureDocument]:
    return [PressureDocument(*key, value) for key, value in of.items()]


@dataclass(frozen=True, slots=True)
class Sensitivities(Shape):
    """Curves, pressures, and the table of pairs that they predict.

    curves, scale: by (victim or resource's probe, injector's resource) the comparisons in the order of the intensities;
    intensity: by (workload, resource), NaN without a scale.
    """

    workloads: tuple[str, ...]
    resources: tuple[str, ...]
    intensities: tuple[float, ...]
    placement: str
    forecast: Annotated[Forecast, HIDDEN]
    pairs: tuple[Pair, ...]
    curves: Annotated[Mapping[tuple[str, str], tuple[Estimate, ...]], Through(_curves)]
    scale: Annotated[Mapping[str, tuple[Estimate, ...]], Through(_scale)]
    intensity: Annotated[Mapping[tuple[str, str], float], Named("pressure"), Through(_pressure)]
    notes: tuple[str, ...]

    @property
    @computed(before="pairs")
    def refused(self) -> str:
        """why this is a description; empty for a forecast"""
        return self.forecast.refused

    @property
    @computed(before="pairs")
    def covers(self) -> str:
        """what the predicted intervals hold"""
        return covers(self)

    @property
    @computed(before="pairs")
    def errors(self) -> ErrorsDocument:
        return ErrorsDocument(self.forecast.model_errors, self.forecast.baseline_errors)

    @property
    @computed(before="pairs")
    def advantage(self) -> Estimate:
        """of the forecast's |log error| over the baseline's"""
        return self.forecast.advantage

    @property
    def held_out(self) -> tuple[Pair, ...]:
        return tuple(pair for pair in self.pairs if pair.held_out and pair.measured is not None)

    def pair(self, victim: str, neighbour: str) -> Pair:
        return next(p for p in self.pairs if (p.victim, p.neighbour) == (victim, neighbour))

    def logs(self, *, measured: bool = False) -> np.ndarray[Any, np.dtype[np.float64]]:
        """(W, W) log slowdowns, predicted or measured; NaN where there is none."""
        return self.forecast.measured if measured else self.forecast.predicted


def read(
    cells: Sequence[CellResult], held_out: Sequence[str], level: float, seed: int, matters: float = MATTERS
) -> Sensitivities | None:
    """The forecast of these headline comparisons; None where no cell of some kind has a value yet. held_out: their ids."""
    of_curves = [cell for cell in cells if cell.factors["role"] == "curve"]
    workloads = tuple(dict.fromkeys(c.factors["victim"] for c in of_curves))
    resources = tuple(dict.fromkeys(c.factors["resource"] for c in of_curves))
    intensities = tuple(sorted({c.values.numbers["intensity"] for c in of_curves}))
    # Where a run was interrupted in its first block, some resource or intensity may have no curve yet.
    cells = [cell for cell in cells if _is_of(cell, resources, intensities)]
    by_role: dict[str, list[CellResult]] = {}
    for cell in cells:
        by_role.setdefault(cell.factors["role"], []).append(cell)
    if not all(by_role.get(role) for role in ("curve", "calibration", "pressure")):
        return None
    blocks = sorted({block for c in cells for block in c.treatment.blocks})
    w, r, levels, n = len(workloads), len(resources), len(intensities), len(blocks)
    curves = np.full((w, r, levels, n), np.nan)
    calibration = np.full((r, r, levels, n), np.nan)
    pressure = np.full((w, r, n), np.nan)
    pairs = np.full((w, w, n), np.nan)
    judged = np.zeros((w, w), dtype=bool)
    measured: dict[tuple[str, str], CellResult] = {}
    for cell in cells:
        of, values = cell.factors, _logs(cell, blocks)
        if of["role"] in ("curve", "calibration"):
            at = resources.index(of["resource"]), intensities.index(cell.values.numbers["intensity"])
            if of["role"] == "curve":
                curves[(workloads.index(of["victim"]), *at)] = values
            else:
                calibration[(resources.index(of["probe"]), *at)] = values
        elif of["neighbour"] in workloads:
            beside = workloads.index(of["neighbour"])
            if of["role"] == "pressure":
                pressure[beside, resources.index(of["probe"])] = values
            elif of["victim"] in workloads:
                pairs[workloads.index(of["victim"]), beside] = values
                judged[workloads.index(of["victim"]), beside] = cell.cell in held_out
                measured[of["victim"], of["neighbour"]] = cell
    fitted = forecast(
        Measured(workloads, resources, intensities, curves, calibration, pressure, pairs, judged),
        level=level,
        seed=seed,
    )
    return Sensitivities(
        workloads,
        resources,
        intensities,
        by_role["curve"][0].factors["placement"],
        fitted,
        tuple(
            _of_pair(fitted, workloads, resources, v, n, measured, judged, len(blocks), level, matters)
            for v in range(w)
            for n in range(w)
        ),
        _series(by_role["curve"], "victim"),
        {
            resource: estimates
            for (probe, resource), estimates in _series(by_role["calibration"], "probe").items()
            if probe == resource
        },
        {
            (name, resource): float(fitted.intensity[i, j])
            for i, name in enumerate(workloads)
            for j, resource in enumerate(resources)
        },
        tuple(_notes(fitted, workloads, resources)),
    )


def _is_of(cell: CellResult, resources: Sequence[str], intensities: Sequence[float]) -> bool:
    """True if it is about none but these resources and intensities."""
    of, intensity = cell.factors, cell.values.numbers.get("intensity")
    named = [of[name] for name in ("resource", "probe") if name in of]
    return all(name in resources for name in named) and (intensity is None or intensity in intensities)


def _logs(cell: CellResult, blocks: Sequence[int]) -> list[float]:
    """Log slowdown in each block; NaN where it has none, or a figure without a ratio."""
    turn = -1 if cell.metric.better == "higher" else 1
    own, alone = (by_block(x.values, x.blocks, blocks) for x in (cell.treatment, cell.baseline))
    return [turn * math.log(a / b) if a > 0 and b > 0 else math.nan for a, b in zip(own, alone, strict=True)]


def _series(cells: Sequence[CellResult], of: str) -> dict[tuple[str, str], tuple[Estimate, ...]]:
    groups: dict[tuple[str, str], list[CellResult]] = {}
    for cell in cells:
        groups.setdefault((cell.factors[of], cell.factors["resource"]), []).append(cell)
    return {
        key: tuple(c.estimate for c in sorted(series, key=lambda c: c.values.numbers["intensity"]))
        for key, series in groups.items()
    }


def _of_pair(
    fitted: Forecast,
    workloads: tuple[str, ...],
    resources: tuple[str, ...],
    v: int,
    n: int,
    measured: Mapping[tuple[str, str], CellResult],
    judged: np.ndarray[Any, np.dtype[np.bool_]],
    blocks: int,
    level: float,
    matters: float,
) -> Pair:
    value, low, high = (math.exp(x[v, n]) for x in (fitted.predicted, fitted.low, fitted.high))
    predicted = Estimate(
        value, low, high, "ratio", blocks, fitted.level or level, METHOD if fitted.level else NO_PAIRS,
        verdict_of(low, high, matters),
    )  # fmt: skip
    names = workloads[v], workloads[n]
    cell = measured.get(names)
    return Pair(
        *names,
        f"{names[0]}|{names[1]}",
        predicted,
        math.exp(fitted.baseline[v, n]),
        None if cell is None else cell.estimate,
        bool(judged[v, n]),
        bool(fitted.beyond[v, n]),
        {
            resource: math.exp(fitted.parts[v, n, i])
            for i, resource in enumerate(resources)
            if fitted.model.usable[i]
        },
    )


def _notes(fitted: Forecast, workloads: tuple[str, ...], resources: tuple[str, ...]) -> list[str]:
    flat = [name for name, usable in zip(resources, fitted.model.usable, strict=True) if not usable]
    notes = [
        f"{name}: its injector does not slow its own probe by 2 % here, so there is no scale and it explains nothing"
        for name in flat
    ]
    pairs = int(fitted.beyond.sum())
    if pairs:
        who = [name for j, name in enumerate(workloads) if fitted.beyond[:, j].any()]
        notes.append(
            f"{pairs} pair{'s are' if pairs > 1 else ' is'} an extrapolation: {', '.join(who)} press"
            f"{'es' if len(who) == 1 else ''} harder on a resource than its injector at full intensity"
        )
    return notes


def covers(of: Sensitivities) -> str:
    """A sentence on what the predicted intervals cover."""
    level = of.forecast.level
    if not level:
        return "the doubt of resampled blocks only: no pair was measured that could tell how far off the curves are"
    inside = [pair.inside for pair in of.held_out if pair.inside is not None]
    text = (
        f"the slowdown that this run would measure for a pair like its others, in {100 * level:g} % of pairs"
    )
    return text + (f"; {sum(inside)} of {len(inside)} held-out pairs are inside" if inside else "")


def answer(of: Sensitivities) -> str:
    """The answer in a sentence or two."""
    own, theirs = of.forecast.model_errors, of.forecast.baseline_errors
    note = ""
    if own is not None and theirs is not None:
        note = (
            f" Median error on {len(of.held_out)} held-out pairs {own.median_points:.1f} points; of a row and a column"
            f" effect {theirs.median_points:.1f}."
        )
    if of.refused:
        return f"No forecast, only a description: {of.refused}.{note}"
    known = [pair for pair in of.pairs if math.isfinite(pair.predicted.value)]
    worst = max(known, key=lambda p: p.predicted.value)
    best = min(known, key=lambda p: p.predicted.value)
    return (
        f"Pairs can be forecast from curves and probes. Worst: {worst.victim} beside {worst.neighbour},"
        f" {worst.predicted.value:.2f} times; best: {best.victim} beside {best.neighbour}, {best.predicted.value:.2f}.{note}"
    )
