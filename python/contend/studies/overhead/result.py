"""Results of an overhead study: for each application the part of a platform's cost that comes from its size.

Ratios of single cells are in the analysis like any other's; here are the quotients of them (`contend.stats.platform_size`,
`platform_effects`, `platform_curves`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import numpy as np

from contend.document import CellResult
from contend.platforms.sizes import cpus_label, sized
from contend.probes.observed import Observed
from contend.stats.estimate import NO_RATIO, Estimate
from contend.stats.platform_curves import Curve, NoCurve, curves
from contend.stats.platform_effects import KINDS, VARIED, Effect, Kind, effects
from contend.stats.platform_size import Decomposition, Setting, SizeCell, decompositions
from contend.store.cells import NO_VALUES, Application, SizedPlatform, Values
from contend.studies.overhead.practices import Practice
from contend.studies.overhead.variants import Variant, pairs, platform_of, throttled, variant
from contend.studies.overhead.variants import host_cpus as host_of
from contend.studies.words import bounds, stretched, verdicts
from contend.text.shape import HIDDEN, Count, Finite, Named, Shape, computed

NETWORK = "network"  # one that says how a server is reached: over loopback (host), or through a network pair
PIECES = "pieces"  # a parameter of that name cuts the work of an application into so many


@dataclass(frozen=True, slots=True)
class HostDocument(Shape):
    """One size of the host."""

    cpus: Count
    by: Literal["whole", "offline", "confined"]


@dataclass(frozen=True, slots=True)
class ThrottledDocument(Shape):
    """Throttling of both sides."""

    over: float
    under: float


@dataclass(frozen=True, slots=True)
class EffectDocument(Shape):
    """A ratio of overhead ratios, paired within blocks."""

    kind: Kind
    over: tuple[Setting, ...]
    under: tuple[Setting, ...]
    ratio: Estimate
    detectable: Annotated[Finite, "smallest relative effect seen with 80 % power"]
    meaning: str
    throttled: Annotated[
        ThrottledDocument | None,
        "seconds throttled of each second run, over all CPUs; of effects of a period, burst or placement, where seen",
    ]


@dataclass(frozen=True, slots=True)
class Overheads(Shape):
    """The cells of an overhead study together."""

    host_cpus: Annotated[Count, "those that contend may use"]
    decompositions: tuple[Decomposition, ...]
    effects: Annotated[tuple[Effect, ...], HIDDEN]
    curves: tuple[Curve | NoCurve, ...]
    emulated: Annotated[tuple[str, ...], "platforms whose machines were emulated"]
    startup_s: Annotated[
        Mapping[str, float], "by platform, what starting a command in it took: a median, no part of any ratio"
    ]
    notes: tuple[str, ...]
    throttled: Annotated[Mapping[Setting, float], HIDDEN] = field(default_factory=dict)
    """Seconds that a cell was throttled of each second that it ran, over all its CPUs; where that was seen."""
    hosts: Annotated[Mapping[int, str], HIDDEN] = field(default_factory=dict)
    """Where a run varies that: by the CPUs of a host how it came to have so many, `whole`, `offline` or `confined`."""
    practices: tuple[Practice, ...] = ()
    applications: Annotated[Mapping[str, Application], HIDDEN] = field(default_factory=dict)
    """By the name that settings have them by."""
    variants: Annotated[Mapping[str, Variant], HIDDEN] = field(default_factory=dict)
    """Likewise, how sizes are given."""

    @property
    @computed(before="decompositions")
    def host_sizes(self) -> Annotated[list[HostDocument], Named("hosts")]:
        """sizes of the host, where the run varies that, and how it came to have so many CPUs"""
        return [HostDocument(cpus, by) for cpus, by in sorted(self.hosts.items())]  # type: ignore[arg-type]

    @property
    @computed(before="curves")
    def effects_seen(self) -> Annotated[list[EffectDocument], Named("effects")]:
        return [self._effect(of) for of in self.effects]

    def _effect(self, of: Effect) -> EffectDocument:
        over, under = (self.throttled.get(side[0]) for side in (of.over, of.under))
        unknown = of.kind not in VARIED or over is None or under is None
        return EffectDocument(
            of.kind,
            of.over,
            of.under,
            of.ratio,
            of.detectable,
            of.meaning,
            None if unknown else ThrottledDocument(over, under),  # type: ignore[arg-type]
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """One cell on a platform and its baseline, as they were measured."""

    factors: Mapping[str, str]
    values: Sequence[float]
    blocks: Sequence[int]
    baseline: Sequence[float]
    baseline_blocks: Sequence[int]
    refused: str = ""
    startup_s: float | None = None
    throttled: float | None = None
    recorded: Values = NO_VALUES

    @property
    def platform(self) -> SizedPlatform:
        return platform_of(self.recorded)


def read(
    cells: Sequence[Measured],
    host_cpus: int,
    level: float,
    matters: float,
    seed: int,
    emulated: Sequence[str] = (),
    libvirts: Mapping[str, str] | None = None,
) -> Overheads:
    """The decomposition, effects and curves of these cells. Never raises for too little data."""
    blocks = sorted({block for cell in cells for block in (*cell.blocks, *cell.baseline_blocks)})
    table = []
    applications = {c.factors["victim"]: c.recorded.victim for c in cells if c.recorded.victim is not None}
    variants = {c.factors["provisioning"]: variant(c.factors["provisioning"], c.platform) for c in cells}
    for cell in cells:
        values = by_block(cell.values, cell.blocks, blocks)
        baseline = by_block(cell.baseline, cell.baseline_blocks, blocks)
        if np.isfinite(values).any():
            table.append(SizeCell(_setting(cell, host_cpus), values, baseline))
    return Overheads(
        host_cpus=host_cpus,
        decompositions=tuple(_judged(of, matters) for of in decompositions(table, level=level, seed=seed))
        if table
        else (),
        effects=tuple(
            replace(of, ratio=of.ratio.judged(matters))
            for of in _effects(table, applications, variants.values(), level, seed)
        )
        if table
        else (),
        curves=curves(table, level=level, seed=seed) if table else (),
        emulated=tuple(emulated),
        startup_s=_startups(cells),
        notes=tuple(_notes(cells, host_cpus, emulated, libvirts or {})),
        throttled={_setting(cell, host_cpus): cell.throttled for cell in cells if cell.throttled is not None},
        hosts={c.platform.host: c.platform.host_by for c in cells if c.platform.host is not None},
        applications=applications,
        variants=variants,
    )


def _judged(of: Decomposition, matters: float) -> Decomposition:
    return replace(
        of,
        pto=of.pto.judged(matters),
        pso=tuple(replace(part, ratio=part.ratio.judged(matters)) for part in of.pso),
    )


def _effects(
    table: Sequence[SizeCell],
    applications: Mapping[str, Application],
    variants: Iterable[Variant],
    level: float,
    seed: int,
) -> tuple[Effect, ...]:
    """Effects of every kind. The network's own effect is that on the bare host, whose figures have no baseline."""
    kinds = [kind for kind in KINDS if kind != "network"]
    there = {cell.setting.application for cell in table}
    known = {name: of for name, of in applications.items() if name in there}
    plain = effects(table, pieces=pieces(known), pairs=pairs(variants), kinds=kinds, level=level, seed=seed)
    over = networks(known)
    bare: dict[Setting, SizeCell] = {}
    for cell in table if over else ():
        of = replace(cell.setting, platform="bare", provisioning="none", size=math.ceil(cell.setting.size))
        if np.isfinite(cell.baseline).any():
            bare[of] = SizeCell(of, cell.baseline, np.ones(len(cell.baseline)))
    every = [*bare.values(), *table]
    return (*plain, *effects(every, networks=over, kinds=["network"], level=level, seed=seed))


