"""The cost of a platform, and what part of that is its size: overhead ratios, PTO and PSO.

Of one application and one metric (lower is better), on one host:

    log ratio(size) = log PTO + PSO · f(CHR),    f(1) = 0

ratio is platform over bare host of the same number of CPUs; CHR, the container-to-host core ratio, is the platform's
CPUs over the host's. PTO (platform-type overhead) is the ratio at CHR = 1; PSO of a size (platform-size overhead) is
ratio(size) / ratio(1). Both are measured and nothing is fitted, so neither depends on what f looks like; a curve
assumed wrongly does (`contend.stats.platform_curves`). The names and the decomposition are those of Ghatrehsamani et
al., The Art of CPU-Pinning, ICPP 2020; they state it for containers under a quota. For other platforms it is a
description.

The unit is a block: every quotient here, also of quotients, is taken within blocks first, so whatever a block's runs
share cancels. With random order within blocks the noise of such a quotient is symmetric about nought, which is all that
signed ranks need. All intervals of one call hold together (`contend.stats.simultaneous`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from contend.errors import BadInput
from contend.stats.compare import REFUSED
from contend.stats.estimate import Estimate
from contend.stats.samples import check_level
from contend.stats.simultaneous import simultaneous
from contend.text.shape import FLAT, HIDDEN, Named, Shape, computed

Floats = npt.NDArray[np.float64]
Key = TypeVar("Key", bound=Hashable)
Standing = Literal["claim", "description"]

NEAR_ONE = 0.95
"""CHR from which on a cell counts as CHR ≈ 1: up to 5 % of the host's CPUs may be kept from the platform."""

CLAIMED: tuple[tuple[str, str], ...] = (("container", "vanilla"),)
"""(platform, provisioning) of which the decomposition is claimed; of all others it is a description."""

EMULATED: tuple[str, ...] = ("vm", "container-in-vm")
"""Platforms with an emulator beside them, which at CHR = 1 has no CPU of its own."""


@dataclass(frozen=True, slots=True, order=True)
class Setting(Shape):
    """Where an application ran: sizes in CPUs, as the platform and the host count them.

    CPUs are hardware threads where the host has SMT: say so beside the figures. size may be a fraction (a quota).
    Raises BadInput for a size that is not above 0 or is above the host's: too much promised is another question.

    >>> Setting("ffmpeg", "container", "vanilla", 4, 16).chr
    0.25
    """

    application: str
    platform: str
    provisioning: str
    size: Annotated[float, Named("cpus")]
    host_cpus: Annotated[float, "CPUs of the host, which a run may vary"]

    def __post_init__(self) -> None:
        if not (math.isfinite(self.host_cpus) and 0 < self.size <= self.host_cpus):
            raise BadInput(
                f"a size of {self.size:g} CPUs on a host of {self.host_cpus:g}",
                hint="above 0 and at most the host's: CHR is a part of the host",
            )

    @property
    @computed
    def chr(self) -> float:
        """container-to-host core ratio: its CPUs over the host's"""
        return self.size / self.host_cpus


@dataclass(frozen=True, slots=True)
class SizeCell:
    """One setting's values by block, and those of its baseline: the bare host with `size` CPUs.

    Position i is block i in both, and in all cells of one application; NaN where a trial gave nothing. All values are
    above 0 and lower is better: hand over 1/x of a rate. Raises BadInput.

    >>> cell = SizeCell(Setting("ffmpeg", "container", "vanilla", 1, 2), (2.2, 2.4), (2.0, 2.0))
    >>> cell.ratios.tolist()
    [1.1, 1.2]
    """

    setting: Setting
    values: Sequence[float] | Floats
    baseline: Sequence[float] | Floats
    ratios: Floats = field(init=False, repr=False, compare=False)
    """Overhead ratio by block, shape (blocks,); NaN where either trial gave nothing."""

    def __post_init__(self) -> None:
        arrays = []
        for arm, values in (("values", self.values), ("baseline", self.baseline)):
            array = np.array(values, dtype=np.float64)
            bad = np.flatnonzero((array <= 0) | np.isinf(array))
            if array.ndim != 1 or not array.size or bad.size:
                problem = f"{array[bad[0]]:g} in block {bad[0]}" if bad.size else f"shape {array.shape}"
                raise BadInput(
                    f"{self.setting}: {arm}: {problem}",
                    hint="one value above 0 a block, NaN where a trial gave none",
                )
            arrays.append(array)
            object.__setattr__(self, arm, tuple(array.tolist()))
        if len(arrays[0]) != len(arrays[1]):
            raise BadInput(
                f"{self.setting}: {len(arrays[0])} values and {len(arrays[1])} of the baseline",
                hint="one of each a block, NaN where a trial gave none",
            )
        object.__setattr__(self, "ratios", arrays[0] / arrays[1])


