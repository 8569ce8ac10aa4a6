"""A component's cost in context, in the terminal and on the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from contend.context import words as wording
from contend.document import Section, Shown
from contend.document.context import Context

if TYPE_CHECKING:
    from contend.report.model import ReportInput
    from contend.report.printer import Printer


@dataclass(frozen=True, slots=True)
class InContext(Shown):
    """The component in its whole: the answer, the shares and how they are known, and what each variant would change."""

    of: Context

    def show_below(self, report: ReportInput, printer: Printer, *, verbose: bool) -> None:
        of, line = self.of, printer.line
        line()
        line(wording.TITLE, "bold")
        line(wording.answer(of), "", 2, 2)
        printer.columns(wording.headers(of), wording.rows(of))
        for words in wording.shares(of):
            line(words, "", 2, 2)
        line(wording.about(of), "dim", 2, 2)
        for words in of.notes:
            line(f"note: {words}", "yellow", 2, 2)

    def section(self, report: ReportInput) -> Section:
        values = {"wording": wording, "context": self.of}
        return Section("contend.context:section.html.j2", values, (("context", "In context"),), below=True)
