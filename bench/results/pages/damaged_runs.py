"""Run directories damaged at random."""

from __future__ import annotations

from results.files import Data
from results.words import pct


def body(d: Data) -> str:
    """How many ways stopped a verb."""
    failures = "\n".join(f"- seed {seed}: {'; '.join(texts)}" for seed, texts in d["failures"].items())
    return f"""\
A shelf of runs, one of which is damaged in a way drawn by a seed (from {d["first_seed"]} on), is read by every verb. None may
end with a traceback, and the other runs have to be read whole.

**{d["failed"]} of {d["ways"]:,}** ways stopped one (at most {pct(d["at_most"], 2)}: upper 95 % bound, Clopper–Pearson).

{failures}"""
