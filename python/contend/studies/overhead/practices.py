"""Practices that others advise, held against a run: confirmed on this host, refuted, or not to be told."""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import yaml

from contend.document import CellResult
from contend.platforms.sizes import cpus_label, sized
from contend.stats.compare import compare
from contend.stats.estimate import Estimate
from contend.stats.platform_effects import Effect
from contend.stats.platform_size import NEAR_ONE, Fading
from contend.studies.rules import percent
from contend.text.shape import Shape
from contend.units import format_ratio

if TYPE_CHECKING:
    from contend.studies.overhead.result import Overheads

Verdict = Literal["confirmed", "refuted", "cannot tell"]
NEGLIGIBLE = 0.05
"""A difference that is certainly smaller than this matters to nobody's choice of platform."""


@dataclass(frozen=True, slots=True)
class Practice(Shape):
    """A claim of others, held against this run."""

    id: str
    claim: str
    verdict: Verdict
    said: Annotated[tuple[str, ...], "of each application, in words"]


def judge(found: Overheads, cells: Sequence[CellResult], dominant: Mapping[str, str]) -> tuple[Practice, ...]:
    """Every practice. cells: headline comparisons; dominant: resource by application."""
    file = importlib.resources.files("contend.studies.overhead") / "practices.yaml"
    return tuple(_judge(rule, found, cells, dominant) for rule in yaml.safe_load(file.read_text("utf-8")))


def _judge(
    rule: Mapping[str, Any], found: Overheads, cells: Sequence[CellResult], dominant: Mapping[str, str]
) -> Practice:
    claim = " ".join(rule["claim"].split())
    platform = rule["of"]["platform"]
    if platform in found.emulated:
        return Practice(rule["id"], claim, "cannot tell", (f"{platform} is emulated here",))
    if all(cell.factors["platform"] != platform for cell in cells):
        return Practice(rule["id"], claim, "cannot tell", (f"{platform} was not measured",))
    verdicts: list[Verdict] = []
    said = []
    looked = _look(rule, found, cells, dominant)
    for application, (verdict, words) in looked.items():
        if _about(rule, application, found, dominant):
            verdicts.append(verdict)
            said.append(f"{application}: {words}")
    if not said:
        wanted = " or ".join(rule.get("dominant", ()))
        why = f"no application here is bound by {wanted}" if wanted and looked else "nothing here tells"
        return Practice(rule["id"], claim, "cannot tell", (why,))
    return Practice(rule["id"], claim, together(verdicts), tuple(said))


def _about(rule: Mapping[str, Any], application: str, found: Overheads, dominant: Mapping[str, str]) -> bool:
    """Whether it is about that application: by name, or by what binds it; where neither is said, about all."""
    workload = found.applications[application].workload
    if workload in rule.get("not_applications", ()):
        return False
    named, bound = rule.get("applications", ()), rule.get("dominant", ())
    return not (named or bound) or workload in named or dominant.get(application) in bound


def together(verdicts: Sequence[Verdict]) -> Verdict:
    """Of several applications: what those say that say anything; where they differ, it depends, and nothing is told.

    >>> together(["confirmed", "cannot tell"]), together(["confirmed", "refuted"]), together([])
    ('confirmed', 'cannot tell', 'cannot tell')
    """
    clear = {verdict for verdict in verdicts if verdict != "cannot tell"}
    return clear.pop() if len(clear) == 1 else "cannot tell"


def direction(of: Estimate) -> str:
    """higher, lower or negligible beyond the interval, "" where it does not say.

    >>> def ratio(low, high):
    ...     verdict = "higher" if low > 1 else "no detectable effect"
    ...     return Estimate((low * high) ** 0.5, low, high, "ratio", 15, 0.95, "", verdict)
    >>> [direction(ratio(*ends)) for ends in ((1.1, 1.3), (0.97, 1.04), (0.9, 1.2), (1.01, 1.03))]
    ['higher', 'negligible', '', 'negligible']
    """
    if of.low >= 1 - NEGLIGIBLE and of.high <= 1 + NEGLIGIBLE:
        return "negligible"
    return of.verdict if of.verdict in ("higher", "lower") else ""


def certain(effects: Iterable[Effect]) -> dict[tuple[str, str, str], list[Effect]]:
    """Those that certainly are above or below 1, by platform, provisioning, and higher or lower."""
    found: dict[tuple[str, str, str], list[Effect]] = {}
    for effect in effects:
        wanted = direction(effect.ratio)
        if wanted in ("higher", "lower"):
            over = effect.over[0]
            found.setdefault((over.platform, over.provisioning, wanted), []).append(effect)
    return found


def _look(
    rule: Mapping[str, Any], found: Overheads, cells: Sequence[CellResult], dominant: Mapping[str, str]
) -> dict[str, tuple[Verdict, str]]:
    """What each application says, and the figures."""
    if rule["figure"] == "fades":
        return dict(_fading(rule, found, dominant)) | dict(_shares(rule, found, dominant))
    figures: dict[str, list[tuple[str, Estimate]]] = {}
    for application, where, estimate in _figures(rule, found, cells):
        figures.setdefault(application, []).append((where, estimate))
    looked = {}
    for application, of in figures.items():
        directions = {direction(estimate) for _, estimate in of} - {""}
        words = ", ".join(f"{format_ratio(e.value, e.low, e.high)} at {where}" for where, e in of)
        looked[application] = _verdict(rule, directions), words
    return looked


