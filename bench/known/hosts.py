"""Made-up hosts whose pair tables are known: how far off `contend.stats.sensitivity` is, and when it must not be believed.

A host has W workloads, R resources and B blocks. Every workload has a curve of each resource and, as a neighbour, a pressure
on each; injectors press on one resource, and on the CPU (the first) beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from contend.stats.sensitivity import Measured

Floats = npt.NDArray[np.float64]

RESOURCES = ("cpu", "memory", "disk", "network", "lock")
INTENSITIES = (20.0, 40.0, 60.0, 80.0, 100.0)
HELD_OUT = 0.2
BESIDE_CPU = 0.3  # of its intensity an injector of another resource presses on the CPU, at most

Truth = Literal["form", "row and column", "interaction"]
"""form: log slowdowns are the sum, over resources, of a monotone curve of the pressure, as the model has it. row and column:
they are a victim's effect and a neighbour's, and no probe sees the neighbour's. interaction: every pair has something of
its own beside the form, as large as that."""


@dataclass(frozen=True, slots=True)
class Host:
    """What was measured, and the truth: log slowdowns (W, W), and the resource that slows each pair most (W, W)."""

    measured: Measured
    truth: Floats
    top: npt.NDArray[np.intp]


def host(
    seed: int, truth: Truth = "form", *, workloads: int = 6, blocks: int = 10, noise: float = 0.03
) -> Host:
    """A host drawn at random. noise: sd of one log ratio within a block."""
    rng = np.random.default_rng([seed, 31])
    n = len(RESOURCES)
    curves = _Curves(rng, workloads)
    probes = _Curves(rng, n, own=True)
    levels = np.array(INTENSITIES) / 100
    injected = np.zeros((n, len(levels), n))  # pressures of injector r at level l
    for r in range(n):
        injected[r, :, r] = levels
        if r:
            injected[r, :, 0] = BESIDE_CPU * rng.random() * levels
    pressure = rng.beta(0.7, 1.0, (workloads, n)) * (rng.random((workloads, n)) < 0.7)
    parts = np.stack([curves.parts(pressure[j]) for j in range(workloads)], axis=1)  # (W, W, R)
    table = parts.sum(axis=2)
    beside = np.stack([probes.parts(pressure[j]).sum(axis=1) for j in range(workloads)])
    if truth == "row and column":
        spread = float(table.std())
        table = rng.gamma(2.0, 0.15, workloads)[:, None] + rng.gamma(2.0, spread / 2, workloads)[None, :]
        beside = np.zeros_like(beside)
    elif truth == "interaction":
        table = table + np.abs(rng.normal(0, float(table.std()), table.shape))

    def seen(value: Floats) -> Floats:
        found: Floats = value[..., None] + rng.normal(0, noise, (*value.shape, blocks))
        return found

    under = np.stack([[curves.parts(p).sum(axis=1) for p in row] for row in injected])  # (R, L, W)
    calibrated = np.stack([[probes.parts(p).sum(axis=1) for p in row] for row in injected])
    held_out = np.zeros(workloads**2, dtype=bool)
    held_out[rng.permutation(workloads**2)[: round(HELD_OUT * workloads**2)]] = True
    measured = Measured(
        tuple(f"w{i}" for i in range(workloads)),
        RESOURCES,
        INTENSITIES,
        seen(np.moveaxis(under, 2, 0)),
        seen(np.moveaxis(calibrated, 2, 0)),
        seen(beside),
        seen(table),
        held_out.reshape(workloads, workloads),
    )
    return Host(measured, table, parts.argmax(axis=2))


class _Curves:
    """Of so many victims: log slowdown by pressure (0 to 1), rising; linear, bent up, bent down, or a soft step."""

    def __init__(self, rng: np.random.Generator, victims: int, *, own: bool = False) -> None:
        """own: probes, each slowed by a resource of its own and by nothing else."""
        n = len(RESOURCES)
        self._most = rng.gamma(0.9, 0.25, (victims, n))
        if own:
            self._most = np.diag(rng.uniform(0.3, 0.8, n))
        self._power = rng.choice([0.6, 1.0, 1.0, 1.8], (victims, n))
        self._step = rng.random((victims, n)) < 0.15
        self._at = rng.uniform(0.3, 0.7, (victims, n))

    def parts(self, pressure: Floats) -> Floats:
        """(R,) → (victims, R)"""
        smooth = pressure[None, :] ** self._power
        step = 1 / (1 + np.exp(-10 * (pressure[None, :] - self._at)))
        zero, one = 1 / (1 + np.exp(10 * self._at)), 1 / (1 + np.exp(-10 * (1 - self._at)))
        found: Floats = self._most * np.where(self._step, (step - zero) / (one - zero), smooth)
        return found


def without_pairs(of: Measured) -> Measured:
    """The same host, of which no pair was measured."""
    return replace(of, pairs=np.full_like(of.pairs, np.nan), held_out=np.zeros_like(of.held_out))
