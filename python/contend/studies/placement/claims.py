"""Claims of a talk on where instances should be put, checked against a run: confirmed here, refuted, or undecided."""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from contend.stats.compare import compare
from contend.stats.estimate import MATTERS, Estimate
from contend.studies.overhead.practices import Practice, Verdict, direction, together
from contend.studies.placement.result import Aggregate, Placements, Route, change

NAMESPACES = "namespaces of one machine"


def judge(placements: Placements, level: float = 0.95, matters: float = MATTERS) -> tuple[Practice, ...]:
    """Check every claim. Intervals of all claims hold simultaneously (Bonferroni)."""
    file = importlib.resources.files("contend.studies.placement") / "claims.yaml"
    rules = yaml.safe_load(file.read_text("utf-8"))
    looked = [list(_routed(placements, rule)) for rule in rules]
    own = 1 - (1 - level) / max(1, sum(len(of) for of in looked))
    return tuple(_judge(rule, placements, of, own, matters) for rule, of in zip(rules, looked, strict=True))


def _judge(
    rule: Mapping[str, Any], placements: Placements, routed: Sequence[_Routed], level: float, matters: float
) -> Practice:
    claim = str(rule["claim"])
    if rule.get("needs_hosts"):
        if placements.ends == NAMESPACES:
            why = f"hosts here are {NAMESPACES}: {rule['needs_hosts']}"
            return Practice(rule["id"], claim, "cannot tell", (why,))
        return Practice(rule["id"], claim, "cannot tell", ("nothing here tells",))
    if rule["figure"] == "aggregate":
        return _sublinear(rule["id"], claim, placements.aggregates)
    verdicts: list[Verdict] = []
    texts = []
    for over, under, one, other in routed:
        blocks = sorted(set(one) & set(other))
        if not blocks:
            continue
        ratio = compare(
            [other[b] for b in blocks], [one[b] for b in blocks], blocks=blocks, level=level
        ).judged(matters)
        verdicts.append(_verdict(ratio))
        texts.append(f"{over.label} over {under.label}: {change(ratio)}; {_beside(ratio, rule['told'])}")
    return Practice(rule["id"], claim, together(verdicts), tuple(texts) or ("no such cells were measured",))


_Routed = tuple[Route, Route, Mapping[int, float], Mapping[int, float]]


def _routed(placements: Placements, rule: Mapping[str, Any]) -> Iterator[_Routed]:
    """Places of that host in different subnets, each with the same one in one subnet, by block."""
    if rule["figure"] != "routing":
        return
    for over in placements.routes:
        if over.host != rule["host"] or over.subnet != "different":
            continue
        under = Route(over.host, "same", over.encapsulation)
        one, other = (placements.of(placements.first, route, "throughput") for route in (over, under))
        if one is not None and other is not None:
            yield over, under, one.by_block, other.by_block


def _verdict(ratio: Estimate) -> Verdict:
    """The verdict on a loss: confirmed where it is certain and large enough to matter, refuted where it certainly is not."""
    side = direction(ratio)
    return "confirmed" if side == "lower" else "refuted" if side else "cannot tell"


def _beside(ratio: Estimate, claimed: float) -> str:
    """The claimed figure beside the measured one.

    >>> _beside(Estimate(0.8, 0.7, 0.9, "ratio", 15, 0.95, "", "lower"), 0.88)
    'their -12 % is within this interval'
    """
    theirs = f"their {100 * (claimed - 1):+.0f} %"
    if not ratio.known:
        return theirs
    if ratio.excludes(claimed):
        return f"{theirs} is {'less' if claimed > ratio.high else 'more'} than that"
    return f"{theirs} is within this interval"


def _sublinear(name: str, claim: str, aggregates: Sequence[Aggregate]) -> Practice:
    """Rises, and by less than in proportion, both beyond the interval, in a place: so it is there."""
    verdicts: list[Verdict] = []
    texts = []
    for of in aggregates:
        most = max(of.levels)
        times, ratio = most / min(of.levels), of.over_one[most]
        if not ratio.known:
            continue
        verdicts.append(
            "confirmed"
            if ratio.low > 1 and ratio.high < times
            else "refuted"
            if ratio.high <= 1 or ratio.low >= times
            else "cannot tell"
        )
        texts.append(f"{of.route.label}: {most} pairs {change(ratio)}, in proportion {change_of(times)}")
    none = "too few blocks for an interval" if aggregates else "one number of pairs was measured"
    return Practice(name, claim, together(verdicts), tuple(texts) or (none,))


def change_of(times: float) -> str:
    """
    >>> change_of(4)
    '+300 %'
    """
    return f"{100 * (times - 1):+.0f} %"
