"""A component's cost in context, in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from contend.context.result import Context
from contend.report import context_words as told


def show_context(
    of: Context,
    line: Callable[..., None],
    columns: Callable[[Sequence[str], Sequence[Sequence[str]]], None],
) -> None:
    """The answer, the shares and how they are known, what each variant would change, what a reader must know.

    line: prints a paragraph, with a style, an indent and a hanging indent; columns: prints a table.
    """
    line()
    line(told.TITLE, "bold")
    line(told.answer(of), "", 2, 2)
    columns(told.headers(of), told.rows(of))
    for words in told.shares(of):
        line(words, "", 2, 2)
    line(told.about(of), "dim", 2, 2)
    for words in of.notes:
        line(f"note: {words}", "yellow", 2, 2)
