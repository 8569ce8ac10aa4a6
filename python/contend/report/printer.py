"""A printer for reports in a terminal: folded lines, commands, tables of words and figures.

Works at 80 columns, without colour and without a terminal; colour only repeats what the text says.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from contend.text.masking import mask

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

FOLDED = 16
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


def fitted(table: Table, console: Console, width: int | None = None) -> RenderableType:
    """The table; where it would lose a column in that width, a record a row: the first cell, and below it all others.

    width: None for the console's. A table is given up where a figure would be broken, or a name within FOLDED characters.
    """
    room = console.width if width is None else width
    return table if _least(table) <= room else Group(*_records(table, room))


def _least(table: Table) -> int:
    """The width at which a table still shows every column."""
    whole = 0
    for column in table.columns:
        cells = [_plain(cell) for cell in (column.header, *column.cells)]
        folds = column.overflow == "fold" and not column.no_wrap
        parts = [part for cell in cells for part in (cell.split() if folds else cell.split("\n"))]
        widest = max(map(cell_len, parts), default=0)
        whole += min(widest, FOLDED) if folds and column.justify == "left" else widest
    _, right, _, left = table.padding
    return (
        whole + (right + left) * (len(table.columns) - (0 if table.pad_edge else 1)) + (2 if table.box else 0)
    )


def _records(table: Table, width: int) -> Iterator[Text]:
    if table.title:
        yield Text(_plain(table.title))
    headers = [" ".join(_plain(column.header).split()) for column in table.columns]
    for first, *others in zip(*(list(column.cells) for column in table.columns), strict=True):
        yield from (Text(line) for line in textwrap.wrap(" ".join(_plain(first).split()), width))
        pairs = [
            f"{header} {text}".strip().replace(" ", "\N{NO-BREAK SPACE}")
            for header, cell in zip(headers[1:], others, strict=True)
            if (text := " ".join(_plain(cell).split()))
        ]
        shown = textwrap.wrap(
            "; ".join(pairs), width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
        )
        for line in shown:
            # A pair that is longer than a line is folded at its own blanks.
            spaced = line.replace("\N{NO-BREAK SPACE}", " ").removesuffix(";")
            yield from map(Text, textwrap.wrap(spaced, width, initial_indent="", subsequent_indent="    "))


def _plain(cell: object) -> str:
    return cell.plain if isinstance(cell, Text) else Text.from_markup(str(cell)).plain


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
        # A name is whole beside its figures, unless it leaves them no room: as a command line does.
        short = all(cell_len(row[0]) <= self.console.width // 2 for row in rows)
        table.add_column(headers[0], overflow="fold", no_wrap=short)
        for number, header in enumerate(headers[1:], start=1):
            side: Literal["left", "right"] = "left" if number < words else "right"
            table.add_column(self.text(header), justify=side, overflow="fold")
        for row in rows:
            table.add_row(*(self.text(item) for item in row))
        self.put(table)

    def width_of(self, table: Table) -> int:
        return table.__rich_measure__(self.console, self.console.options.update(max_width=10_000)).maximum

    def put(self, table: Table) -> None:
        shown = fitted(table, self.console, self.console.width - 2)
        self.console.print(Padding(shown, (0, 0, 0, 2)), highlight=False, markup=False)
