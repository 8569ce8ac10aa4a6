"""The tables of a hunt over all traced trials of a run, each row with its trial and cell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from contend.contention.events import TABLES, Events, read
from contend.errors import BadInput
from contend.files import open_inside
from contend.store.traces import is_trace_of

if TYPE_CHECKING:
    from contend.contention.events import Column
    from contend.store.directory import RunDirectory

Columns = Mapping[str, Any]


def tables_in(sql: str) -> tuple[str, ...]:
    """Names of the tables that a query mentions.

    >>> tables_in("select cell, sum(ns) from parts join jobs using (trial, job) group by cell")
    ('jobs', 'parts')
    """
    words = {word.lower() for word in re.findall(r"\w+", sql)}
    return tuple(name for name in TABLES if name in words)


def traced(run: RunDirectory) -> list[tuple[int, str, Path]]:
    """Trial, cell and trace of the trials that were traced, in the order they were run."""
    rows = run.each_row() if _mentions(run.trials_path, b'"trace"') else ()
    traces = [(row, run.path / str(row["trace"])) for row in rows if row.get("trace")]
    return [
        (int(row["trial"]), str(row.get("cell", "")), trace)
        for row, trace in traces
        if is_trace_of(run.path, trace)
    ]


def _mentions(path: Path, word: bytes) -> bool:
    """True if a word stands anywhere in a file: few runs have traces, and to read all rows of the others takes seconds."""
    try:
        with open_inside(path) as file:
            end = b""
            while chunk := file.read(1 << 20):
                if word in end + chunk:
                    return True
                end = chunk[-len(word) :]
    except (FileNotFoundError, BadInput):
        pass
    return False


def tables(run: RunDirectory, sql: str, jobs: str | None = None) -> dict[str, Columns]:
    """Read the tables that the query names, with `trial` and `cell` as first columns; nothing where it names none.

    `jobs` is a pattern, as of `events.read`. Raises BadInput, HostFailed.
    """
    wanted = tables_in(sql)
    if not wanted:
        return {}
    traces = [(trial, cell, read(trace, jobs)) for trial, cell, trace in traced(run)]
    return {name: _joined(name, traces) for name in wanted} if traces else {}


def _joined(name: str, traces: list[tuple[int, str, Events]]) -> Columns:
    of = [(trial, cell, events.tables[name]) for trial, cell, events in traces]
    lengths = [len(table) for _, _, table in of]
    cells = np.array([cell for _, cell, _ in of], dtype=object)
    columns: dict[str, Column] = {
        "trial": np.repeat(np.array([trial for trial, _, _ in of], dtype=np.int64), lengths),
        "cell": np.repeat(cells, lengths),
    }
    for column in of[0][2].column_names:
        columns[column] = np.concatenate([table[column] for _, _, table in of])
    return columns
