"""Series on their way to disk: `series/TABLE-NNNN.parquet`, a file a batch, whole or not at all.

A batch of a table is written when it has grown to BATCH_VALUES or is BATCH_AGE_S old, so memory is bounded however
long the recording is, and a kill loses a minute at most. Small files are merged as they come: a day at one sample a
second would else leave 1,440 of each table. A merged file carries the numbers of the first and the last batch in
it (`host-0000-0031.parquet`) and stands before those are removed; readers pass over a file that a merged one
covers (`contend.store.series.series_files`), so an end at any moment neither loses nor doubles a row.

Rows are sorted by who (process, CPU, device) and then by time before they are written: a column then changes little
from row to row, and Parquet's dictionaries and deltas make it small.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from contend.clock import Clock, SystemClock
from contend.errors import HostFailed
from contend.files import HALF
from contend.probes.base import Coded
from contend.store.series import pattern, quoted

if TYPE_CHECKING:
    import duckdb

    from contend.probes.base import Column


BATCH_VALUES = 1 << 20  # 8 MiB as they come from the probe
BATCH_AGE_S = 60.0
LATER = 4  # times that a batch may grow while writing would disturb
MERGE_FILES = 32
MERGED_ROWS = 1 << 20  # a file beyond it is not worth merging any more
# What rows are sorted by, as far as a table has it; then by time.
_KEYS = (
    "pid",
    "start_ns",
    "cgroup",
    "cpu",
    "device",
    "interface",
    "subject",
    "stack",
    "kind",
    "resource",
    "victim",
    "culprit",
)


@dataclass
class _Held:
    """Rows of one table that are not on disk yet."""

    parts: list[Coded] = field(default_factory=list)
    values: int = 0
    since_ns: int = 0


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    first: int
    last: int
    rows: int


class SeriesWriter:
    """Appends tables to a series directory. Not for several threads at a time.

    >>> import tempfile, numpy as np
    >>> place = Path(tempfile.mkdtemp())
    >>> writer = SeriesWriter(place)
    >>> writer.add({"cpu": Coded({"t_ns": np.array([1, 2], "u8"), "cpu": np.array([0, 0], "u8")}, {})})
    >>> writer.close()
    >>> [path.name for path in place.iterdir()]
    ['cpu-0000.parquet']
    """

    def __init__(
        self,
        directory: Path,
        *,
        clock: Clock | None = None,
        batch_values: int = BATCH_VALUES,
        batch_age_s: float = BATCH_AGE_S,
    ) -> None:
        """Numbers go on after those of files that are there already, from a run that is resumed."""
        import duckdb

        self.directory = directory
        self._clock = clock or SystemClock()
        self._batch_values, self._batch_age_ns = batch_values, round(batch_age_s * 1e9)
        # One thread: a pool of workers would put load on the victim's CPUs to write a few kilobytes. Opened here,
        # before anything is measured, because opening costs ten times what writing a batch does.
        self._connection: duckdb.DuckDBPyConnection = duckdb.connect(
            config={"threads": 1, "memory_limit": "512MB"}
        )
        self._held: dict[str, _Held] = {}
        self._files: dict[str, list[_File]] = {}
        self._next = 1 + max(
            (int(n) for path in directory.glob("*.parquet") for n in re.findall(r"-(\d{4,})", path.name)),
            default=-1,
        )

    @property
    def held_values(self) -> int:
        """Number of values held in memory."""
        return sum(held.values for held in self._held.values())

    def add(self, tables: Mapping[str, Coded], *, later: bool = False) -> None:
        """Add rows; write every table whose batch is full or old.

        `later`: something is being measured just now, so write only what memory must not hold any longer.
        Raises HostFailed when the disk does not take one: that batch is lost, what was written before stands.
        """
        now = self._clock.monotonic_ns()
        for name, table in tables.items():
            if not len(table):
                continue
            held = self._held.setdefault(name, _Held())
            if not held.parts:
                held.since_ns = now
            held.parts.append(table)
            held.values += len(table) * len(table.columns)
        most = self._batch_values * (LATER if later else 1)
        self._write(
            [
                name
                for name, held in self._held.items()
                if held.parts
                and (held.values >= most or (not later and now - held.since_ns >= self._batch_age_ns))
            ]
        )

    def flush(self) -> None:
        """Write everything that is held. Raises HostFailed as `add`."""
        self._write([name for name, held in self._held.items() if held.parts])

    def close(self) -> None:
        """Write the rest and merge small files. Idempotent. Raises HostFailed as `add`."""
        try:
            self.flush()
            for table, files in self._files.items():
                for group in _groups(files):
                    self._merge(table, group)
        finally:
            self._held.clear()
            self._connection.close()
            self._files.clear()

    def _write(self, names: Sequence[str]) -> None:
        """One batch of each table, under one number."""
        if not names:
            return
        number, self._next = self._next, self._next + 1
        for name in names:
            held = self._held.pop(name)
            columns = _joined(held.parts)
            target = self.directory / f"{name}-{number:04d}.parquet"
            self._connection.register("batch", columns)
            try:
                self._copy("SELECT * FROM batch", target)
            finally:
                self._connection.unregister("batch")
            rows = len(columns["t_ns"])
            self._files.setdefault(name, []).append(_File(target, number, number, rows))
            self._merge_newest(name)

    def _merge_newest(self, table: str) -> None:
        """Make one of the newest files when MERGE_FILES of single batches stand there."""
        files = self._files[table]
        single = [file for file in files if file.first == file.last]
        if len(single) >= MERGE_FILES:
            for group in _groups(single):
                self._merge(table, group)

    def _merge(self, table: str, group: Sequence[_File]) -> None:
        first, last = group[0].first, group[-1].last
        target = self.directory / f"{table}-{first:04d}-{last:04d}.parquet"
        sources = ", ".join(quoted(pattern(file.path)) for file in group)
        self._copy(f"SELECT * FROM read_parquet([{sources}], union_by_name=true)", target)
        for file in group:
            file.path.unlink()
        merged = _File(target, first, last, sum(file.rows for file in group))
        at = self._files[table].index(group[0])
        self._files[table][at : at + len(group)] = [merged]

    def _copy(self, query: str, target: Path) -> None:
        import duckdb

        # DuckDB would write through a link laid in its way: nobody knows this name.
        partial = target.with_name(f".{target.name}.{secrets.token_hex(6)}{HALF}")
        try:
            self.directory.mkdir(exist_ok=True)  # never what is above it: somebody removed that on purpose
            if not stat.S_ISDIR(self.directory.lstat().st_mode):
                raise NotADirectoryError(f"{self.directory} is a symbolic link")
            options = "FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION v2"
            self._connection.execute(f"COPY ({query}) TO {quoted(partial)} ({options})")
            partial.replace(target)
        except (OSError, duckdb.Error) as error:
            with contextlib.suppress(OSError):
                partial.unlink()
            full = "No space left on device"
            reason = full if full in str(error) else str(error).splitlines()[0]
            raise HostFailed(f"cannot write {target}: {reason}", hint="free some space") from error


def _groups(files: Sequence[_File]) -> list[list[_File]]:
    """Files that follow each other and fit in one, of two and more."""
    groups: list[list[_File]] = [[]]
    for file in files:
        if groups[-1] and sum(f.rows for f in groups[-1]) + file.rows > MERGED_ROWS:
            groups.append([])
        groups[-1].append(file)
    return [group for group in groups if len(group) > 1]


def _joined(parts: Sequence[Coded]) -> dict[str, Column]:
    """The rows of all parts, sorted, names written out, numbers signed: what people subtract must not wrap."""
    columns = {
        column: np.concatenate([part.columns[column] for part in parts]) for column in parts[0].columns
    }
    keys = [columns[key] for key in _KEYS if key in columns]
    order = np.lexsort([columns["t_ns"], *reversed(keys)])
    names = parts[-1].names  # the longest lists
    joined: dict[str, Any] = {}
    for column, values in columns.items():
        ordered = values[order]
        if column in names:
            joined[column] = np.array(names[column], dtype=object)[ordered.astype(np.intp)]
        else:
            joined[column] = ordered.astype(np.int64)
    return joined
