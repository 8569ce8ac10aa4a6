"""Storms by contend and by Rally on one bed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from contend.stats.quantiles import t_quantile
from results.files import Data

WANTED = 0.05  # half-width of a median's interval that a campaign is to come to

Row = dict[str, Any]


def body(document: Data) -> str:
    """Costs of both tools, and how far their stamps are from nova's."""
    blocks: list[list[Row]] = document["blocks"]
    n = document["n"]
    tools = sorted({c["tool"] for block in blocks for c in block}, key=lambda t: (t != "contend", t))
    large = {t: [c for block in blocks for c in block if c["tool"] == t and c["n"] == n] for t in tools}
    small = {t: [c for block in blocks for c in block if c["tool"] == t and c["n"] == 1] for t in tools}
    lines = [
        f"{document['rally'].replace(' version:', '')}; blocks: {len(blocks)}.",
        "",
        f"A campaign is {large['contend'][0]['boots'] // n} storms of {n} servers without a network, by `contend run"
        " boot-storm` (and those of its pilot,",
        "which count where their cost does), or by `rally task start` (boot_and_delete_server) and `rally task report`. CPU"
        " seconds per",
        "100 boots, medians over the blocks:",
        "",
        "| | client, whole processes | net of start-up | with reports and statistics | while servers boot | failed |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for tool in tools:
        net = [per_100(b, a) for a, b in zip(small[tool], large[tool], strict=True)]
        storm = [c["storm_cpu_s"] * 100 / c["boots"] for c in large[tool]]
        lines.append(
            f"| {tool} | {middle(per_boot(large[tool], 'client_cpu_s', 'boots')):.2f} | {middle(net):.2f} |"
            f" {middle(per_boot(large[tool], 'whole_cpu_s', 'made')):.2f} |"
            f" {f'{middle(storm):.2f}' if any(storm) else 'not told'} | {sum(c['failed'] for c in large[tool])} |"
        )
    lines += [
        "",
        "How many times contend's, with 95 % intervals over the blocks (Student's t of logarithms):",
        "",
    ]
    for tool in tools[1:]:
        lines.append(
            f"- {tool}: whole processes {ratio(large, tool, lambda c: c['client_cpu_s'] / c['boots'])},"
            f" with reports {ratio(large, tool, lambda c: c['whole_cpu_s'] / c['made'])}"
            + f", net of start-up {net_ratio(small, large, tool)}"
        )
    lines += [
        "",
        "What the cloud's services spent meanwhile, CPU seconds per 100 boots and deletions. Every storm costs the API"
        " its requests;",
        "what is beyond those are the tool's polls, and keystone's are its log-ins and what tokens it has checked:",
        "",
        "| | keystone | nova's API | all services |",
        "|---|---:|---:|---:|",
    ]
    for tool in tools:
        of = [c["cloud_cpu_s"] for c in large[tool]]
        boots = [c["made"] for c in large[tool]]
        cells = [
            middle([pick(cpu) * 100 / b for cpu, b in zip(of, boots, strict=True)])
            for pick in (
                lambda c: c.get("keystone", 0.0),
                lambda c: c.get("API", 0.0),
                lambda c: sum(c.values()),
            )
        ]
        lines.append(f"| {tool} | {cells[0]:.1f} | {cells[1]:.1f} | {cells[2]:.1f} |")
    lines += [
        "",
        "The moment of ACTIVE as each tells it, against the stamp in nova's database (microseconds, by a trigger). contend's"
        " servers are",
        "matched by name; Rally does not tell which server an iteration had, so its are matched by rank, which makes the"
        " least of its errors:",
        "",
        "| | servers | error, median ms | largest | boot, median s | interval, median width ms |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for tool in tools:
        errors = [told - true for c in large[tool] for told, true in c["moments"]]
        widths = [w for c in large[tool] for w in c["widths_s"]]
        boots_s = [m for c in large[tool] for m in c["medians_s"]]
        far = max(errors, key=abs, default=math.nan)
        lines.append(
            f"| {tool} | {len(errors)} | {middle(errors) * 1e3:+.0f} | {far * 1e3:+.0f} | {middle(boots_s):.2f} |"
            f" {f'{middle(widths) * 1e3:.0f}' if widths else 'none'} |"
        )
    outside = sum(c["outside"] for c in large["contend"])
    told_of = sum(len(c["moments"]) for c in large["contend"])
    lines += [
        "",
        f"Stamps outside the interval that contend told: {outside} of {told_of}.",
        "",
        f"Wall time of a campaign until the interval of a storm's median boot is ±{WANTED:.0%} (from the spread between"
        " the storms here,",
        "and the time that one takes; the spread of few storms is itself uncertain):",
        "",
        "| | a storm, s | start-up and end, s | spread of medians | storms needed | wall time, s |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for tool in tools:
        storms = large[tool][0]["made"] // n
        fixed = middle([c["wall_s"] for c in small[tool]])
        each = max(0.0, middle([c["wall_s"] for c in large[tool]]) - fixed) / storms
        spread = within(large[tool])
        needed = storms_for(spread)
        lines.append(
            f"| {tool} | {each:.1f} | {fixed:.1f} | {spread:.1%} | {needed} | {fixed + needed * each:.0f} |"
        )
    return "\n".join([*lines, ""])


def middle(values: Sequence[float]) -> float:
    return statistics.median(values) if values else math.nan


def per_boot(campaigns: Sequence[Row], what: str, boots: str) -> list[float]:
    return [c[what] * 100 / c[boots] for c in campaigns]


def per_100(large: Row, small: Row) -> float:
    return float((large["client_cpu_s"] - small["client_cpu_s"]) * 100 / (large["boots"] - small["boots"]))


def ratio(large: dict[str, list[Row]], tool: str, of: Callable[[Row], float]) -> str:
    pairs = zip(large["contend"], large[tool], strict=True)
    return interval([math.log(of(t) / of(c)) for c, t in pairs])


def net_ratio(small: dict[str, list[Row]], large: dict[str, list[Row]], tool: str) -> str:
    nets = [
        (per_100(b, a), per_100(d, c))
        for a, b, c, d in zip(small["contend"], large["contend"], small[tool], large[tool], strict=True)
    ]
    if any(ours <= 0 or theirs <= 0 for ours, theirs in nets):
        return "not to be told from noise"
    return interval([math.log(theirs / ours) for ours, theirs in nets])


def interval(logs: Sequence[float]) -> str:
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return f"{math.exp(mean):.1f} (one block: no interval)"
    half = t_quantile(0.975, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return f"{math.exp(mean):.1f} [{math.exp(mean - half):.1f}, {math.exp(mean + half):.1f}]"


def within(campaigns: Sequence[Row]) -> float:
    """Relative spread of storms' medians."""
    logs = [math.log(m) for c in campaigns for m in c["medians_s"]]
    return statistics.stdev(logs) if len(logs) > 1 else math.nan


def storms_for(spread: float) -> int:
    """How many storms until Student's interval of their mean is as narrow as wanted; at least two.

    >>> storms_for(0.05), storms_for(0.0)
    (7, 2)
    """
    for k in range(2, 10_000):
        if t_quantile(0.975, k - 1) * spread / math.sqrt(k) <= WANTED:
            return k
    return 10_000


def times(document: Data) -> str:
    """Rally's CPU time of whole processes for a boot, in times of contend's."""
    large = {
        tool: [
            c for block in document["blocks"] for c in block if c["tool"] == tool and c["n"] == document["n"]
        ]
        for tool in ("contend", "Rally")
    }
    return ratio(large, "Rally", lambda c: c["client_cpu_s"] / c["boots"])
