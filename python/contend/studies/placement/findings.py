"""Findings of a placement study: what a different subnet, another host and an encapsulation cost, with what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from contend.advice.finding import Evidence, Finding
from contend.studies.overhead.practices import direction
from contend.studies.placement.conditions import route_words
from contend.studies.placement.result import Added, Effect, Kind, Placements, change, seconds

_ADVICE: dict[Kind, str] = {
    "subnet": "put ends that talk much into one subnet: no router is between them then",
    "host": "put ends that talk much on one host (affinity), unless they must not fail together",
    "encapsulation": "where the network allows it, go without (VLANs, a provider network), or let a card do it",
    "interaction": "of ends that must be in different subnets, those on different hosts gain most by one host",
}
_SUBJECT: dict[Kind, str] = {
    "subnet": "ends in different subnets",
    "host": "ends on different hosts",
    "encapsulation": "the way between hosts",
    "interaction": "different subnets and hosts together",
}
_UNITS = {
    "throughput": "throughput",
    "cpu_per_gb": "CPU time for 10^9 bytes",
    "guests_cpu_per_gb": "CPU time of both guests for 10^9 bytes",
    "latency_p50": "median latency",
    "latency_p99": "p99 latency",
}


def findings(placements: Placements, repeat: str) -> tuple[Finding, ...]:
    """Find what is worse beyond the interval at the first conditions, the largest loss of throughput first.

    repeat: the command that repeats the run.
    """
    drafts = sorted(_drafts(placements, repeat), key=lambda draft: draft.estimate.value)
    return tuple(replace(draft, id=f"F{number}") for number, draft in enumerate(drafts, start=1))


def _drafts(placements: Placements, repeat: str) -> Iterator[Finding]:
    effects = [e for e in placements.effects if e.conditions == placements.first]
    for effect in effects:
        if effect.metric == "throughput" and direction(effect.ratio) == "lower":
            yield _finding(placements, effect, effects, repeat)
    for added in placements.added:
        if (
            added.conditions == placements.first
            and added.seconds.verdict == "higher"
            and not _is_slower(effects, added)
        ):
            yield _dearer(placements, added, repeat)


def _is_slower(effects: list[Effect], added: Added) -> bool:
    """True if a finding on throughput tells of it already."""
    return any(
        e.kind == added.kind and e.metric == "throughput" and direction(e.ratio) == "lower" for e in effects
    )


def _finding(placements: Placements, effect: Effect, beside: list[Effect], repeat: str) -> Finding:
    way = f" ({effect.encapsulation})" if effect.encapsulation != "none" else ""
    also = [
        e
        for e in beside
        if (e.kind, e.encapsulation) == (effect.kind, effect.encapsulation)
        and e.metric != "throughput"
        and e.ratio.verdict == "higher"
    ]
    sentence = f"{_SUBJECT[effect.kind]}{way}: throughput {change(effect.ratio)} ({placements.first.label})"
    if effect.kind == "interaction":
        sentence = (
            f"a different subnet costs more between hosts{way} than within one: throughput {change(effect.ratio)} beyond it"
            f" ({placements.first.label})"
        )
    sentence += "".join(f"; {_UNITS[e.metric]} {change(e.ratio)}" for e in also)
    return Finding(
        id="",
        kind=f"placement-{effect.kind}",
        subject=_SUBJECT[effect.kind],
        resource="network",
        sentence=f"{sentence[0].upper()}{sentence[1:]}.",
        share=None,
        estimate=effect.ratio,
        evidence=tuple(
            Evidence(f"{_UNITS[e.metric]}, {e.kind}{way}", e.ratio.value, "ratio", "placement.effects")
            for e in (effect, *also)
        ),
        advice=_ADVICE[effect.kind],
        verify=f"{repeat} --set protocols={placements.first.protocol} --set messages={placements.first.message}"
        " --set pairs=1",
    )


def _dearer(placements: Placements, added: Added, repeat: str) -> Finding:
    kind = added.kind
    over = route_words(added.over.host, added.over.subnet, added.over.encapsulation)
    return Finding(
        id="",
        kind=f"placement-{kind}-cpu",
        subject=_SUBJECT[kind],
        resource="cpu",
        sentence=(
            f"{over[0].upper()}{over[1:]}: {added.what} takes {seconds(added.seconds)} s more CPU time for 10^9 bytes"
            f" ({placements.first.label})."
        ),
        share=None,
        estimate=added.seconds,
        evidence=(Evidence(f"CPU time of {added.what}", added.seconds.value, "s/GB", "placement.added"),),
        advice=_ADVICE[kind],
        verify=f"{repeat} --set protocols={placements.first.protocol} --set messages={placements.first.message}"
        " --set pairs=1",
    )
