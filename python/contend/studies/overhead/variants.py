"""Pairs of provisionings of an overhead study that differ in one thing only: their ratios are the effects of that thing."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contend.platforms.base import PERIOD_US
from contend.probes.observed import Observed
from contend.stats.platform_effects import PINNED, VANILLA, Effect, Kind, Pairs
from contend.stats.platform_size import Setting
from contend.store.cells import Provisioning, SizedPlatform, Values

if TYPE_CHECKING:
    from contend.document import CellResult


@dataclass(frozen=True, slots=True)
class Variant:
    """How a platform's size is given. name: as tables have it."""

    name: str
    provisioning: Provisioning
    period_us: int = PERIOD_US
    burst_us: int = 0
    placement: str = "packed"


def variant(name: str, of: SizedPlatform) -> Variant:
    return Variant(name, of.provisioning, of.period_us, of.burst_us, of.placement)


def pairs(variants: Iterable[Variant]) -> Pairs:
    """Pairs of provisionings, one divided by the other, for each kind of effect.

    A period is compared with the kernel's own, where that was measured, else with the longest: always the shorter over the
    longer. A burst with none, else the smallest. Pinning is of the most usual quota and of the packed set.

    >>> made = [Variant("vanilla 10ms", "vanilla", 10_000), Variant("vanilla", "vanilla"), Variant("pinned", "pinned")]
    >>> pairs(made)["period"], pairs(made)["pinning"]
    ((('vanilla 10ms', 'vanilla'),), (('vanilla', 'pinned'),))
    """
    every = list(dict.fromkeys(variants))
    vanilla = [v for v in every if v.provisioning == VANILLA]
    pinned = [v for v in every if v.provisioning == PINNED]
    by_kind: dict[Kind, tuple[tuple[str, str], ...]] = {}
    by_kind["period"] = tuple(
        (one.name, other.name) if one.period_us < other.period_us else (other.name, one.name)
        for one, other in _against_usual(_groups(vanilla, "burst_us"))
    )
    by_kind["burst"] = tuple(
        (one.name, other.name) for one, other in _against_usual(_groups(vanilla, "period_us"))
    )
    by_kind["placement"] = tuple(
        (one.name, other.name)
        for one, other in itertools.permutations(pinned, 2)
        if (one.placement, other.placement) == ("packed", "spread")
    )
    if vanilla and pinned:
        usual_set = min(pinned, key=lambda v: v.placement != "packed")
        by_kind["pinning"] = ((min(vanilla, key=_unusual).name, usual_set.name),)
    return by_kind


def _unusual(of: Variant) -> tuple[bool, int, int]:
    return of.period_us != PERIOD_US, -of.period_us, of.burst_us


def _against_usual(groups: Iterable[Sequence[Variant]]) -> Iterator[tuple[Variant, Variant]]:
    """The most usual of each group, with every other one."""
    for group in groups:
        usual = min(group, key=_unusual)
        yield from ((usual, other) for other in group if other is not usual)


def _groups(of: Sequence[Variant], key: str) -> list[list[Variant]]:
    """Those that are the same in it, and so differ in the other."""
    groups: dict[int, list[Variant]] = {}
    for each in of:
        groups.setdefault(getattr(each, key), []).append(each)
    return list(groups.values())


def throttled(cell: CellResult) -> float | None:
    """Seconds of throttling for each second that the cell ran, over all its CPUs; None where that was not recorded."""
    seconds, wall = cell.evidence.value(Observed.THROTTLED), cell.evidence.value(Observed.WALL)
    return None if seconds is None or not wall else seconds / wall


def platform_of(values: Values) -> SizedPlatform:
    """The platform that a cell of this study was measured on: every cell has one, which is checked where its plan is
    read."""
    assert values.platform is not None
    return values.platform


def host_cpus(of: SizedPlatform, whole: int) -> int:
    """CPUs of the host that a cell was on; whole: of this one, where a run does not vary that."""
    return whole if of.host is None else of.host


def is_of(cell: CellResult, setting: Setting) -> bool:
    """True if a cell is the setting's."""
    wanted = setting.application, setting.platform, setting.provisioning
    actual = tuple(cell.factors[key] for key in ("victim", "platform", "provisioning"))
    platform = platform_of(cell.values)
    return actual == wanted and platform.cpus == setting.size and platform.host in (None, setting.host_cpus)


def of_setting(cells: Iterable[CellResult], effect: Effect) -> tuple[CellResult, CellResult] | None:
    """The cells of both sides of an effect of one setting over another."""
    sides = []
    for setting in (effect.over[0], effect.under[0]):
        cell = next((c for c in cells if is_of(c, setting)), None)
        if cell is None:
            return None
        sides.append(cell)
    return sides[0], sides[1]
