"""The answer in a terminal: the table, the control, how sure it is, the findings, where the page lies.

Works at 80 columns, without colour and without a terminal; colour only repeats what the text says.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from contend.contention.alibi.words import cell_line, phase_name, short, workload_line
from contend.document import Analysis, CellResult, Control
from contend.report import money, words
from contend.report.matrix import (
    SLOWDOWNS,
    Matrix,
    condition,
    control_detail,
    headline_controls,
    is_compare,
    matrices,
    rows_are,
    secondary,
    subject,
)
from contend.report.model import ReportInput
from contend.report.printer import Printer
from contend.text.safe import safe_console
from contend.units import format_value

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

BAR = 12  # columns of the longest bar
ROW_LABEL = 28  # a row's name is folded beyond this
COLUMN = 24  # and a column's name beyond this
_STYLES = {
    "worse": "bold red",
    "better": "green",
    "unaffected": "dim",
    "undecided": "yellow",
    "flagged": "yellow",
    "unknown": "yellow",
}


def render(report: ReportInput, *, width: int = 80, verbose: bool = False) -> str:
    """The report as plain text of at most `width` columns, without colour.

    Only a single word longer than the width (a path, a verify command) can make a line longer, so that it can
    still be copied whole.
    """
    buffer = io.StringIO()
    console = safe_console(
        file=buffer, width=width, no_color=True, force_terminal=False, legacy_windows=False
    )
    show(report, console, verbose=verbose)
    return "".join(line.rstrip() + "\n" for line in buffer.getvalue().splitlines())


def show(report: ReportInput, console: Console, *, verbose: bool = False) -> None:
    """Print the report to a rich console. `verbose` adds the metrics beyond each victim's first."""
    printer = _Printer(report, console)
    printer.line()
    if report.analysis.answer:
        printer.line(report.analysis.answer, "bold")
    if report.analysis.own.show(report, printer, verbose=verbose):
        for matrix in matrices(report.analysis):
            printer.matrix(matrix)
    for shown in report.analysis.shown:
        shown.show_below(report, printer, verbose=verbose)
    layout = report.analysis.layout
    # Without a comparison there is nothing to be certain of.
    compared = bool(matrices(report.analysis)) or (
        layout.controlled != "no" and report.analysis.fleet is None
    )
    if layout.controlled != "own" and compared:
        printer.certainty(verbose)
    printer.alibis(verbose)
    if verbose:
        printer.secondary()
    if report.analysis.fleet is not None:
        pass  # each host's are in its own report
    elif layout.finds or report.analysis.findings:
        printer.findings(verbose)
    printer.money()
    printer.lost()
    printer.where(verbose)


def show_in_context(report: ReportInput, console: Console) -> None:
    """Print only the component's cost in a whole cloud, and the path of the page."""
    printer = _Printer(report, console)
    report.analysis.in_context.show_below(report, printer, verbose=True)
    printer.where(verbose=True)


