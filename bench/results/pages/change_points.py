"""Change points that `contend serve` marks in series that are known."""

from __future__ import annotations

from results.files import Data
from results.words import pct, table


def body(d: Data) -> str:
    """False ones, and planted ones that were found."""
    head = [f"{n} runs" for n in d["lengths"]]
    flat, steps = (
        [[name if of == "flat" else pct(float(name)), *_shares(d, of, name)] for name in d[of]]
        for of in ("flat", "steps")
    )
    doubt = (
        " Each figure is of all marks, then of those that the page does not call doubtful."
        if "flat_sure" in d
        else ""
    )
    align = "l" + "r" * len(head)
    soon = ""
    if "late" in d:
        late = [[pct(float(name)), *_shares(d, "late_steps", name)] for name in d["late_steps"]]
        most = [[pct(float(name)), *(pct(part, 0) for part in row)] for name, row in d["late_most"].items()]
        soon = f"""

One step planted {d["late"]} runs before the end, the same:

{table(["size of the step", *head], late, align)}

What could be seen at most so soon, by a test at 5 % that knows where the step is, and that runs are independent and do not drift
(Student's, two-sided): a step of one standard deviation is not found in four of five series by anybody.

{table(["size of the step", *head], most, align)}"""
    return f"""\
{d["series"]} series each, drawn with seed {d["made"]["seed"]}; runs vary by {pct(d["spread"])} (standard deviation, log); Apache
Otava as `contend serve` asks it (p < {d["most_p"]}, from {d["least_runs"]} runs on). Counts, no times: another machine gives the
same.{doubt}

No step was planted. Series in which one or more were marked:

{table(["law of the runs", *head], flat, align)}

One step planted in the middle, runs independent and normal. Series in which a change within a run of it was marked:

{table(["size of the step", *head], steps, align)}{soon}"""


def _shares(d: Data, of: str, name: str) -> list[str]:
    """One for each length; where it was told apart also that of marks without doubt."""
    # A thousand series tell a step that is found in half of them to 1.6 %.
    digits = 1 if of == "flat" else 0
    marked = [pct(part, digits) for part in d[of][name]]
    sure = (
        [f", {pct(part, digits)}" for part in d[f"{of}_sure"][name]]
        if f"{of}_sure" in d
        else [""] * len(marked)
    )
    return [a + b for a, b in zip(marked, sure, strict=True)]
