"""Storms of a size that was predicted from smaller ones."""

from __future__ import annotations

from contend.units import format_duration
from results.files import Data
from results.words import table

KEYS = ("median_ns", "p90_ns", "makespan_ns")


def body(d: Data) -> str:
    """What was measured, then each method's prediction."""
    large = d["jobs"]
    rows = []
    for n, of in {**d["small"], str(large): d["large"]}.items():
        means = [
            format_duration(sum(one[key] for one in of) / len(of)) for key in ("median_ns", "makespan_ns")
        ]
        rows.append([n, *means, len(of)])
    parts = [
        f"A bed of OpenStack (two computes, one worker of each API). Measured: {len(d['large'])} storms of {large}.",
        table(["n", "median", "makespan", "storms"], rows),
    ]
    for name in ("batch law", "replay"):
        answer = d[name]
        gate = answer["gate"]
        said = "predicted" if gate["passed"] else "it would have said"
        parts += [
            "## By the batch law" if name == "batch law" else f"## By a replay of one storm of {d['traced']}",
            f"Trusted: {answer['regime']['why']}." if gate["passed"] else f"**Refused**: {gate['reason']}.",
            table(["", said, "measured (each storm)", "off"], [_row(d, name, key) for key in KEYS]),
            "\n".join(f"- {note}" for note in answer["notes"]),
        ]
    return "\n\n".join(parts)


def _row(d: Data, name: str, key: str) -> list[object]:
    one, took = d[name]["predicted"][key], [storm[key] for storm in d["large"]]
    interval = (
        "" if one["low"] is None else f" [{format_duration(one['low'])}, {format_duration(one['high'])}]"
    )
    off = one["value"] / (sum(took) / len(took)) - 1
    each = ", ".join(format_duration(ns) for ns in sorted(took))
    return [key.removesuffix("_ns"), f"{format_duration(one['value'])}{interval}", each, f"{off:+.0%}"]
