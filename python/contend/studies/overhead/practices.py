"""Practices that others advise, checked against a run: confirmed on this host, refuted, or undecided."""

from __future__ import annotations

import importlib.resources
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import yaml

from contend.document import CellResult
from contend.platforms.sizes import cpus_label, sized
from contend.stats.compare import compare
from contend.stats.estimate import Estimate
from contend.stats.platform_effects import Effect
from contend.stats.platform_size import NEAR_ONE, Fading
from contend.studies.causes.cause import percent
from contend.text.shape import Named, Shape
from contend.units import format_ratio

if TYPE_CHECKING:
    from contend.studies.overhead.result import Overheads

Verdict = Literal["confirmed", "refuted", "cannot tell"]
NEGLIGIBLE = 0.05
"""A difference that is certainly smaller than this matters to nobody's choice of platform."""


@dataclass(frozen=True, slots=True)
class Practice(Shape):
    """A claim of others, checked against this run."""

    id: str
    claim: str
    verdict: Verdict
    answers: Annotated[tuple[str, ...], Named("said"), "of each application, in words"]


def judge(
    overheads: Overheads,
    cells: Sequence[CellResult],
    dominant: Mapping[str, str],
    measured: Collection[str] = (),
) -> tuple[Practice, ...]:
    """Check every practice.

    cells: headline comparisons that can be used, whose figures are above 0; dominant: resource by application; measured:
    platforms that have a figure at all.
    """
    file = importlib.resources.files("contend.studies.overhead") / "practices.yaml"
    rules = yaml.safe_load(file.read_text("utf-8"))
    return tuple(_judge(rule, overheads, cells, dominant, measured) for rule in rules)


def _judge(
    rule: Mapping[str, Any],
    overheads: Overheads,
    cells: Sequence[CellResult],
    dominant: Mapping[str, str],
    measured: Collection[str],
) -> Practice:
    claim = " ".join(rule["claim"].split())
    platform = rule["of"]["platform"]
    if platform in overheads.emulated:
        return Practice(rule["id"], claim, "cannot tell", (f"{platform} is emulated here",))
    if all(cell.factors["platform"] != platform for cell in cells):
        why = "has no figure that can be used" if platform in measured else "was not measured"
        return Practice(rule["id"], claim, "cannot tell", (f"{platform} {why}",))
    verdicts: list[Verdict] = []
    answers = []
    looked = _look(rule, overheads, cells, dominant)
    for application, (verdict, words) in looked.items():
        if _about(rule, application, overheads, dominant):
            verdicts.append(verdict)
            answers.append(f"{application}: {words}")
    if not answers:
        wanted = " or ".join(rule.get("dominant", ()))
        why = f"no application here is bound by {wanted}" if wanted and looked else "nothing here tells"
        return Practice(rule["id"], claim, "cannot tell", (why,))
    return Practice(rule["id"], claim, together(verdicts), tuple(answers))


def _about(
    rule: Mapping[str, Any], application: str, overheads: Overheads, dominant: Mapping[str, str]
) -> bool:
    """True if the rule is about that application: by name, or by the resource that binds it; a rule that says neither is
    about all."""
    workload = overheads.applications[application].workload
    if workload in rule.get("not_applications", ()):
        return False
    named, bound = rule.get("applications", ()), rule.get("dominant", ())
    return not (named or bound) or workload in named or dominant.get(application) in bound


