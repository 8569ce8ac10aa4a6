"""Storms in words and rows, for the terminal and the page alike."""

from __future__ import annotations

import math
from collections.abc import Sequence

from contend.clouds.counters import owner_of
from contend.contention.alibi.words import short
from contend.contention.scaling_findings import duration
from contend.document import Analysis
from contend.report import words
from contend.stats.estimate import Estimate
from contend.studies.storm.result import Size, Storms
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
    """Headers of the table of sizes, in seconds; `whole` adds a few columns that a terminal is too narrow for."""
    costs = (f"{maker(storms)} CPU",) if storms.has_cpu else ()
    more = ("min", "accepted", "storms") if whole else ()
    running = ("running",) if _has_running(storms) else ()
    served = ("served",) if has_served(storms) else ()
    # A terminal has room for one of them.
    client = () if (running or served) and not whole else ("client CPU",)
    return ("n", *running, "median", *served, "p90", "max", "makespan", "deletion", *costs, *client, *more)


def maker(storms: Storms) -> str:
    """The word for who makes the machines, to stand before `CPU`."""
    return "engine" if storms.local else "cloud"


def _has_running(storms: Storms) -> bool:
    return all("running" in size.levels for size in storms.sizes)


def has_served(storms: Storms) -> bool:
    """True if there is a figure of guests' first answers."""
    return any(size.serving and size.serving.levels for size in storms.sizes)


def about(storms: Storms, *, whole: bool = False) -> str:
    """A sentence on what the columns of `headers` are."""
    level = next(iter(storms.sizes[0].levels.values())).level
    counts = sorted({size.storms for size in storms.sizes})
    many = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
    cpu = [f"{maker(storms)} CPU of one boot"] if storms.has_cpu else []
    cpu += ["client CPU of one storm"] if "client CPU" in headers(storms, whole=whole) else []
    what = f"{storms.platform}: request → {storms.awaited}" if storms.local else f"Request → {storms.awaited}"
    costs = f"; {', '.join(cpu)}" if cpu else ""
    what += " (served: → the guest's first answer)" if has_served(storms) else ""
    return f"{what}, s: medians over {many} storms a size [{100 * level:g}%]{costs}"


def row(size: Size, storms: Storms, *, whole: bool = False) -> tuple[str, ...]:
    """One size, as `headers` has it."""
    levels = size.levels
    name = f"{size.n}, {size.network}" if storms.networked else str(size.n)

    def plain(*keys: str) -> list[str]:
        return [f"{levels[key].value:.2f}" for key in keys]

    cpu = size.cpu_per_boot
    costs = (f"{cpu:.2f}" if cpu is not None else "",) if storms.has_cpu else ()
    shown = "client CPU" in headers(storms, whole=whole)
    client = (f"{levels['client CPU'].value:.3f}",) if shown else ()
    served = (_served(size),) if has_served(storms) else ()
    more = (*plain("min", "accepted"), str(size.storms)) if whole else ()
    return (
        name,
        *(plain("running") if _has_running(storms) else ()),
        seconds(levels["median"]),
        *served,
        *plain("p90", "max", "makespan", "deletion"),
        *costs,
        *client,
        *more,
    )


def _served(size: Size) -> str:
    levels = size.serving.levels if size.serving else {}
    return seconds(levels["median"]) if levels else ""


def _each(slope: Estimate) -> str:
    """A slope in ns, as seconds with its interval.

    >>> _each(Estimate(1.9e8, -1.84e7, 1.96e9, "ns per job", 8, 0.95, "", "higher"))
    '0.190 [-0.018, 1.960]'
    """
    return f"{slope.value / 1e9:.3f} [{slope.low / 1e9:.3f}, {slope.high / 1e9:.3f}]"


def growth(storms: Storms) -> list[str]:
    """A line for each network on what each extra server adds, and on how the law predicts the largest n."""
    lines = []
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
        lines.append(line + ".")
    return lines