def part(cpus: float, loop: str = "") -> float:
    """The part of its baseline's CPUs that a cell has: 1, but for sizes that are no whole number of CPUs.

    loop: of the metric. What is asked for at a stated rate is as much on a part of a CPU: its latency is no work done.

    >>> part(0.5), part(1.5), part(1), part(0.5, "open")
    (0.5, 0.75, 1.0, 1.0)
    """
    if loop == "open":
        return 1.0
    return cpus / math.ceil(cpus)


def measured(result: CellResult) -> Measured:
    """The values of a comparison, where lower is better, scaled as if the platform had whole CPUs.

    Where it was refused, the baseline's are not known: what needs none, like the effect of pinning, still is.
    """
    turn = -1 if result.metric.better == "higher" else 1
    own, bare = result.treatment, result.baseline
    scale = part(platform_of(result.values).cpus, result.metric.loop)
    refused = result.estimate.warnings[0] if result.estimate.method == NO_RATIO else ""
    return Measured(
        result.factors,
        [scale * v**turn for v in own.values],
        own.blocks,
        [math.nan if refused else v**turn for v in bare.values],
        bare.blocks,
        refused,
        result.evidence.value(Observed.STARTUP),
        throttled(result),
        result.values,
    )


def _startups(cells: Sequence[Measured]) -> dict[str, float]:
    by_platform: dict[str, list[float]] = {}
    for cell in cells:
        if cell.startup_s is not None:
            by_platform.setdefault(cell.factors["platform"], []).append(cell.startup_s)
    return {platform: statistics.median(times) for platform, times in by_platform.items()}


def by_block(values: Sequence[float], blocks: Sequence[int], wanted: Sequence[int]) -> list[float]:
    """The value of each block, of several their geometric mean; NaN where there is none.

    >>> by_block([1.0, 4.0, 3.0], [0, 0, 2], [0, 1, 2])
    [2.0, nan, 3.0]
    """
    grouped: dict[int, list[float]] = {}
    for value, block in zip(values, blocks, strict=True):
        grouped.setdefault(block, []).append(value)
    means = {b: of[0] if len(of) == 1 else statistics.geometric_mean(of) for b, of in grouped.items()}
    return [means.get(block, math.nan) for block in wanted]


