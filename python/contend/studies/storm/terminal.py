"""A storm study in a terminal."""

from __future__ import annotations

from contend.document import Analysis
from contend.report.printer import Printer
from contend.studies.storm import words as wording
from contend.studies.storm.result import Storms

BAR = 12  # columns of the longest bar


def show_storms(analysis: Analysis, storms: Storms, printer: Printer) -> None:
    """Print the table of sizes, what each extra server adds, where a boot's time goes, and problems."""
    table = printer.table()
    first, *others = wording.headers(storms)
    table.add_column(first)
    for header in others:
        table.add_column(printer.text(header.replace(" ", "\n")), justify="right", no_wrap=True)
    for size in storms.sizes:
        table.add_row(*(printer.text(item) for item in wording.row(size, storms)))
    printer.line()
    printer.line(wording.about(storms), "bold", 0, 2)
    printer.put(table)
    for line in (*wording.growth(storms), wording.limit(analysis), *wording.networks(storms)):
        if line:
            printer.line(line[0].upper() + line[1:], "", 2, 2)
    largest = max(storms.sizes, key=lambda size: size.n)
    parts = wording.parts(largest)
    if parts:
        whole = sum(largest.phases.values())
        printer.line(f"Where a boot's {whole:.2f} s go (n = {largest.n}, a mean {storms.noun})", "bold", 0, 2)
        bars = [f"{'▇' * max(1, round(BAR * s / whole))} {name} {s:.2f}" for name, s in parts]
        printer.line("  ".join(bar.replace(" ", "\N{NO-BREAK SPACE}") for bar in bars), "", 2, 0)
    if largest.cpu:
        roles = ", ".join(f"{role} {s:.3f}" for role, s in largest.cpu.items() if s >= 0.0005)
        printer.line(f"{wording.maker(storms)} CPU-s a boot by role: {roles}", "", 2, 2)
    for line in (*wording.guests(storms), *wording.counts(storms), *wording.stamps(storms)):
        printer.line(line, "", 2, 2)
    if hunted := wording.findings(storms):
        printer.line("What the services' traces say", "bold", 0, 2)
        for line in hunted:
            printer.line(line, "", 2, 4)
    printer.line(wording.precision(storms), "dim", 2, 2)
    for trouble in wording.troubles(storms):
        printer.line(trouble, "yellow", 2, 2)
