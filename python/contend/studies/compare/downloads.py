"""Costs of an image's downloads, as findings: the dearest client, what HTTPS adds, what verifying adds.

Sides of a comparison that differ in one thing are put beside each other, block by block; the intervals of all these
ratios hold together. contend-fetch alone (`reader`) is no client that anybody would choose, and is left out.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from contend.advice.finding import Evidence, Finding
from contend.document import CellResult, Level
from contend.stats.compare import compare
from contend.stats.estimate import Estimate
from contend.stats.simultaneous import simultaneous
from contend.studies.compare.model import Compare
from contend.studies.overhead.variant_findings import words
from contend.units import format_value

GLANCE = "image-download-glance"
WORKLOADS = ("image-download", GLANCE)
METRIC = "client_cpu"
_PER = "of CPU time per 10^9 bytes"
_USUAL = {
    "client": "curl",
    "scheme": "http",
    "checksum": "none",
    "to": "nothing",
    "at_once": "1",
}  # of the file
_CALLED = {
    "fetch": "contend fetch", "glanceclient": "python-glanceclient", "openstacksdk-stream": "openstacksdk (stream)",
    "go": "Go's net/http", "reqwest": "Rust's reqwest",
}  # fmt: skip
_SCHEMES = {
    "http": "HTTP", "https": "HTTPS", "cloud": "Glance's own URL", "tls-proxy": "HTTPS of a TLS proxy before Glance",
}  # fmt: skip
_VERIFIED = {"none": "not verified", "sha512": "verified by sha512"}


@dataclass(frozen=True, slots=True)
class Side:
    """One variant of a download: its name, its parameters, and the CPU time that its client took."""

    variant: str
    parameters: Mapping[str, str]
    level: Level

    @property
    def client(self) -> str:
        return self.parameters["client"]

    @property
    def called(self) -> str:
        return _CALLED.get(self.client, self.client)

    @property
    def takes(self) -> float:
        return self.level.estimate.value

    def with_other(self, name: str, value: str) -> tuple[tuple[str, str], ...]:
        """The side's parameters with one changed: those that another side must have to be compared with it."""
        return tuple(sorted({**self.parameters, name: value}.items()))


Pair = tuple[Side, Side]  # (what it is compared with, what is judged)


def download_findings(
    scenario: Compare, results: Sequence[CellResult], repeat: str, seed: int
) -> tuple[Finding, ...]:
    """Findings on downloads: the dearest clients first, then what HTTPS adds, then what verifying adds; none without
    intervals.

    repeat: the command line that repeats the run.
    """
    all_sides = sides(scenario, results)
    clients, tls, verified = (
        _clients(all_sides),
        _changed(all_sides, "scheme", usual(scenario.workload)),
        _changed(all_sides, "checksum", usual(scenario.workload)),
    )
    pairs = [pair for group in (*clients, *tls, *verified) for pair in group]
    estimates = _together(pairs, scenario.measure.level, seed)
    drafts = [
        *(_dearest(group, estimates, scenario, repeat) for group in clients),
        *(_added(group, estimates, scenario, repeat, "https") for group in tls),
        *(_added(group, estimates, scenario, repeat, "verification") for group in verified),
    ]
    kept = [finding for finding in drafts if finding is not None]
    order = {"dearest-client": 0, "https-cost": 1, "verification-cost": 2}
    kept.sort(key=lambda f: (order[f.kind], -f.estimate.value))
    return tuple(replace(finding, id=f"F{number}") for number, finding in enumerate(kept, start=1))


def sides(scenario: Compare, results: Sequence[CellResult]) -> tuple[Side, ...]:
    """Every variant with the CPU time of its clients; empty where that was not measured."""
    levels = {r.factors["variant"]: r.treatment for r in results if r.metric.name == METRIC}
    base = next((r.baseline for r in results if r.metric.name == METRIC), None)
    measured = []
    for variant in scenario.variants:
        level = levels.get(variant.name, base if variant.name == scenario.variants[0].name else None)
        if level is None or not level.values or min(level.values) <= 0:
            continue
        given = {**scenario.parameters, **variant.parameters}
        parameters = {**usual(scenario.workload), **{name: str(value) for name, value in given.items()}}
        measured.append(Side(variant.name, parameters, level))
    return tuple(measured)


def usual(workload: str) -> dict[str, str]:
    """The default parameters of the workload, from its file."""
    return {**_USUAL, "scheme": "cloud"} if workload == GLANCE else _USUAL


def answer(findings: Sequence[Finding]) -> str:
    """The run's answer: the cost of the dearest client; "" where there is no such finding."""
    return next((f.sentence for f in findings if f.kind == "dearest-client"), "")


def _clients(all_sides: Sequence[Side]) -> list[list[Pair]]:
    """Pairs by what else is the same: each client beside the one that takes least."""
    groups: dict[tuple[tuple[str, str], ...], list[Side]] = {}
    for side in all_sides:
        if side.client != "reader":
            groups.setdefault(side.with_other("client", ""), []).append(side)
    pair_groups = []
    for group in groups.values():
        least = min(group, key=lambda side: side.takes)
        if len(group) > 1:
            pair_groups.append([(least, side) for side in group if side is not least])
    return pair_groups


def _changed(all_sides: Sequence[Side], name: str, as_usual: Mapping[str, str]) -> list[list[Pair]]:
    """Pairs by what else is the same, but for the client: each client with `name` changed beside it as usual."""
    by_parameters = {tuple(sorted(side.parameters.items())): side for side in all_sides}
    groups: dict[tuple[tuple[str, str], ...], list[Pair]] = {}
    for side in all_sides:
        base = by_parameters.get(side.with_other(name, as_usual[name]))
        if base is not None and base is not side and side.client != "reader":
            rest = {**side.parameters, "client": ""}
            groups.setdefault(tuple(sorted(rest.items())), []).append((base, side))
    return list(groups.values())


