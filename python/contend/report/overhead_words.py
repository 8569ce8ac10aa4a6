"""Platform overhead in words and rows, for the terminal and the page alike."""

from __future__ import annotations

import math
from collections.abc import Collection

from contend.analysis import Analysis
from contend.overheads import Overheads
from contend.platforms.sizes import cpus_label
from contend.report.words import percent, ratio
from contend.stats.estimate import Estimate
from contend.stats.platform_curves import Curve
from contend.stats.platform_effects import KINDS, VARIED, Effect, Kind
from contend.stats.platform_size import Decomposition, Setting
from contend.units import format_duration


def about(analysis: Analysis) -> str:
    """What the columns are."""
    return (
        "PTO: what the platform costs with all of the host's CPUs; PSO: by what factor being smaller than the host adds"
        " to that. Measured, not fitted; * a description: the decomposition is claimed of vanilla containers only."
    )


def notes(found: Overheads) -> list[str]:
    """How it was measured, a line each."""
    started = [f"{kind} {format_duration(1e9 * s)}" for kind, s in found.startup_s.items()]
    told = [f"starting a command, no part of any figure: {', '.join(started)}"] if started else []
    return [*found.notes, *told]


def decomposition_headers() -> tuple[str, ...]:
    return "application", "platform", "PTO (type)", "size", "PSO (size)"


def decomposition_rows(found: Overheads) -> list[tuple[str, ...]]:
    """A row a size; what is the same for all sizes stands in the first."""
    return [row for of in found.decompositions for row in _decomposition(of)]


def _decomposition(of: Decomposition) -> list[tuple[str, ...]]:
    platform = f"{of.platform} {of.provisioning}{'' if of.standing == 'claim' else ' *'}"
    if of.refused:
        return [(of.application, platform, f"refused: {of.refused}", "", "")]
    sizes = [(cpus_label(part.setting.size), _estimate(part.ratio)) for part in of.pso]
    heads = [(of.application, platform, _estimate(of.pto))] + [("", "", "")] * (len(sizes) - 1)
    return [(*head, *size) for head, size in zip(heads, sizes or [("", "")], strict=True)]


def _estimate(of: Estimate) -> str:
    if math.isnan(of.value):
        return "? (no figure)"
    return f"{of.value:.2f} (too few blocks)" if of.verdict == "too few" else ratio(of)


def throttling(found: Overheads, kinds: Collection[Kind] = KINDS) -> list[str]:
    """Of each effect of a period or burst: how much both sides were throttled, which is what tells them apart."""
    lines = []
    for of in found.effects:
        seen = found.throttled.get(of.over[0]), found.throttled.get(of.under[0])
        if of.kind in ("period", "burst") and of.kind in kinds and None not in seen:
            one, other = (f"{value:.2g} s" for value in seen if value is not None)
            lines.append(
                f"{of.kind}, {_where(of)}: throttled {one} a second on all its CPUs, against {other}"
            )
    return lines


def effect_headers() -> tuple[str, ...]:
    return "effect", "where", "ratio", "smallest that could be seen"


def effect_rows(found: Overheads, kinds: Collection[Kind] = KINDS) -> list[tuple[str, ...]]:
    """A row an effect of these kinds."""
    return [
        (of.kind, _where(of), _estimate(of.ratio), percent(of.detectable))
        for of in found.effects
        if of.kind in kinds
    ]


def meanings(found: Overheads, kinds: Collection[Kind] = KINDS) -> list[str]:
    """What each kind of effect says, in a line."""
    said = {of.kind: of.meaning for of in found.effects if of.kind in kinds}
    return [f"{kind}: {meaning}" for kind, meaning in said.items()]


def _where(of: Effect) -> str:
    setting = of.over[0]
    return f"{setting.application}, {setting.platform}{_provisioning(of)}, {cpus_label(setting.size)}"


def _provisioning(of: Effect) -> str:
    settings: tuple[Setting, ...] = (*of.over, *of.under)
    kinds = {setting.provisioning for setting in settings}
    if of.kind in VARIED:
        return f" {of.over[0].provisioning} over {of.under[0].provisioning}"
    return f" {kinds.pop()}" if len(kinds) == 1 else ""


def prediction_headers() -> tuple[str, ...]:
    return "application", "platform", "size left out", "predicted", "measured", "agree"


def prediction_rows(found: Overheads) -> list[tuple[str, ...]]:
    """A row for each size that was left out and predicted from the others; with fewer than four sizes none is."""
    agree = {True: "yes", False: "no", None: "too far outside to say"}
    return [
        (
            curve.application,
            f"{curve.platform} {curve.provisioning}",
            cpus_label(held.size),
            "refused" if held.predicted.verdict == "refused" else _estimate(held.predicted),
            _estimate(held.measured),
            agree[held.inside],
        )
        for curve in found.curves
        if isinstance(curve, Curve)
        for held in curve.held_out
    ]


def practice_headers() -> tuple[str, ...]:
    return "advice", "on this host", "because"


def practice_rows(analysis: Analysis) -> list[tuple[str, ...]]:
    return [(p.claim, p.verdict, "; ".join(p.said)) for p in analysis.practices]