def limit(analysis: Analysis) -> str:
    """A sentence on the hardware as the cause of the line, where the cloud runs on this host: a full machine draws one as
    well as a section that boots pass one after the other. "" where the hardware is not on record."""
    storms: Storms | None = analysis.result
    if storms is None or not storms.has_cpu or not storms.growth:
        return ""
    largest = max(storms.sizes, key=lambda size: size.n)
    alibi = next((alibi for alibi in analysis.alibis if alibi.cell == largest.cell), None)
    if alibi is None or alibi.verdict == "unknown":
        return ""
    if alibi.verdict == "idle":
        grown = storms.growth.get(largest.network) or next(iter(storms.growth.values()))
        demand = grown.law.makespan.slope
        traces = "" if storms.local else " Traces of the services name the section: contend hunt."
        return (
            f"The hardware was idle (n = {largest.n}), so it is the software that boots wait in: {_each(demand)} s for each"
            f" by the batch law.{traces}"
        )
    what = short(alibi)
    return (
        f"{what[0].upper()}{what[1:]} (n = {largest.n}): a full machine draws such a line too, so it tells of no"
        f" section that boots pass one after the other.{_share_of_cpu(storms, largest)}"
    )


def _share_of_cpu(storms: Storms, largest: Size) -> str:
    """How much of what each machine adds is the CPU time that it costs, where all of that is on record: on this host."""
    grown, cost = storms.growth.get(largest.network), largest.cpu_per_boot
    if not storms.local or not storms.cpus or cost is None or grown is None:
        return ""
    slope = grown.law.makespan.slope
    if slope.low <= 0:
        return ""
    each = cost / storms.cpus
    return (
        f" One costs {cost:.3f} CPU-s of its makers, on {storms.cpus} CPUs {each:.3f} s: {each / (slope.value / 1e9):.0%}"
        " of what each adds to the makespan."
    )


def networks(storms: Storms) -> list[str]:
    """A line for each size on what the other network costs."""
    return [
        f"n = {n}: network {second} takes {' '.join(words.split_ratio(estimate))} times the median of {first}."
        for n, (first, second, estimate) in storms.networks.items()
    ]


def precision(storms: Storms) -> str:
    """A line on how precisely a moment is known, and at what cost to the cloud."""
    largest = max(storms.sizes, key=lambda size: size.n)
    width, share = largest.levels["width"].value, largest.levels["polling"].value
    if storms.local and not width:
        return f"A {storms.noun} counts as served when its word is heard; all stamps are of this host."
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


def counts(storms: Storms) -> list[str]:
    """Lines on SQL statements and messages of a boot at the largest n; [] where nothing was counted."""
    largest = max(storms.sizes, key=lambda size: size.n)
    figures = largest.counts
    background, poll = storms.counted
    parts, beside = [], []
    if "statements" in figures:
        of = {
            owner: estimate.value
            for name, estimate in figures.items()
            if (owner := owner_of(name)) is not None and estimate.value >= 0.5
        }
        listed = ", ".join(f"{name} {count:,.0f}" for name, count in sorted(of.items(), key=lambda i: -i[1]))
        parts.append(
            f"{many(figures['statements'])} SQL statements{f' ({listed})' if listed else ''} and"
            f" {many(figures.get('commits', figures['statements']))} commits"
        )
        beside.append(
            f"{background.get('statements', 0.0):.1f} statements a second,"
            f" {max(0.0, poll.get('statements', 0.0)):.0f} a poll"
        )
    if "messages" in figures:
        parts.append(f"{many(figures['messages'])} messages")
        beside.append(
            f"{background.get('messages', 0.0):.1f} messages a second, {max(0.0, poll.get('messages', 0.0)):.0f} a poll"
        )
    return ([*_counted(largest.n, parts, beside)] if parts else []) + _traced(storms, largest)


def _counted(n: int, parts: Sequence[str], beside: Sequence[str]) -> list[str]:
    return [
        f"A boot takes {', and '.join(parts)} (n = {n}; an RPC call is two messages). Left out is what goes on"
        f" anyway, and what our polls ask for: {'; '.join(beside)}."
    ]