def _together(pairs: Sequence[Pair], at: float, seed: int) -> dict[tuple[str, str], Estimate]:
    """The ratio of each pair, by the names of its variants; all intervals hold at once."""
    keys = [(base.variant, judged.variant) for base, judged in pairs]
    series = {side.variant: side.level for pair in pairs for side in pair}
    if all(len(set(level.blocks)) == len(level.blocks) for level in series.values()) and len(pairs) > 1:
        blocks = sorted({block for level in series.values() for block in level.blocks})
        rows = {name: _by_block(level, blocks) for name, level in series.items()}
        return simultaneous({key: (rows[key[0]], rows[key[1]]) for key in keys}, level=at, seed=seed)
    each = 1 - (1 - at) / max(1, len(pairs))  # several values a block: Bonferroni (Dunn 1961)
    estimates = {}
    for key, (base, judged) in zip(keys, pairs, strict=True):
        labels = (base.level.blocks, judged.level.blocks)
        one = compare(base.level.values, judged.level.values, blocks=labels, level=each)
        estimates[key] = replace(one, level=at)
    return estimates


def _by_block(level: Level, blocks: Sequence[int]) -> list[float]:
    values = dict(zip(level.blocks, level.values, strict=True))
    return [values.get(block, math.nan) for block in blocks]


def _shown(
    group: Sequence[Pair], estimates: Mapping[tuple[str, str], Estimate], matters: float
) -> Iterator[tuple[Side, Side, Estimate]]:
    """Those of the group that take more for certain, by what matters, the largest ratio first."""
    compared = [(base, side, estimates[base.variant, side.variant]) for base, side in group]
    more = (f for f in compared if f[2].value > 1 and f[2].beyond(matters))
    yield from sorted(more, key=lambda f: -f[2].value)


def _dearest(
    group: Sequence[Pair], estimates: Mapping[tuple[str, str], Estimate], scenario: Compare, repeat: str
) -> Finding | None:
    dearer = list(_shown(group, estimates, scenario.measure.matters))
    if not dearer:
        return None
    least, most, ratio = max(dearer, key=lambda each: each[1].takes)
    sentence = (
        f"{_way(most)}, {most.called} takes most: {format_value(most.takes, 's')} {_PER},"
        f" {words(ratio)} what {least.called} takes ({format_value(least.takes, 's')})."
    )
    return Finding(
        id="",
        kind="dearest-client",
        subject=most.variant,
        resource="CPU",
        sentence=sentence,
        share=None,
        estimate=ratio,
        evidence=tuple(_evidence([least, *(side for _, side, _ in dearer)])),
        advice=f"Where the choice is yours: {least.called}.",
        verify=_verify(repeat, scenario, least, most),
    )


def _added(
    group: Sequence[Pair],
    estimates: Mapping[tuple[str, str], Estimate],
    scenario: Compare,
    repeat: str,
    what: str,
) -> Finding | None:
    dearer = list(_shown(group, estimates, scenario.measure.matters))
    if not dearer:
        return None
    base, most, ratio = dearer[0]
    ratios = ", ".join(f"{side.called} {words(of)}" for _, side, of in dearer)
    if what == "https":
        subject = f"{_scheme(most)}, {_VERIFIED[most.parameters['checksum']]}{_besides(most)}"
        beside = "what it takes by HTTP"
        advice = (
            "What is public, and whose checksum comes by a trusted way, is as safe from change by HTTP with that checksum;"
            " what needs a token is not."
        )
    else:
        subject = f"Verifying by sha512, {_scheme(most)}{_besides(most)}"
        beside = "what it takes unverified"
        advice = (
            "Do not leave it out: choose the hash. sha256 is cheaper where /proc/cpuinfo names sha_ni, and contend fetch"
            " hashes while it reads, so that nothing is read twice."
        )
    return Finding(
        id="",
        kind=f"{what}-cost",
        subject=subject,
        resource="CPU",
        sentence=f"{subject}: {ratios} {beside}.",
        share=None,
        estimate=ratio,
        evidence=tuple(_evidence([side for pair in dearer for side in pair[:2]])),
        advice=advice,
        verify=_verify(repeat, scenario, base, most),
    )


def _way(side: Side) -> str:
    text = f"By {_scheme(side)}, {_VERIFIED[side.parameters['checksum']]}"
    return text + _besides(side)


def _scheme(side: Side) -> str:
    scheme = side.parameters["scheme"]
    return _SCHEMES.get(scheme, scheme)


def _besides(side: Side) -> str:
    """Words for what else is not as usual."""
    to = ", to a file" if side.parameters["to"] == "file" else ""
    many = side.parameters["at_once"]
    return to + ("" if many == "1" else f", {many} at once")


def _evidence(of: Sequence[Side]) -> Iterator[Evidence]:
    for side in {side.variant: side for side in of}.values():
        where = f"variant {side.variant}, metric {METRIC}"
        yield Evidence(f"{side.called}, {_PER}", side.takes, "s", where)


def _verify(repeat: str, scenario: Compare, *of: Side) -> str:
    """The two alone, as often as the time of all gives."""
    chosen = {side.variant for side in of}
    variants = [
        f"{{name: {v.name}, parameters: {{{', '.join(f'{k}: {p}' for k, p in v.parameters.items())}}}}}"
        for v in scenario.variants
        if v.name in chosen
    ]
    return f"{repeat} --set {shlex.quote('variants=[' + ', '.join(variants) + ']')}"
