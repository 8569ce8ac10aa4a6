"""Findings on the cost of a platform: whether to pin it, how much of the host it needs, its own cost."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

from contend.advice.finding import Evidence, Finding
from contend.document import CellResult
from contend.platforms.sizes import cpus_label
from contend.stats.platform_effects import VARIED, Effect
from contend.stats.platform_size import Decomposition
from contend.studies.causes.cause import caused, percent
from contend.studies.overhead.host_findings import host_findings
from contend.studies.overhead.network_findings import network_findings
from contend.studies.overhead.practices import NEGLIGIBLE, direction, fading_words
from contend.studies.overhead.result import Overheads, platform_words
from contend.studies.overhead.variant_findings import variant_findings, words
from contend.studies.overhead.variants import host_cpus, platform_of
from contend.studies.overhead.why import Why, of_cell, of_setting_s_cell, of_slower_side, turned


def findings(overheads: Overheads, cells: Sequence[CellResult], repeat: str) -> tuple[Finding, ...]:
    """Findings of every application, the costliest first. cells: headline comparisons; repeat: the command that repeats
    the run."""
    drafts = sorted(_drafts(overheads, cells, repeat), key=lambda draft: -draft.estimate.value)
    return tuple(replace(draft, id=f"F{number}") for number, draft in enumerate(drafts, start=1))


def _drafts(overheads: Overheads, cells: Sequence[CellResult], repeat: str) -> Iterator[Finding]:
    for application in dict.fromkeys(cell.factors["victim"] for cell in cells):
        mine = [cell for cell in cells if cell.factors["victim"] == application]
        effects = [e for e in overheads.effects if e.over[0].application == application]
        effects = [e for e in effects if e.over[0].platform not in overheads.emulated]
        # What is of a smaller host is there to be compared with: the host that is advised on is the whole one.
        whole = [e for e in effects if e.over[0].host_cpus == overheads.host_cpus]
        pinning = [e for e in whole if e.kind == "pinning"]
        # Of several, one more --set can choose one that has no parameters; a command of the user's stands alone.
        one_of = len(overheads.applications) > 1 and not overheads.applications[application].parameters
        verify = f"{repeat} --set apps={shlex.quote(application)}" if one_of else repeat
        for platform in dict.fromkeys(e.over[0].platform for e in pinning):
            for wanted in ("higher", "lower"):
                same_way = [
                    e for e in pinning if e.over[0].platform == platform and direction(e.ratio) == wanted
                ]
                if same_way:
                    yield _pinning(same_way, mine, verify)
        for kind in VARIED:
            yield from variant_findings(
                [e for e in whole if e.kind == kind], mine, verify, overheads.variants
            )
        yield from host_findings(effects, overheads.hosts, mine, verify)
        yield from network_findings([e for e in whole if e.kind == "network"], repeat)
        for part in overheads.decompositions:
            if part.application != application or part.platform in overheads.emulated:
                continue
            if part.host_cpus != overheads.host_cpus:
                continue
            if part.refused:  # what is type and what is size is not known; that it costs is
                there = [
                    c
                    for c in mine
                    if _of(c) == (part.platform, part.provisioning)
                    and host_cpus(platform_of(c.values), overheads.host_cpus) == overheads.host_cpus
                ]
                dear = [c for c in there if direction(c.estimate) == "higher"]
                if dear:
                    yield _whole(max(dear, key=lambda c: c.estimate.value), part, verify)
                continue
            if direction(part.pto) == "higher":
                yield _type(part, mine, verify)
            if part.provisioning == "vanilla" and any(direction(p.ratio) == "higher" for p in part.pso):
                yield _size(part, verify)


def _pinning(effects: Sequence[Effect], cells: Sequence[CellResult], verify: str) -> Finding:
    """A finding on pinning. effects: of one application and platform, all in the same direction."""
    helps = direction(effects[0].ratio) == "higher"
    most = max(effects, key=lambda e: abs(math.log(e.ratio.value)))
    vanilla = most.over[0]
    sizes = ", ".join(f"{words(e.ratio)} at {cpus_label(e.over[0].size)}" for e in effects)
    sentence = (
        f"{vanilla.application} in a {vanilla.platform} under a quota takes {sizes}, of what it takes on a set of"
        f" CPUs{'' if helps else ': pinning costs here'}"
    )
    why = Why()
    for effect in sorted(effects, key=lambda e: -turned(e.ratio).value):
        size = effect.over[0].size
        if size != math.ceil(size):
            continue
        why = of_setting_s_cell(cells, effect.over[0]) if helps else of_slower_side(cells, effect)
        if why.words:
            sentence += f"; {'under the quota' if helps else 'on the set'} of {cpus_label(size)} {why.words}"
            break
    part = any(e.over[0].size != math.ceil(e.over[0].size) for e in effects)
    return caused(
        why.causes,
        kind="pin" if helps else "do-not-pin",
        subject=vanilla.application,
        sentence=sentence + ".",
        estimate=most.ratio,
        advice="pin it: a set of CPUs (--cpuset-cpus, cpuset.cpus, AllowedCPUs=) in place of the quota"
        + ("; of a part of a CPU, one CPU beside the quota" if part else "")
        if helps
        else "leave it to the scheduler: a quota (--cpus, cpu.max) without a set of CPUs",
        verify=f"{verify} --set sizes={_yaml([e.over[0].size for e in effects])}",
    )


def _yaml(sizes: Sequence[float]) -> str:
    """
    >>> _yaml([0.5, 2])
    '[0.5,2]'
    """
    return f"[{','.join(f'{size:g}' for size in sizes)}]"


def _size(part: Decomposition, verify: str) -> Finding:
    worst = max((p for p in part.pso if direction(p.ratio) == "higher"), key=lambda p: p.ratio.value)
    fading = part.fades(1 + NEGLIGIBLE)
    sentence = (
        f"{part.application} in a {part.platform} of {cpus_label(worst.setting.size)}"
        f" ({percent(worst.setting.chr)} of the host) takes {words(worst.ratio)} what the same platform of the whole host"
        " costs it for being small;"
        f" {fading_words(fading)}."
    )
    least = fading.below
    return Finding(
        id="",
        kind="platform-size",
        subject=part.application,
        resource="platform size",
        sentence=sentence,
        share=None,
        estimate=worst.ratio,
        evidence=tuple(
            Evidence(f"PSO at {p.setting.size:g} CPUs", p.ratio.value, "ratio", "overhead.decompositions")
            for p in part.pso
        ),
        advice=f"give it at least {cpus_label(least.size)} ({percent(least.chr)} of this host), or a set of CPUs"
        if least is not None and least.size < part.host_cpus
        else "give it a set of CPUs in place of a quota, or more of the host",
        verify=f"{verify} --set provisioning=vanilla",
    )


def _of(cell: CellResult) -> tuple[str, str]:
    return cell.factors["platform"], cell.factors["provisioning"]


def _whole(cell: CellResult, part: Decomposition, verify: str) -> Finding:
    cpus = platform_of(cell.values).cpus
    why = of_cell(cell)
    sentence = (
        f"{part.application} takes {words(cell.estimate)} as long in a {platform_words(cell)} as on the bare host of"
        " its size"
    )
    if why.words:
        sentence += f"; there {why.words}"
    return caused(
        why.causes,
        kind="platform-cost",
        subject=part.application,
        sentence=f"{sentence}. What of that is type and what is size is not known: {part.refused}.",
        estimate=cell.estimate,
        advice="measure the whole host too, and both provisionings: sizes and provisioning of the scenario",
        verify=f"{verify} --set provisioning=[vanilla,pinned] --set sizes={_yaml([cpus, part.host_cpus])}",
    )


def _type(part: Decomposition, cells: Sequence[CellResult], verify: str) -> Finding:
    assert part.at_one is not None
    why = of_setting_s_cell(cells, part.at_one)
    sentence = (
        f"{part.application} takes {words(part.pto)} as long in a {part.platform} ({part.provisioning}) with all of the"
        " host's CPUs as on the bare host: the platform's own cost, which no size takes away"
    )
    if why.words:
        sentence += f"; there {why.words}"
    return caused(
        why.causes,
        kind="platform-type",
        subject=part.application,
        sentence=sentence + ".",
        estimate=part.pto,
        advice="compare engines and what they mount and filter (seccomp, storage driver): the size is not the cause",
        verify=f"{verify} --set sizes={part.at_one.size:g}",
    )
