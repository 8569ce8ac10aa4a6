"""What it costs to hunt in a trace."""

from __future__ import annotations

from results.files import Data
from results.words import table


def body(d: Data) -> str:
    """A row for each shape of trace."""
    head = [
        "shape", "events", "jobs", "rows", "wall s", "CPU s", "whole hunt, CPU s", "million events a s", "MiB more",
        "resolution ns",
    ]  # fmt: skip
    rows = [
        [
            shape,
            *(f"{found[key]:,.0f}" for key in ("events", "jobs", "rows")),
            *(f"{found[key]:.2f}" for key in ("wall_s", "cpu_s", "all_cpu_s")),
            f"{found['events'] / found['wall_s'] / 1e6:.2f}",
            f"{found['grown_kib'] / 1024:.0f}",
            f"{found['resolution_ns']:.0f}",
        ]
        for shape, found in d["results"].items()
    ]
    return f"{d['rounds']} rounds.\n\n{table(head, rows, 'l' + 'r' * 9)}"
