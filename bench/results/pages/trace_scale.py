"""A million tasks, and ten thousand greenlets at once, on record."""

from __future__ import annotations

from results.files import Data
from results.words import table


def body(d: Data) -> str:
    """By kind of what takes turns."""
    rows = [
        [
            r["kind"],
            f"{r['count']:,}",
            f"{r['events']:,}",
            sum(r["faults"].values()),
            f"{r['bytes'] / 1e6:.0f}",
            "{:.0f} → {:.0f}".format(*(kb / 1024 for kb in r["rss_kb"])),
            "{:.2f} → {:.2f}".format(*r["cpu_s"]),
            f"{r['hunt_kb'] / 1024:.0f}",
        ]
        for r in d["rows"]
    ]
    heads = [
        "what",
        "how many",
        "events",
        "faults",
        "MB on disk",
        "MB of the program",
        "CPU s of it",
        "MB of a hunt",
    ]
    return f"""\
Each sleeps twice. Tasks come a thousand at a time, greenlets all at once. *Faults* are all that a reader counts: events that
are lost, torn, out of order, of an unknown track, ends without a begin. Memory and CPU time of the program are without and
with the recorder.

{table(heads, rows, "lrrrrrrr")}"""
