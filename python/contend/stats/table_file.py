"""A CSV file of any size, read as columns: at once by DuckDB where it is plain, else row by row.

Plain is ASCII without quotes, of whole rows of numbers and labels: that is read in one pass. Whatever is odd,
a quote, a blank row, a number that is none, is left to the exact reader, which knows the line of every mistake.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import itertools
import os
import re
import select
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import duckdb
import numpy as np
import numpy.typing as npt

from contend.errors import BadInput
from contend.text.printable import short

MOST_BYTES = 1 << 30
MOST_PIPED = 1 << 28  # of a FIFO, which is held in memory
LONGEST_LINE = 1 << 20
_DELIMITERS = ",;\t"
_WINDOW = 1 << 23
_BOM = codecs.BOM_UTF8
_HEAD = 5000  # rows that are looked at to know a file's labels
_MOST_NAMES = 100
_HINT = "name a CSV file"


@dataclass(frozen=True)
class TableFile:
    """An open CSV file: its header, and what parts its columns."""

    path: Path
    file: IO[bytes]
    header: list[str]
    delimiter: str

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Rows that are not blank, with the line they end in. Raises BadInput for what is no table."""
        self.file.seek(0)
        reader = csv.reader(_lines(self.path, self.file), delimiter=self.delimiter)
        try:
            next(reader, None)
            for cells in reader:
                if any(c.strip() for c in cells):
                    yield reader.line_num, cells
        except csv.Error as error:
            raise BadInput(
                f"{self.path}, line {reader.line_num}: {error}",
                hint="is a quote not closed? is it a CSV file?",
            ) from error

    def columns(self, numbers: Sequence[int], labels: Sequence[int]) -> dict[int, Column] | None:
        """Columns by their index, all rows at once; None if the file is not plain, and for labels that are too many.

        `numbers` as float64 arrays. `labels` as numbers too: of a label that is a whole number itself, else of its place
        in `names`, which are in the order of first appearance.
        """
        path = f"/proc/self/fd/{self.file.fileno()}" if self.path_is_read else ""
        if not path or not _is_plain(self.file, self.delimiter):
            return None
        self.file.seek(0)
        known = {index: self._first_labels(index) for index in labels}
        kinds = ["DOUBLE" if i in numbers else "VARCHAR" for i in range(len(self.header))]
        selected = [f"c{i}" for i in numbers]
        for index in labels:
            names = known[index]
            if names is None:
                # As text it is what the number is written as: 01 and 1 are two labels, and left to the exact reader.
                selected.append(
                    f"CASE WHEN TRY_CAST(c{index} AS BIGINT)::VARCHAR = c{index} THEN TRY_CAST(c{index} AS BIGINT) END"
                    f" AS c{index}"
                )
            else:
                selected.append(f"list_position({_literal(names)}, c{index}) AS c{index}")
        columns = "{" + ", ".join(f"'c{i}': '{kind}'" for i, kind in enumerate(kinds)) + "}"
        try:
            with duckdb.connect(config={"threads": 1, "memory_limit": "200MB"}) as database:
                arrays = database.execute(
                    f"SELECT {', '.join(selected)} FROM read_csv('{path}', auto_detect=false, header=false, skip=1,"
                    f" delim='{self.delimiter}', quote='', escape='', nullstr='\x00', columns={columns},"
                    f" max_line_size={LONGEST_LINE})"
                ).fetchnumpy()
        except duckdb.Error:
            return None
        result: dict[int, Column] = {}
        for index in (*numbers, *labels):
            values = arrays[f"c{index}"]
            if isinstance(values, np.ma.MaskedArray):
                if np.ma.is_masked(values):  # not a number, or a label that is none of those known
                    return None
                values = values.data
            result[index] = Column(values - 1 if known.get(index) else values, known.get(index))
        return result

    @property
    def path_is_read(self) -> bool:
        """True if it is a file, which another reader can open; else it is held in memory."""
        return not isinstance(self.file, io.BytesIO)

    def _first_labels(self, index: int) -> list[str] | None:
        """Labels among the first rows; None where they are whole numbers, or more than a list is searched for."""
        names = list(
            dict.fromkeys(
                cells[index] for _, cells in itertools.islice(self.rows(), _HEAD) if index < len(cells)
            )
        )
        if len(names) > _MOST_NAMES or all(re.fullmatch(r"0|[1-9][0-9]{0,17}", name) for name in names):
            return None
        return names


