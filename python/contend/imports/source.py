"""One file that was named: its bytes, its digest, and its text as JSON, as a table or as lines."""

from __future__ import annotations

import csv
import functools
import gzip
import hashlib
import io
import itertools
import os
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from contend.errors import BadInput
from contend.imports.json_text import WHOLE, Collectors, JsonText
from contend.text.printable import short

MAX_BYTES = 32 << 20  # of text that is read whole; tables are read row by row, JSON item by item
MOST_TABLE_BYTES = 16 << 30
LONGEST_LINE = 1 << 20
_BUFFER = 1 << 18
HEAD = 65536
_DELIMITERS = ",;\t|"


@dataclass(frozen=True)
class Source:
    """A file as the user named it."""

    path: Path
    name: str
    size_bytes: int
    sha256: str
    collectors: Collectors = field(default_factory=dict)  # of lists in its JSON
    read: Callable[[int], None] | None = None  # is told how many bytes more have been read
    _opened: list[IO[bytes]] = field(default_factory=list)  # for its JSON

    @classmethod
    def open(
        cls, path: Path, collectors: Collectors | None = None, read: Callable[[int], None] | None = None
    ) -> Source:
        """Open a file. Raises BadInput where it cannot be read or is empty."""
        try:
            with _regular(path) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                size = file.tell()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise BadInput(f"cannot read '{path}': {why}", hint="name files that a tool wrote") from error
        if not size:
            raise BadInput(
                f"'{path}' is empty", hint="did the tool end before it wrote its result? leave the file out"
            )
        return cls(path, str(path), size, digest, collectors or {}, read)

    @functools.cached_property
    def head(self) -> str:
        """The first 64 KiB, to tell formats apart by; undecodable bytes replaced."""
        with self._bytes() as file:
            try:
                return file.read(HEAD).decode("utf-8", errors="replace").lstrip("\ufeff")
            except (OSError, EOFError, zlib.error) as error:
                raise self.bad(f"it cannot be unpacked: {error}", WHOLE) from error

    @functools.cached_property
    def text(self) -> str:
        """Read the whole text. Raises BadInput when it is too large, or no UTF-8."""
        with self._bytes() as file:
            try:
                data = file.read(MAX_BYTES + 1)
            except (OSError, EOFError, zlib.error) as error:
                raise self.bad(f"it cannot be unpacked: {error}", WHOLE) from error
        if len(data) > MAX_BYTES:
            raise self.bad(f"it is larger than {MAX_BYTES >> 20} MiB", "import it in parts, a run a file")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise self.bad("it is no UTF-8 text", "name the file that the tool wrote") from error

    @functools.cached_property
    def json(self) -> JsonText:
        """The JSON documents in it, read as they are asked for; `close` ends that."""
        self._opened.append(file := self._bytes())
        return JsonText(file, self.collectors, self.bad)

    def document(self) -> Any:
        """Read the file's one JSON document. Raises BadInput for more, and for text behind it."""
        return self.json.only()

    def documents(self) -> Iterator[Any]:
        """Read every JSON document in the file, until something else follows. Call it once. Raises BadInput."""
        yield self.json.first
        yield from self.json.others()

    def close(self) -> None:
        """Close the file, if it is being read."""
        if self._opened:
            self._opened.pop().close()

    def header(self) -> tuple[list[str], str]:
        """Column names of the first line, and the character that separates them."""
        line = self.head.split("\n", 1)[0]
        delimiter = max(_DELIMITERS, key=line.count)
        try:
            return [name.strip() for name in next(csv.reader([line], delimiter=delimiter), [])], delimiter
        except csv.Error:  # it is no table
            return [], delimiter

    def rows(self) -> Iterator[tuple[int, Mapping[str, str]]]:
        """Rows below the header with their line numbers. Raises BadInput for a row that is cut off."""
        names, delimiter = self.header()
        width = len(names)
        with self._bytes() as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
            reader = csv.reader(self._lines(text), delimiter=delimiter, strict=True)
            try:
                next(reader, None)
                for cells in reader:
                    if not cells:
                        continue
                    if len(cells) != width:
                        raise self.bad(
                            f"line {reader.line_num} has {len(cells)} fields, the header {width}",
                            "was the tool killed while it wrote? remove a last line that is cut off",
                        )
                    yield reader.line_num, dict(zip(names, cells, strict=True))
            except csv.Error as error:
                raise self.bad(f"line {reader.line_num}: {error}", WHOLE) from error
            except UnicodeDecodeError as error:
                raise self.bad("it is no UTF-8 text", "name the file that the tool wrote") from error
            except (OSError, EOFError, zlib.error) as error:
                raise self.bad(f"it cannot be unpacked: {error}", WHOLE) from error

    def _lines(self, text: IO[str]) -> Iterator[str]:
        """Its lines, none longer than is read at once."""
        for number in itertools.count(1):
            line = text.readline(LONGEST_LINE)
            if len(line) == LONGEST_LINE and not line.endswith(("\n", "\r")):
                raise self.bad(f"line {number} is longer than {LONGEST_LINE >> 10} KiB", "is it a table?")
            if not line:
                return
            yield line

    def bad(self, what: str, hint: str) -> BadInput:
        return BadInput(f"{self.name}: {what}", hint=hint)

    def _bytes(self) -> IO[bytes]:
        """Unpacked, where it is gzip (k6 writes its CSV so)."""
        file = _regular(self.path)
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if self.read is not None:
            file = io.BufferedReader(_Counted(file, self.read), _BUFFER)
        return cast("IO[bytes]", _Unpacked(file)) if packed else file


class _Counted(io.RawIOBase):
    """Tells of every piece that is read of a file."""

    def __init__(self, file: io.BufferedReader, read: Callable[[int], None]) -> None:
        self._file, self._read = file, read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(buffer)
        self._read(count)
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


class _Unpacked(gzip.GzipFile):
    """Closes what it unpacks, and unpacks no more than a table may hold: little packs to very much."""

    def __init__(self, packed: IO[bytes]) -> None:
        super().__init__(fileobj=packed, mode="rb")
        self._packed = packed

    def read(self, size: int | None = -1) -> bytes:
        return self._within(super().read(size))

    def read1(self, size: int = -1) -> bytes:
        return self._within(super().read1(size))

    def _within(self, data: bytes) -> bytes:
        if self.tell() > MOST_TABLE_BYTES:
            raise OSError(f"it unpacks to more than {MOST_TABLE_BYTES >> 30} GiB")
        return data

    def close(self) -> None:
        super().close()
        self._packed.close()


def _regular(path: Path) -> io.BufferedReader:
    """It is read several times, and to its end: no FIFO, no device. Raises BadInput, OSError."""
    # Not to wait where the path is a FIFO that nobody writes to.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    file = os.fdopen(descriptor, "rb")
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_TABLE_BYTES:
        file.close()
        what = "is larger than 16 GiB" if stat.S_ISREG(status.st_mode) else "is no regular file"
        raise BadInput(f"'{short(path, 200)}' {what}", hint="name files that a tool wrote")
    return file
