"""Damage of a run directory: what cannot be read, and reading on with the rest.

A run directory is data: it may have been cut off by a crash, copied in part, edited by hand, or made by somebody who means
harm. A reader that meets what it cannot use notes the damage (file, place, what) and goes on with what is whole. Whoever
shows the result shows the damage beside it: `contend` prints it at the end of each verb.
"""

from __future__ import annotations

import contextlib
import gc
import json
import re
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from contend.errors import BadInput
from contend.files import MOST_BYTES, open_inside, read_inside
from contend.text.printable import printable
from contend.text.shape import Shape, Through

MOST_ROWS_BYTES = 1 << 32
"""The largest file of rows that is read: a million trials."""
MOST_ROW_BYTES = 1 << 24
"""The longest row that is read."""

Row = dict[str, Any]
# Escapes of NUL and of halves of characters, which no page and no database can hold.
_ODD = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")


def _printed(what: object) -> str:
    return printable(str(what))


@dataclass(frozen=True, slots=True)
class Damage(Shape):
    """A part of the run's files that could not be read and was left out.

    >>> print(Damage(Path("runs/a/trials.ndjson"), "row 3", "not JSON"))
    runs/a/trials.ndjson, row 3: not JSON
    """

    file: Annotated[Path, Through(_printed), "within the run directory"]
    where: Annotated[str, Through(_printed), "row or key; empty for the whole file"]
    what: Annotated[str, Through(_printed)]

    def __str__(self) -> str:
        return printable(f"{self.file}{f', {self.where}' if self.where else ''}: {self.what}")

    def within(self, run: Path) -> Damage:
        """The same, with the file as it is called in that run directory."""
        return replace(self, file=self.file.relative_to(run)) if self.file.is_relative_to(run) else self


_noted: ContextVar[dict[Damage, None] | None] = ContextVar("noted", default=None)


@contextlib.contextmanager
def noting() -> Iterator[dict[Damage, None]]:
    """Collect the damage that is met within the block, each once, in order; a block around this one gets it too.

    >>> with noting() as found:
    ...     note(Path("plan.json"), "", "empty")
    >>> [str(damage) for damage in found]
    ['plan.json: empty']
    """
    outer, damage = _noted.get(), dict[Damage, None]()
    token = _noted.set(damage)
    try:
        yield damage
    finally:
        _noted.reset(token)
        if outer is not None:
            outer.update(damage)


def note(file: Path, where: str, what: str) -> None:
    """Report damage to whoever collects it."""
    collected = _noted.get()
    if collected is not None:
        collected[Damage(file, where, what)] = None


def document(data: bytes) -> Any:
    """A JSON value without what no page and no database can hold (NUL, half characters). Raises ValueError."""
    try:
        return showable(json.loads(data), data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def showable(value: Any, data: bytes) -> Any:
    """A JSON value that came of `data`, without what no page and no database can hold: half characters and NUL."""
    if not _ODD.search(data):
        return value
    whole = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()
    return json.loads(whole.replace("\\u0000", ""))


def row_parser(slow: Callable[[bytes], Any] = document) -> Callable[[bytes], Any]:
    """Make a parser that does what `slow` does, in half the time: what the quick parser refuses, `slow` judges."""
    from pydantic_core import from_json

    def parse(line: bytes) -> Any:
        if not _ODD.search(line):
            try:
                return from_json(line)
            except ValueError:
                pass
        return slow(line)

    return parse


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """A block that makes very many objects, and none that refer to each other in a circle: to look for such took a
    fifth of the time of a report."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def json_object(path: Path, *, most: int = MOST_BYTES) -> dict[str, Any]:
    """Read a JSON file of a run directory that holds one object. Raises BadInput naming it, FileNotFoundError."""
    try:
        value = document(read_inside(path, most=most))
    except FileNotFoundError:
        raise
    except BadInput:
        raise
    except OSError as error:
        raise BadInput(
            f"cannot read {path}: {error.strerror}", hint="is this a whole run directory?"
        ) from error
    except ValueError as error:
        raise BadInput(f"cannot read {path}: {error}", hint="is this a whole run directory?") from error
    if not isinstance(value, dict):
        raise BadInput(f"{path} holds no JSON object", hint="is this a whole run directory?")
    return value


def whole_rows(
    path: Path, wrong: Callable[[Any], str], *, skip: Callable[[bytes], bool] | None = None
) -> Iterator[Row]:
    """Read rows of an NDJSON file that are whole, in order; others are noted as damage and passed over, those to `skip`
    without being parsed.

    `wrong` says what is wrong with a row, "" for nothing. A last line without its end is what a crash leaves, or is being
    written just now. A file that is not there has no rows.
    """
    for _, row in numbered_rows(path, wrong, skip=skip):
        yield row


def numbered_rows(
    path: Path,
    wrong: Callable[[Any], str],
    *,
    after: tuple[int, int] = (0, 0),
    skip: Callable[[bytes], bool] | None = None,
    parse: Callable[[bytes], Any] | None = None,
) -> Iterator[tuple[bytes, Row]]:
    """As `whole_rows`, each with its line.

    after: bytes and rows at the beginning that are passed over; skip: which lines are passed over, unparsed; parse: a
    line's JSON, with ValueError for what is none.
    """
    try:
        file = open_inside(path, most=MOST_ROWS_BYTES)
    except FileNotFoundError:
        return
    except BadInput as error:
        note(path, "", error.message.removeprefix(f"{path} "))
        return
    except OSError as error:
        note(path, "", error.strerror or str(error))
        return
    offset, number = after
    parse = parse or row_parser()
    with file:
        file.seek(offset)
        while line := file.readline(MOST_ROW_BYTES):
            number += 1
            if not line.endswith(b"\n"):
                if len(line) < MOST_ROW_BYTES:
                    note(path, f"row {number}", "it is cut off: its end was never written")
                    return
                note(path, f"row {number}", f"it is longer than {MOST_ROW_BYTES >> 20} MiB")
                while line and not line.endswith(b"\n"):
                    line = file.readline(MOST_ROW_BYTES)
                continue
            if skip is not None and skip(line):
                continue
            try:
                row = parse(line)
                why = wrong(row)
            except ValueError as error:
                why = "it is not JSON" if isinstance(error, json.JSONDecodeError) else str(error)
            if why:
                note(path, f"row {number}", why[:200])
            else:
                yield line, row
