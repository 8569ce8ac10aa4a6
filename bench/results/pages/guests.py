"""Guests of QEMU: boots, and kills of runs that hold some."""

from __future__ import annotations

import statistics

from results.files import Data
from results.words import bounds


def body(d: Data) -> str:
    """Both parts, where they were measured."""
    parts = []
    if found := d.get("boots"):
        times = [boot["boot_s"] for boot in found["boots"]]
        parts.append(
            f"**{found['first_try']} of {len(times)}** guests booted at the first try (95 % bounds, Clopper–Pearson:"
            f" {bounds(*found['interval'])}), in {statistics.median(times):.1f} s (median; {min(times):.1f} to"
            f" {max(times):.1f}), by {', '.join(sorted({boot['accel'] for boot in found['boots']}))}."
        )
    if found := d.get("kills"):
        parts.append(
            f"A run that holds guests is killed by SIGKILL; then `contend destroy --all`: **{found['clean']} of"
            f" {len(found['lives'])}** left nothing (95 % bounds, Clopper–Pearson: {bounds(*found['interval'])})."
        )
    return "\n\n".join(parts)