class _Printer(Printer):
    """The parts of one report, in their order."""

    def __init__(self, report: ReportInput, console: Console) -> None:
        super().__init__(console)
        self.report = report
        self.analysis: Analysis = report.analysis

    def matrix(self, matrix: Matrix) -> None:
        interval = words.level_text(self.analysis)
        if is_compare(self.analysis):
            title = self.analysis.layout.title or (
                f"{matrix.columns[0]} against {matrix.baseline}" if len(matrix.columns) == 1 else "Variants"
            )
            title += f" (ratio to {matrix.baseline}; {interval}; 1.00 = no effect)"
        else:
            name = self.analysis.layout.title or SLOWDOWNS
            if len(matrix.rows) == 1 and name == SLOWDOWNS:
                name = f"Slowdown of {matrix.rows[0]}, {matrix.metric(matrix.rows[0]).name}"
            title = f"{name} ({interval}; 1.00 = no effect)"
        self.line()
        self.line(title + (f", {matrix.group}" if matrix.group else ""), "bold", hang=2)
        self.put(self._fitting(matrix))
        if words.closed_loop(self.analysis):
            self.line(
                f"closed loop ({', '.join(words.closed_loop(self.analysis))}): the generator waits for each "
                "answer, so read it as throughput, not as what a user waits.",
                "dim",
                2,
                2,
            )

    def _fitting(self, matrix: Matrix) -> Table:
        """The matrix as a table that fits the screen: for one victim a line a neighbour, else rows by columns, else a
        list."""
        if len(matrix.rows) == 1 and matrix.beside and not is_compare(self.analysis):
            table = self._of_one(matrix)
            if self.width_of(table) <= self.console.width - 2:
                return table
        for one_line in (True, False):
            table = self._grid(matrix, one_line)
            if self.width_of(table) <= self.console.width - 2:
                return table
        return self._list(matrix)

    def _of_one(self, matrix: Matrix) -> Table:
        """A line a neighbour of the only victim, with the cause that a finding gives."""
        (row,) = matrix.rows
        cells = [
            (column, cell)
            for column in matrix.columns
            if (cell := matrix.cells.get((row, column))) is not None
        ]
        table, most = self.table(), _most(matrix)
        for title in (matrix.beside, self.analysis.layout.effect, "", "why"):
            table.add_column(self.text(title), overflow="fold", max_width=ROW_LABEL)
        table.add_row(
            self.text(f"({matrix.baseline})", "dim"), self.text(words.level(matrix.level(row)), "dim"), "", ""
        )
        for column, cell in cells:
            style = _STYLES[words.effect(cell, self.analysis)]
            table.add_row(
                self.text(column),
                self.text(words.ratio(cell.estimate), style),
                self.text(self._bar(cell, most), style),
                self.text(words.why(cell, self.analysis)),
            )
        return table

    def _grid(self, matrix: Matrix, one_line: bool) -> Table:
        """Rows by columns, two lines a row. With room the interval stands beside its value, else below it."""
        table = self.table()
        table.add_column(rows_are(self.analysis), overflow="fold", max_width=ROW_LABEL)
        table.add_column(self.text(matrix.baseline), no_wrap=True)
        for column in matrix.columns:
            table.add_column(
                self.text(f"{matrix.beside}\n{column}".strip()), overflow="fold", max_width=COLUMN
            )
        most = _most(matrix)
        for row in matrix.rows:
            metric = matrix.metric(row)
            name = self.text(row)
            if not is_compare(self.analysis):
                name.append_text(self.text(f"\n  {metric.name}", "dim"))
            cells = [self._cell(matrix.cells.get((row, column)), one_line, most) for column in matrix.columns]
            table.add_row(name, self.text(words.level(matrix.level(row))), *cells)
        return table

    def _cell(self, cell: CellResult | None, one_line: bool, most: float) -> Text:
        if cell is None:
            return self.text("")
        style = _STYLES[words.effect(cell, self.analysis)]
        value, interval = words.split_ratio(cell.estimate)
        mark = words.mark(cell.estimate)
        if is_compare(self.analysis):
            return self.text(f"{value} {interval}{mark}\n{words.effect_words(cell, self.analysis)}", style)
        if one_line:
            return self.text(f"{value} {interval}{mark}\n{self._bar(cell, most)}", style)
        return self.text(f"{value}{mark or f' {self._bar(cell, most, BAR // 2)}'}\n{interval}", style)

    def _bar(self, cell: CellResult, most: float, width: int = BAR) -> str:
        """The time a neighbour adds, against the most that any adds here. Nothing without an effect."""
        if words.effect(cell, self.analysis) != "worse" or most <= 0:
            return ""
        return "█" * max(1, round(width * (cell.estimate.value - 1) / most))

    def _list(self, matrix: Matrix) -> Table:
        """A line a comparison: for a matrix too wide for the screen, or names too long for columns."""
        table = self.table()
        room = max(16, self.console.width - 2 - 26 - BAR - 4)
        table.add_column(rows_are(self.analysis), overflow="fold", width=room)
        table.add_column("value", no_wrap=True)
        table.add_column("", no_wrap=True)
        most = _most(matrix)
        for row in matrix.rows:
            metric = matrix.metric(row)
            label = row if is_compare(self.analysis) else f"{row} {metric.name}"
            table.add_row(
                self.text(label, "bold"), self.text(f"{words.level(matrix.level(row))} {matrix.baseline}"), ""
            )
            for column in matrix.columns:
                cell = matrix.cells.get((row, column))
                if cell is None:
                    continue
                style = _STYLES[words.effect(cell, self.analysis)]
                table.add_row(
                    self.text(f"  {matrix.beside} {column}".rstrip()),
                    self.text(words.ratio(cell.estimate), style),
                    self.text(self._bar(cell, most), style),
                )
        return table

    def certainty(self, verbose: bool) -> None:
        """The control, the smallest effect that could have been seen, and whether the target was reached."""
        analysis = self.analysis
        controls = headline_controls(analysis)
        compare = is_compare(analysis)
        shown = [cell for matrix in matrices(analysis) for cell in matrix.cells.values()]
        shown += secondary(analysis) if verbose else []
        if meanings := words.marks((cell.estimate.verdict for cell in shown), analysis.design.matters):
            self.line(meanings, "dim", 2, 2)
        if text := words.undecided(analysis):
            self.line(text, "yellow", 2, 2)
        if dirty := words.all_flagged(analysis):
            self.line(dirty, "yellow", 2, 2)

        def name(control: Control) -> str:
            if analysis.layout.control is not None:
                return analysis.layout.control(control)
            who = control.metric.name if compare else subject(control.repeats)
            return who + control_detail(control, analysis)

        if controls:
            parts = [
                f"{name(c)} {' '.join(words.split_ratio(c.estimate))}" + (" ALARM" if c.alarm else "")
                for c in controls
            ]
            hang = 16 if self.console.width >= 60 else 2
            unbroken = "  ".join(p.replace(" ", "\N{NO-BREAK SPACE}") for p in parts)
            self.line(f"control (A/A)   {unbroken}", "", 2, hang)
            seen = ", ".join(f"{name(c)} {words.detectable(c)}" for c in controls)
            self.line(f"smallest effect this run could see (80 % power): {seen}", "", 2, 2)
            if blocks := words.numbers(analysis):
                self.line(f"n: {blocks} each", "", 2, 2)
        else:
            self.line("no A/A control: what this run could not have seen is unknown", "yellow", 2, 2)
        if any(c.alarm for c in controls):
            self.line(
                "ALARM: two labels of the same cell differ, so the host was not steady; treat effects of "
                "that size as noise, and measure again on a quieter host.",
                "bold red",
                2,
                2,
            )
        if target := words.target_line(self.report):
            self.line(target, "", 2, 2)
        if cost := words.probe_cost(analysis):
            self.line(f"recording the host cost {cost}", "dim", 2, 2)

    def alibis(self, verbose: bool) -> None:
        """Print the state of the hardware during the trials. An interference study has its findings for that, so only if
        verbose."""
        if not self.analysis.alibis or not (verbose or is_compare(self.analysis)):
            return
        self.line()
        self.line("Hardware meanwhile", "bold")
        for phase in self.analysis.phase_alibis:
            self.line(f"{phase_name(phase)}: {short(phase)}", "", 2, 2)
        for alibi in self.analysis.alibis:
            self.line(f"{alibi.cell}: {cell_line(alibi)}", "", 2, 2)
            if own_line := workload_line(alibi):
                self.line(f"the measured party: {own_line}", "", 4, 2)
            if verbose:
                self.line(alibi.text, "dim", 4, 2)
                if alibi.workload_text:
                    self.line(alibi.workload_text, "dim", 4, 2)

    def secondary(self) -> None:
        cells = secondary(self.analysis)
        if not cells:
            return
        self.line()
        effect = self.analysis.layout.effect
        self.line(f"Other metrics ({effect}; > 1 is worse)", "bold")
        table = self.table()
        for title in (rows_are(self.analysis), "metric", "condition"):
            table.add_column(title, overflow="fold", max_width=ROW_LABEL)
        for title in ("from → to", effect):
            table.add_column(self.text(title), overflow="fold")
        for cell in cells:
            closed = " (closed loop)" if cell.metric.loop == "closed" else ""
            table.add_row(
                self.text(subject(cell.factors)),
                self.text(cell.metric.name + closed),
                self.text(condition(cell, self.analysis)),
                self.text(f"{words.level(cell.baseline)} → {words.level(cell.treatment)}"),
                self.text(words.ratio(cell.estimate), _STYLES[words.effect(cell, self.analysis)]),
            )
        self.put(table)

    def findings(self, verbose: bool) -> None:
        self.line()
        if not self.analysis.findings:
            self.line(f"Findings: {words.no_findings(self.analysis)}", "bold")
            return
        self.line("Findings", "bold")
        for number, finding in enumerate(self.analysis.findings, 1):
            self.line(f"{number} {finding.sentence}", "bold", 1, 2)
            if verbose:
                for item in finding.evidence:
                    seen = format_value(item.value, item.unit)
                    self.line(f"{item.what}: {seen} ({item.where})", "dim", 5, 2)
            if finding.advice:
                self.line(f"→ {finding.advice}", "", 3, 2)
            if trial := self.report.trial_of(finding):
                self.command(f"try it: {trial}", 5)
            elif finding.verify:
                self.command(f"verify: {finding.verify}", 5)

    def money(self) -> None:
        """Print what the slowdowns cost, where a price was given."""
        if not self.analysis.costs:
            return
        self.line()
        self.line(money.TITLE, "bold")
        for name, cost in money.lines(self.analysis):
            self.line(f"{name}: {cost}", "", 2, 4)
        self.line(money.ABOUT, "dim", 2, 2)

    def lost(self) -> None:
        """Print what is missing from the figures: skipped cells, failed and flagged trials."""
        analysis = self.analysis
        rows = [
            ("skipped", list(analysis.skipped)),
            ("failed", list(analysis.failed)),
            (
                "flagged, kept",
                [f"{n} of {analysis.trials} trials: {flag}" for flag, n in analysis.flags.items()],
            ),
        ]
        if not any(items for _, items in rows):
            return
        self.line()
        for title, items in rows:
            for item in items[:5]:
                self.line(f"{title}: {item}", "yellow", 1, 2)
            if len(items) > 5:
                self.line(f"{title}: and {len(items) - 5} more", "yellow", 1, 2)

    def where(self, verbose: bool) -> None:
        run = self.report.run_dir.rstrip("/")
        self.line()
        self.command(f"{run}   report: {run}/report.html", 0)
        more = len(secondary(self.analysis))
        if more and not verbose:
            some = f"{more} comparisons of other metrics are" if more > 1 else "another metric is"
            self.line(f"{some} in the report, or here with -v", "dim")


def _most(matrix: Matrix) -> float:
    """The largest excess over 1 in a table: what the longest bar stands for."""
    return max(
        (c.estimate.value - 1 for c in matrix.cells.values() if c.estimate.verdict == "higher"), default=0.0
    )
