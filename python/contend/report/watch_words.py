"""Words and figures of a watch: the same in the terminal and on the page."""

from __future__ import annotations

import math

from contend.contention.alert import Alert
from contend.contention.blame import MEANINGS, is_neighbour
from contend.contention.watch import Watched
from contend.report.watch_document import WatchReport
from contend.stats.estimate import Estimate
from contend.units import format_duration

SMALL = 0.005  # a part below it is not worth a word


def percent(share: float) -> str:
    """
    >>> percent(0.314), percent(0.0312), percent(0.0004), percent(0.0)
    ('31 %', '3.1 %', '< 0.1 %', '0 %')
    """
    value = 100 * share
    if value == 0:
        return "0 %"
    return f"{value:.0f} %" if value >= 9.95 else f"{value:.1f} %" if value >= 0.095 else "< 0.1 %"


def share(estimate: Estimate) -> str:
    """
    >>> from contend.contention.blame import mean_share
    >>> share(mean_share([0.3, 0.3, 0.3, 0.3, 0.4, 0.3]))
    '32 % [27, 36]'
    >>> share(mean_share([0.3]))
    '30 %'
    """
    if not math.isfinite(estimate.low) or estimate.high < 0.001:
        return percent(estimate.value)
    digits = 0 if estimate.value >= 0.0995 else 1
    return f"{percent(estimate.value)} [{100 * estimate.low:.{digits}f}, {100 * estimate.high:.{digits}f}]"


def culprits(victim: str, row: list[tuple[str, int]], most: int = 3) -> str:
    """Those that the victim waited for, as parts of its waits: the greatest neighbours, then itself and the kernel's own.

    >>> culprits("a", [("b", 700), ("a", 200), ("(idle)", 100)])
    'b 70 %, itself 20 %, (idle) 10 %'
    """
    whole = sum(ns for _, ns in row)
    named = [(c, ns) for c, ns in row if is_neighbour(victim, c)]
    parts = [f"{c} {percent(ns / whole)}" for c, ns in named[:most] if ns >= SMALL * whole]
    rest = sum(ns for _, ns in named[len(parts) :])
    if rest >= SMALL * whole and whole:
        parts.append(f"{len(named) - len(parts)} more {percent(rest / whole)}")
    for c, ns in row:
        if not is_neighbour(victim, c) and ns >= SMALL * whole:
            parts.append(f"{'itself' if c == victim else c} {percent(ns / whole)}")
    return ", ".join(parts)


def answer(report: WatchReport) -> str:
    """The answer of a watch in one sentence."""
    watched = report.watched
    whom = f" in {report.scope}" if report.scope else ""
    length = format_duration(watched.blame.length_ns)
    if not watched.blame.seen(report.keep):
        return f"Nobody{whom} ran or waited in {length}: nothing can be told."
    if not report.findings:
        return f"Nobody{whom} lost 1 % of the time or more to neighbours in {length}."
    return report.findings[0].sentence


def alert(of: Alert) -> str:
    """
    >>> alert(Alert(0.2, "crossed", (("cpu", "web"), ("disk", "web")), "the whole interval lies above it"))
    'Threshold 20 %: crossed by web (cpu), web (disk): the whole interval lies above it.'
    """
    whom = ", ".join(f"{victim} ({resource})" for resource, victim in of.because[:5])
    more = f" and {len(of.because) - 5} more" if len(of.because) > 5 else ""
    by = {"crossed": " by ", "cannot tell": " of ", "not crossed": ""}[of.verdict] if whom else ""
    return f"Threshold {percent(of.threshold)}: {of.verdict}{by}{whom}{more}: {of.reason}."


def cost(watched: Watched) -> str:
    """A line on what the watch itself used, as far as it is known."""
    if not watched.cost.samples:
        return "what the probe itself used is not known: contend was ended before the watch was"
    length = max(watched.blame.length_ns, 1)
    programs = f", its BPF programs {percent(watched.cost.bpf_ns / length)}" if watched.cost.bpf_ns else ""
    lost = f"; {watched.cost.dropped} waits had no room" if watched.cost.dropped else ""
    failed = (
        f"; {watched.cost.errors} reads failed ({watched.cost.last_error})" if watched.cost.errors else ""
    )
    part = percent((watched.cost.cpu_ns - watched.loading_ns) / length)
    return f"the probe itself used {part} of a CPU{programs}{lost}{failed}"


def meanings(names: set[str]) -> list[tuple[str, str]]:
    """Explanations of those of these names that are the kernel's own."""
    return [(name, about) for name, about in MEANINGS.items() if name in names]
