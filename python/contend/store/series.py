"""Series on disk, which may be anybody's: the files of each table, and reading them."""

from __future__ import annotations

import contextlib
import fnmatch
import re
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from contend.errors import BadInput
from contend.files import HALF, open_inside
from contend.store.damage import note

if TYPE_CHECKING:
    import duckdb

T = TypeVar("T")

_NAME = re.compile(r"^(?P<table>[a-z_]+)-(?P<first>\d{4,})(?:-(?P<last>\d{4,}))?\.parquet$")


_MAGIC = b"PAR1"  # how a Parquet file begins and ends
_INTEGERS = frozenset(f"{sign}{kind}INT" for sign in ("", "U") for kind in ("TINY", "SMALL", "", "BIG")) | {
    "INTEGER",
    "UINTEGER",
}
# Files that DuckDB has failed on while this program ran.
_unsound: ContextVar[frozenset[Path]] = ContextVar("unsound", default=frozenset())


def series_files(directory: Path) -> dict[str, list[Path]]:
    """Find each table's files that hold its rows, each row once, in the order they were written.

    Without those that a merged file covers, which a kill may have left beside it, and without what is no Parquet file
    (noted as damage): links are not followed.
    """
    by_table: dict[str, list[tuple[int, int, Path]]] = {}
    for path in _entries(directory, "*.parquet"):
        match = _NAME.match(path.name)
        if match and path not in _unsound.get() and _is_parquet(path):
            first = int(match["first"])
            by_table.setdefault(match["table"], []).append((first, int(match["last"] or first), path))
    return {table: _standing(files) for table, files in sorted(by_table.items())}


def read_sound(directory: Path, read: Callable[[], T]) -> T:
    """Call `read`; where DuckDB fails in it, once more without the files of `directory` that it cannot read.

    Those are noted as damage. To read every file first would cost as much as what is done with them.
    """
    import duckdb

    try:
        return read()
    # DuckDB checks no text that it reads from a Parquet file; what makes Python's of it raises one of the last two.
    except (duckdb.Error, BadInput, UnicodeDecodeError, RuntimeError) as error:
        if isinstance(error, BadInput) and not isinstance(error.__cause__, duckdb.Error):
            raise
        if isinstance(error, duckdb.ParserException | duckdb.CatalogException):
            raise  # of the query
        bad = frozenset(_broken(directory))
        if not bad:
            raise
        _unsound.set(_unsound.get() | bad)
        return read()


def read_series(directory: Path, read: Callable[[], T]) -> T:
    """As `read_sound`. Raises BadInput for series that are whole but not of this version's kind."""
    import duckdb

    try:
        return read_sound(directory, read)
    except duckdb.Error as error:
        raise BadInput(
            f"cannot read the series of {directory}: {str(error).splitlines()[0]}",
            hint="were they written by this version of contend? `contend sql` shows their columns",
        ) from error


def series_or(directory: Path, default: T, read: Callable[[], T]) -> T:
    """As `read_series`; where that cannot be read it is noted as damage, and the answer is `default`."""
    try:
        return read_series(directory, read)
    except BadInput as error:
        if error.__cause__ is None:
            raise
        note(directory, "", error.message)
        return default


def _broken(directory: Path) -> Iterator[Path]:
    """Files that cannot be read to their end, or that hold another kind of table."""
    import duckdb

    with contextlib.closing(connect()) as connection:
        for path in [path for files in series_files(directory).values() for path in files]:
            try:
                relation = connection.read_parquet([pattern(path)])
                columns = dict(zip(relation.columns, map(str, relation.types), strict=True))
                numbers = [c for c in columns if c.endswith(("_ns", "_bytes"))]
                odd = [
                    c
                    for c in numbers
                    if columns[c] not in _INTEGERS and columns[c] not in ("DOUBLE", "FLOAT")
                ]
                if odd or columns.get("t_ns") not in _INTEGERS:
                    note(path, f"column {odd[0] if odd else 't_ns'}", "it is missing, or no number")
                    yield path
                    continue
                # Of a hash: a maximum would be taken from the file's statistics, and no page be read.
                everything = ", ".join(_column(c) for c in columns)
                connection.execute(
                    f"SELECT bit_xor(hash({everything})) FROM read_parquet([{quoted(pattern(path))}])"
                ).fetchall()
                for column in (c for c, kind in columns.items() if kind == "VARCHAR"):
                    texts = connection.execute(
                        f"SELECT DISTINCT encode({_column(column)}) FROM read_parquet([{quoted(pattern(path))}])"
                    )
                    while some := texts.fetchmany(10_000):
                        for (text,) in some:
                            bytes(text or b"").decode("utf-8")
            except (UnicodeDecodeError, RuntimeError):  # the second of a column's name
                note(path, "", "it holds text that is not UTF-8")
                yield path
            except duckdb.Error as error:
                note(path, "", str(error).splitlines()[0][:200])
                yield path


