"""Effects of pinning, many pieces at once, the share of the host, a quota's period, a network: ratios of overhead ratios.

An effect is a product of overhead ratios over another, formed within every block, so that whatever the runs of a block
share cancels; where both sides have the same baseline it cancels too and costs no precision. The smallest effect that a
run could have seen is `Effect.detectable`: "undecided" says nothing without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from contend.errors import BadInput
from contend.stats.estimate import Estimate
from contend.stats.platform_size import NEAR_ONE, Series, Setting, SizeCell, by_series, by_setting, together
from contend.stats.samples import check_level

Floats = npt.NDArray[np.float64]
Kind = Literal[
    "pinning",
    "size × pinning",
    "CHR",
    "CHR × pinning",
    "pieces",
    "size × pieces",
    "PTO",
    "period",
    "burst",
    "placement",
    "network",
]

KINDS: tuple[Kind, ...] = get_args(Kind)

MEANINGS: Mapping[Kind, str] = {
    "pinning": "vanilla over pinned, same size: above 1, pinning helps",
    "size × pinning": "PSO vanilla over PSO pinned: above 1, pinning helps against being small",
    "CHR": "same size, larger host over smaller: above 1, a smaller share of the host costs more",
    "CHR × pinning": "the CHR effect vanilla over that pinned: above 1, pinning helps against a small share",
    "pieces": "overhead of many pieces at once over that of the whole: above 1, multitasking costs more here",
    "size × pieces": "PSO of the pieces over PSO of the whole: above 1, multitasking raises PSO",
    "PTO": "PTO of a larger host over that of a smaller: other than 1, PTO is not the same for all sizes",
    "period": "the shorter period of a quota over the longer, same size: above 1, the short one costs more",
    "burst": "a quota without over one with a burst, same size: above 1, the burst helps",
    "placement": "a set of CPUs packed over one spread, same size: above 1, spreading it helps",
    "network": "network pair over loopback, on the bare host; elsewhere beyond that: above 1, the pair costs more",
}

VANILLA, PINNED = "vanilla", "pinned"
VARIED: tuple[Kind, ...] = ("period", "burst", "placement")
"""Effects of what one provisioning is varied in."""

ACROSS_HOSTS: tuple[Kind, ...] = ("CHR", "CHR × pinning", "PTO")
"""Effects of which both sides are on hosts of different sizes."""

Pairs = Mapping[Kind, Sequence[tuple[str, str]]]
"""Of "pinning" and VARIED: which provisioning is divided by which. Effects crossed with pinning take that of pinning."""


@dataclass(frozen=True, slots=True)
class Effect:
    """The product of the overhead ratios of `over`, divided by that of `under`."""

    kind: Kind
    over: tuple[Setting, ...]
    under: tuple[Setting, ...]
    ratio: Estimate

    @property
    def detectable(self) -> float:
        """Smallest relative effect of this kind that would have been seen with 80 % power; infinite without interval."""
        return self.ratio.detectable

    @property
    def meaning(self) -> str:
        return MEANINGS[self.kind]


Quotient = tuple[tuple[Setting, ...], tuple[Setting, ...]]
"""What is multiplied, and what it is divided by."""


def effects(
    cells: Sequence[SizeCell],
    *,
    pieces: Mapping[str, str] | None = None,
    networks: Mapping[str, str] | None = None,
    pairs: Pairs | None = None,
    kinds: Sequence[Kind] = KINDS,
    level: float = 0.95,
    seed: int = 0,
    randomisations: int = 4000,
) -> tuple[Effect, ...]:
    """Estimate every effect of these kinds that the cells hold, in the order of `kinds`.

    pieces: application that does many small pieces at once → the one that does the same work as a whole. networks:
    application behind a network pair → the same over loopback. pairs: of provisionings; none: vanilla over pinned. Effects
    with "size ×" compare with the cell at CHR ≈ 1, and are missing where a series has none. CHR and PTO effects compare each
    host with the next smaller one that has such a cell. The intervals of one kind are one table and hold together with
    probability `level`; those of two kinds do not. Both sides of an effect must have been measured in the same blocks.

    Raises BadInput.

    >>> rng = np.random.default_rng(1)
    >>> def cell(how, size, slow, blocks=12):
    ...     bare, own = np.exp(rng.normal(0, 0.02, (2, blocks)))
    ...     return SizeCell(Setting("ffmpeg", "container", how, size, 8), slow * own, bare)
    >>> cells = [cell("vanilla", 2, 1.5), cell("vanilla", 8, 1.0), cell("pinned", 2, 1.1), cell("pinned", 8, 1.0)]
    >>> [(e.kind, e.over[0].size, round(e.ratio.value, 1), e.ratio.verdict) for e in effects(cells)]
    [('pinning', 2, 1.4, 'higher'), ('pinning', 8, 1.0, 'undecided'), ('size × pinning', 2, 1.4, 'higher')]
    """
    check_level(level)
    table, series = by_setting(cells), by_series(cells)
    result: list[Effect] = []
    for kind in kinds:
        beside = networks if kind == "network" else pieces
        quotients = list(dict.fromkeys(_quotients(kind, table, series, beside or {}, pairs or {})))
        arms = {q: _arms(q, table) for q in quotients}
        estimates = together(arms, level, seed, randomisations)
        result += [Effect(kind, *q, estimates[q]) for q in quotients]
    return tuple(result)


def _quotients(
    kind: Kind,
    table: Mapping[Setting, SizeCell],
    series: Mapping[Series, Sequence[SizeCell]],
    beside: Mapping[str, str],
    pairs: Pairs,
) -> Iterator[Quotient]:
    """beside: of effects of pieces or network, which application is divided by which."""
    if kind in VARIED:
        for over, under in pairs.get(kind, ()):
            for setting in table:
                varied = replace(setting, provisioning=under)
                if setting.provisioning == over and varied in table:
                    yield (setting,), (varied,)
        return
    pinned = dict(pairs.get("pinning", ((VANILLA, PINNED),)))
    ones = {
        key: group[-1].setting for key, group in series.items() if group[-1].setting.chr >= NEAR_ONE - 1e-9
    }

    def partner(setting: Setting) -> Setting | None:
        """The setting that this one is divided by in effects of pinning, of pieces or of a network."""
        if kind.endswith(("pieces", "network")):
            other = beside.get(setting.application)
            counterpart = None if other is None else replace(setting, application=other)
        else:
            how = pinned.get(setting.provisioning)
            counterpart = None if how is None else replace(setting, provisioning=how)
        return counterpart if counterpart in table else None

    alike = list(ones.values()) if kind == "PTO" else list(table)
    for setting in alike:
        among = (
            s for s in alike if _kind_of(s) == _kind_of(setting) and (kind == "PTO" or s.size == setting.size)
        )
        other, smaller = partner(setting), _next_smaller_host(setting, among)
        if kind in ("pinning", "pieces", "network"):
            if other is not None:
                yield (setting,), (other,)
        elif kind in ("CHR", "PTO"):
            if smaller is not None:
                yield (setting,), (smaller,)
        elif kind == "CHR × pinning":
            other_smaller = None if smaller is None else partner(smaller)
            if other is not None and smaller is not None and other_smaller is not None:
                yield (setting, other_smaller), (smaller, other)
        else:
            one, other_one = ones.get(_series(setting)), None if other is None else ones.get(_series(other))
            if other is None or one is None or other_one is None:
                continue
            if setting != one and other != other_one:
                yield (setting, other_one), (one, other)


def _series(setting: Setting) -> Series:
    return setting.application, setting.platform, setting.provisioning, setting.host_cpus


def _kind_of(setting: Setting) -> tuple[str, str, str]:
    return setting.application, setting.platform, setting.provisioning


def _next_smaller_host(setting: Setting, among: Iterable[Setting]) -> Setting | None:
    smaller = (s for s in among if s.host_cpus < setting.host_cpus)
    return max(smaller, key=lambda s: s.host_cpus, default=None)


def _arms(quotient: Quotient, table: Mapping[Setting, SizeCell]) -> tuple[Floats, Floats]:
    """Divisor and dividend, by block.

    A baseline that stands on both sides is left out: it cancels, and a block whose baseline failed still counts.
    """
    over, under = ([table[s] for s in side] for side in quotient)
    if len({len(cell.ratios) for cell in (*over, *under)}) > 1:
        raise BadInput(
            f"{quotient[0][0]} and {quotient[1][0]} have different numbers of blocks",
            hint="an effect is formed within blocks: position i is block i in every cell, NaN where a trial gave nothing",
        )
    left = [np.array(cell.baseline) for cell in under]
    up, down = (np.prod([np.array(c.values) for c in side], axis=0) for side in (over, under))
    for cell in over:
        baseline = np.array(cell.baseline)
        same = next((i for i, b in enumerate(left) if np.array_equal(b, baseline, equal_nan=True)), None)
        if same is None:
            up = up / baseline
        else:
            left.pop(same)
    for baseline in left:
        down = down / baseline
    return down, up
