"""A forecast of pairs in the terminal."""

from __future__ import annotations

from collections.abc import Callable

from contend.studies.sensitivity import words as told
from contend.studies.sensitivity.result import Sensitivities

SHORT = 6  # columns of the pairs where not all is asked for


def show_forecast(
    of: Sensitivities,
    line: Callable[..., None],
    columns: Callable[..., None],
    *,
    verbose: bool,
) -> None:
    """Errors beside the baseline's, the held-out pairs (verbose: all), pressures, what the intervals cover.

    line: prints a paragraph, with a style, an indent and a hanging indent; columns: prints a table.
    """
    line()
    line(told.title(of), "bold")
    line(told.verdict(of), "yellow" if of.refused else "", 2, 2)
    if rows := told.error_rows(of):
        columns(told.error_headers(), rows)
    shown = told.pair_rows(of, held_out=not verbose)
    if shown:
        line()
        line("Every pair" if verbose else "The pairs held out", "bold")
        most = None if verbose else SHORT
        columns(told.pair_headers()[:most], [row[:most] for row in shown], words=2)
    line()
    columns(told.pressure_headers(of), told.pressure_rows(of))
    for note in told.notes(of):
        line(note, "dim", 2, 2)