@dataclass(frozen=True)
class Column:
    """Values of all rows; of labels that are no whole numbers, `names` are what they count."""

    values: npt.NDArray[Any]
    names: list[str] | None = None


@contextlib.contextmanager
def open_table(path: Path) -> Iterator[TableFile]:
    """Open a table and read its header. Raises BadInput for what is no readable text, and for what never ends."""
    with _opened(path) as file:
        text = next(_lines(path, file), "")
        delimiter = max(_DELIMITERS, key=text.count)
        try:
            header = next(csv.reader([text], delimiter=delimiter), [])
        except csv.Error as error:
            raise BadInput(f"{short(path)}, line 1: {error}", hint=_HINT) from error
        yield TableFile(path, file, header, delimiter)


def _opened(path: Path) -> IO[bytes]:
    try:
        # Not to wait where the path is a FIFO that nobody writes to.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        why = getattr(error, "strerror", None) or error
        raise BadInput(f"cannot read {short(path, 200)}: {why}", hint=_HINT) from error
    status = os.fstat(descriptor)
    why = ""
    if stat.S_ISFIFO(status.st_mode):
        return _piped(path, descriptor)
    if not stat.S_ISREG(status.st_mode):
        why = "it is a directory" if stat.S_ISDIR(status.st_mode) else "it is no file"
    elif status.st_size > MOST_BYTES:
        why = f"it holds {status.st_size >> 20:,} MiB, more than {MOST_BYTES >> 20:,}"
    if why:
        os.close(descriptor)
        hint = "one row a run: are these iterations? take each run's median" if "MiB" in why else _HINT
        raise BadInput(f"cannot read {short(path, 200)}: {why}", hint=hint)
    return os.fdopen(descriptor, "rb")


def _piped(path: Path, descriptor: int) -> IO[bytes]:
    """`<(zcat runs.csv.gz)`: all of it in memory, since it is read twice. Where nobody writes, it is empty."""
    held = bytearray()
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        while len(held) <= MOST_PIPED:
            part = file.read(1 << 20)
            if part is None:  # a writer that has nothing yet
                select.select([file], [], [])
            elif part:
                held += part
            else:
                return io.BytesIO(bytes(held))
    raise BadInput(
        f"{path} gives more than {MOST_PIPED >> 20} MiB", hint="write it to a file, which may be larger"
    )


def _lines(path: Path, file: IO[bytes]) -> Iterator[str]:
    """Lines of UTF-8 text without their ends, as str.splitlines parts them; a chunk at a time."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    rest, number = "", 0
    while True:
        data = file.read(1 << 18)
        try:
            text = rest + decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            raise BadInput(f"{path} is not UTF-8 text", hint="save the table as CSV in UTF-8") from error
        lines = text.splitlines(keepends=True)
        # The last may go on in the next chunk, be it by the second half of its CRLF.
        rest = lines.pop() if data and lines else ""
        for line in lines:
            number += 1
            yield line.splitlines()[0]
        if len(rest) > LONGEST_LINE:
            raise BadInput(
                f"{path}, line {number + 1}: longer than {LONGEST_LINE >> 10} KiB", hint="is it a CSV file?"
            )
        if not data:
            return


def _is_plain(file: IO[bytes], delimiter: str) -> bool:
    """ASCII without quotes and control characters, its lines ended by LF or CRLF."""
    file.seek(0)
    first = True
    while window := file.read(_WINDOW):
        window += file.readline(LONGEST_LINE)
        if first:
            window, first = window.removeprefix(_BOM), False
        if not window.isascii() or b'"' in window or b"\x7f" in window:
            return False
        controls = np.count_nonzero(np.frombuffer(window, dtype=np.uint8) < 32)
        known = window.count(b"\n") + (window.count(b"\t") if delimiter == "\t" else 0)
        returns = window.count(b"\r")
        if controls != known + returns or returns != window.count(b"\r\n"):
            return False
    return True


def _literal(names: Sequence[str]) -> str:
    return "[" + ", ".join("'" + name.replace("'", "''") + "'" for name in names) + "]"


def number(text: str) -> float | None:
    """Parse a number; None for what is none."""
    try:
        return float(text)
    except ValueError:
        return None
