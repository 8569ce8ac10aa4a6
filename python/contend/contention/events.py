"""The events of traces as tables: jobs, where their time went, and who waited for whom. Made by native code in one
reading (two, where it must first be found out what the jobs are), whatever the trace's length in bounded memory.

The tables and their columns are in docs/reference/hunt-tables.md; `contend sql TRACE` asks them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from contend import _native
from contend.errors import BadInput

if TYPE_CHECKING:
    import numpy.typing as npt

    Column = npt.NDArray[np.int64] | npt.NDArray[np.object_]

TABLES = (
    "jobs", "parts", "along", "critical", "locks", "waits", "blame", "spans", "pools", "stalls", "loans", "polls",
)  # fmt: skip

_CHOSEN = {
    "mark": "marked as jobs",
    "pattern": "named by the pattern",
    "served": "spans that answer to somebody who is not on record",
    "followed": "requests that are answered before they are done, to the end of what they set off",
    "outermost": "outermost spans of the name that most time is in",
    "life": "what each coroutine or greenlet of the name does from its first step to its last",
}


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of one length: int64, and texts as objects. Arrow libraries take it as it is (`pyarrow.table(it)`).

    >>> import numpy as np
    >>> table = Table({"name": np.array(["a", "b"], dtype=object), "ns": np.array([1, 2])})
    >>> len(table), table["ns"].sum().item(), table.to_pylist()[1]
    (2, 3, {'name': 'b', 'ns': 2})
    """

    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, column: str) -> Any:
        return self.columns[column]

    @property
    def column_names(self) -> list[str]:
        """Names of the columns, in order."""
        return list(self.columns)

    def column(self, name: str) -> Any:
        """A column as a numpy array."""
        return self.columns[name]

    def to_pydict(self) -> dict[str, list[Any]]:
        """Columns as lists."""
        return {name: values.tolist() for name, values in self.columns.items()}

    def rows(self) -> Iterator[dict[str, Any]]:
        """Iterate over the rows, each a dict by column."""
        lists = self.to_pydict()
        for row in zip(*lists.values(), strict=True):
            yield dict(zip(lists, row, strict=True))

    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows, each a dict by column."""
        return list(self.rows())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The Arrow PyCapsule interface, by DuckDB: https://arrow.apache.org/docs/format/CDataInterface."""
        with duckdb.connect() as connection:
            connection.register("it", dict(self.columns))
            return connection.table("it").__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, eq=False)
class Events:
    """The tables read from traces. Each table is an attribute too: `events.jobs`.

    `how` says what made something a job (mark, pattern, served, followed, outermost, life), `names` are those of the jobs;
    the period is in ns of CLOCK_MONOTONIC, `began_ns` when that clock began, since 1970 (0: unknown); `counts` has how
    many events could not be used, by reason (`contend.store.traces.notes` makes sentences of it).
    """

    tables: Mapping[str, Table]
    how: str
    names: tuple[str, ...]
    begin_ns: int
    end_ns: int
    began_ns: int
    counts: Mapping[str, Any] = field(repr=False)
    beside: Mapping[str, Any] | None = field(default=None, repr=False)
    """Tables of native columns, as of `_native.ctrace_calls` and `ctrace_summary`."""

    def __getattr__(self, name: str) -> Table:
        if name in TABLES:
            return self.tables[name]
        raise AttributeError(name)

    @property
    def chosen(self) -> str:
        """A sentence on which spans count as jobs."""
        if not len(self.jobs):
            return "no jobs: nothing is marked as one, and no span is outermost"
        listed = ", ".join(self.names[:5]) + (f" and {len(self.names) - 5} more" if self.names[5:] else "")
        return f"{len(self.jobs):,} jobs ({listed}): {_CHOSEN[self.how]}"

    def query(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Run SQL over the tables: column names, and rows. Raises BadInput for wrong SQL."""
        connection = duckdb.connect()
        try:
            for name, table in self.tables.items():
                connection.register(name, dict(table.columns))
            result = connection.execute(sql)
            return [d[0] for d in result.description or []], result.fetchall()
        except duckdb.Error as error:
            raise BadInput(
                f"DuckDB refused the query: {str(error).splitlines()[0]}",
                hint=f"tables: {', '.join(self.tables)}; `describe jobs` shows columns",
            ) from error
        finally:
            connection.close()


def read(paths: str | Path | Sequence[str | Path], jobs: str | None = None, *, calls: int = 0) -> Events:
    """Read traces: files, and directories of them. With `calls`, a number of calls that are a row, `Events.beside` has
    what the same reading says of calls that leave the process, and of what stood still.

    `jobs` is a pattern for the names of spans and marks that are jobs: `*` stands for any text, `?` for a character; the
    outermost on a track counts. Without it they are what is marked as a job (`contend.trace.job`, a request that is
    served; where requests of some names are answered before all is done that they set off, those of the one with most
    time, to the end of that); else spans that answer to somebody who is not on record; else the outermost spans of the
    name that most time is in, or, where coroutines or greenlets of one name live much longer than these, their lives.
    `Events.chosen` says so. Raises BadInput where there is no trace, or nothing of that name;
    HostFailed.
    """
    of = [paths] if isinstance(paths, str | Path) else paths
    answer = _native.ctrace_hunt([str(path) for path in of], jobs, calls)
    tables = {
        name: Table({column: _column(values) for column, values in columns.items()})
        for name, columns in answer["tables"].items()
    }
    return Events(
        tables=tables,
        how=answer["how"],
        names=tuple(answer["names"]),
        begin_ns=answer["begin_ns"],
        end_ns=answer["end_ns"],
        began_ns=answer["boot_ns"],
        counts=answer["told"],
        beside=answer.get("beside"),
    )


def _column(values: bytes | tuple[list[str], bytes]) -> Column:
    if isinstance(values, bytes):
        return np.frombuffer(values, dtype="<i8")
    texts, indices = values
    all_texts: npt.NDArray[np.object_] = np.array([*texts, ""], dtype=object)
    return all_texts.take(np.frombuffer(indices, dtype="<i8"))
