"""Causes of a slowdown as findings have them, and the evidence that they stand on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from contend.advice.finding import CauseShare, Evidence, Finding
from contend.probes.observed import Observations, Observed
from contend.stats.estimate import Estimate
from contend.units import format_value

# A cause below this share of the slowdown is not worth a sentence.
LEAST_SHARE = 0.10


@dataclass(frozen=True)
class Cause:
    """One cause of a slowdown: the share of the victim's lost time that it explains, and the evidence."""

    resource: str
    share: float  # of the slowdown, 0–1
    words: str
    evidence: tuple[Evidence, ...]
    clause: bool = False  # the words have a subject of their own; else it is the victim
    at_least: bool = False  # the share is a lower bound
    within: float | None = None  # half of the share's interval; None where there is none

    @property
    def low(self) -> float | None:
        return None if self.within is None else max(0.0, self.share - self.within)

    @property
    def high(self) -> float | None:
        return None if self.within is None else min(1.0, self.share + self.within)

    @property
    def as_clause(self) -> str:
        """The words as a clause with a subject.

        >>> Cause("run queue", 0.5, "waited for the CPU", ()).as_clause
        'it waited for the CPU'
        >>> Cause("hypervisor", 0.5, "its CPU was taken", (), clause=True).as_clause
        'its CPU was taken'
        """
        return self.words if self.clause else f"it {self.words}"


def caused(
    causes: Sequence[Cause],
    *,
    kind: str,
    subject: str,
    sentence: str,
    estimate: Estimate,
    advice: str,
    verify: str,
) -> Finding:
    """A finding, not yet numbered, whose resource, share and evidence are those of its causes, the largest first."""
    return Finding(
        id="",
        kind=kind,
        subject=subject,
        resource=causes[0].resource if causes else "unexplained",
        sentence=sentence,
        share=min(1.0, sum(c.share for c in causes)) if causes else None,
        estimate=estimate,
        evidence=tuple(e for c in causes for e in c.evidence),
        advice=advice,
        verify=verify,
        causes=shares(causes),
    )


def shares(causes: Sequence[Cause]) -> tuple[CauseShare, ...]:
    """Causes as a finding has them."""
    return tuple(CauseShare(cause.resource, cause.share, cause.low, cause.high) for cause in causes)


def timed(
    resource: str,
    share: float,
    name: Observed,
    words: str,
    now: Observations,
    before: Observations,
    suffix: str = "",
    also: tuple[Observed, ...] = (),
    seconds: float | None = None,
) -> Cause:
    """seconds: of `name` that are of this cause; None: all of it."""
    lost, wall = observed(now, name) if seconds is None else seconds, observed(now, Observed.WALL)
    seen = f"{words} {format_value(lost, 's')} of {format_value(wall, 's')}{suffix}"
    evidence = pair(name, now, before, words)
    for other in also:
        if other in now and other != name:
            evidence += pair(other, now, before, other.replace("_", " "))
    return Cause(resource, share, seen, evidence)


def capped(causes: list[Cause], of: str, sure: Mapping[str, float]) -> list[Cause]:
    """Shares of that, clipped in the order of directness (the order found), then sorted; small ones dropped.

    sure: by resource, half of the share's interval, where that is known.
    """
    left, kept = 1.0, []
    for cause in causes:
        share = min(max(cause.share, 0.0), left)
        left -= share
        if share < LEAST_SHARE:
            continue
        cause = replace(cause, share=share, within=None if cause.at_least else sure.get(cause.resource))
        kept.append(replace(cause, words=f"{cause.words} ({_share_words(cause, of)})"))
    return sorted(kept, key=lambda c: -c.share)


def _share_words(cause: Cause, of: str) -> str:
    """
    >>> cause = Cause("fsync", 0.841, "waited", (), within=0.131)
    >>> _share_words(cause, "the slowdown")
    '84 % of the slowdown, 71–97 %'
    >>> _share_words(replace(cause, within=0.002), "the slowdown")
    '84 % of the slowdown'
    """
    text = f"{'at least ' if cause.at_least else ''}{percent(cause.share)} of {of}"
    if cause.low is None or cause.high is None or percent(cause.low) == percent(cause.high):
        return text
    return f"{text}, {cause.low * 100:.0f}–{percent(cause.high)}"


def pair(name: Observed, now: Observations, before: Observations, what: str) -> tuple[Evidence, ...]:
    """The same quantity beside the neighbour and alone."""
    both = []
    for evidence, where in ((now, "beside"), (before, "alone")):
        if name in evidence:
            value, unit = evidence[name]
            both.append(Evidence(f"{what}, {where}", value, unit, f"evidence {name}, median of the cell"))
    return tuple(both)


def percent(share: float) -> str:
    """
    >>> percent(0.987)
    '99 %'
    """
    return f"{share * 100:.0f} %"


def observed(evidence: Observations, name: Observed) -> float:
    return evidence.value(name) or 0.0
