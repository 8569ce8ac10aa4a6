"""Hosts of other kinds, in emulated guests: what contend does there."""

from __future__ import annotations

from results.files import Data
from results.words import table

MARKS = {"works": "yes", "degrades": "less", "refused": "no", "broken": "BROKEN"}
APART = "own cores"


def body(d: Data) -> str:
    """A row a host, a column a capability; below, by number, what is done without, or why it is refused."""
    return f"""\
Each host is a guest that QEMU emulates, without KVM: what is shown is function, and no time of it is a figure. contend is
installed from wheels, and there is no network. **yes**: it works. **less**: it works with less, and contend says so. **no**:
contend refuses it, with the reason and a hint. **BROKEN**: it failed otherwise, or left something behind. *Tried at* are the commits
of the wheels. Before 78e7343b a wheel that was built a second time on one machine may have been replaced by the first one there.

{grid(d)}

{totals(d)}

{apart(d)}"""


def grid(d: Data) -> str:
    """The table and its notes."""
    steps = list(dict.fromkeys(row["step"] for host in d["hosts"] for row in host["steps"]))
    notes: dict[str, int] = {}
    lines = []
    for host in d["hosts"]:
        came = {row["step"]: row for row in host["steps"]}
        line: list[object] = [host["what"]]
        for step in steps:
            row = came.get(step)
            mark = "" if row is None else MARKS[row["came"]]
            if row is not None and row["words"] and row["came"] != "works":
                mark += f" {notes.setdefault(row['words'], len(notes) + 1)}"
            line.append(mark)
        lines.append([*line, ", ".join(dict.fromkeys(host["commit"].split(", ")))])
    words = "\n".join(f"{number}. {note}" for note, number in notes.items())
    return f"{table(['host', *steps, 'tried at'], lines, 'l' * (len(steps) + 2))}\n\n{words}"


def totals(d: Data) -> str:
    """How many capabilities came to what."""
    rows = [row for host in d["hosts"] for row in host["steps"]]
    counted = {mark: sum(row["came"] == came for row in rows) for came, mark in MARKS.items()}
    return (
        f"{len(d['hosts'])} hosts, {len(rows)} trials of a capability: "
        + ", ".join(f"{count} {mark}" for mark, count in counted.items())
        + "."
    )


def apart(d: Data) -> str:
    """The CPUs that parties were given, and had: read back in each trial."""
    lines = [
        [host["what"], row["words"]]
        for host in d["hosts"]
        for row in host["steps"]
        if row["step"] == APART and row["came"] == "works"
    ]
    return f"""\
Where parties are to be apart (`placement: own-cores`), they were given, and had, as read back in each trial:

{table(["host", "CPUs"], lines, "ll")}"""
