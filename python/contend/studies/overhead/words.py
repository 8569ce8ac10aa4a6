"""Platform overhead in words and rows, for the terminal and the page alike."""

from __future__ import annotations

import math
from collections.abc import Collection

from contend.document import Analysis
from contend.platforms.sizes import cpus_label, host_words, of_host
from contend.report.words import percent, ratio
from contend.stats.estimate import Estimate
from contend.stats.platform_curves import Curve
from contend.stats.platform_effects import ACROSS_HOSTS, KINDS, VARIED, Effect, Kind
from contend.stats.platform_size import Decomposition, Setting
from contend.studies.overhead.result import Overheads
from contend.units import format_duration


def about(analysis: Analysis) -> str:
    """A sentence on what the columns of the table are."""
    return (
        "PTO: what the platform costs with all of the host's CPUs; PSO: by what factor being smaller than the host adds"
        " to that. Measured, not fitted; * a description: the decomposition is claimed of vanilla containers only."
    )


def notes(overheads: Overheads) -> list[str]:
    """Lines on how it was measured."""
    started = [f"{kind} {format_duration(1e9 * s)}" for kind, s in overheads.startup_s.items()]
    lines = [f"starting a command, no part of any figure: {', '.join(started)}"] if started else []
    return [*overheads.notes, *lines]


def decomposition_headers() -> tuple[str, ...]:
    return "application", "platform", "PTO (type)", "size", "PSO (size)"


def decomposition_rows(overheads: Overheads) -> list[tuple[str, ...]]:
    """A row a size; what is the same for all sizes stands in the first. Without what was refused (see `refusals`)."""
    return [row for of in _plain(overheads) if not of.refused for row in _decomposition(of, overheads)]


def has_descriptions(overheads: Overheads) -> bool:
    """True if any of these rows is a description, which is marked *."""
    return any(of.standing != "claim" for of in _plain(overheads) if not of.refused)


def refusals(overheads: Overheads) -> list[str]:
    """Lines on why there is no PTO and PSO, one for all that lack it for the same reason."""
    lacking: dict[str, dict[str, list[str]]] = {}
    for of in _plain(overheads):
        if of.refused:
            lacking.setdefault(of.refused, {}).setdefault(of.application, []).append(_platform(of, overheads))
    by_reason = {
        why: "; ".join(f"{app} in {', '.join(where)}" for app, where in cells.items())
        for why, cells in lacking.items()
    }
    return [f"refused for {cells}: {why}" for why, cells in by_reason.items()]


def _plain(overheads: Overheads) -> list[Decomposition]:
    """Decompositions of one kind of quota and of set where a run varies these: effects say what the others change.

    The plain one where that was measured, else the first.
    """
    kept: dict[tuple[str, str, str, float], Decomposition] = {}
    for of in overheads.decompositions:
        how = overheads.variants[of.provisioning].provisioning
        key = of.application, of.platform, how, of.host_cpus
        if key not in kept or of.provisioning == how:
            kept[key] = of
    return list(kept.values())


def _platform(of: Decomposition, overheads: Overheads) -> str:
    where = f"{of.platform} {of.provisioning}"
    by = overheads.hosts.get(int(of.host_cpus))
    return where if by is None else f"{where} (host {of_host(int(of.host_cpus), by)})"


def _decomposition(of: Decomposition, overheads: Overheads) -> list[tuple[str, ...]]:
    platform = f"{_platform(of, overheads)}{'' if of.standing == 'claim' else ' *'}"
    sizes = [(cpus_label(part.setting.size), _estimate(part.ratio)) for part in of.pso]
    heads = [(of.application, platform, _estimate(of.pto))] + [("", "", "")] * (len(sizes) - 1)
    return [(*head, *size) for head, size in zip(heads, sizes or [("", "")], strict=True)]


def _estimate(of: Estimate) -> str:
    if math.isnan(of.value):
        return "? (no figure)"
    return f"{of.value:.2f} (too few blocks)" if of.verdict == "too few" else ratio(of)


def throttling(overheads: Overheads, kinds: Collection[Kind] = KINDS) -> list[str]:
    """Lines on how much both sides of each effect of a period or burst were throttled, which is where they differ."""
    lines = []
    for of in overheads.effects:
        seen = overheads.throttled.get(of.over[0]), overheads.throttled.get(of.under[0])
        if of.kind in ("period", "burst") and of.kind in kinds and None not in seen:
            one, other = (f"{value:.2g} s" for value in seen if value is not None)
            lines.append(
                f"{of.kind}, {_where(of, overheads)}: throttled {one} a second on all its CPUs, against {other}"
            )
    return lines


def effect_headers() -> tuple[str, ...]:
    return "effect", "where", "ratio", "smallest that could be seen"


def effect_rows(overheads: Overheads, kinds: Collection[Kind] = KINDS) -> list[tuple[str, ...]]:
    """A row an effect of these kinds."""
    return [
        (of.kind, _where(of, overheads), _estimate(of.ratio), percent(of.detectable))
        for of in overheads.effects
        if of.kind in kinds
    ]


def meanings(overheads: Overheads, kinds: Collection[Kind] = KINDS) -> list[str]:
    """A line for each kind of effect that explains it."""
    by_kind = {of.kind: of.meaning for of in overheads.effects if of.kind in kinds}
    return [f"{kind}: {meaning}" for kind, meaning in by_kind.items()]


def _where(of: Effect, overheads: Overheads) -> str:
    setting = of.over[0]
    size = cpus_label(setting.size)
    if (by := overheads.hosts.get(int(setting.host_cpus))) is not None:
        size = f"{size} {of_host(int(setting.host_cpus), by)}"
    if of.kind in ACROSS_HOSTS:
        smaller = int(of.under[0].host_cpus)
        size = f"{size} over {host_words(smaller, overheads.hosts.get(smaller, ''))}"
    return f"{setting.application}, {setting.platform}{_provisioning(of)}, {size}"


def _provisioning(of: Effect) -> str:
    settings: tuple[Setting, ...] = (*of.over, *of.under)
    kinds = {setting.provisioning for setting in settings}
    if of.kind in VARIED:
        return f" {of.over[0].provisioning} over {of.under[0].provisioning}"
    return f" {kinds.pop()}" if len(kinds) == 1 and kinds != {"none"} else ""


def prediction_headers() -> tuple[str, ...]:
    return "application", "platform", "size left out", "predicted", "measured", "agree"


def prediction_rows(overheads: Overheads) -> list[tuple[str, ...]]:
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
        for curve in overheads.curves
        if isinstance(curve, Curve)
        for held in curve.held_out
    ]


def practice_headers() -> tuple[str, ...]:
    return "advice", "on this host", "because"


def practice_rows(analysis: Analysis) -> list[tuple[str, ...]]:
    return [(p.claim, p.verdict, "; ".join(p.answers)) for p in analysis.result.practices]
