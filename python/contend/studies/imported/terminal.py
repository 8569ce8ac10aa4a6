"""Imported runs in a terminal: levels, how they came about, what is not said and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from contend.studies.imported import words
from contend.studies.imported.result import ImportedRuns, headlines


def show_imported(
    runs: ImportedRuns,
    line: Callable[..., None],
    columns: Callable[[Sequence[str], Sequence[Sequence[str]], int], None],
    *,
    verbose: bool,
) -> None:
    """Print the levels of an imported run. `line` prints a paragraph, `columns` a table."""
    everything = verbose or len(runs.levels) <= words.MOST_ROWS
    line()
    line(f"Levels ({words.files(runs)})", "bold")
    columns(words.short_headers(), words.short_rows(runs, everything=everything), 1)
    hidden = 0 if everything else len(runs.levels) - len(headlines(runs))
    if hidden:
        line(f"{hidden} levels of other metrics are in the report, or here with -v", "dim", 2, 2)
    if settings := words.settings(runs):
        line(f"asked for: {settings}", "dim", 2, 2)
    for text in words.about(runs):
        line(text, "yellow" if text in runs.refused else "dim", 2, 2)
