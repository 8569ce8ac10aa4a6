"""A growth study in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from contend.studies.growth import words as told
from contend.studies.growth.result import Growths


def show_growth(
    growths: Growths,
    line: Callable[..., None],
    columns: Callable[[Sequence[str], Sequence[Sequence[str]]], None],
) -> None:
    """The table of calls, the control, what floods beside them do, what is left out, what went wrong.

    line: prints a paragraph, with a style, an indent and a hanging indent; columns: prints a table.
    """
    line()
    if growths.calls:
        line(f"Calls by population. {told.about(growths)}", "bold", 0, 2)
        columns(told.headers(growths), [told.row(call, growths) for call in growths.calls])
    line(f"populations: {told.populations(growths) or 'none'}", "dim", 2, 2)
    for words, alarm in told.control(growths):
        line(words, "bold red" if alarm else "", 2, 2)
    if rows := told.interference(growths):
        line()
        line("Latency beside creations, as a multiple of that in quiet", "bold", 0, 2)
        columns(told.interference_headers(growths), rows)
        line(told.floods(growths), "dim", 2, 2)
    for words in told.too_few(growths):
        line(words, "yellow", 2, 2)
    for words in told.left_out(growths):
        line(f"left out: {words}", "yellow", 2, 2)
    for words in told.troubles(growths):
        line(words, "yellow", 2, 2)
