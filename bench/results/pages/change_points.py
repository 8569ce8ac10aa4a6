"""Change points that `contend serve` marks in series that are known."""

from __future__ import annotations

from results.files import Data
from results.words import pct, table


def body(d: Data) -> str:
    """False ones, and planted ones that were found."""
    head = [f"{n} runs" for n in d["lengths"]]
    flat = [[name, *(_share(part) for part in parts)] for name, parts in d["flat"].items()]
    steps = [[pct(float(step)), *(_share(part) for part in parts)] for step, parts in d["steps"].items()]
    twice = any(isinstance(part, list) for parts in d["flat"].values() for part in parts)
    doubt = (
        " Each figure is of all marks, then of those that the page does not call doubtful." if twice else ""
    )
    align = "l" + "r" * len(head)
    return f"""\
{d["series"]} series each, drawn with seed {d["made"]["seed"]}; runs vary by {pct(d["spread"])} (standard deviation, log); Apache
Otava as `contend serve` asks it (p < {d["most_p"]}, from {d["least_runs"]} runs on). Counts, no times: another machine gives the
same.{doubt}

No step was planted. Series in which one or more were marked:

{table(["law of the runs", *head], flat, align)}

One step planted in the middle, runs independent and normal. Series in which a change within a run of it was marked:

{table(["size of the step", *head], steps, align)}"""


def _share(part: float | list[float]) -> str:
    return ", ".join(pct(one, 1) for one in part) if isinstance(part, list) else pct(part, 1)
