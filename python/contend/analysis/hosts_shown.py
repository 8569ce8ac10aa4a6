"""The hosts of a fleet's run, in the terminal and on the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from contend.analysis import hosts_words as wording
from contend.document import Section, Shown
from contend.report.plots import ratio_plot

if TYPE_CHECKING:
    from contend.document.hosts import Fleets
    from contend.report.model import ReportInput
    from contend.report.plotkit import Plot
    from contend.report.printer import Printer

PLOTS = 4
CAPTION = (
    "A point a host, with the interval over its own blocks: right of the dashed line it is worse off, left of it better."
    " Grey: unaffected; brown: undecided. A point without a bar had too few blocks."
)


@dataclass(frozen=True, slots=True)
class ShownHosts(Shown):
    """A table with a row a host; the terminal shows only the first ones unless verbose."""

    fleet: Fleets

    def show_below(self, report: ReportInput, printer: Printer, *, verbose: bool) -> None:
        fleet, line = self.fleet, printer.line
        line()
        line(wording.TITLE, "bold")
        rows = wording.rows(fleet)
        shown = rows if verbose else rows[: wording.MOST]
        printer.columns(wording.headers(fleet), shown, 1)
        if len(shown) < len(rows):
            line(f"and {len(rows) - len(shown)} more (-v shows all)", "dim", 2, 2)
        for note in wording.notes(fleet):
            line(note, "yellow", 2, 2)
        run = report.run_dir.rstrip("/")
        line(f"what a host says by itself: contend report {run}/hosts/HOST", "dim", 2, 2)

    def plots(self, report: ReportInput) -> list[Plot]:
        """A dot a host, for each of the first comparisons that hosts have."""
        plots = []
        for number, key in enumerate(wording.keys(self.fleet)[:PLOTS], start=1):
            label, rows = wording.by_host(self.fleet, key)
            if rows:
                plots.append(
                    ratio_plot(rows, "ratio", label, CAPTION, role="hosts", number=number, each="host")
                )
        return plots

    def section(self, report: ReportInput) -> Section:
        values = {"wording": wording, "fleet": self.fleet}
        return Section("contend.analysis:hosts.html.j2", values, (("fleet", wording.TITLE),), below=True)
