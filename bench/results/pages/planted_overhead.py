"""A container that was slowed by a quota."""

from __future__ import annotations

from results.files import Data
from results.words import interval


def body(d: Data) -> str:
    """What was estimated, and what it was put down to."""
    e = d["estimate"]
    inside = "lies inside it" if e["low"] <= d["planted"] <= e["high"] else "lies **outside** it"
    findings = "\n".join(f"- {finding['sentence']}" for finding in d["findings"])
    return f"""\
A container of one CPU is given a quota of {d["quota_cpus"]:.4f} CPUs by somebody else. By a burner's own clock in the same turns
(of {d["tick_s"] * 1e3:.0f} ms, over {d["least_s"]:.2f} s and more) it takes **{d["planted"]:.3f} times** as long there. Measured in {e["n"]} blocks:
{interval(e, 3)} (95 %; {e["method"]}). The planted ratio {inside}.

{findings}"""
