"""What it costs to read a trace."""

from __future__ import annotations

from results.files import Data
from results.record import disturbed
from results.words import table


def body(d: Data) -> str:
    """A row for each shape and reader; times on the clock only of a host that did nothing else."""
    quiet = "made" in d and not disturbed(d["made"])
    head = [
        "shape",
        "events",
        "arm",
        "CPU s",
        "million events a CPU-s",
        "MiB more",
        "MiB in all",
        "bytes each",
    ]
    if quiet:
        head += ["wall s [least, most]"]
    rows = []
    for of in d["results"]:
        for arm, found in of["arms"].items():
            wall = f"{found['wall_s']:.3f} [{found['least_wall_s']:.3f}, {found['most_wall_s']:.3f}]"
            rows.append(
                [
                    of["shape"],
                    f"{of['events']:,}",
                    arm,
                    f"{found['cpu_s']:.3f}",
                    f"{of['events'] / found['cpu_s'] / 1e6:.2f}",
                    f"{found['grown_kib'] / 1024:.0f}",
                    f"{found['peak_kib'] / 1024:.0f}",
                    f"{found['bytes'] / of['events']:.1f}",
                    *([wall] if quiet else []),
                ]
            )
    return f"{d['rounds']} rounds.\n\n{table(head, rows, 'lrl' + 'r' * (len(head) - 3))}"
