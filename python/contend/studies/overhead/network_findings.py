"""Findings on a network pair compared with loopback (the effect network): by itself, and what a platform adds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from contend.advice.finding import Evidence, Finding
from contend.platforms.sizes import cpus_label
from contend.stats.platform_effects import Effect
from contend.studies.overhead.practices import certain
from contend.studies.overhead.variant_findings import words

_ADVICE = {
    "higher": "where its port needs no network of its own, let it use the host's (network=host; --network host)",
    "lower": "give it a network of its own (network=pair): that costs it nothing here",
}


def network_findings(effects: Sequence[Effect], repeat: str) -> Iterator[Finding]:
    """A finding for each platform setting and direction, the bare host first.

    effects: of one application. repeat: repeats the run, with both networks: neither says anything without the other.
    """
    for (platform, provisioning, wanted), same in sorted(
        certain(effects).items(), key=lambda item: item[0][0] != "bare"
    ):
        extreme = max if wanted == "higher" else min
        most = extreme(same, key=lambda e: e.ratio.value)
        application = most.over[0].application
        sizes = ", ".join(f"{words(e.ratio)} at {cpus_label(e.over[0].size)}" for e in same)
        yield Finding(
            id="",
            kind="network-pair",
            subject=application,
            resource="network",
            sentence=_bare(application, sizes)
            if platform == "bare"
            else _beyond(application, f"{provisioning} {platform}", sizes),
            share=None,
            estimate=most.ratio,
            evidence=tuple(
                Evidence(
                    f"network pair over loopback at {cpus_label(e.over[0].size)}",
                    e.ratio.value,
                    "ratio",
                    "overhead.effects",
                )
                for e in same
            ),
            advice=_ADVICE[wanted],
            verify=f"{repeat} --set sizes=[{','.join(f'{e.over[0].size:g}' for e in same)}]",
        )


def _bare(application: str, sizes: str) -> str:
    return (
        f"{application} over a network pair takes {sizes}, of what it takes over loopback on the bare host: what namespaces"
        " and a veth change by themselves, on whatever platform."
    )


def _beyond(application: str, platform: str, sizes: str) -> str:
    return (
        f"{application} in a {platform} over a network pair takes {sizes}, of what it takes there over loopback, beyond what"
        " the pair changes on the bare host."
    )