def together(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict of several applications: those that cannot tell are left out; where the others differ, it is "cannot
    tell".

    >>> together(["confirmed", "cannot tell"]), together(["confirmed", "refuted"]), together([])
    ('confirmed', 'cannot tell', 'cannot tell')
    """
    clear = {verdict for verdict in verdicts if verdict != "cannot tell"}
    return clear.pop() if len(clear) == 1 else "cannot tell"


def direction(of: Estimate) -> str:
    """The word higher, lower or negligible where the interval decides, else "".

    >>> from contend.stats.estimate import verdict_of
    >>> def ratio(low, high):
    ...     return Estimate((low * high) ** 0.5, low, high, "ratio", 15, 0.95, "", verdict_of(low, high))
    >>> [direction(ratio(*ends)) for ends in ((1.1, 1.3), (0.97, 1.04), (0.9, 1.2), (1.01, 1.03))]
    ['higher', 'negligible', '', 'negligible']
    """
    if of.low >= 1 - NEGLIGIBLE and of.high <= 1 + NEGLIGIBLE:
        return "negligible"
    return of.verdict if of.differs else ""


def certain(effects: Iterable[Effect]) -> dict[tuple[str, str, str], list[Effect]]:
    """Effects that certainly are above or below 1, by platform, provisioning, and higher or lower."""
    groups: dict[tuple[str, str, str], list[Effect]] = {}
    for effect in effects:
        wanted = direction(effect.ratio)
        if wanted in ("higher", "lower"):
            over = effect.over[0]
            groups.setdefault((over.platform, over.provisioning, wanted), []).append(effect)
    return groups


def _look(
    rule: Mapping[str, Any], overheads: Overheads, cells: Sequence[CellResult], dominant: Mapping[str, str]
) -> dict[str, tuple[Verdict, str]]:
    """Verdict and figures of each application."""
    if rule["figure"] == "fades":
        return dict(_fading(rule, overheads, dominant)) | dict(_shares(rule, overheads, dominant))
    figures: dict[str, list[tuple[str, Estimate]]] = {}
    for application, where, estimate in _figures(rule, overheads, cells):
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
    rule: Mapping[str, Any], overheads: Overheads, cells: Sequence[CellResult]
) -> Iterator[tuple[str, str, Estimate]]:
    """(application, where, ratio) of all that the rule is judged by."""
    of = rule["of"]
    if rule["figure"] == "size":
        for part in overheads.decompositions:
            is_rule_s = (part.platform, part.provisioning) == (of["platform"], of["provisioning"])
            if is_rule_s and part.host_cpus == overheads.host_cpus and part.pso:
                smallest = part.pso[0]
                yield part.application, cpus_label(smallest.setting.size), smallest.ratio
    elif rule["figure"] == "pinning":
        for effect in overheads.effects:
            setting = effect.over[0]
            whole = setting.host_cpus == overheads.host_cpus
            if effect.kind == "pinning" and setting.platform == of["platform"] and whole:
                yield setting.application, cpus_label(setting.size), effect.ratio
    elif rule["figure"] == "against":
        other = {_key_of(c): c for c in cells if c.factors["platform"] == rule["against"]}
        for cell in cells:
            if cell.factors["platform"] == of["platform"] and (beside := other.get(_key_of(cell))):
                yield cell.factors["victim"], sized(cell.factors), _quotient(cell, beside)


def _key_of(cell: CellResult) -> tuple[str, str, str]:
    return cell.factors["victim"], cell.factors["provisioning"], sized(cell.factors)


def _quotient(cell: CellResult, beside: CellResult) -> Estimate:
    """The ratio of two platforms of one size: the baseline cancels."""
    one, other = beside.treatment, cell.treatment
    turn = -1 if cell.metric.better == "higher" else 1
    return compare(
        [v**turn for v in one.values],
        [v**turn for v in other.values],
        blocks=(one.blocks, other.blocks),
        level=cell.estimate.level,
    )


def _fading(
    rule: Mapping[str, Any], overheads: Overheads, dominant: Mapping[str, str]
) -> Iterator[tuple[str, tuple[Verdict, str]]]:
    of = rule["of"]
    for part in overheads.decompositions:
        if (part.platform, part.provisioning) != (of["platform"], of["provisioning"]) or part.refused:
            continue
        between = _between(rule, part.application, overheads, dominant)
        if between is None or part.host_cpus != overheads.host_cpus:  # nothing is claimed of it
            continue
        fading = part.fades(1 + NEGLIGIBLE)
        yield part.application, (_within(fading, *between), fading_words(fading))


def _between(
    rule: Mapping[str, Any], application: str, overheads: Overheads, dominant: Mapping[str, str]
) -> tuple[float, float] | None:
    """The shares between which it is expected that the cost fades; None where nothing is."""
    shares, workload = rule["between"], overheads.applications[application].workload
    expected = shares.get(workload) or shares.get(dominant.get(application, ""))
    return None if expected is None else (expected[0], expected[1])


def _shares(
    rule: Mapping[str, Any], overheads: Overheads, dominant: Mapping[str, str]
) -> Iterator[tuple[str, tuple[Verdict, str]]]:
    """The same by hosts of several sizes, where these were measured: the effect CHR, in which the size is the same.

    That a share costs beyond the limit says that the cost has not faded there. That it costs certainly less says that it
    has, where what it is compared with is at or above the shares claimed, from which on nothing is left to fade. A host
    that is confined is no smaller one to the kernel, and judges nothing.
    """
    if "confined" in overheads.hosts.values():
        return
    of = rule["of"]
    effects: dict[str, list[Effect]] = {}
    for effect in overheads.effects:
        over = effect.over[0]
        if effect.kind == "CHR" and (over.platform, over.provisioning) == (
            of["platform"],
            of["provisioning"],
        ):
            effects.setdefault(over.application, []).append(effect)
    limit = 1 + NEGLIGIBLE
    for application, measured in effects.items():
        between = _between(rule, application, overheads, dominant)
        if between is None:
            continue
        above = [e.over[0] for e in measured if e.ratio.low > limit]
        below = [
            e.over[0]
            for e in measured
            if e.ratio.high <= limit and e.under[0].chr >= min(between[1], NEAR_ONE)
        ]
        fading = Fading(
            limit,
            max(above, key=lambda s: s.chr, default=None),
            min(below, key=lambda s: s.chr, default=None),
        )
        words = ", ".join(
            f"{format_ratio(e.ratio.value, e.ratio.low, e.ratio.high)} at {cpus_label(e.over[0].size)},"
            f" {percent(e.over[0].chr)} of the host over {percent(e.under[0].chr)}"
            for e in measured
        )
        yield application, (_within(fading, *between), f"by hosts of several sizes: {words}")


def _within(fading: Fading, low: float, high: float) -> Verdict:
    """The verdict on whether the share from which on PSO is small certainly lies between low and high."""
    above = fading.above.chr if fading.above is not None else 0.0
    below = fading.below.chr if fading.below is not None else 1.0
    if above >= high or (fading.below is not None and below < low):
        return "refuted"
    return "confirmed" if above >= low and below <= high else "cannot tell"


def fading_words(fading: Fading) -> str:
    """A phrase on the share of the host from which on the cost of being small is below the limit."""
    limit = percent(fading.limit - 1)
    clauses = []
    if fading.above is not None:
        clauses.append(f"certainly above {limit} at {percent(fading.above.chr)} of the host")
    if fading.below is not None:
        clauses.append(f"certainly below from {percent(fading.below.chr)} on")
    return ", ".join(clauses) or f"no size is certainly above or below {limit}"
