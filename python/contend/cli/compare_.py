"""`contend compare`: two finished runs, with the doubt that lies between their times."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from contend.cli.common import print_answer
from contend.errors import NoVerdict, ThresholdCrossed
from contend.units import parse_fraction

if TYPE_CHECKING:
    from contend.analysis.two_runs_words import Row
    from contend.report.printer import Printer


@click.command("compare", short_help="Which cells changed between two runs.")
@click.argument("first")
@click.argument("second")
@click.option(
    "--fail-above",
    metavar="PERCENT",
    help="As a gate: exit 4 if a headline metric got worse by more than this beyond its interval, 5 if that is undecided.",
)
@click.option(
    "--sessions",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Where earlier runs of the scenario lie (default: beside the two).",
)
@click.option(
    "--page",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write it as one HTML page, too.",
)
@click.option("-v", "--verbose", is_flag=True, help="Every metric, not the headline ones only.")
@click.option("--json", "as_json", is_flag=True, help="As one JSON document.")
def command(
    first: str,
    second: str,
    fail_above: str | None,
    sessions: tuple[Path, ...],
    page: Path | None,
    verbose: bool,
    as_json: bool,
) -> int:
    """Compare run FIRST with run SECOND, cell by cell; above 1 the second is worse.

    Two runs are two times, so the interval is widened by what at least 5 unchanged runs of the scenario varied
    by on this host. To compare two versions, `contend ab` (interleaved in one run) needs none of that.
    """
    from contend.analysis.two_runs import compare_runs, verdict
    from contend.analysis.two_runs_words import changed_cells, headline, lacking, notes
    from contend.report.printer import Printer
    from contend.report.words import percent
    from contend.stats.sessions import LEAST_SESSIONS
    from contend.store.directory import RunDirectory
    from contend.text.safe import safe_console

    limit = parse_fraction(fail_above) if fail_above is not None else None
    one, other = RunDirectory.open(first), RunDirectory.open(second)
    comparison = compare_runs(one, other, sessions=sessions)
    if page is not None:
        from contend.analysis.two_runs_page import render_comparison, side
        from contend.files import write

        again = shlex.join(["contend", "compare", first, second])
        write(page, render_comparison(comparison, side(one), side(other), again).encode("utf-8"))
    code = 0 if limit is None else verdict(comparison, limit)
    if as_json:
        print_answer(headline(comparison), comparison, code=code)
    else:
        printer = Printer(safe_console())
        for warning in comparison.warnings:
            printer.line(f"warning: {warning}", hang=2)
        _show(headline(comparison), [r for r in changed_cells(comparison) if r.primary or verbose], printer)
        for why in notes(comparison, primary=not verbose):
            printer.line(f"note: {why}", hang=2)
        if page is not None:
            print(f"page: {page}")
    if limit is not None and code == 4:
        worse = [
            " ".join(c.factors.values())
            for c in comparison.cells
            if c.metric.primary and c.estimate.low > 1 + limit
        ]
        raise ThresholdCrossed(
            f"worse by more than {percent(limit)}: {'; '.join(worse)}",
            hint="contend report SECOND shows where the time goes",
        )
    if limit is not None and code == 5:
        if why := lacking(comparison, second):
            raise NoVerdict(
                f"whether a cell is worse by more than {percent(limit)} is undecided: {why}",
                hint=f"contend report {second} says what failed there; compare two runs of one scenario",
            )
        doubtful = [c for c in comparison.cells if c.metric.primary and c.estimate.high > 1 + limit]
        known = all(c.sessions >= LEAST_SESSIONS for c in doubtful)
        more = (
            "more blocks in each run, or a quieter host"
            if known
            else f"{LEAST_SESSIONS} unchanged runs first"
        )
        raise NoVerdict(
            f"whether a cell is worse by more than {percent(limit)} is undecided: the intervals reach beyond it",
            hint=f"measure both in one run with `contend ab`; else it takes {more}",
        )
    return 0


def _show(answer: str, rows: Sequence[Row], printer: Printer) -> None:
    """The verdict in a sentence, then a row a cell that fits the screen."""
    printer.line(answer, "bold")
    if not rows:
        return
    table = printer.table()
    for title in ("cell", "metric", "first → second", "ratio", "verdict"):
        table.add_column(printer.text(title), overflow="fold", no_wrap=title == "verdict")
    for row in rows:
        table.add_row(*map(printer.text, (row.name, row.metric, row.levels, row.ratio, row.verdict)))
    printer.line()
    printer.put(table)