def _entries(directory: Path, wanted: str) -> list[Path]:
    """Entries of that name in the directory; nothing where it is a link to another one."""
    if directory.is_symlink():
        note(directory, "", "it is a symbolic link")
        return []
    try:
        return [path for path in directory.iterdir() if fnmatch.fnmatchcase(path.name, wanted)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:  # which glob would not tell
        note(directory, "", error.strerror or str(error))
        return []


def _is_parquet(path: Path) -> bool:
    try:
        with open_inside(path) as file:
            if file.read(4) == _MAGIC and file.seek(-4, 2) >= 8 and file.read(4) == _MAGIC:
                return True
        note(path, "", "it is cut off, or no Parquet file")
    except FileNotFoundError:
        pass  # merged with others just now
    except BadInput as error:
        note(path, "", error.message.removeprefix(f"{path} "))
    except OSError as error:
        note(path, "", error.strerror or str(error))
    return False


def connect(*, threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """Open a database in memory that fetches nothing: no query makes DuckDB download an extension."""
    import duckdb

    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    return duckdb.connect(config=config if threads is None else {**config, "threads": threads})


def open_series(connection: duckdb.DuckDBPyConnection, directory: Path) -> dict[str, set[str]]:
    """Make a view for each table of a series directory; returns the columns of each.

    >>> import duckdb
    >>> open_series(duckdb.connect(), Path("/nowhere"))
    {}
    """
    columns = {}
    for table, files in series_files(directory).items():
        listed = ", ".join(quoted(pattern(path)) for path in files)
        connection.execute(
            f"CREATE VIEW {table} AS SELECT * FROM read_parquet([{listed}], union_by_name=true)"
        )
        columns[table] = {str(row[0]) for row in connection.execute(f"DESCRIBE {table}").fetchall()}
    return columns


def covered_files(directory: Path) -> list[Path]:
    """Files whose rows stand in a merged file too."""
    names = [
        (int(m["first"]), int(m["last"] or m["first"]), path, m["table"])
        for path in _entries(directory, "*.parquet")
        if (m := _NAME.match(path.name)) and _is_parquet(path)
    ]
    standing = {
        path
        for table in {name[3] for name in names}
        for path in _standing([(first, last, path) for first, last, path, of in names if of == table])
    }
    return [path for *_, path, _ in names if path not in standing]


def half_files(directory: Path) -> list[Path]:
    """Files that a kill or a full disk left half written."""
    return [
        *_entries(directory, f".*{HALF}"),
        *_entries(directory, "*.partial"),
    ]  # .partial: of earlier versions


def _standing(files: list[tuple[int, int, Path]]) -> list[Path]:
    standing: list[Path] = []
    covered = -1
    for _, last, path in sorted(files, key=lambda f: (f[0], -f[1])):
        if last > covered:
            standing.append(path)
            covered = last
    return standing


def pattern(path: Path) -> str:
    """A path as a pattern for DuckDB's readers that matches itself only.

    >>> pattern(Path("/runs/a[1]/what?.parquet"))
    '/runs/a[[]1]/what[?].parquet'
    """
    return re.sub(r"[*?\[]", r"[\g<0>]", str(path))


def _column(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quoted(path: Path | str) -> str:
    """A text as a literal of SQL.

    >>> print(quoted("it's"))
    'it''s'
    """
    return "'" + str(path).replace("'", "''") + "'"
