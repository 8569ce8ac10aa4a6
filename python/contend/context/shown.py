"""A component's cost in context, in the terminal and on the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from contend.context import words as told
from contend.document import Section, Shown
from contend.document.context import Context

if TYPE_CHECKING:
    from contend.report.model import ReportInput
    from contend.report.printer import Printer


@dataclass(frozen=True, slots=True)
class InContext(Shown):
    """The answer, the shares and how they are known, what each variant would change, what a reader must know."""

    of: Context

    def show_below(self, report: ReportInput, printer: Printer, *, verbose: bool) -> None:
        of, line = self.of, printer.line
        line()
        line(told.TITLE, "bold")
        line(told.answer(of), "", 2, 2)
        printer.columns(told.headers(of), told.rows(of))
        for words in told.shares(of):
            line(words, "", 2, 2)
        line(told.about(of), "dim", 2, 2)
        for words in of.notes:
            line(f"note: {words}", "yellow", 2, 2)

    def section(self, report: ReportInput) -> Section:
        values = {"told": told, "context": self.of}
        return Section("contend.context:section.html.j2", values, (("context", "In context"),), below=True)
