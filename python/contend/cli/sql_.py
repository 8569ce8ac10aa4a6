"""`contend sql`: DuckDB over a run directory, in place, or over what a trace says."""

from __future__ import annotations

import csv
import datetime
import decimal
import math
import sys
from typing import Any

import click

from contend.cli.common import print_answer
from contend.errors import BadInput
from contend.text.masking import mask_value
from contend.text.printable import printable
from contend.text.safe import safe_console


@click.command("sql", short_help="Ask a run's or trace's rows anything.")
@click.argument("run")
@click.argument("query")
@click.option(
    "--json", "as_json", is_flag=True, help="Rows as a JSON array of objects; null for NaN and infinities."
)
@click.option("--csv", "as_csv", is_flag=True, help="Rows as CSV.")
@click.option("--job", metavar="PATTERN", help="Of traces: their jobs are the spans and marks of that name.")
def command(run: str, query: str, as_json: bool, as_csv: bool, job: str | None) -> int:
    """Run a SQL QUERY over RUN. Tables: trials, metrics, evidence, ledger, and what was recorded (docs/reference/series.md).
    Over a trace (a directory or file of `contend trace`): jobs, parts, along, critical, locks, waits, blame, spans, pools
    (docs/reference/hunt-tables.md). A run whose trials were traced has these too, each row with its trial and cell.

    \b
    Examples:
      contend sql RUN "select cell, median(value) from metrics where name = 'wall' group by cell"
      contend sql RUN "describe trials"
      contend sql RUN "select name, sum(user_ns + system_ns) from process_use group by name"
      contend sql TRACE "select kind, part, resource, ns from critical where job = -1 order by ns desc"
      contend sql RUN "select cell, kind, sum(ns) from parts group by all order by 3 desc"
      contend sql TRACE "select median(end_ns - begin_ns) from jobs" --job 'rpc serve *'
    """
    if as_json and as_csv:
        raise BadInput("--json and --csv are two forms", hint="give one of them")
    columns, rows = _ask(run, query, job)
    rows = [tuple(mask_value(list(row))) for row in rows]
    if as_json:
        if len(set(columns)) < len(columns):
            raise BadInput(
                "two columns have one name, and an object of JSON holds one of them",
                hint="name them apart, like a.cell AS one, b.cell AS other; or --csv",
            )
        objects = [dict(zip(columns, map(_plain, row), strict=True)) for row in rows]
        print_answer(f"{len(objects)} row{'s' * (len(objects) != 1)}", objects)
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    else:
        from rich.table import Table

        table = Table(*(str(c) for c in columns), box=None, pad_edge=False)
        for row in rows:
            table.add_row(*(_shown(v) for v in row))
        console = safe_console()
        if not console.is_terminal:
            console = safe_console(width=max(200, 24 * len(columns)))
        console.print(table, markup=False)
    return 0


def _ask(source: str, query: str, job: str | None) -> tuple[list[str], list[tuple[Any, ...]]]:
    from contend.contention.events import TABLES, read
    from contend.store.traces import is_trace

    if is_trace(source):
        return read(source, jobs=job).query(query)
    from contend.contention.run_events import tables, traced
    from contend.store.directory import RunDirectory
    from contend.store.queries import query as ask
    from contend.store.queries import table_names

    run = RunDirectory.open(source, samples=True)
    traces = traced(run)
    if job is not None and not traces:
        raise BadInput(f"'{source}' has no traces, which --job is about", hint="leave --job out")
    known = table_names(run)
    more = {name: table for name, table in tables(run, query, job).items() if name not in known}
    return ask(run, query, more, TABLES if traces else ())


def _plain(value: Any) -> Any:
    """As JSON can have it: null for infinities and for what is no number, text for what JSON has no form for."""
    if isinstance(value, decimal.Decimal):
        value = float(value)
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    return value if value is None or isinstance(value, str | int) else str(value)


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else printable(str(value))