def _setting(cell: Measured, host_cpus: int) -> Setting:
    factors = cell.factors
    return Setting(
        factors["victim"],
        factors["platform"],
        factors["provisioning"],
        cell.platform.cpus,
        host_of(cell.platform, host_cpus),
    )


def pieces(applications: Mapping[str, Application]) -> dict[str, str]:
    """Applications that split the work of another one into pieces, with that other one.

    >>> pieces({"x": Application("x"), "x[pieces=9]": Application("x", {"pieces": 9}), "y": Application("y", {"pieces": 3})})
    {'x[pieces=9]': 'x'}
    """
    whole = {_key_of(of): name for name, of in applications.items() if PIECES not in of.parameters}
    split = {}
    for name, of in applications.items():
        as_a_whole = _key_of(of.without(PIECES))
        if PIECES in of.parameters and as_a_whole in whole:
            split[name] = whole[as_a_whole]
    return split


def _key_of(application: Application) -> tuple[object, ...]:
    return application.workload, *sorted((name, str(value)) for name, value in application.parameters.items())


def _notes(
    cells: Sequence[Measured], host_cpus: int, emulated: Sequence[str], libvirts: Mapping[str, str]
) -> list[str]:
    """Notes on how the figures were made, which a reader must know."""
    refused = {
        (cell.factors["victim"], sized(cell.factors), cell.refused): None for cell in cells if cell.refused
    }
    sizes = sorted({cell.platform.cpus for cell in cells})
    notes = [f"{victim}, {size}, has no ratio: {why}" for victim, size, why in refused]
    notes += _host_notes(cells, host_cpus)
    parts = [size for size in sizes if size != math.ceil(size)]
    if parts:
        text = ", ".join(f"{size:g}" for size in parts)
        notes.append(
            f"size{'s' if len(parts) > 1 else ''} {text}: compared with what whole CPUs would take if they gave that part of"
            " their time"
        )
    notes += [f"{kind}: emulated, which says nothing of virtualisation" for kind in emulated]
    notes += [
        f"{kind}: QEMU started by libvirt ({uri}), whose own work is not among what the guest used"
        for kind, uri in libvirts.items()
    ]
    return notes


def networks(applications: Mapping[str, Application]) -> dict[str, str]:
    """Applications that are reached through a network pair, with the same one over loopback.

    >>> networks({"http": Application("http"), "http[network=host]": Application("http", {"network": "host"})})
    {'http': 'http[network=host]'}
    """
    sides: dict[tuple[object, ...], dict[bool, str]] = {}
    for name, of in applications.items():
        over_loopback = of.parameters.get(NETWORK) == "host"
        sides.setdefault(_key_of(of.without(NETWORK)), {})[over_loopback] = name
    return {of[False]: of[True] for of in sides.values() if len(of) == 2}


def _host_notes(cells: Sequence[Measured], whole: int) -> Iterator[str]:
    """How hosts of fewer CPUs were made: those of bare figures, and those that a run varies."""
    hosts = {host_of(c.platform, whole): c.platform.host_by for c in cells}
    for host, by in sorted(hosts.items(), reverse=True):
        of = {math.ceil(c.platform.cpus) for c in cells if host_of(c.platform, whole) == host}
        smaller = sorted(n for n in of if n < host)
        if by == "offline":
            yield f"the host of {cpus_label(host)} is this one with the others taken offline"
        elif by == "confined":
            yield (
                f"confined to {cpus_label(host)}: all of the run was kept on so many by affinity and cpuset, and no CPU was"
                f" taken offline; the kernel had all {whole}, and programs may see them"
            )
        if smaller:
            text = ", ".join(str(n) for n in smaller)
            where = f"that of {host}" if by else f"this one of {host}: no CPU was taken offline"
            yield f"the bare host of {text} CPU{'s' if smaller != [1] else ''} is an affinity on {where}"


def answer(cells: Sequence[CellResult], matters: float) -> str:
    """The answer in one sentence: what costs most, and the verdicts on the others. cells: headline comparisons."""
    known = [c for c in cells if c.estimate.known]
    if not known:
        return ""
    slower = [c for c in known if c.estimate.verdict == "higher"]
    if not slower:
        text = verdicts([c.estimate for c in known], matters)
        return f"No platform is shown to be slower than the bare host of its size: {text}."
    worst = max(slower, key=lambda c: c.estimate.value)
    others = verdicts([c.estimate for c in known if c is not worst], matters)
    rest = f" The other comparisons: {others}." if others else ""
    where = f"in a {platform_words(worst)} ({bounds(worst.estimate)})"
    return f"{worst.factors['victim']} {stretched(worst)} {where}.{rest}"


def platform_words(cell: CellResult) -> str:
    """Name the platform of a cell: pinned container of 1 CPU."""
    factors, platform = cell.factors, cell.values.platform
    provisioning = "" if factors["provisioning"] == "none" else f"{factors['provisioning']} "
    host = ""
    if platform is not None and platform.host is not None:
        confined = " (confined)" if platform.host_by == "confined" else ""
        host = f" on a host of {cpus_label(platform.host)}{confined}"
    return f"{provisioning}{factors['platform']} of {factors['size']}{host}"