def _verdict(rule: Mapping[str, Any], directions: set[str]) -> Verdict:
    """A claim that holds at one size is confirmed, if nothing speaks against it but that it matters little elsewhere."""
    confirmed = directions & set(rule["confirmed_by"])
    refuted = directions & set(rule["refuted_by"])
    if confirmed and refuted <= {"negligible"}:
        return "confirmed"
    return "refuted" if refuted and not confirmed else "cannot tell"


def _figures(
    rule: Mapping[str, Any], found: Overheads, cells: Sequence[CellResult]
) -> Iterator[tuple[str, str, Estimate]]:
    """(application, where, ratio) of all that the rule is judged by."""
    of = rule["of"]
    if rule["figure"] == "size":
        for part in found.decompositions:
            ours = (part.platform, part.provisioning) == (of["platform"], of["provisioning"])
            if ours and part.host_cpus == found.host_cpus and part.pso:
                smallest = part.pso[0]
                yield part.application, cpus_label(smallest.setting.size), smallest.ratio
    elif rule["figure"] == "pinning":
        for effect in found.effects:
            setting = effect.over[0]
            whole = setting.host_cpus == found.host_cpus
            if effect.kind == "pinning" and setting.platform == of["platform"] and whole:
                yield setting.application, cpus_label(setting.size), effect.ratio
    elif rule["figure"] == "against":
        other = {_place(c): c for c in cells if c.factors["platform"] == rule["against"]}
        for cell in cells:
            if cell.factors["platform"] == of["platform"] and (beside := other.get(_place(cell))):
                yield cell.factors["victim"], sized(cell.factors), _quotient(cell, beside)


def _place(cell: CellResult) -> tuple[str, str, str]:
    return cell.factors["victim"], cell.factors["provisioning"], sized(cell.factors)


def _quotient(cell: CellResult, beside: CellResult) -> Estimate:
    """Of two platforms of one size: the baseline cancels."""
    one, other = beside.treatment, cell.treatment
    turn = -1 if cell.metric.better == "higher" else 1
    return compare(
        [v**turn for v in one.values],
        [v**turn for v in other.values],
        blocks=(one.blocks, other.blocks),
        level=cell.estimate.level,
    )


def _fading(
    rule: Mapping[str, Any], found: Overheads, dominant: Mapping[str, str]
) -> Iterator[tuple[str, tuple[Verdict, str]]]:
    of = rule["of"]
    for part in found.decompositions:
        if (part.platform, part.provisioning) != (of["platform"], of["provisioning"]) or part.refused:
            continue
        between = _between(rule, part.application, found, dominant)
        if between is None or part.host_cpus != found.host_cpus:  # nothing is claimed of it
            continue
        fading = part.fades(1 + NEGLIGIBLE)
        yield part.application, (_within(fading, *between), fading_words(fading))


def _between(
    rule: Mapping[str, Any], application: str, found: Overheads, dominant: Mapping[str, str]
) -> tuple[float, float] | None:
    """The shares between which it is expected that the cost fades; None where nothing is."""
    shares, workload = rule["between"], found.applications[application].workload
    expected = shares.get(workload) or shares.get(dominant.get(application, ""))
    return None if expected is None else (expected[0], expected[1])


def _shares(
    rule: Mapping[str, Any], found: Overheads, dominant: Mapping[str, str]
) -> Iterator[tuple[str, tuple[Verdict, str]]]:
    """The same by hosts of several sizes, where these were measured: the effect CHR, in which the size is the same.

    That a share costs beyond the limit says that the cost has not faded there. That it costs certainly less says that it
    has, where what it is compared with is at or above the shares claimed, from which on nothing is left to fade. A host
    that is confined is no smaller one to the kernel, and judges nothing.
    """
    if "confined" in found.hosts.values():
        return
    of = rule["of"]
    effects: dict[str, list[Effect]] = {}
    for effect in found.effects:
        over = effect.over[0]
        if effect.kind == "CHR" and (over.platform, over.provisioning) == (
            of["platform"],
            of["provisioning"],
        ):
            effects.setdefault(over.application, []).append(effect)
    limit = 1 + NEGLIGIBLE
    for application, told in effects.items():
        between = _between(rule, application, found, dominant)
        if between is None:
            continue
        above = [e.over[0] for e in told if e.ratio.low > limit]
        below = [
            e.over[0] for e in told if e.ratio.high <= limit and e.under[0].chr >= min(between[1], NEAR_ONE)
        ]
        fading = Fading(
            limit,
            max(above, key=lambda s: s.chr, default=None),
            min(below, key=lambda s: s.chr, default=None),
        )
        words = ", ".join(
            f"{format_ratio(e.ratio.value, e.ratio.low, e.ratio.high)} at {cpus_label(e.over[0].size)}, CHR"
            f" {e.over[0].chr:.2g} over {e.under[0].chr:.2g}"
            for e in told
        )
        yield application, (_within(fading, *between), f"by hosts of several sizes: {words}")


def _within(fading: Fading, low: float, high: float) -> Verdict:
    """Whether the share from which on PSO is small lies certainly within or without."""
    above = fading.above.chr if fading.above is not None else 0.0
    below = fading.below.chr if fading.below is not None else 1.0
    if above >= high or (fading.below is not None and below < low):
        return "refuted"
    return "confirmed" if above >= low and below <= high else "cannot tell"


def fading_words(fading: Fading) -> str:
    """Where the cost of being small fades below the limit."""
    limit = percent(fading.limit - 1)
    told = []
    if fading.above is not None:
        told.append(f"certainly above {limit} at {fading.above.chr:.2g} of the host")
    if fading.below is not None:
        told.append(f"certainly below from {fading.below.chr:.2g} on")
    return ", ".join(told) or f"no size is certainly above or below {limit}"
