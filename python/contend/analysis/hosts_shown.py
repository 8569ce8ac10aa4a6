"""The hosts of a fleet's run, in the terminal and on the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from contend.analysis import hosts_words as told
from contend.document import Section, Shown

if TYPE_CHECKING:
    from contend.document.hosts import Fleets
    from contend.report.model import ReportInput
    from contend.report.printer import Printer


@dataclass(frozen=True, slots=True)
class ShownHosts(Shown):
    """A row a host; of many the first ones in the terminal, unless verbose."""

    found: Fleets

    def show_below(self, report: ReportInput, printer: Printer, *, verbose: bool) -> None:
        found, line = self.found, printer.line
        line()
        line(told.TITLE, "bold")
        rows = told.rows(found)
        shown = rows if verbose else rows[: told.MOST]
        printer.columns(told.headers(found), shown, 1)
        if len(shown) < len(rows):
            line(f"and {len(rows) - len(shown)} more (-v shows all)", "dim", 2, 2)
        for note in told.notes(found):
            line(note, "yellow", 2, 2)
        run = report.run_dir.rstrip("/")
        line(f"what a host says by itself: contend report {run}/hosts/HOST", "dim", 2, 2)

    def section(self, report: ReportInput) -> Section:
        values = {"told": told, "fleet": self.found}
        return Section("contend.analysis:hosts.html.j2", values, (("fleet", told.TITLE),), below=True)
