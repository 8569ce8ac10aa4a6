"""Advice in a terminal: an assignment to hosts where there is a forecast, and what to do, each with its check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contend.report import words
from contend.report.printer import Printer

if TYPE_CHECKING:
    from rich.console import Console

    from contend.report.model import ReportInput
    from contend.studies.base import Advice


def show_advice(report: ReportInput, advice: Advice, console: Console) -> None:
    """Print the assignment to hosts, where there is one, and each thing to do with the command that checks it."""
    printer = Printer(console)
    printer.line()
    printer.line(report.analysis.answer, "bold")
    if advice.title:
        printer.line()
        printer.line(advice.title, "bold")
        for line in advice.lines:
            printer.line(line, "", 2, 2)
        for line in advice.about:
            printer.line(line, "dim", 2, 2)
    printer.line()
    if advice.refused:
        printer.line(f"No advice: {advice.refused}.", "yellow")
        printer.line("Measured slowdowns of the pairs themselves are in the report.", "", 2, 2)
    elif not advice.findings:
        printer.line(f"Nothing to advise: {words.no_findings(report.analysis)}")
    for number, finding in enumerate(advice.findings, start=1):
        printer.line(f"{number} {finding.sentence}", "bold", 1, 2)
        if finding.advice:
            printer.line(f"→ {finding.advice}", "", 3, 2)
        if finding.verify:
            printer.command(f"verify: {finding.verify}", 5)
    printer.line()
    run = report.run_dir.rstrip("/")
    printer.command(f"{run}   report: {run}/report.html", 0)