@dataclass(frozen=True, slots=True)
class Overhead:
    """The factor by which the platform is slower than the bare host of its size."""

    setting: Setting
    ratio: Estimate


@dataclass(frozen=True, slots=True)
class SizeOverhead(Shape):
    """PSO of one size: ratio(size) / ratio(1)."""

    setting: Annotated[Setting, FLAT]
    ratio: Estimate


@dataclass(frozen=True, slots=True)
class Fading:
    """Between which sizes PSO fades below `limit`: from `above` to `below`, each None where no size is certain."""

    limit: float
    above: Setting | None
    """Largest size whose PSO is certainly above the limit."""
    below: Setting | None
    """Smallest size from which on every PSO is certainly at most the limit."""


@dataclass(frozen=True, slots=True)
class Decomposition(Shape):
    """PTO and PSO of one application on one platform and provisioning.

    Where it was refused, PTO's verdict is "refused", its only warning is the reason, and there are no PSOs.
    """

    application: str
    platform: str
    provisioning: str
    host_cpus: float
    standing: Standing
    """"claim" for vanilla containers; else "description": nothing says that the parts mean there what they say here."""
    at_one: Annotated[Setting | None, HIDDEN]
    """The cell that was taken for CHR = 1; None where there is none."""
    pto: Estimate
    spare: Annotated[
        Setting | None,
        "of platforms with an emulator: the largest size that leaves that a CPU; its ratio is to be read beside PTO",
    ]
    pso: tuple[SizeOverhead, ...]
    """By size, smallest first, without `at_one`."""

    @property
    @computed(before="pto")
    def refused(self) -> str:
        """why there is none; empty where there is"""
        return self.pto.warnings[0] if self.pto.verdict == "refused" else ""

    def fades(self, limit: float = 1.05) -> Fading:
        """Between which sizes PSO falls to `limit` (a ratio) or less; intervals that hold together make it one claim.

        Raises BadInput for a limit that is not above 1.
        """
        if not limit > 1:
            raise BadInput(
                f"a PSO of {limit:g} as a limit", hint="a ratio above 1: 1.05 is 5 % more than at CHR = 1"
            )
        above = [p.setting for p in self.pso if p.ratio.low > limit]
        below: Setting | None = None if self.refused else self.at_one
        for part in reversed(self.pso):
            if not part.ratio.high <= limit:
                break
            below = part.setting
        return Fading(limit, max(above, key=lambda s: s.size, default=None), below)


def overheads(
    cells: Sequence[SizeCell], *, level: float = 0.95, seed: int = 0, randomisations: int = 4000
) -> tuple[Overhead, ...]:
    """Estimate the overhead ratio of every cell, in the order given; all intervals are simultaneous at `level`.

    Each is the Hodges–Lehmann median of the log ratios within blocks; fewer than 6 blocks (at 95 %) carry no interval,
    verdict "too few". One call is one table: cells of several applications may be handed over together, those of
    another metric make another table. Raises BadInput.

    >>> rng = np.random.default_rng(1)
    >>> def cell(size, slow, blocks=12):
    ...     bare, own = np.exp(rng.normal(0, 0.02, (2, blocks)))
    ...     return SizeCell(Setting("ffmpeg", "container", "vanilla", size, 8), slow * own, bare)
    >>> found = overheads([cell(2, 1.5), cell(8, 1.0)])
    >>> [(o.setting.size, round(o.ratio.value, 1), o.ratio.verdict) for o in found]
    [(2, 1.5, 'higher'), (8, 1.0, 'unaffected')]
    """
    table = by_setting(cells)
    arms = {setting: (np.array(c.baseline), np.array(c.values)) for setting, c in table.items()}
    estimates = together(arms, level, seed, randomisations)
    return tuple(Overhead(setting, estimates[setting]) for setting in table)


