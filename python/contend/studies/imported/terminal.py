"""Imported runs in a terminal: levels, how they came about, what is not said and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from contend.studies.imported import words
from contend.studies.imported.result import ImportedRuns, headlines


def show_imported(
    found: ImportedRuns,
    line: Callable[..., None],
    columns: Callable[[Sequence[str], Sequence[Sequence[str]], int], None],
    *,
    verbose: bool,
) -> None:
    """`line` prints one paragraph, `columns` a table."""
    everything = verbose or len(found.levels) <= words.MOST_ROWS
    line()
    line(f"Levels ({words.files(found)})", "bold")
    columns(words.short_headers(), words.short_rows(found, everything=everything), 1)
    hidden = 0 if everything else len(found.levels) - len(headlines(found))
    if hidden:
        line(f"{hidden} levels of other metrics are in the report, or here with -v", "dim", 2, 2)
    if settings := words.settings(found):
        line(f"asked for: {settings}", "dim", 2, 2)
    for text in words.about(found):
        line(text, "yellow" if text in found.refused else "dim", 2, 2)
