"""A printer for reports in a terminal: folded lines, commands, tables of words and figures.

Works at 80 columns, without colour and without a terminal; colour only repeats what the text says.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal

from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from contend.text.masking import mask

if TYPE_CHECKING:
    from rich.console import Console

_ASCII = str.maketrans(
    {
        "·": ".",
        "█": "#",
        "→": ">",
        "±": "+/-",
        "≤": "<=",
        "×": "x",
        "–": "-",
        "µ": "u",
        "…": "...",
        "²": "2",
        "▇": "#",
    }
)


def printable(text: str) -> str:
    """The text on one line, without control characters that a program may have put into the names of locks and spans.

    >>> printable("lock\\n[red]")
    'lock\ufffd[red]'
    """
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def one_line(text: str, style: str = "") -> Text:
    """The text as `printable` gives it, for tables: nothing in it is read as rich's markup."""
    return Text(printable(text), style=style)


def titled_table(title: str, *columns: str, texts: Collection[str] = ()) -> Table:
    """A table of which the first column and `texts` are folded at need, the others numbers."""
    table = Table(box=box.SIMPLE, title=title or None, title_justify="left", title_style="", pad_edge=False)
    for at, column in enumerate(columns):
        if at == 0 or column in texts:
            table.add_column(column, overflow="fold")
        else:
            table.add_column(column, justify="right", no_wrap=True)
    return table


class Printer:
    """Prints to a rich console, in ASCII where that has nothing else."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.ascii = not (console.encoding or "utf-8").lower().startswith("utf")

    def text(self, words_: str, style: str = "") -> Text:
        # An error may quote a tool's escape codes: they must not reach the terminal.
        printable = "".join(c if c.isprintable() or c == "\n" else " " for c in words_)
        return Text(printable.translate(_ASCII) if self.ascii else printable, style=style)

    def line(self, words_: str = "", style: str = "", indent: int = 0, hang: int = 0) -> None:
        """One paragraph, folded at words with a hanging indent. A word longer than the line stays whole."""
        folded = textwrap.wrap(
            mask(words_),  # before it is folded: half a secret is one
            max(20, self.console.width),
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent + hang),
            break_long_words=False,
            break_on_hyphens=False,
        )
        for part in folded or [""]:
            spaced = part.replace("\N{NO-BREAK SPACE}", " ")
            self.console.print(self.text(spaced, style), soft_wrap=True, highlight=False, markup=False)

    def command(self, words_: str, indent: int) -> None:
        """Print a command without folding it: it must survive copy and paste."""
        self.console.print(
            self.text(" " * indent + words_, "cyan"), soft_wrap=True, highlight=False, markup=False
        )

    def table(self) -> Table:
        return Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False, header_style="bold")

    def columns(self, headers: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> None:
        """Print a table: the first `words` columns to the left, figures to the right."""
        table = self.table()
        table.add_column(headers[0], no_wrap=True)
        for number, header in enumerate(headers[1:], start=1):
            side: Literal["left", "right"] = "left" if number < words else "right"
            table.add_column(self.text(header), justify=side, overflow="fold")
        for row in rows:
            table.add_row(*(self.text(item) for item in row))
        self.put(table)

    def width_of(self, table: Table) -> int:
        return table.__rich_measure__(self.console, self.console.options.update(max_width=10_000)).maximum

    def put(self, table: Table) -> None:
        self.console.print(Padding(table, (0, 0, 0, 2)), highlight=False, markup=False)
