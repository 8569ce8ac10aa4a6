"""Whether the holder on record is the real one."""

from __future__ import annotations

from results.files import Data
from results.words import table


def body(d: Data) -> str:
    """By kind of program."""
    rows = [
        [r["kind"], r["runs"], r["waits"], r["certain"], r["right"], f"[{r['low']:.6f}, {r['high']:.6f}]"]
        for r in d["rows"]
    ]
    return f"""\
Programs whose threads, or greenlets of three threads, fight for three locks and write down with the clock of the trace when each
was asked for, taken, about to be let go and gone; every recorded contended wait is then compared with the notes. *Certain* are
waits at which the notes leave one holder only; of the rest, who just took the lock or is just letting it go, the recorded one
must be possible.

{table(["program", "runs", "contended waits", "certain", "right", "share, 95 % bounds"], rows, "lrrrrl")}"""