def decompositions(
    cells: Sequence[SizeCell],
    *,
    level: float = 0.95,
    seed: int = 0,
    claimed: Collection[tuple[str, str]] = CLAIMED,
    emulated: Collection[str] = EMULATED,
    randomisations: int = 4000,
) -> tuple[Decomposition, ...]:
    """Split overheads into PTO and PSO for every application, platform, provisioning and host, in their order.

    PTO is the ratio of the cell nearest to CHR = 1, and refused where none has at least NEAR_ONE. Where that cell has
    not all of the host, PTO carries a warning: it holds what the last few CPUs do to PSO. PSO of a size is its ratio
    over that cell's, quotient by quotient within blocks, so it is not PTO's estimate that is divided by. All PTO and PSO of
    one call hold together with probability `level`. Raises BadInput.

    >>> rng = np.random.default_rng(1)
    >>> def cell(size, slow, blocks=12):
    ...     bare, own = np.exp(rng.normal(0, 0.02, (2, blocks)))
    ...     return SizeCell(Setting("ffmpeg", "container", "vanilla", size, 8), slow * own, bare)
    >>> cells = [cell(2, 1.1 * 1.5), cell(4, 1.1 * 1.2), cell(8, 1.1)]
    >>> (found,) = decompositions(cells)
    >>> found.standing, round(found.pto.value, 1), [(p.setting.size, round(p.ratio.value, 1)) for p in found.pso]
    ('claim', 1.1, [(2, 1.5), (4, 1.2)])
    >>> (found,) = decompositions(cells[:2])
    >>> found.refused
    'the largest CHR measured is 0.5: PTO and PSO need a cell at CHR ≈ 1 (at least 0.95)'
    """
    check_level(level)
    groups = by_series(cells)
    ones = {key: _at_one(group) for key, group in groups.items()}
    arms: dict[Setting, tuple[Floats, Floats]] = {}
    for key, group in groups.items():
        one = ones[key]
        if one is None:
            continue
        arms[one.setting] = (np.array(one.baseline), np.array(one.values))
        arms |= {c.setting: (one.ratios, c.ratios) for c in group if c is not one}
    estimates = together(arms, level, seed, randomisations)
    result = []
    for key, group in groups.items():
        one, standing = ones[key], _standing(key, claimed)
        if one is None:
            pto = _refused(group, level)
            pso: tuple[SizeOverhead, ...] = ()
        else:
            pto = _warned(one.setting, estimates[one.setting])
            pso = tuple(SizeOverhead(c.setting, estimates[c.setting]) for c in group if c is not one)
        spare = _spare(group) if key[1] in emulated else None
        at_one = None if one is None else one.setting
        result.append(Decomposition(*key, standing, at_one, pto, spare, pso))
    return tuple(result)


Series = tuple[str, str, str, float]
"""Application, platform, provisioning, host's CPUs: what cells of one decomposition or curve have in common."""


def by_setting(cells: Sequence[SizeCell]) -> dict[Setting, SizeCell]:
    """Cells by setting. Raises BadInput for two cells of one setting."""
    table: dict[Setting, SizeCell] = {}
    for cell in cells:
        if cell.setting in table:
            raise BadInput(
                f"two cells of {cell.setting}", hint="one cell a setting; an A/A control is no cell"
            )
        table[cell.setting] = cell
    return table


def by_series(cells: Sequence[SizeCell]) -> dict[Series, list[SizeCell]]:
    """Group cells that differ in nothing but size, smallest first. Raises BadInput."""
    groups: dict[Series, list[SizeCell]] = {}
    for s, cell in by_setting(cells).items():
        groups.setdefault((s.application, s.platform, s.provisioning, s.host_cpus), []).append(cell)
    for key, group in groups.items():
        if len({len(cell.ratios) for cell in group}) > 1:
            raise BadInput(
                f"{', '.join(map(str, key))}: sizes with different numbers of blocks",
                hint="position i is block i in every cell; NaN where a trial gave nothing",
            )
        group.sort(key=lambda cell: cell.setting.size)
    return groups


def together(
    arms: Mapping[Key, tuple[Floats, Floats]], level: float, seed: int, randomisations: int
) -> dict[Key, Estimate]:
    """Estimate simultaneous intervals of one table; nothing for an empty one."""
    if not arms:
        return {}
    return simultaneous(arms, level, seed, randomisations=randomisations)


def _at_one(group: Sequence[SizeCell]) -> SizeCell | None:
    largest = group[-1]
    return largest if largest.setting.chr >= NEAR_ONE - 1e-9 else None


def _spare(group: Sequence[SizeCell]) -> Setting | None:
    return next((c.setting for c in reversed(group) if c.setting.host_cpus - c.setting.size >= 1), None)


def _standing(key: Series, claimed: Collection[tuple[str, str]]) -> Standing:
    return "claim" if (key[1], key[2]) in claimed else "description"


def _refused(group: Sequence[SizeCell], level: float) -> Estimate:
    why = (
        f"the largest CHR measured is {group[-1].setting.chr:.2g}: PTO and PSO need a cell at CHR ≈ 1 "
        f"(at least {NEAR_ONE:g})"
    )
    return Estimate(math.nan, 0.0, math.inf, "ratio", 0, level, REFUSED, "refused", (why,))


def _warned(setting: Setting, estimate: Estimate) -> Estimate:
    if setting.chr >= 1 - 1e-9:
        return estimate
    note = f"measured at CHR = {setting.chr:.3g}, not 1: it holds what the CPUs left to the host do to PSO"
    return replace(estimate, warnings=(*estimate.warnings, note))
