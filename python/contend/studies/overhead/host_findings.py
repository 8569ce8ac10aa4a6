"""Findings on the share of a host at one size (the effect CHR): how much of a host an application needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from contend.advice.finding import Finding
from contend.document import CellResult
from contend.platforms.sizes import cpus_label
from contend.stats.platform_effects import Effect
from contend.stats.platform_size import Setting
from contend.studies.causes.cause import caused, percent
from contend.studies.overhead.practices import certain, direction
from contend.studies.overhead.variant_findings import words
from contend.studies.overhead.why import Why, of_setting_s_cell


def host_findings(
    effects: Sequence[Effect], hosts: Mapping[int, str], cells: Sequence[CellResult], verify: str
) -> Iterator[Finding]:
    """A finding for each platform, provisioning and direction in which the share of the host matters.

    effects: of one application, of all kinds; hosts: by CPUs, how each host came to have so many.
    """
    shares = [e for e in effects if e.kind == "CHR"]
    for (platform, provisioning, wanted), same in certain(shares).items():
        beside = [
            e for e in shares if (e.over[0].platform, e.over[0].provisioning) == (platform, provisioning)
        ]
        crossed = [e for e in effects if e.kind == "CHR × pinning" and e.over[0] in [s.over[0] for s in same]]
        yield _finding(same, wanted, beside, crossed, hosts, cells, verify)


def _finding(
    effects: Sequence[Effect],
    wanted: str,
    beside: Sequence[Effect],
    crossed: Sequence[Effect],
    hosts: Mapping[int, str],
    cells: Sequence[CellResult],
    verify: str,
) -> Finding:
    extreme = max if wanted == "higher" else min
    most = extreme(effects, key=lambda e: e.ratio.value)
    setting = most.over[0]
    parts = ", ".join(
        f"{words(e.ratio)} at {cpus_label(e.over[0].size)} on a host of {_host(e.over[0])}, of what it takes on one of"
        f" {_host(e.under[0])}"
        for e in effects
    )
    sentence = f"{setting.application} in a {setting.provisioning} {setting.platform} takes {parts}"
    why = of_setting_s_cell(cells, setting) if wanted == "higher" else Why()
    if why.words:
        sentence += f"; on the larger {why.words}"
    for effect in crossed:
        if clause := _crossed(effect):
            sentence += f"; {clause}"
            break
    if any(hosts.get(int(e.under[0].host_cpus)) == "confined" for e in effects):
        sentence += "; the smaller host was confined, not made by taking CPUs offline"
    helps = any(direction(e.ratio) == "higher" for e in crossed)
    sizes = ",".join(f"{size:g}" for size in sorted({e.over[0].size for e in effects}))
    of = ",".join(f"{n:g}" for n in sorted({s.host_cpus for e in effects for s in (*e.over, *e.under)}))
    return caused(
        why.causes,
        kind="host-share",
        subject=setting.application,
        sentence=sentence + ".",
        estimate=most.ratio,
        advice=_least(effects, beside, helps=helps)
        if wanted == "higher"
        else "a small share of a large host costs it nothing here: no least share of the host is needed",
        verify=f"{verify} --set hosts=[{of}] --set sizes=[{sizes}]",
    )


def _host(setting: Setting) -> str:
    return f"{cpus_label(setting.host_cpus)} ({percent(setting.chr)} of the host)"


def _crossed(effect: Effect) -> str:
    """A sentence where pinning changes what the share costs; "" where the run cannot say."""
    text = {
        "higher": "a set of CPUs makes that less",
        "lower": "a set of CPUs makes that more",
        "negligible": f"a set of CPUs makes no difference to that ({words(effect.ratio)})",
    }.get(direction(effect.ratio), "")
    if not text and effect.ratio.verdict == "undecided":
        text = (
            f"that a set of CPUs changes that was not seen ({effect.detectable:.1%} or more would have been)"
        )
    return text


def _least(effects: Sequence[Effect], beside: Sequence[Effect], *, helps: bool) -> str:
    """The smallest share measured above the largest that certainly costs. beside: all of this platform, these too."""
    worst = max(e.over[0].chr for e in effects)
    settings = [s for e in beside for s in (e.over[0], e.under[0])]
    least = min((s for s in settings if s.chr > worst), key=lambda s: s.chr)
    return (
        f"give it more than {percent(worst)} of its host's CPUs: a share ≥ {percent(least.chr)} among those measured"
        f" ({cpus_label(least.size)} on a host of {cpus_label(least.host_cpus)})"
        + (", or a set of CPUs" if helps else "")
    )
