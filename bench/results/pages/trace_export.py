"""What it costs to read a trace."""

from __future__ import annotations

from results.files import Data
from results.words import table


def body(d: Data) -> str:
    """A row for each shape and reader."""
    head = [
        "shape", "events", "arm", "wall s [least, most]", "CPU s", "million events a s", "MiB more", "MiB in all",
        "bytes each",
    ]  # fmt: skip
    rows = [
        [
            of["shape"],
            f"{of['events']:,}",
            arm,
            f"{found['wall_s']:.3f} [{found['least_wall_s']:.3f}, {found['most_wall_s']:.3f}]",
            f"{found['cpu_s']:.3f}",
            f"{of['events'] / found['wall_s'] / 1e6:.2f}",
            f"{found['grown_kib'] / 1024:.0f}",
            f"{found['peak_kib'] / 1024:.0f}",
            f"{found['bytes'] / of['events']:.1f}",
        ]
        for of in d["results"]
        for arm, found in of["arms"].items()
    ]
    return f"{d['rounds']} rounds.\n\n{table(head, rows, 'lrlrrrrrr')}"
