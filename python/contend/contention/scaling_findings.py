"""Findings from storms of several sizes: the law, what each extra job waits for, the N that breaks a limit."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence

from contend.advice.finding import Evidence, Finding
from contend.contention.scaling import Demand, Growth, Scaling
from contend.stats.estimate import Estimate
from contend.units import NS_PER_S, duration_unit, format_duration

MOST = 5  # parts
LEAST = 0.05  # of the growth: a smaller part is no finding
_WHERE = "table parts, by number of jobs"


def scaling_findings(of: Scaling, *, parts: bool = True) -> tuple[Finding, ...]:
    """List the law first, then the limit where one was given, then the parts of a job that grow, the largest first."""
    if not parts:
        return (_law(of), *_limit(of))
    growing = [growth for growth in of.parts if growth.share >= LEAST and growth.line.slope.low > 0]
    return (_law(of), *_limit(of), *(_grows(of, growth) for growth in growing[:MOST]))


def duration(of: Estimate) -> str:
    """
    >>> duration(Estimate(2e6, 1.5e6, 2.5e6, "ns", 5, 0.95, "", "level"))
    '2 ms [1.5, 2.5]'
    """
    value = format_duration(of.value) if of.value > 0 else f"{of.value:.3g} ns"
    if not (math.isfinite(of.low) and math.isfinite(of.high)):
        return value
    if of.value >= 60 * NS_PER_S:  # minutes and seconds
        return f"{value} [{format_duration(of.low)}, {format_duration(of.high)}]"
    _, size_ns = duration_unit(of.value)
    return f"{value} [{of.low / size_ns:.3g}, {of.high / size_ns:.3g}]"


def _time(what: str, ns: float, where: str) -> Evidence:
    return Evidence(what, ns / NS_PER_S, "s", where)


def _sizes(of: Scaling) -> str:
    listed = of.sizes
    shown = ", ".join(str(n) for n in (listed if len(listed) <= 6 else [*listed[:4], "…", listed[-1]]))
    return f"N = {shown}; {len(of.storms)} storms"


def _name(of: Scaling) -> str:
    return of.storms[0].name


def _traces(of: Scaling) -> str:
    return " ".join(shlex.quote(storm.source) for storm in of.storms)


def _largest(of: Scaling) -> str:
    return shlex.quote(max(of.storms, key=lambda storm: storm.jobs).source)


def _law(of: Scaling) -> Finding:
    law, check = of.law, of.law.makespan.check
    slope = law.median.slope
    if slope.low > 0:
        sentence = (
            f"Each extra {_name(of)} adds {duration(slope)} to the median and {duration(law.demand)} to the makespan "
            f"({_sizes(of)})."
        )
    else:
        sentence = f"The median does not grow for certain with the number of jobs ({_sizes(of)})."
    if law.order.verdict == "level" and slope.low > 0:
        o = law.order
        part = f"{o.value:.2f} [{o.low:.2f}, {o.high:.2f}] of the makespan's growth"
        if o.low <= 0.55 and o.high < 0.75:
            sentence += f" The median has {part}: jobs go through one after another."
        elif o.low > 0.6:
            sentence += f" The median has {part}: jobs take turns, so that all end late."
    sentence += f" {_claim(of)}"
    evidence = [
        _time("start-up: the median's line at N = 0", law.median.start.value, "batch law"),
        *(
            _time(f"{name} per extra job", fitted.slope.value, "batch law")
            for name, fitted in law.lines.items()
        ),
    ]
    if check is not None:
        what = f"error of the makespan at N = {check.jobs}, fitted without it"
        evidence.append(Evidence(what, round(100 * check.error, 1), "%", "batch law without the largest N"))
    bottleneck = of.bottleneck
    return Finding(
        id="growth",
        kind="growth",
        subject=_name(of),
        resource=bottleneck.key.name if bottleneck is not None else "",
        sentence=sentence,
        share=None,
        estimate=slope,
        evidence=tuple(evidence),
        advice=_advice(of),
        verify=_verify(of, bottleneck),
    )


def _claim(of: Scaling) -> str:
    """A sentence on what sets the slope, as far as it is proven."""
    bottleneck = of.bottleneck
    if bottleneck is None:
        return "No lock or pool on record is busy all the time: what sets the slope is not on record."
    what = "workers of" if bottleneck.key.kind == "pool" else "lock"
    part = f"{100 * bottleneck.busy:.0f} % of the makespan at N = {of.sizes[-1]}"
    busy = f"{what} {bottleneck.key.name}: busy {part}, {duration(bottleneck.estimate)} a job"
    if of.serial:
        return f"The hardware was idle; it is a serial section, {busy}."
    if of.alibi == "idle":
        return f"The hardware was idle; nearest to a bottleneck is {busy}, which is not what the makespan grows by."
    if of.alibi:
        return f"The hardware was not idle ({of.alibi} at its limit): no serial section is claimed, though {busy}."
    return (
        f"Probably {busy}; it is not claimed, since what the hardware did is not on record (trace --sample)."
    )


def _advice(of: Scaling) -> str:
    bottleneck = of.bottleneck
    if bottleneck is None:
        return (
            "Trace more of it (--include, --job), or record the host beside it with `contend trace --sample`."
        )
    rest = [demand for demand in of.demands if demand.key != bottleneck.key]
    least = rest[0] if rest else None
    if bottleneck.key.kind == "pool":
        advice = f"Give {bottleneck.key.name} more workers, or fewer and shorter items."
    else:
        advice = f"Do less while {bottleneck.key.name} is held, or hold it more rarely."
    if least is not None and least.estimate.value > 0:
        ratio = bottleneck.estimate.value / least.estimate.value
        advice += (
            f" Next in line is {least.key.name} with {duration(least.estimate)} a job: from there on it sets the slope "
            f"(a factor of {ratio:.1f} is to be had)."
        )
    return advice


def _verify(of: Scaling, bottleneck: Demand | None) -> str:
    if bottleneck is None:
        return f"contend hunt {_traces(of)}"
    edit = "--workers" if bottleneck.key.kind == "pool" else "--hold"
    value = "8" if bottleneck.key.kind == "pool" else "0.5"
    return f"contend whatif {_largest(of)} {edit} {shlex.quote(bottleneck.key.name)}={value}"


def _limit(of: Scaling) -> Sequence[Finding]:
    if of.limit_ns is None:
        return ()
    broken = []
    limit = format_duration(of.limit_ns)
    for what, jobs in of.breaks.items():
        if jobs.verdict == "refused":
            sentence = f"The {what} breaks {limit} at no N that can be told: {jobs.warnings[0]}."
        else:
            high = f"{math.ceil(jobs.high)}" if math.isfinite(jobs.high) else "∞"
            sentence = f"The {what} breaks {limit} from N = {math.ceil(jobs.value)} on [{math.ceil(jobs.low)}, {high}]."
        broken.append(
            Finding(
                id=f"limit-{what}",
                kind="limit",
                subject=_name(of),
                resource=what,
                sentence=sentence,
                share=None,
                estimate=jobs,
                evidence=(_time("the limit", of.limit_ns, "--limit"),),
                advice="Measure at that N before you rely on it: the interval is of one storm.",
                verify=f"contend hunt {_traces(of)} --limit {of.limit_ns / NS_PER_S:g}s",
            )
        )
    return broken


def _grows(of: Scaling, growth: Growth) -> Finding:
    slope = growth.line.slope
    demand = next((d for d in of.demands if d.key == growth.key), None)
    largest, smallest = of.sizes[-1], of.sizes[0]
    then, now = growth.line.value_at(smallest), growth.line.value_at(largest)
    sentence = (
        f"{growth.key.words[0].upper()}{growth.key.words[1:]}: {duration(slope)} more per extra {_name(of)}, "
        f"{100 * growth.share:.0f} % of the growth of a mean job; {format_duration(max(then, 0))} at N = {smallest}, "
        f"{format_duration(max(now, 0))} at N = {largest}."
    )
    evidence = [
        _time(f"{growth.key.words} per job at N = {n}", growth.line.value_at(n), _WHERE)
        for n in (smallest, largest)
    ]
    advice = "See what it does there: contend report, or a span around it."
    if demand is not None:
        evidence.append(
            Evidence("demand: busy per job", demand.estimate.value, "ns", f"table {growth.key.kind}s")
        )
        evidence.append(
            Evidence(f"busy, of the makespan at N = {largest}", demand.busy, "ratio", "hold or work")
        )
        advice = (
            "It is what the batch waits for: shorten it first."
            if of.bottleneck is not None and of.bottleneck.key == growth.key
            else "Others wait here too, but it does not set the slope: shorten the bottleneck first."
        )
    return Finding(
        id=f"growth-{growth.key.kind}-{growth.key.name}",
        kind="serial section"
        if of.serial and of.bottleneck and of.bottleneck.key == growth.key
        else "growth",
        subject=_name(of),
        resource=growth.key.name or growth.key.kind,
        sentence=sentence,
        share=growth.share,
        estimate=slope,
        evidence=tuple(evidence),
        advice=advice,
        verify=_verify(of, demand),
    )
