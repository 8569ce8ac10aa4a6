"""The hosts of a fleet's run in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from contend.report import fleet_words as told
from contend.report.model import ReportInput


def show_fleet(
    report: ReportInput,
    line: Callable[..., None],
    columns: Callable[[Sequence[str], Sequence[Sequence[str]], int], None],
    *,
    verbose: bool = False,
) -> None:
    """A row a host; of many the first ones, unless verbose."""
    found = report.analysis.fleet
    assert found is not None
    line()
    line(told.TITLE, "bold")
    rows = told.rows(found)
    shown = rows if verbose else rows[: told.MOST]
    columns(told.headers(found), shown, 1)
    if len(shown) < len(rows):
        line(f"and {len(rows) - len(shown)} more (-v shows all)", "dim", 2, 2)
    for note in told.notes(found):
        line(note, "yellow", 2, 2)
    run = report.run_dir.rstrip("/")
    line(f"what a host says by itself: contend report {run}/hosts/HOST", "dim", 2, 2)