def guests(storms: Storms) -> list[str]:
    """Lines on when guests first answered, at the largest n at which any was tried; [] where none was."""
    serving_sizes = [size for size in storms.sizes if size.serving is not None]
    if not serving_sizes:
        return []
    size = max(serving_sizes, key=lambda size: size.n)
    serving = size.serving
    assert serving is not None
    whole = serving.answered + serving.timed_out + serving.at_once
    if serving.at_once:
        return [
            f"{serving.at_once} of {whole} guests' addresses answered the first attempt: somebody else does there, such as a"
            " proxy, or the guests are up sooner than a poll shows their address. No figure is told."
        ]
    if not serving.answered:
        return [
            f"None of {serving.timed_out} guests answered in time: nothing serves in these guests, or their addresses cannot"
            " be reached from here. That is no figure of when they serve."
        ]
    if serving.timed_out:
        return [
            f"{serving.timed_out} of {whole} guests did not answer in time (n = {size.n}): no figure is told."
        ]
    levels = serving.levels
    return [
        f"Request → first answer of the guest: {seconds(levels['median'])} s (median), {levels['p90'].value:.2f} (p90),"
        f" {levels['max'].value:.2f} (max), n = {size.n}; {seconds(levels['after_active'])} s after ACTIVE"
        + (f", each known to {format_duration(levels['width'].value * 1e9)}." if "width" in levels else ".")
    ]


def stamps(storms: Storms) -> list[str]:
    """Lines on how far polling alone was from nova's own stamps; [] where these were not received."""
    of = storms.stamps
    if of is None:
        return []
    return [
        f"nova's notifications tell the moment of {of.heard} servers: what polling and whole seconds said was"
        f" {format_duration(of.error_s * 1e9)} off (median; at most"
        f" {format_duration(of.largest_error_s * 1e9)}), its interval held it for {of.inside}."
    ]


def _traced(storms: Storms, size: Size) -> list[str]:
    """The same by the services' traces, and by service."""
    traced = storms.traced
    if traced is None:
        return []
    if traced.why:
        return [f"The traces of the services do not tell: {traced.why}."]
    services = traced.services.get(size.cell, {})
    parts = []
    for kind in ("statements", "calls", "casts"):
        of = {service: counts[kind] for service, counts in services.items() if counts.get(kind, 0.0) >= 0.5}
        listed = ", ".join(f"{name} {count:,.0f}" for name, count in sorted(of.items(), key=lambda i: -i[1]))
        parts.append(f"{sum(of.values()):,.0f} {_KINDS[kind]}" + (f" ({listed})" if listed else ""))
    return [f"By the services' traces a boot takes {'; '.join(parts)}."]


def findings(storms: Storms) -> list[str]:
    """Lines on what boots waited for, by the services' traces; [] where there are none."""
    traced = storms.traced
    if traced is None or traced.why:
        return []
    lines = [f"{of['kind']} {of['resource']}: {of['sentence']} → {of['advice']}" for of in traced.findings]
    return [
        *(lines or ["Nothing that boots waited for is worth a finding."]),
        f"{traced.jobs}. All: {traced.command}",
    ]


_KINDS = {"statements": "statements", "calls": "RPC calls", "casts": "casts"}


def many(of: Estimate) -> str:
    """A count with its interval.

    >>> many(Estimate(412.3, 405.1, 420.8, "", 8, 0.95, "", "level"))
    '412 [405, 421]'
    """
    digits = 0 if abs(of.value) >= 20 else 1
    value = f"{of.value:,.{digits}f}"
    if not (math.isfinite(of.low) and math.isfinite(of.high)):
        return value
    return f"{value} [{of.low:,.{digits}f}, {of.high:,.{digits}f}]"


def troubles(storms: Storms) -> list[str]:
    """Lines on servers and requests that failed."""
    lines = [f"{count} {storms.noun}s: {what}" for what, count in storms.problems.items()]
    wrong = {what: count for what, count in storms.requests.items() if what not in QUIET}
    total = storms.requests.get("requests", 0)
    return lines + [f"{count} of {total} requests: {what}" for what, count in wrong.items()]


def parts(size: Size) -> list[tuple[str, float]]:
    """Phases of a mean server that took any time, in their order, s."""
    return [(name, s) for name, s in size.phases.items() if s >= 0.005 * sum(size.phases.values())]
