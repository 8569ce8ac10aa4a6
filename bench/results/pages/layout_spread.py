"""What layouts in memory make of the time of real programs."""

from __future__ import annotations

from results.files import Data
from results.words import pct, table


def body(d: Data) -> str:
    """A row a program."""
    lines = [
        [
            f"`{row['command']}`",
            f"{row['alone_s'] * 1e3:.0f} ms",
            "{:.4f} [{:.4f}, {:.4f}]".format(*row["ratio"]),
            "too few" if row["layouts"]["spread"] is None else pct(row["layouts"]["spread"], 2),
            "" if row["layouts"]["p"] is None else f"{row['layouts']['p']:.3f}",
            counted(row["instructions"]),
        ]
        for row in d["rows"]
    ]
    head = ["program", "takes", "against itself", "spread over layouts", "p", "instructions"]
    return f"""\
Each program is compared with itself by `contend ab --randomise layout`, in {d["blocks"]} blocks. The spread is the relative standard
deviation of its time over layouts (the size of the environment, and with it where the stack begins), without that of its
trials; p: how often one so large comes about if layouts make no difference. None of these were built here, so that the order
of linking stayed as it is.

{table(head, lines, "lrrrrr")}
"""


def counted(instructions: list[Data]) -> str:
    counts = [one["count"] for one in instructions if one["count"]]
    return " and ".join(f"{count / 1e6:,.1f} M" for count in counts) or "not counted"
