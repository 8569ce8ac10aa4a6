"""The trials' rows of a run (trials.ndjson), as far as they are whole: one by one, or all in little memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contend.errors import BadInput
from contend.files import open_inside
from contend.store.damage import noting, numbered_rows, uncollected, whole_rows
from contend.text.masking import mask_row

Row = dict[str, Any]


class TrialRows:
    """The rows of one file, kept in memory until it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: _Known | None = None

    def each(self, plan: Mapping[str, Any] | None) -> Iterator[Row]:
        """Read rows that are whole and whose cell is in that plan; others are noted as damage."""
        return map(mask_row, whole_rows(self._path, wrong_row(plan)))

    def compact(self, plan: Mapping[str, Any] | None) -> Sequence[Row]:
        """The rows for reading only, in a tenth of the memory. Of a file that has grown only what is new is read; of one
        in which some are damaged all of it, for who asks is to hear of it."""
        state, before = file_state(self._path), self._known
        if before is None or state is None or not before.of(plan):
            before = None
        elif before.state == state:
            return before.rows
        elif before.last != _bytes_of(self._path, before.size - len(before.last), before.size):
            before = None
        with noting() as damage, uncollected():
            rows, size, last = ([*before.rows], before.size, before.last) if before else ([], 0, b"")
            for line, row in compact_lines(self._path, wrong_row(plan), after=(size, len(rows))):
                rows.append(row)
                size, last = size + len(line), line
        self._known = None if damage else _Known(state, tuple(rows), size, last, plan is not None)
        return tuple(rows)


@dataclass(frozen=True, slots=True)
class _Known:
    """Rows in memory, all of them whole: of which state of their file, their bytes there, and the last line of these."""

    state: object
    rows: tuple[Row, ...]
    size: int
    last: bytes
    planned: bool

    def of(self, plan: Mapping[str, Any] | None) -> bool:
        """True if they are whole by the run's plan too, where that is asked."""
        return plan is None or self.planned


def compact_lines(
    path: Path, wrong: Callable[[Any], str], after: tuple[int, int] = (0, 0)
) -> Iterator[tuple[bytes, Row]]:
    """Read lines as compact rows, as `numbered_rows` does."""
    from contend.store.compact import Compactor

    compactor = Compactor(wrong)
    for line, row in numbered_rows(path, compactor.wrong, after=after, parse=compactor.parse):
        yield line, compactor.made(row)


def wrong_row(plan: Mapping[str, Any] | None) -> Callable[[Any], str]:
    """Make a check of trials' rows: what is wrong, "" for nothing; by that plan, where there is one."""
    from contend.store import planned, rows

    return rows.wrong_trial if plan is None else planned.wrong_row(plan)


def file_state(path: Path) -> object:
    """A value that differs once a file has changed; None for no file."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_ino, about.st_size, about.st_mtime_ns


def _bytes_of(path: Path, start: int, end: int) -> bytes | None:
    """Read that part of a file of a run; None where it cannot be read."""
    try:
        with open_inside(path) as file:
            file.seek(start)
            return file.read(end - start)
    except (OSError, BadInput):
        return None
