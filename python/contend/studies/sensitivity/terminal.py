"""A forecast of pairs in the terminal."""

from __future__ import annotations

from collections.abc import Callable

from contend.studies.sensitivity import words as wording
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
    line(wording.title(of), "bold")
    line(wording.verdict(of), "yellow" if of.refused else "", 2, 2)
    if rows := wording.error_rows(of):
        columns(wording.error_headers(), rows)
    shown = wording.pair_rows(of, held_out=not verbose)
    if shown:
        line()
        line("Every pair" if verbose else "The pairs held out", "bold")
        most = None if verbose else SHORT
        columns(wording.pair_headers()[:most], [row[:most] for row in shown], words=2)
    line()
    columns(wording.pressure_headers(of), wording.pressure_rows(of))
    for note in wording.notes(of):
        line(note, "dim", 2, 2)
