"""A growth study in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from contend.studies.growth import words as wording
from contend.studies.growth.result import Growths


def show_growth(
    growths: Growths,
    line: Callable[..., None],
    columns: Callable[[Sequence[str], Sequence[Sequence[str]]], None],
) -> None:
    """Print the table of calls, the control, the effect of floods, what is left out, and problems.

    line: prints a paragraph, with a style, an indent and a hanging indent; columns: prints a table.
    """
    line()
    if growths.calls:
        line(f"Calls by population. {wording.about(growths)}", "bold", 0, 2)
        columns(wording.headers(growths), [wording.row(call, growths) for call in growths.calls])
    line(f"populations: {wording.populations(growths) or 'none'}", "dim", 2, 2)
    for words, alarm in wording.control(growths):
        line(words, "bold red" if alarm else "", 2, 2)
    if rows := wording.interference(growths):
        line()
        line("Latency beside creations, as a multiple of that in quiet", "bold", 0, 2)
        columns(wording.interference_headers(growths), rows)
        line(wording.floods(growths), "dim", 2, 2)
    for words in wording.too_few(growths):
        line(words, "yellow", 2, 2)
    for words in wording.left_out(growths):
        line(f"left out: {words}", "yellow", 2, 2)
    for words in wording.troubles(growths):
        line(words, "yellow", 2, 2)
