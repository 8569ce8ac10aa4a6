"""A storage sweep in words and rows, for the terminal and the page alike."""

from __future__ import annotations

import math

from contend.report.words import mark
from contend.stats.surface import METHOD
from contend.studies.storage import cloud_pools
from contend.studies.storage.plan import TABLE
from contend.studies.storage.points import size_text
from contend.studies.storage.result import IOPS, LATENCY, Measured, PoolSweep, Spot, Sweep
from contend.studies.storage.verdicts import change, verdicts
from contend.units import format_value

HEADERS = ("pool", "load", "without → with IOPS", "Δ IOPS", "without → with p99", "why")
UNITS = {IOPS: "IOPS", LATENCY: "s"}
NAMES = {IOPS: "IOPS", LATENCY: "p99 latency"}


def about(sweep: Sweep) -> str:
    """A line on what the table is."""
    return f"Alone and beside {sweep.neighbour}; Δ % with intervals that hold together"


def rows(sweep: Sweep) -> list[tuple[str, ...]]:
    """The two-VM table and the cells that the screening chose, as HEADERS has it."""
    order = sorted(
        sweep.measured, key=lambda m: (m.why != TABLE, [p.name for p in sweep.pools].index(m.pool))
    )
    return [_row(m) for m in order]


def _row(m: Measured) -> tuple[str, ...]:
    alone, beside = (format_value(of.estimate.value, "IOPS") for of in (m.iops.baseline, m.iops.treatment))
    p99 = ""
    if m.latency is not None:
        p99 = " → ".join(
            format_value(of.estimate.value, "s") for of in (m.latency.baseline, m.latency.treatment)
        )
    return m.pool, m.point.label, f"{alone} → {beside}", f"{change(m)}{mark(m.iops.estimate)}", p99, m.why


def neighbour_words(sweep: Sweep) -> list[str]:
    """Verdicts by pool, and the limits of what they say."""
    lines = verdicts(sweep)
    if len(sweep.pools) == 1:
        lines.append(
            "One pool: which is better for what takes another to compare it with (--set pools="
            + ("[ONE,OTHER])." if sweep.cloud else "[/fast,/slow]).")
        )
    lines += [
        f"{' and '.join(names)} are on one {'backend' if sweep.cloud else 'device'} ({device}): what differs between them is"
        f" not the {'backend' if sweep.cloud else 'device'}'s."
        for device, names in sweep.shared
    ]
    return lines


def screening(sweep: Sweep) -> list[str]:
    """Lines on the screening, in sentences, then pool by pool."""
    done, planned = sweep.rounds
    lines = [
        f"Screening: {done} of {planned} rounds, each one point on every pool, alone and beside. What follows from it is a"
        f" description from a fit ({METHOD}), no verdict."
    ]
    for pool in sweep.pools:
        design = pool.design
        line = f"{pool.name}: {pool.screened} of {len(pool.every)} points"
        if design:
            line += (
                f", a D-optimal subset (efficiency {design['d_efficiency']:.0%} of the full factorial's, largest"
                f" aliasing {design['largest_aliasing']:.2f})"
            )
        fits = ", ".join(f"{name} off by {fit.missed:.0%}" for name, fit in pool.kinds.items())
        line += (
            f"; at points left out in turn, the fit of {fits} (median)"
            if fits
            else "; too few points for a fit"
        )
        lines.append(line)
        if (worst := pool.worst()) is not None:
            lines.append(
                f"{pool.name}: by the fit a neighbour takes most at {worst.point.label}: {_ratio(worst)} times slower"
            )
    return lines


def _ratio(spot: Spot) -> str:
    return f"{spot.value:.2f} [{spot.low:.2f}, {spot.high:.2f}]"


def grid(pool: PoolSweep, metric: str, mix: str) -> tuple[list[str], list[tuple[str, ...]]]:
    """A surface as a table: a row an engine and block size, a column a depth; * marks what was measured too."""
    spots = pool.surface(metric, mix)
    depths = sorted({s.point.depth for s in spots})
    header = ["engine, block", *(f"x{depth}" for depth in depths)]
    keys = sorted({(s.point.engine, s.point.block) for s in spots})
    at = {(s.point.engine, s.point.block, s.point.depth): s for s in spots}
    body = [
        (f"{engine} {size_text(block)}", *(short(at[engine, block, depth], metric) for depth in depths))
        for engine, block in keys
    ]
    return header, body


def short(spot: Spot, metric: str) -> str:
    """Two digits and a prefix: what stands in a grid.

    >>> from contend.studies.storage.points import Point
    >>> short(Spot(Point(4096, 8, "async", 70, "random"), 41234.0, 39e3, 43e3, 40100.0), IOPS)
    '41k*'
    """
    value = spot.value
    if metric == LATENCY:
        value, units = value * 1e6, ("µs", "ms", "s")
    else:
        units = ("", "k", "M")
    number = 0
    while value >= 999.5 and number < 2:
        value, number = value / 1000, number + 1
    text = f"{value:.0f}" if value >= 9.95 else f"{value:.1f}"
    return text + units[number] + ("*" if math.isfinite(spot.measured) else "")


def pools(sweep: Sweep) -> list[str]:
    """Lines on each pool and how it was treated."""
    lines = []
    for pool in sweep.pools:
        of = pool.facts
        how = (
            "past the page cache (O_DIRECT)"
            if of.get("direct")
            else "through the page cache"
            if not of.get("memory")
            else "in memory"
        )
        only = "" if of.get("written", True) else ", only read"
        lines.append(
            f"{pool.name}: {of.get('path', '?')}, {of.get('kind', '?')} on {of.get('device', '?')}, {how}{only}"
        )
    if sweep.cloud:
        lines += cloud_pools.record_lines(sweep.instances)
    written = sum(int(t["written_bytes"]) for t in sweep.preconditioned)
    if written:
        seconds = sum(float(t["seconds"]) for t in sweep.preconditioned)
        lines.append(
            f"preconditioned: {written / 2**20:,.0f} MiB written in sequence in {seconds:.1f} s; washout after a neighbour"
            f" {format_value(sweep.washout_s, 's')} (median)"
        )
    return lines
