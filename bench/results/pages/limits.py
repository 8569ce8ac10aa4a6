"""The largest inputs, and what they cost."""

from __future__ import annotations

from results.files import Data
from results.words import table


def body(d: Data) -> str:
    """A row for each command, and which limit it is beyond."""
    rows = [
        [
            f"`{row['command']}`",
            f"{row['bytes'] / 1e6:.0f} MB",
            f"{row['wall_s']:.1f}",
            f"{row['cpu_s']:.1f}",
            row["max_rss_mb"],
        ]
        for row in d["rows"]
    ]
    broken = [
        f"- `{row['command']}`: {', '.join(what)}" for row in d["rows"] if (what := beyond(row, d["most"]))
    ]
    most = d["most"]
    verdict = (
        "Beyond its limit:\n\n" + "\n".join(broken)
        if broken
        else f"All within their limits: `stats` {most['stats_s']:.0f} s and {most['stats_mb']} MB, `import` {most['import_mb']} MB."
    )
    return f"""\
{d["stats_rows"] / 1e6:g} million rows, and files of {d["mib"]} MiB.

{table(["command", "input", "s", "CPU-s", "MB at most"], rows, "lrrrr")}

{verdict}

Rows of `stats` are held as columns of numbers. `import` reads tables row by row and JSON item by item; what it keeps of a
request is one number a metric."""


def beyond(row: Data, most: Data) -> list[str]:
    """Which of its limits a command is beyond; those of time are of a quiet host."""
    stats = row["command"].startswith("contend stats")
    memory = most["stats_mb"] if stats else most["import_mb"]
    found = [f"ended with {row['exit']}"] if row["exit"] else []
    found += [f"{row['max_rss_mb']} MB of memory, {memory} are allowed"] if row["max_rss_mb"] > memory else []
    if stats and row["wall_s"] > most["stats_s"]:
        found.append(f"{row['wall_s']:.1f} s, {most['stats_s']:.0f} are allowed")
    return found
