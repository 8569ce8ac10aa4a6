"""Advice in a terminal: an assignment to hosts where there is a forecast, and what to do, each with its check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from contend.report import words
from contend.report.printer import Printer
from contend.studies.sensitivity import words as told

if TYPE_CHECKING:
    from rich.console import Console

    from contend.report.model import ReportInput
    from contend.studies.sensitivity.findings import Placed


def show_advice(
    report: ReportInput, document: Mapping[str, Any], placed: Placed | None, console: Console
) -> None:
    """document: what machines get of the same run."""
    printer = Printer(console)
    printer.line()
    printer.line(report.analysis.answer, "bold")
    of = report.analysis.sensitivity
    if placed is not None and of is not None:
        printer.line()
        printer.line(f"On {placed.hosts} host{'s' if placed.hosts != 1 else ''}", "bold")
        for line in told.placed_lines(of, placed):
            printer.line(line, "", 2, 2)
        for line in told.placed_about(placed):
            printer.line(line, "dim", 2, 2)
    printer.line()
    if document["refused"]:
        printer.line(f"No advice: {document['refused']}.", "yellow")
        printer.line("Measured slowdowns of the pairs themselves are in the report.", "", 2, 2)
    elif not document["findings"]:
        printer.line(f"Nothing to advise: {words.no_findings(report.analysis)}")
    for number, finding in enumerate(document["findings"], start=1):
        printer.line(f"{number} {finding['sentence']}", "bold", 1, 2)
        if finding["advice"]:
            printer.line(f"→ {finding['advice']}", "", 3, 2)
        if finding["verify"]:
            printer.command(f"verify: {finding['verify']}", 5)
    printer.line()
    run = report.run_dir.rstrip("/")
    printer.command(f"{run}   report: {run}/report.html", 0)
