"""A container that was slowed by a known quota."""

from __future__ import annotations

from results.files import Data
from results.words import interval


def body(d: Data) -> str:
    """What was estimated, and what it was put down to."""
    e = d["estimate"]
    inside = "lies inside it" if e["low"] <= d["planted"] <= e["high"] else "lies **outside** it"
    findings = "\n".join(f"- {finding['sentence']}" for finding in d["findings"])
    return f"""\
A container is throttled so that a burner takes {d["planted"]} times as long. Measured in {e["n"]} blocks: {interval(e, 3)} (95 %;
{e["method"]}). The planted ratio {inside}.

{findings}"""
