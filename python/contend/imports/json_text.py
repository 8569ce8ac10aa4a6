"""JSON documents of any size, of which only what is wanted stays in memory.

Tools write what they sampled as one long list inside a document: hundreds of megabytes of it, of which a few figures are
wanted. The document is taken apart down to such a list by its path, `.jobs` or `[].result`; each item of it is parsed by
itself and handed to a collector, which stands in the document in place of the list. All else is parsed as it is.
"""

from __future__ import annotations

import codecs
import functools
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, Protocol

from contend.errors import BadInput

CHUNK = 1 << 20
MOST_ITEM = 16 << 20  # characters of one item, or of anything else that is parsed at once
MOST_KEPT = 24 << 20  # characters of what no collector takes
_EACH = 16  # characters that an item of a list counts beside its own, for what it takes in memory
_SPACE = re.compile(r"[ \t\n\r]*")
_BEGIN = re.compile(r"^[ \t]*[{\[]", re.MULTILINE)
_PARTS = re.compile(r"\[\]|\.[^.\[]+")
_TOKEN = 16  # characters: `-Infinity` or an escape, whose end may be in the next chunk
WHOLE = "was it copied whole, and had the tool ended? fetch it again, or leave it out"
KNOWN = "contend import --help names the formats that are known"


class Collector(Protocol):
    """Takes the items of one list as they are read. `add` never raises: a wrong item is an error when the list is used."""

    def add(self, item: Any) -> None: ...


Collectors = Mapping[str, Callable[[], Collector]]
"""What is made of the lists at these paths: `.key` of an object, `[]` any item of a list, "" the document."""


class JsonText:
    """Reads the JSON documents in a file, one after the other; lines before the first are skipped (fio's notes).

    bad: makes the error, from what is wrong and a hint. Every method raises it for text that is cut off or no JSON.
    """

    def __init__(self, file: IO[bytes], collectors: Collectors, bad: Callable[[str, str], BadInput]) -> None:
        self._file, self._collectors, self._bad = file, collectors, bad
        self._taken_apart = {
            "".join(parts[:n])
            for parts in (_PARTS.findall(path) for path in collectors)
            for n in range(len(parts))
        }
        self._decoder = json.JSONDecoder()
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._at, self._ended = "", 0, False
        self._line, self._column = 1, 0  # where the text begins in the file
        self._kept = 0

    @functools.cached_property
    def first(self) -> Any:
        """The first document."""
        self._more()
        begin = _BEGIN.search(self._text)
        if begin is None:
            raise self._bad("it holds no JSON document", KNOWN)
        self._at = begin.end() - 1
        return self._document()

    def others(self) -> Iterator[Any]:
        """Read the documents behind the first, until something else follows. Call it once."""
        _ = self.first
        while self._peek() in ("{", "["):
            yield self._document()

    def only(self) -> Any:
        """Read the document of a file that has only one. Raises the file's error where more follows."""
        document = self.first
        if self._peek():
            raise self._bad("something follows the JSON document in it", "one file a run: name them apart")
        return document

    # ---- values

    def _document(self) -> Any:
        self._kept = 0
        try:
            return self._value("")
        except RecursionError as error:
            raise self._bad("its JSON is nested too deeply", KNOWN) from error

    def _value(self, path: str) -> Any:
        opens = self._peek()
        if opens == "[" and path in self._collectors:
            collected = self._collectors[path]()
            for _ in self._items("]"):
                collected.add(self._parsed())
            return collected
        if opens == "[" and path in self._taken_apart:
            return [self._value(f"{path}[]") for _ in self._items("]")]
        if opens == "{" and path in self._taken_apart:
            return {key: self._value(f"{path}.{key}") for key in self._keys()}
        before = self._consumed
        value = self._parsed()
        self._keep(self._consumed - before)
        return value

    def _keys(self) -> Iterator[str]:
        for _ in self._items("}"):
            self._expect('"', "Expecting property name enclosed in double quotes")
            key = self._parsed()
            self._keep(len(key))
            self._expect(":", "Expecting ':' delimiter")
            self._at += 1
            yield key

    def _items(self, closing: str) -> Iterator[None]:
        """Once before each item of the list or object that begins here; passes over its end."""
        self._at += 1
        if self._peek() == closing:
            self._at += 1
            return
        while True:
            self._keep(0)
            yield
            character = self._expect(f",{closing}", "Expecting ',' delimiter")
            self._at += 1
            if character == closing:
                return

    def _keep(self, characters: int) -> None:
        self._kept += characters + _EACH if characters else 0
        if self._kept > MOST_KEPT:
            raise self._bad(
                f"more than {MOST_KEPT >> 20} MiB of it are no results", "is it the tool's own output?"
            )

    def _parsed(self) -> Any:
        """One value, whatever it holds."""
        self._peek()
        while True:
            value, end, error = None, len(self._text), None
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as found:
                error = found
            except ValueError as found:  # Python's bound on the digits of a whole number
                raise self._bad(f"its JSON holds a number of too many digits: {found}", KNOWN) from found
            # A number may go on behind what has been read: 1 of 1.5, of 1e+5.
            if error is None and (end + 3 <= len(self._text) or self._ended):
                self._at = end
                return value
            # Cut off by the end of what has been read so far? Else there is no need to read on.
            if error is not None and "Unterminated" not in error.msg and error.pos < len(self._text) - _TOKEN:
                raise self._broken(error)
            if len(self._text) - self._at > MOST_ITEM:
                raise self._bad(f"one value in it is larger than {MOST_ITEM >> 20} MiB", KNOWN) from error
            if error is not None and self._ended:
                raise self._broken(error) from error
            self._more()

    # ---- text

    @property
    def _consumed(self) -> int:
        return self._passed + self._at

    _passed = 0  # characters before the text

    def _more(self) -> bool:
        """Read on, and let go what has been parsed. False at the end of the file."""
        done, self._text = self._text[: self._at], self._text[self._at :]
        self._passed, self._at = self._passed + len(done), 0
        lines = done.count("\n")
        self._line += lines
        self._column = len(done) - done.rfind("\n") - 1 if lines else self._column + len(done)
        if self._ended:
            return False
        try:
            # As much again as an item that goes on for long, so that its beginning is not parsed too often.
            data = self._file.read(max(CHUNK, len(self._text)))
            self._text += self._utf8.decode(data, final=not data)
        except UnicodeDecodeError as error:
            raise self._bad("it is no UTF-8 text", "name the file that the tool wrote") from error
        except (OSError, EOFError, zlib.error) as error:
            raise self._bad(f"it cannot be unpacked: {error}", WHOLE) from error
        self._ended = not data
        return bool(data)

    def _peek(self) -> str:
        """The next character that is no space; "" at the end."""
        while True:
            if space := _SPACE.match(self._text, self._at):
                self._at = space.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _expect(self, characters: str, message: str) -> str:
        character = self._peek()
        if not character or character not in characters:
            raise self._broken(json.JSONDecodeError(message, self._text, self._at))
        return character

    def _broken(self, error: json.JSONDecodeError) -> BadInput:
        line = self._line + error.lineno - 1
        column = error.colno + (self._column if error.lineno == 1 else 0)
        if self._ended and (error.pos >= len(self._text.rstrip()) - 1 or "Unterminated" in error.msg):
            return self._bad(f"its JSON ends in the middle, in line {line}", WHOLE)
        return self._bad(f"its JSON breaks off in line {line}, column {column}: {error.msg}", WHOLE)
