"""Where ends stand and what that costs, in words and rows, for the terminal and the page alike."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection

from contend.report.words import mark, percent
from contend.stats.estimate import Estimate
from contend.studies.placement.result import (
    GUESTS_CPU,
    MEANINGS,
    Aggregate,
    Conditions,
    Effect,
    Measured,
    Placements,
    Route,
    change_figures,
    seconds,
)
from contend.units import format_value

NAMESPACES = "namespaces of one machine"
_SHORT = {
    "throughput": "throughput",
    "cpu_per_gb": "CPU s/GB",
    GUESTS_CPU: "CPU s/GB",
    "latency_p50": "p50",
    "latency_p99": "p99",
}
_GUESTS_ABOUT = (
    "CPU s/GB: CPU time of both guests for 10^9 bytes that arrived, by their own count, less what they were busy before"
    " anything was sent; what their hosts spend on switches, routers and encapsulation is not seen"
)
_CPU_ABOUT = (
    "CPU s/GB: CPU time of the whole machine for 10^9 bytes that arrived, less what it was busy before anything was sent:"
    " both ends, softirqs, bridges, router and encapsulation, wherever the kernel charged them"
)


def cpu_about(placements: Placements) -> str:
    """A sentence that defines CPU s/GB."""
    return _GUESTS_ABOUT if GUESTS_CPU in placements.metrics else _CPU_ABOUT


def label(placements: Placements) -> str:
    """A sentence on what the hosts are, and so what the figures cannot show."""
    if placements.ends != NAMESPACES:
        return f"ends are {placements.ends}; which share a host was read back, and what is between hosts is the cloud's own"
    return (
        f"hosts here are {NAMESPACES}: they share its CPUs and no network card is between them, so a throughput between"
        " hosts is one of CPUs; what holds elsewhere too is the CPU time that routing and encapsulation take"
    )


BUSY = 0.2
"""CPUs that a machine may be busy without load before what is measured beyond that is a lower bound."""


def notes(placements: Placements) -> list[str]:
    """Notes on how it was measured, which a reader must know."""
    return [*_emulated(placements), *_busy(placements)]


def _emulated(placements: Placements) -> list[str]:
    seen = [m.level.estimate.value for m in placements.measured if m.metric == "emulated"]
    if not any(seen):
        return []
    return [
        "emulated: these instances run without KVM, and each instruction of theirs is a program's; compare nothing with them"
    ]


def _busy(placements: Placements) -> list[str]:
    machine = "the machine was" if placements.ends == NAMESPACES else "guests were, together,"
    before = [m.level.estimate.value for m in placements.measured if m.metric == "busy_before"]
    if not before or (busy := statistics.median(before)) <= BUSY:
        return []
    return [
        f"{machine} busy by {busy:.2g} CPUs before anything was sent: CPU s/GB is what was seen at least, and all"
        " figures are those of a shared machine"
    ]


def headers(placements: Placements, conditions: Conditions, *, wide: bool = True) -> tuple[str, ...]:
    """Headers of the table of routes under some conditions; wide: with all columns."""
    rest = ("p99", "dropped") if conditions.protocol == "udp" else ("p99",)
    return ("ends on, in", "MB/s", "change", "CPU s/GB", "p50", *(rest if wide else ()))


def rows(placements: Placements, conditions: Conditions, *, wide: bool = True) -> list[tuple[str, ...]]:
    """A row for each route."""
    rows = []
    for route in placements.routes:
        of = {m.metric: m for m in placements.measured if (m.conditions, m.route) == (conditions, route)}
        if "throughput" not in of:
            continue
        row = [
            route.short,
            _level(of.get("throughput")),
            _change(of["throughput"]),
            _cpu(of.get("cpu_per_gb") or of.get(GUESTS_CPU)),
        ]
        row += [_level(of.get("latency_p50"))]
        if wide:
            row += [_level(of.get("latency_p99"))]
            row += [_dropped(of.get("delivered"))] if conditions.protocol == "udp" else []
        rows.append(tuple(row))
    return rows


def _level(of: Measured | None) -> str:
    if of is None:
        return ""
    unit = of.level.estimate.unit
    return format_value(of.level.estimate.value, "" if unit == "MB/s" else unit)  # which the header says


def _cpu(of: Measured | None) -> str:
    return "" if of is None else f"{of.level.estimate.value:.3g}"


def _dropped(of: Measured | None) -> str:
    return "" if of is None else percent(max(0.0, 1 - of.level.estimate.value))


def _change(of: Measured) -> str:
    return "baseline" if of.ratio is None else _marked(of.ratio)


def _marked(ratio: Estimate) -> str:
    """In a column of changes, where the mark says what a sentence says in words."""
    return change_figures(ratio) + mark(ratio)


def effect_headers(placements: Placements, *, wide: bool = True) -> tuple[str, ...]:
    return "effect of", *(_SHORT[metric] for metric in _metrics(placements, wide))


def _metrics(placements: Placements, wide: bool) -> list[str]:
    return placements.metrics if wide else placements.metrics[:3]


def effect_rows(
    placements: Placements, conditions: Collection[Conditions] | None = None, *, wide: bool = True
) -> list[tuple[str, ...]]:
    """A row a kind of effect, its encapsulation and conditions; a column a metric."""
    wanted = placements.conditions if conditions is None else conditions
    by: dict[tuple[str, str], dict[str, Effect]] = {}
    for effect in placements.effects:
        if effect.conditions in wanted:
            way = f" ({effect.encapsulation})" if effect.encapsulation != "none" else ""
            name = effect.kind if effect.kind != "encapsulation" else effect.encapsulation
            way = way if effect.kind != "encapsulation" else ""
            by.setdefault((f"{name}{way}", effect.conditions.label), {})[effect.metric] = effect
    many = len({c for _, c in by}) > 1
    return [
        (
            f"{name}: {conditions_}" if many else name,
            *(_effect(of.get(metric)) for metric in _metrics(placements, wide)),
        )
        for (name, conditions_), of in by.items()
    ]


def _effect(of: Effect | None) -> str:
    return "" if of is None else _marked(of.ratio)


def meanings(placements: Placements) -> list[str]:
    """A line for each kind of effect that explains it."""
    return [f"{kind}: {MEANINGS[kind]}" for kind in dict.fromkeys(e.kind for e in placements.effects)]


def added_headers() -> tuple[str, ...]:
    return "what", "over", "CPU s/GB more"


def added_rows(placements: Placements, conditions: Conditions) -> list[tuple[str, ...]]:
    """A row for each thing that adds CPU time."""
    return [
        (
            a.what,
            a.under.short,
            seconds(a.seconds) + mark(a.seconds),
        )
        for a in placements.added
        if a.conditions == conditions
    ]


def aggregate_headers(placements: Placements) -> tuple[str, ...]:
    numbers = sorted({n for a in placements.aggregates for n in a.levels})
    return (
        "MB/s of all pairs",
        *(f"{n} pair{'s' if n != 1 else ''}" for n in numbers),
        "most over least",
        "knee",
    )


def aggregate_rows(placements: Placements) -> list[tuple[str, ...]]:
    """A row for each route."""
    numbers = sorted({n for a in placements.aggregates for n in a.levels})
    return [
        (
            of.route.short,
            *(_value(of, n) for n in numbers),
            _times(of),
            "none reached" if of.knee is None else f"{of.knee}",
        )
        for of in placements.aggregates
    ]


def _value(of: Aggregate, number: int) -> str:
    level = of.levels.get(number)
    return "" if level is None else format_value(level.estimate.value)


def _times(of: Aggregate) -> str:
    most = max(of.levels)
    ratio = of.over_one[most]
    if not math.isfinite(ratio.high):
        return f"{ratio.value:.2f} (too few blocks)"
    return f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"


def scaling(placements: Placements) -> list[str]:
    """A line that defines the knee, and one for each route whose scalability law is determined."""
    lines = ["knee: pairs from which on more certainly add less than 5 %"]
    for of in placements.aggregates:
        if (law := of.law) is not None:
            part = law.contention
            text = f"{of.route.short}: contention {part.value:.2g} [{part.low:.2g}, {part.high:.2g}] per pair"
            peak = law.peak
            lines.append(text + ("" if peak.verdict == "refused" else f", most at {peak.value:.0f} pairs"))
    return lines


def path(route: Route, ends: str = NAMESPACES) -> tuple[str, ...]:
    """The bridges and links that a packet passes from client to server; on a cloud, those it has to pass at least.

    >>> " ".join(path(Route("same", "same", "none")))
    'client bridge a server'
    >>> len(path(Route("different", "different", "vxlan")))
    7
    >>> " ".join(path(Route("different", "same", "none"), "instances of a cloud"))
    'client network between hosts server'
    """
    if ends != NAMESPACES:
        between = ("network between hosts",) if route.host == "different" else ("switch of the host",)
        return ("client", *(("router",) if route.subnet == "different" else ()), *between, "server")
    way = {"none": "veth", "vxlan": "vxlan over veth", "ovs": "veth"}[route.encapsulation]
    bridge = "switch" if route.encapsulation == "ovs" else "bridge"
    steps = ["client", f"{bridge} a"]
    if route.subnet == "different":
        steps += ["router", f"{bridge} a"]
    if route.host == "different":
        steps += [way, f"{bridge} b"]
    return (*steps, "server")


def claim_headers() -> tuple[str, ...]:
    return "claim", "here", "figures"


def claim_rows(placements: Placements) -> list[tuple[str, ...]]:
    return [(claim.claim, claim.verdict, "; ".join(claim.answers)) for claim in placements.claims]
