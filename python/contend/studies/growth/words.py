"""Growth in words and rows, for the terminal and the page alike."""

from __future__ import annotations

import math

from contend.report.words import split_ratio
from contend.stats.estimate import Estimate
from contend.stats.trend import PER, Trend
from contend.studies.growth.result import MODES, Call, Growths, broken, milliseconds
from contend.units import format_duration

QUIET = ("requests",)  # counts that are no trouble


def headers(growths: Growths) -> tuple[str, ...]:
    """Headers of the table of calls."""
    counts = tuple(f"{what} a call" for what in counted(growths))
    return ("call", "at first", "at last", f"ms per {PER:g} more", "grows", *counts, "misses SLO from")


def counted(growths: Growths) -> list[str]:
    """Names of what the cloud's counters count for these calls."""
    return list(dict.fromkeys(what for call in growths.calls for what in call.counted))


def row(call: Call, growths: Growths) -> tuple[str, ...]:
    """One call, as `headers` has it."""
    latency = call.latency
    smallest = min(visit.population for visit in latency.visits)
    ends = [format_duration(1e9 * max(0.0, latency.at(p).value)) for p in (smallest, latency.largest)]
    work = [_work(call.counted.get(what)) for what in counted(growths)]
    mark = " ◂" if call.flagged else ""
    return (call.title + mark, *ends, milliseconds(latency.slope), latency.shape, *work, broken(call.breaks))


def _work(of: Trend | None) -> str:
    """The work of a call (statements, messages) at the first and the last population.

    >>> from contend.stats.trend import Visit, trend
    >>> _work(trend([Visit(n, 5.0 + n) for n in (1, 31, 61, 91, 121)], "SQL"))
    '6 → 126'
    """
    if of is None:
        return ""
    first, last = (of.at(p).value for p in (min(v.population for v in of.visits), of.largest))
    return f"{first:.0f}" if round(first) == round(last) else f"{first:.0f} → {last:.0f}"


def about(growths: Growths) -> str:
    """A sentence on what the columns of the table are."""
    level = growths.calls[0].latency.level if growths.calls else 0.95
    slo = format_duration(1e9 * growths.slo_s)
    return (
        f"A typical call at the first and last population, slopes [{100 * level:g}%], and where it"
        f" misses the SLO of {slo}; ◂ its work grows"
    )


def populations(growths: Growths) -> str:
    """A line on how far each kind grew, and why no further."""
    return "; ".join(
        f"{grown.kind} {grown.reached}"
        + (f" ({grown.stopped})" if grown.stopped and grown.stopped != "as many as asked" else "")
        for grown in growths.kinds
        if not grown.left_out
    )


def control(growths: Growths) -> list[tuple[str, bool]]:
    """Lines on what the control of each kind changed by (it should be nothing), each with whether it is an alarm."""
    slopes = [
        f"{grown.kind} {milliseconds(grown.control.slope)}{' ALARM' if grown.alarm else ''}"
        for grown in growths.kinds
        if grown.control is not None
    ]
    if not slopes:
        return []
    lines = [(f"control (a call that looks at no entities), ms per {PER:g} more: {'; '.join(slopes)}", False)]
    if any(grown.alarm for grown in growths.kinds):
        alarm = (
            "ALARM: calls that look at no entities changed with the population too, so the service or the host as a"
            " whole did; slopes are told beside that, read those of about its size with care."
        )
        lines.append((alarm, True))
    return lines


def interference(growths: Growths) -> list[tuple[str, ...]]:
    """A row for each call: its ratio to quiet under each mode."""
    return [
        (call.title, *(_ratio(call.beside.get(mode)) for mode in growths.modes))
        for call in growths.calls
        if call.beside
    ]


def interference_headers(growths: Growths) -> tuple[str, ...]:
    return ("call", *(MODES[mode] for mode in growths.modes))


def _ratio(of: Estimate | None) -> str:
    if of is None:
        return ""
    if not (math.isfinite(of.low) and math.isfinite(of.high)):
        return f"{of.value:.2f} (too few visits)"
    return " ".join(split_ratio(of))


def floods(growths: Growths) -> str:
    """A line on the rates of the floods."""
    rates = [
        f"{grown.kind} {rate:.1f}/s {MODES[mode]}"
        for grown in growths.kinds
        for mode, rate in grown.flooded_per_s.items()
    ]
    return f"creations beside the calls: {'; '.join(rates)}" if rates else ""


def left_out(growths: Growths) -> list[str]:
    """Lines on kinds and modes that the cloud did not allow to be measured, with the reasons."""
    lines = [f"{grown.kind}: {grown.left_out}" for grown in growths.kinds if grown.left_out]
    for grown in growths.kinds:
        lines += [f"{grown.kind}, {mode}: {why}" for mode, why in grown.modes_left_out.items()]
    return lines


def troubles(growths: Growths) -> list[str]:
    """Lines on problems during the run, with their counts."""
    wrong = {what: count for what, count in growths.requests.items() if what not in QUIET}
    total = growths.requests.get("requests", 0)
    return [f"{count} × {what}" for what, count in growths.problems.items()] + [
        f"{count} of {total} requests: {what}" for what, count in wrong.items()
    ]


def too_few(growths: Growths) -> list[str]:
    """A line on kinds that grew but have no figures; empty where there are none."""
    kinds = [grown.kind for grown in growths.kinds if not grown.left_out and not grown.calls]
    return [f"too few steps for a slope: {', '.join(kinds)}; more time, or smaller steps"] if kinds else []
