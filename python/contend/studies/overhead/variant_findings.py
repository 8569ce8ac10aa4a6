"""Findings on the period and burst of a quota and on the choice of a set's CPUs, with what was observed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from contend.advice.finding import Finding
from contend.document import CellResult
from contend.platforms.bandwidth import period_text
from contend.platforms.sizes import cpus_label
from contend.stats.estimate import Estimate
from contend.stats.platform_effects import Effect, Kind
from contend.studies.causes.cause import caused
from contend.studies.overhead.practices import direction
from contend.studies.overhead.variants import Variant
from contend.studies.overhead.why import Why, of_slower_side, turned
from contend.units import format_times

_NAMES: dict[Kind, str] = {"period": "quota-period", "burst": "quota-burst", "placement": "placement"}
_PERIOD = "the second number of cpu.max in µs, --cpu-period, cpu.cfs_period_us"
_BURST = "cpu.max.burst (v1: cpu.cfs_burst_us)"
_SET = "(cpuset.cpus, --cpuset-cpus)"
_ADVICE: dict[tuple[Kind, str], str] = {
    ("period", "higher"): f"the longer period: {_PERIOD}",
    ("period", "lower"): f"the shorter period: {_PERIOD}",
    ("burst", "higher"): f"let it save what it leaves of its quota: {_BURST}, in µs",
    ("burst", "lower"): f"no burst: {_BURST} of 0",
    ("placement", "higher"): f"spread its set over whole cores and caches {_SET}",
    ("placement", "lower"): f"pack its set into the threads of a core and the cores of a cache {_SET}",
}


def words(of: Estimate) -> str:
    """A ratio with its interval, as sentences have it."""
    return format_times(of.value, of.low, of.high)


def variant_findings(
    effects: Sequence[Effect], cells: Sequence[CellResult], verify: str, variants: Mapping[str, Variant]
) -> Iterator[Finding]:
    """A finding for each pair of provisionings that differ. effects: of one application and kind; cells: of that
    application; variants: by the provisioning's name."""
    groups: dict[tuple[str, str, str, str], list[Effect]] = {}
    for effect in effects:
        wanted = direction(effect.ratio)
        if wanted in ("higher", "lower"):
            over, under = effect.over[0], effect.under[0]
            groups.setdefault((over.platform, over.provisioning, under.provisioning, wanted), []).append(
                effect
            )
    for (_, _, _, wanted), same in groups.items():
        yield _finding(same, wanted, cells, verify, variants)


def _finding(
    effects: Sequence[Effect],
    wanted: str,
    cells: Sequence[CellResult],
    verify: str,
    variants: Mapping[str, Variant],
) -> Finding:
    kind = effects[0].kind
    most = max(effects, key=lambda e: max(e.ratio.value, 1 / e.ratio.value))
    slow, fast = (most.over[0], most.under[0]) if wanted == "higher" else (most.under[0], most.over[0])
    slower, faster = variants[slow.provisioning], variants[fast.provisioning]
    sizes = ", ".join(f"{words(turned(e.ratio))} at {cpus_label(e.over[0].size)}" for e in effects)
    sentence = (
        f"{slow.application} in a {slow.platform} {_where(slower, kind)} takes {sizes}, of what it takes "
    )
    sentence += _where(faster, kind)
    why = Why()
    for effect in sorted(effects, key=lambda e: -turned(e.ratio).value):
        if (why := of_slower_side(cells, effect)).words:
            sentence += f"; at {cpus_label(effect.over[0].size)} {why.words}"
            break
    varied = f"{kind}s=[{_value(slower, kind)},{_value(faster, kind)}]"
    sizes_of = ",".join(f"{e.over[0].size:g}" for e in effects)
    return caused(
        why.causes,
        kind=_NAMES[kind],
        subject=slow.application,
        sentence=sentence + ".",
        estimate=most.ratio,
        advice=_ADVICE[kind, wanted],
        verify=f"{verify} --set {varied} --set sizes=[{sizes_of}]",
    )


def _where(of: Variant, kind: Kind) -> str:
    if kind == "placement":
        return f"on a set of CPUs {of.placement}"
    burst = f" with a burst of {_value(of, 'burst')}" if of.burst_us else ""
    return f"under a quota in periods of {_value(of, 'period')}{burst}"


def _value(of: Variant, kind: Kind) -> str:
    """As a scenario has it.

    >>> _value(Variant("", "vanilla", 10_000, 5_000), "period"), _value(Variant("", "vanilla"), "burst")
    ('10ms', '0')
    """
    if kind == "placement":
        return of.placement
    return period_text(of.burst_us if kind == "burst" else of.period_us)
