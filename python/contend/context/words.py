"""A component's cost in context, in words and rows, for the terminal and the page alike."""

from __future__ import annotations

import math
from dataclasses import replace

from contend.document.context import (
    AT_MOST,
    CARRIED,
    HOWS,
    RPC,
    STATED,
    TRACES,
    Context,
    Share,
    StatedContext,
    Variant,
)
from contend.report.words import mark
from contend.stats.estimate import Estimate

TITLE = "In context: what it changes of a whole cloud"
_NAMES = {RPC: "RPC", "image-download": "downloading images"}
_ONE = {RPC: "an RPC", "image-download": "a download"}


def part(of: Estimate, sign: int = 1) -> str:
    """A fraction as a percentage, with as many decimals as its interval deserves. sign: -1 turns it.

    >>> part(Estimate(-0.00571, -0.0071, -0.0043, "fraction", 8, 0.95, "", "lower"), -1)
    '0.57 % [0.43, 0.71]'
    >>> part(Estimate(0.052, -math.inf, math.inf, "fraction", 2, 0.95, "", "too few"))
    '5.2 % [no interval]'
    """
    value = sign * of.value * 100
    low, high = sorted((sign * of.low * 100, sign * of.high * 100))
    if not (math.isfinite(low) and math.isfinite(high)):
        return f"{value:.2g} % [no interval]".replace("-", "−")
    width = high - low
    decimals = next((d for d, least in enumerate((10, 1, 0.02)) if width >= least), 3)
    return f"{_number(value, decimals)} % [{_number(low, decimals)}, {_number(high, decimals)}]"


def _number(value: float, decimals: int) -> str:
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")


def change(of: Estimate, bound: str = "", what: str = "") -> str:
    """An effect as `… less` or `… more` of `what`, or that it is none, or undecided.

    >>> change(Estimate(0.004, -0.001, 0.012, "fraction", 8, 0.95, "", "unaffected"), "at most")
    'neither more nor less (0.4 % [−0.1, 1.2])'
    >>> change(Estimate(0.004, -0.1, 0.12, "fraction", 8, 0.95, "", "undecided"), "at most")
    'more or less, which is undecided (0 % [−10, 12])'
    >>> change(Estimate(-0.02, -0.03, -0.01, "fraction", 8, 0.95, "", "lower"), "at most", "CPU time")
    'at most 2.0 % [1.0, 3.0] less CPU time'
    """
    if of.verdict == "unaffected":
        return " ".join(filter(None, ("neither more nor less", what, f"({part(of)})")))
    if of.verdict == "undecided":
        return " ".join(filter(None, ("more or less", what))) + f", which is undecided ({part(of)})"
    less = of.verdict == "lower" or (of.verdict == "too few" and of.value < 0)
    text = f"{part(of, -1)} less" if less else f"{part(of)} more"
    return " ".join(filter(None, (bound, text, what)))


def relative(ratio: Estimate) -> Estimate:
    """A ratio as a change: 0.89 as -0.11."""
    value, low, high = (of - 1 for of in (ratio.value, ratio.low, ratio.high))
    return replace(ratio, value=value, low=low, high=high, unit="fraction", warnings=())


def answer(of: Context) -> str:
    """The answer in one sentence: x of an RPC, y of all, so z of the cloud. For RPCs the first variant, for downloads the
    one that changes most."""
    variant = of.variants[0]
    if of.kind != RPC:
        variant = max(of.variants, key=lambda each: abs(each.effect.value))
    bound = f"{of.bound} " if of.bound else ""
    one = f"{_ONE[of.kind]} takes {change(relative(variant.cost), what='CPU time')}"
    return (
        f"{variant.name} in the place of {of.baseline}: {one};"
        f" {_NAMES[of.kind]} {_took(of)} {bound}{part(of.share)} of all CPU time in this boot storm; so the cloud would take"
        f" {change(variant.effect, of.bound)}.{_way(of, variant)}"
    )


def stated_lines(of: StatedContext) -> list[str]:
    """A sentence for each variant, where the component's share of the whole is stated."""
    whole = f"where {_NAMES[of.kind]} takes {100 * of.share:.3g} % of all CPU time, all would take"
    return [
        f"{variant.name} in the place of {of.baseline}: {_ONE[of.kind]} takes"
        f" {change(relative(variant.cost), what='CPU time')}; {whole} {change(variant.effect)}."
        for variant in of.variants
    ]


def _took(of: Context) -> str:
    return "would be" if of.kind != RPC and any(each.how == STATED for each in of.shares) else "took"


def _way(of: Context, variant: Variant) -> str:
    if of.path is None or variant.path is None:
        return " What that is of the time to ACTIVE is not known."
    return f" Apart from that, the way to ACTIVE: {change(variant.path, of.path.bound)}{_serial(of)}."


def _serial(of: Context) -> str:
    if of.path is None or of.path.bound != AT_MOST:
        return ""
    return " (a bound: all RPCs of a boot one after the other, nothing beside them)"


def about(of: Context) -> str:
    """A line on the two runs that were put together."""
    return (
        f"{of.run} ({of.blocks} blocks) in {of.of} (n = {of.n}, {of.storms} storms); {100 * of.share.level:g}% intervals, of"
        " both together"
    )


def shares(of: Context) -> list[str]:
    """Lines on the share of each part, and how it is known."""
    lines = [share(each) for each in of.shares]
    lines += [f"beside: {share(each)}" for each in of.beside]
    if of.path is not None:
        bound = f"{of.path.bound} " if of.path.bound else ""
        lines.append(
            f"on the way to ACTIVE: {bound}{part(of.path.estimate)} of the time ({_how(of.path, of)})"
        )
    return lines


def share(of: Share) -> str:
    """Words for one share."""
    bound = f"{of.bound} " if of.bound else ""
    return f"{of.what}: {bound}{part(of.estimate)} of all CPU time ({HOWS[of.how]})"


def _how(of: Share, context: Context) -> str:
    if of.how == TRACES:
        return HOWS[of.how]
    if context.kind != RPC:
        return "the image's size times what a byte took in the run"
    counted = "counted beside the storms" if of.how == CARRIED else "as stated"
    return f"RPCs of a boot, {counted}, times the run's median latency"


def headers(of: Context) -> tuple[str, ...]:
    """Headers of the table of variants."""
    way = f"time to ACTIVE, %{f' ({of.path.bound})' if of.path and of.path.bound else ''}"
    bound = f" ({of.bound})" if of.bound else ""
    return ("variant", f"CPU of {_ONE[of.kind]}, %", f"CPU of all, %{bound}", way)


def rows(of: Context) -> list[tuple[str, ...]]:
    """A row for each variant."""
    return [
        (
            variant.name,
            _cell(relative(variant.cost)),
            _cell(variant.effect),
            "-" if variant.path is None else _cell(variant.path),
        )
        for variant in of.variants
    ]


def _cell(of: Estimate) -> str:
    sign = "+" if of.value > 0 else ""
    return f"{sign}{part(of).replace(' %', '')}{mark(of)}"
