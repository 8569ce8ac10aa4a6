"""What a talk said of where instances should stand, held against a run: confirmed here, refuted, or not to be told."""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from contend.stats.compare import compare
from contend.stats.estimate import Estimate
from contend.studies.overhead.practices import Practice, Verdict, direction, together
from contend.studies.placement.result import Aggregate, Placements, Route, change

NAMESPACES = "namespaces of one machine"


def judge(found: Placements, level: float = 0.95) -> tuple[Practice, ...]:
    """Every claim. Intervals of the claims hold together (Bonferroni)."""
    file = importlib.resources.files("contend.studies.placement") / "claims.yaml"
    rules = yaml.safe_load(file.read_text("utf-8"))
    looked = [list(_routed(found, rule)) for rule in rules]
    own = 1 - (1 - level) / max(1, sum(len(of) for of in looked))
    return tuple(_judge(rule, found, of, own) for rule, of in zip(rules, looked, strict=True))


def _judge(rule: Mapping[str, Any], found: Placements, routed: Sequence[_Routed], level: float) -> Practice:
    claim = str(rule["claim"])
    if rule.get("needs_hosts"):
        if found.ends == NAMESPACES:
            why = f"hosts here are {NAMESPACES}: {rule['needs_hosts']}"
            return Practice(rule["id"], claim, "cannot tell", (why,))
        return Practice(rule["id"], claim, "cannot tell", ("nothing here tells",))
    if rule["figure"] == "aggregate":
        return _sublinear(rule["id"], claim, found.aggregates)
    verdicts: list[Verdict] = []
    said = []
    for over, under, one, other in routed:
        blocks = sorted(set(one) & set(other))
        if not blocks:
            continue
        ratio = compare([other[b] for b in blocks], [one[b] for b in blocks], blocks=blocks, level=level)
        verdicts.append(_verdict(ratio))
        said.append(f"{over.label} over {under.label}: {change(ratio)}; {_beside(ratio, rule['told'])}")
    return Practice(rule["id"], claim, together(verdicts), tuple(said) or ("no such cells were measured",))


_Routed = tuple[Route, Route, Mapping[int, float], Mapping[int, float]]


def _routed(found: Placements, rule: Mapping[str, Any]) -> Iterator[_Routed]:
    """Places of that host in different subnets, each with the same one in one subnet, by block."""
    if rule["figure"] != "routing":
        return
    for over in found.places:
        if over.host != rule["host"] or over.subnet != "different":
            continue
        under = Route(over.host, "same", over.encapsulation)
        one, other = (found.of(found.first, place, "throughput") for place in (over, under))
        if one is not None and other is not None:
            yield over, under, one.by_block, other.by_block


def _verdict(ratio: Estimate) -> Verdict:
    """Of a loss: confirmed where it is certain and matters, refuted where there certainly is none that does."""
    told = direction(ratio)
    return "confirmed" if told == "lower" else "refuted" if told else "cannot tell"


def _beside(ratio: Estimate, told: float) -> str:
    """Their figure, beside ours.

    >>> _beside(Estimate(0.8, 0.7, 0.9, "ratio", 15, 0.95, "", "lower"), 0.88)
    'their -12 % is within this interval'
    """
    theirs = f"their {100 * (told - 1):+.0f} %"
    if ratio.verdict in ("too few", "refused"):
        return theirs
    if ratio.excludes(told):
        return f"{theirs} is {'less' if told > ratio.high else 'more'} than that"
    return f"{theirs} is within this interval"


def _sublinear(name: str, claim: str, aggregates: Sequence[Aggregate]) -> Practice:
    """Rises, and by less than in proportion, both beyond the interval, in a place: so it is there."""
    verdicts: list[Verdict] = []
    said = []
    for of in aggregates:
        most = max(of.levels)
        times, ratio = most / min(of.levels), of.over_one[most]
        if ratio.verdict in ("too few", "refused"):
            continue
        verdicts.append(
            "confirmed"
            if ratio.low > 1 and ratio.high < times
            else "refuted"
            if ratio.high <= 1 or ratio.low >= times
            else "cannot tell"
        )
        said.append(f"{of.place.label}: {most} pairs {change(ratio)}, in proportion {change_of(times)}")
    none = "too few blocks for an interval" if aggregates else "one number of pairs was measured"
    return Practice(name, claim, together(verdicts), tuple(said) or (none,))


def change_of(times: float) -> str:
    """
    >>> change_of(4)
    '+300 %'
    """
    return f"{100 * (times - 1):+.0f} %"
