"""Storms on beds that differ in how the cloud's services are configured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contend.report.words import split_ratio
from contend.stats.estimate import Estimate, verdict_of
from results.files import Data
from results.words import table

FIGURES = ("median", "makespan", "deletion")


def body(d: Data) -> str:
    """Levels, and ratios to the first arm."""
    text = (
        f"{len(d['storms'])} storms of {d['n']} with the beds' start; Nova {d['nova']}. All beds: `{d['bed']}`,"
        f" {d['residents']} servers on each that stay. Ratios are within blocks, with 95 % intervals"
        + ("; half of the blocks with the beds' roles swapped." if d["swapped"] else ".")
    )
    rows: list[list[object]] = []
    for arm, options in d["arms"].items():
        levels = [_value(d["levels"][arm][figure]) for figure in FIGURES]
        rows.append([arm, f"`{options}`" if options else "", *levels, *_cells(d["ratios"].get(arm))])
    rows.append(["(A/A control)", *[""] * 4, *_cells(d["control"])])
    for name, ratios in d.get("alike", {}).items():
        rows.append([f"(before: {name}, configured as bed 1)", *[""] * 4, *_cells(ratios)])
    head = [
        "arm",
        "options",
        "median, s",
        "makespan, s",
        "deletion, s",
        "ratio of medians",
        "of makespans",
        "of deletions",
    ]
    return f"{text}\n\n{table(head, rows)}"


def _cells(ratios: Mapping[str, Any] | None) -> list[str]:
    if not ratios:
        return ["1 (baseline)", "", ""]
    return [" ".join(split_ratio(_estimate(ratios[figure]))) for figure in FIGURES]


def _estimate(told: Mapping[str, Any]) -> Estimate:
    ends = [float("nan") if told[key] is None else float(told[key]) for key in ("value", "low", "high")]
    low, high = ends[1:]
    # Files that are older than its three verdicts have another word for two of them.
    verdict = verdict_of(low, high) if told["unit"] == "ratio" else told["verdict"]
    return Estimate(*ends, told["unit"], told["n"], told["level"], told["method"], verdict)


def _value(told: Mapping[str, Any]) -> str:
    estimate = _estimate(told)
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"
