"""What large runs cost to look at."""

from __future__ import annotations

from results.files import Data
from results.words import table


def body(d: Data) -> str:
    """A row for each command."""
    rows = [
        [
            one["what"],
            f"{one['cpu_s']:.2f}",
            f"{one['wall_s']:.2f}",
            f"{one['peak_mib']:.0f}",
            "" if one["page_bytes"] is None else f"{one['page_bytes'] / 2**20:.2f}",
            one["exit"],
        ]
        for one in d["figures"]
    ]
    return table(["what", "CPU, s", "wall, s", "peak, MiB", "page, MiB", "exit"], rows, "lrrrrr")
