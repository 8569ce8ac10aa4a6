"""SQL over a run directory: views of its rows and series, read in place by DuckDB."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from contend.errors import BadInput
from contend.store.damage import noting, numbered_rows
from contend.store.directory import Row, RunDirectory
from contend.store.rows import wrong_event
from contend.store.series import connect, pattern, quoted, read_sound, series_files
from contend.store.trial_rows import compact_lines, wrong_row


def query(
    run: RunDirectory,
    sql: str,
    more: Mapping[str, Mapping[str, Any]] | None = None,
    others: Sequence[str] = (),
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Run SQL over the run's views (see `views`) and `more` tables of columns: column names, and rows; `others` are
    names that a query may ask for too. Raises BadInput for wrong SQL.

    The query is the user's own, and may read other files as any of DuckDB's may; the views hold only rows of regular
    files of the run that are whole.
    """

    def ask() -> tuple[list[str], list[tuple[Any, ...]]]:
        with (
            tempfile.TemporaryDirectory(prefix="contend-sql-") as folder,
            contextlib.closing(connect()) as connection,
        ):
            known.clear()
            known.update(views(run, Path(folder)))
            for name, text in known.items():
                connection.execute(f"create view {name} as {text}")
            for name, table in (more or {}).items():
                connection.register(name, dict(table))
            result = connection.execute(sql)
            columns = [d[0] for d in result.description or []]
            return columns, result.fetchall()

    known: dict[str, str] = {}
    try:
        return read_sound(run.series, ask)
    except duckdb.Error as error:
        names = ", ".join(dict.fromkeys([*known, *others]))
        raise BadInput(
            f"DuckDB refused the query: {str(error).splitlines()[0]}",
            hint=f"tables: {names}; `describe trials` shows columns",
        ) from error


def views(run: RunDirectory, folder: Path) -> dict[str, str]:
    """SQL text of each view that this run's files allow. `folder` is for rows that are whole of files that are not."""

    def source(path: Path, lines: Callable[[], Iterator[tuple[bytes, Row]]]) -> str:
        whole = _whole_file(path, lines, folder / path.name)
        return (
            f"read_json({quoted(pattern(whole))}, format='newline_delimited', union_by_name=true)"
            if whole
            else ""
        )

    texts: dict[str, str] = {}
    if trials := source(run.trials_path, lambda: compact_lines(run.trials_path, wrong_row(None))):
        texts["trials"] = f"select * from {trials}"
        keys = "trial, block, phase, cell, factors"
        for name in ("metrics", "evidence"):
            texts[name] = f"select {keys}, unnest({name}, recursive := true) from {trials}"
    if ledger := source(run.ledger_path, lambda: numbered_rows(run.ledger_path, wrong_event)):
        texts["ledger"] = f"select * from {ledger}"
    for table, parts in series_files(run.series).items():
        listed = ", ".join(quoted(pattern(path)) for path in parts)
        texts[table] = f"select * from read_parquet([{listed}], union_by_name=true)"
    return texts


def table_names(run: RunDirectory) -> set[str]:
    """Names of views that a query over the run may use."""
    return {"trials", "metrics", "evidence", "ledger", *series_files(run.series)}


def _whole_file(path: Path, lines: Callable[[], Iterator[tuple[bytes, Row]]], copy: Path) -> Path | None:
    """A file of the rows that are whole: the run's own where all are, else a copy; None without a row.

    lines: reads those of the run's.
    """
    with noting() as damage:
        rows = sum(1 for _ in lines())
    if not rows or not damage:
        return path if rows else None
    with copy.open("xb") as file:
        file.writelines(line for line, _ in lines())
    return copy
