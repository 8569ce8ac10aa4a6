"""Storms in words and rows, for the terminal and the page alike."""

from __future__ import annotations

import math

from contend.analysis import Analysis
from contend.contention.alibi.words import short
from contend.contention.scaling_findings import duration
from contend.report import words
from contend.stats.estimate import Estimate
from contend.storms import Size, Storms
from contend.units import format_duration

QUIET = ("requests",)  # counts that are no trouble


def seconds(of: Estimate) -> str:
    """`4.09 [3.98, 4.21]`; without an interval where storms were too few.

    >>> seconds(Estimate(4.091, 3.98, 4.212, "s", 8, 0.95, "", "level"))
    '4.09 [3.98, 4.21]'
    """
    digits = 2 if abs(of.value) < 10 else 1
    value = f"{of.value:.{digits}f}"
    if not (math.isfinite(of.low) and math.isfinite(of.high)):
        return value
    return f"{value} [{of.low:.{digits}f}, {of.high:.{digits}f}]"


def headers(storms: Storms, *, whole: bool = False) -> tuple[str, ...]:
    """Of the table of sizes, in seconds; `whole` has a few columns more than a terminal is wide."""
    costs = (f"{maker(storms)} CPU",) if storms.has_cpu else ()
    more = ("min", "accepted", "storms") if whole else ()
    running = ("running",) if _has_running(storms) else ()
    return ("n", *running, "median", "p90", "max", "makespan", "deletion", *costs, "client CPU", *more)


def maker(storms: Storms) -> str:
    """Who makes the machines, before `CPU`."""
    return "engine" if storms.local else "cloud"


def _has_running(storms: Storms) -> bool:
    return all("running" in size.levels for size in storms.sizes)


def about(storms: Storms) -> str:
    """What the columns are."""
    level = next(iter(storms.sizes[0].levels.values())).level
    counts = sorted({size.storms for size in storms.sizes})
    many = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
    cpu = f"; {maker(storms)} CPU of one boot" if storms.has_cpu else ""
    what = f"{storms.platform}: request → {storms.awaited}" if storms.local else f"Request → {storms.awaited}"
    return f"{what}, s: medians over {many} storms a size [{level:.0%}]{cpu}{',' if cpu else ';'} client CPU of one storm"


def row(size: Size, storms: Storms, *, whole: bool = False) -> tuple[str, ...]:
    """One size, as `headers` has it."""
    levels = size.levels
    name = str(size.n) if len(storms.growth) < 2 and not storms.networks else f"{size.n}, {size.network}"

    def plain(*keys: str) -> list[str]:
        return [f"{levels[key].value:.2f}" for key in keys]

    cpu = size.cpu_per_boot
    costs = (f"{cpu:.2f}" if cpu is not None else "",) if storms.has_cpu else ()
    client = f"{levels['client CPU'].value:.3f}"
    more = (*plain("min", "accepted"), str(size.storms)) if whole else ()
    return (
        name,
        *(plain("running") if _has_running(storms) else ()),
        seconds(levels["median"]),
        *plain("p90", "max", "makespan", "deletion"),
        *costs,
        client,
        *more,
    )


def _each(slope: Estimate) -> str:
    """Of ns, in seconds.

    >>> _each(Estimate(1.9e8, -1.84e7, 1.96e9, "ns per job", 8, 0.95, "", "higher"))
    '0.190 [-0.018, 1.960]'
    """
    return f"{slope.value / 1e9:.3f} [{slope.low / 1e9:.3f}, {slope.high / 1e9:.3f}]"


def growth(storms: Storms) -> list[str]:
    """What each extra server adds, a line a network, with what the law says of its own largest n."""
    told = []
    for network, of in storms.growth.items():
        where = f"network {network}: " if len(storms.growth) > 1 else ""
        median, makespan = of.law.median.slope, of.law.makespan.slope
        line = f"{where}each extra {storms.noun} adds {_each(median)} s to the median, {_each(makespan)} s to the makespan"
        check = of.law.makespan.check
        if check is not None:
            line += (
                f"; without n = {check.jobs} the law says {duration(check.predicted)} for its makespan, measured"
                f" {format_duration(check.measured)} ({100 * check.error:+.0f} %)"
            )
        told.append(line + ".")
    return told


def limit(analysis: Analysis) -> str:
    """What the hardware says of the line, where the cloud runs on this host: a full machine draws one as well as a
    section that boots pass one after the other. "" where it is not on record."""
    storms = analysis.storms
    if storms is None or not storms.has_cpu or not storms.growth:
        return ""
    largest = max(storms.sizes, key=lambda size: size.n)
    alibi = next((alibi for alibi in analysis.alibis if alibi.cell == largest.cell), None)
    if alibi is None or alibi.verdict == "unknown":
        return ""
    if alibi.verdict == "idle":
        demand = next(iter(storms.growth.values())).law.makespan.slope
        traces = "" if storms.local else " Traces of the services name the section: contend hunt."
        return (
            f"The hardware was idle (n = {largest.n}), so it is the software that boots wait in: {_each(demand)} s for each"
            f" by the batch law.{traces}"
        )
    what = short(alibi)
    return (
        f"{what[0].upper()}{what[1:]} (n = {largest.n}): a full machine draws such a line too, so it tells of no"
        " section that boots pass one after the other."
    )


def networks(storms: Storms) -> list[str]:
    """What the other network costs, a line a size."""
    return [
        f"n = {n}: network {second} takes {' '.join(words.split_ratio(estimate))} times the median of {first}."
        for n, (first, second, estimate) in storms.networks.items()
    ]


def precision(storms: Storms) -> str:
    """How finely a moment is known, and at what cost to the cloud."""
    largest = max(storms.sizes, key=lambda size: size.n)
    width, share = largest.levels["width"].value, largest.levels["polling"].value
    if storms.local:
        return (
            f"When a {storms.noun} served is known to {format_duration(width * 1e9)} (n = {largest.n}, median width; from"
            " its own word, where it has this host's clock, to when that was heard); all stamps are of this host."
        )
    line = (
        f"A server's ACTIVE is known to {format_duration(width * 1e9)} (n = {largest.n}, median width; times are of the"
        f" middle); the poller kept one worker of the API busy {share:.0%} of the time."
    )
    if storms.disagree:
        line += f" {storms.disagree} servers' own stamps contradict what was seen: are the clocks in step?"
    return line


def troubles(storms: Storms) -> list[str]:
    """What went wrong: servers that failed, and requests."""
    told = [f"{count} {storms.noun}s: {what}" for what, count in storms.problems.items()]
    wrong = {what: count for what, count in storms.requests.items() if what not in QUIET}
    total = storms.requests.get("requests", 0)
    return told + [f"{count} of {total} requests: {what}" for what, count in wrong.items()]


def parts(size: Size) -> list[tuple[str, float]]:
    """Phases of a mean server that took any time, in their order, s."""
    return [(name, s) for name, s in size.phases.items() if s >= 0.005 * sum(size.phases.values())]
