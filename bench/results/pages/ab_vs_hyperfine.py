"""Verdicts of `contend ab` and hyperfine on the same two commands."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from contend.stats.quantiles import clopper_pearson
from results.files import Data
from results.words import pct, table


def body(data: Mapping[str, Data]) -> str:
    """A table for each series, the first of which is the one to quote."""
    return "\n\n".join(f"## {name}\n\n{series(d)}" for name, d in data.items())


def series(d: Data) -> str:
    """Where the ratio was measured with no neighbour, that is the truth; else the intended one."""
    rows, quiet, runs = d["repetitions"], d.get("quiet"), d["blocks"] * 3 // 2
    told = (
        f"The true ratio of whole processes, measured with no neighbour: {quiet['ratio']:.4f} [{quiet['low']:.4f},"
        f" {quiet['high']:.4f}] (Hodges–Lehmann, {quiet['pairs']} pairs; {d['intended']} was intended)."
        + (
            f" A process without rounds takes {quiet['start_s'] * 1e3:.2f} ms."
            if quiet.get("start_s") is not None
            else ""
        )
        if quiet
        else f"The truth is the ratio that was intended, {d['intended']}; it was not measured."
    )
    spent = (
        f"{len(rows)} repetitions; {d['blocks']} blocks of A, A, B against {runs} runs each;"
        f" {statistics.fmean(r['contend_s'] for r in rows):.1f} s a verdict against"
        f" {statistics.fmean(r['hyperfine_s'] for r in rows):.1f} s."
    )
    true = quiet["ratio"] if quiet else d["intended"]
    by_intended = (
        "Judged by the intended ratio instead, the interval holds it in "
        + ", ".join(f"{held(d, key, d['intended'])} of {len(rows)} ({name})" for name, key in ARMS.items())
        + "."
        if quiet
        else ""
    )
    head = [
        "verdict",
        "interval holds the truth",
        "says a difference",
        "in the wrong direction",
        "median half-width",
    ]
    lines = table(head, [_row(name, d, key, true) for name, key in ARMS.items()], "lrrrr")
    return "\n\n".join(filter(None, [told, spent, lines, by_intended]))


ARMS = {
    "contend ab": ("contend", 1, 3),
    "hyperfine, Welch": ("hyperfine", 1, 3),
    "hyperfine, own ± (2σ)": ("hyperfine", 3, 5),
}


def held(d: Data, key: tuple[str, int, int], true: float) -> int:
    """In how many repetitions."""
    tool, at, to = key
    return sum(low <= true <= high for low, high in (r[tool][at:to] for r in d["repetitions"]))


def _row(name: str, d: Data, key: tuple[str, int, int], true: float) -> list[object]:
    tool, at, to = key
    found = [r[tool][at:to] for r in d["repetitions"]]
    hold = held(d, key, true)
    says = sum(low > 1 or high < 1 for low, high in found)
    wrong = sum((high < 1 and true >= 1) or (low > 1 and true <= 1) for low, high in found)
    width = statistics.median((high - low) / 2 for low, high in found)
    least, most = clopper_pearson(hold, len(found))
    return [name, f"{hold} of {len(found)} [{pct(least)}, {pct(most)}]", says, wrong, pct(width, 1)]
