"""Budgets of every scenario: asked for, and taken."""

from __future__ import annotations

from results.files import Data
from results.words import table

HEAD = [
    "scenario", "blocks asked for", "asked, s", "taken, s", "tear-down, s", "blocks", "exit", "is", "held", "load before",
    "at",
]  # fmt: skip


def body(d: Data) -> str:
    """A row for each run."""
    broken = sum(not one["held"] for one in d["runs"])
    return (
        table(HEAD, map(row, d["runs"]))
        + f"\n\n{len(d['runs'])} runs, {broken} beyond the budget × 1.1 + 5 s, tear-down apart. They were made in parts: the"
        " head is that of the last part, and each row has its own commit, date and load."
    )


def row(of: Data) -> list[object]:
    """One run."""
    what = f"{of['what']}: --budget {of['named']}" if of["named"] else of["what"]
    return [
        of["scenario"], f"{of['of_blocks']:.1f}", f"{of['asked_s']:g}", f"{of['took_s']:g}", f"{of['tear_down_s']:g}",
        of["blocks"], of["exit"], what, "yes" if of["held"] else "NO", f"{of['load']:g}", f"{of['commit']}, {of['date']}",
    ]  # fmt: skip
