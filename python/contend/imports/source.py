"""One file that was named: its bytes, its digest, and its text as JSON, as a table or as lines."""

from __future__ import annotations

import csv
import functools
import gzip
import hashlib
import io
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from contend.errors import BadInput
from contend.printable import short

MAX_BYTES = 128 * 2**20  # of a document that is read whole; tables are read row by row
MOST_TABLE_BYTES = 16 << 30
HEAD = 65536
_DELIMITERS = ",;\t|"


@dataclass(frozen=True)
class Source:
    """A file as the user named it."""

    path: Path
    name: str
    size_bytes: int
    sha256: str

    @classmethod
    def open(cls, path: Path) -> Source:
        """Raises BadInput for what is no readable file, or empty."""
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
        return cls(path, str(path), size, digest)

    @functools.cached_property
    def head(self) -> str:
        """The first 64 KiB, to tell formats apart by; undecodable bytes replaced."""
        with self._bytes() as file:
            try:
                return file.read(HEAD).decode("utf-8", errors="replace").lstrip("\ufeff")
            except (OSError, EOFError) as error:
                raise self.bad(f"it cannot be unpacked: {error}", _WHOLE) from error

    @functools.cached_property
    def text(self) -> str:
        """All of it. Raises BadInput when it is too large, or no UTF-8."""
        with self._bytes() as file:
            try:
                data = file.read(MAX_BYTES + 1)
            except (OSError, EOFError) as error:
                raise self.bad(f"it cannot be unpacked: {error}", _WHOLE) from error
        if len(data) > MAX_BYTES:
            raise self.bad(f"it is larger than {MAX_BYTES >> 20} MiB", "import it in parts, a run a file")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise self.bad("it is no UTF-8 text", "name the file that the tool wrote") from error

    @functools.cached_property
    def json(self) -> tuple[tuple[Any, ...], str]:
        """Every JSON document in it, and text after the last; lines before the first are passed over (fio's notes).

        Raises BadInput for a document that ends in its middle, or is none.
        """
        text = self.text
        begin = re.search(r"^[ \t]*[{\[]", text, re.MULTILINE)
        if begin is None:
            raise self.bad("it holds no JSON document", _KNOWN)
        decoder, at, found = json.JSONDecoder(), begin.end() - 1, []
        while at < len(text) and text[at] in "{[":
            try:
                document, at = decoder.raw_decode(text, at)
            except json.JSONDecodeError as error:
                if error.pos >= len(text.rstrip()) - 1 or "Unterminated" in error.msg:
                    raise self.bad(f"its JSON ends in the middle, in line {error.lineno}", _WHOLE) from error
                raise self.bad(
                    f"its JSON breaks off in line {error.lineno}, column {error.colno}: {error.msg}", _WHOLE
                ) from error
            except RecursionError as error:
                raise self.bad("its JSON is nested too deeply", _KNOWN) from error
            found.append(document)
            space = re.compile(r"\s*").match(text, at)
            at = space.end() if space else at
        return tuple(found), text[at:]

    def document(self) -> Any:
        """The one JSON document that it is. Raises BadInput for more, and for text behind it."""
        documents, rest = self.json
        if len(documents) > 1 or rest.strip():
            raise self.bad("something follows the JSON document in it", "one file a run: name them apart")
        return documents[0]

    def header(self) -> tuple[list[str], str]:
        """Columns of the first line, and what parts them."""
        line = self.head.split("\n", 1)[0]
        delimiter = max(_DELIMITERS, key=line.count)
        try:
            return [name.strip() for name in next(csv.reader([line], delimiter=delimiter), [])], delimiter
        except csv.Error:  # it is no table
            return [], delimiter

    def rows(self) -> Iterator[tuple[int, Mapping[str, str]]]:
        """Rows below the header with their line numbers. Raises BadInput for a row that is cut off."""
        names, delimiter = self.header()
        with self._bytes() as file:
            reader = csv.reader(
                io.TextIOWrapper(file, encoding="utf-8-sig", newline=""), delimiter=delimiter, strict=True
            )
            try:
                next(reader, None)
                for cells in reader:
                    if not cells:
                        continue
                    if len(cells) != len(names):
                        raise self.bad(
                            f"line {reader.line_num} has {len(cells)} fields, the header {len(names)}",
                            "was the tool killed while it wrote? remove a last line that is cut off",
                        )
                    yield reader.line_num, dict(zip(names, cells, strict=True))
            except csv.Error as error:
                raise self.bad(f"line {reader.line_num}: {error}", _WHOLE) from error
            except UnicodeDecodeError as error:
                raise self.bad("it is no UTF-8 text", "name the file that the tool wrote") from error
            except EOFError as error:
                raise self.bad(f"it cannot be unpacked: {error}", _WHOLE) from error

    def bad(self, what: str, hint: str) -> BadInput:
        return BadInput(f"{self.name}: {what}", hint=hint)

    def _bytes(self) -> IO[bytes]:
        """Unpacked, where it is gzip (k6 writes its CSV so)."""
        with self.path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        if packed:
            return cast("IO[bytes]", gzip.open(self.path, "rb"))
        return self.path.open("rb")


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


_WHOLE = "was it copied whole, and had the tool ended? fetch it again, or leave it out"
_KNOWN = "contend import --help names the formats that are known"
