"""Growth with N on the terminal: the law, its check, what each extra job waits for, what each resource is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from contend.contention.scaling import Scaling
from contend.contention.scaling_findings import duration
from contend.report.printer import fitted, printable, titled_table
from contend.units import format_duration

if TYPE_CHECKING:
    from rich.console import Console

ROWS = 8
LEAST = 0.01  # of the growth


def print_scaling(of: Scaling, console: Console) -> None:
    """Print four tables: storms, law, parts, resources; empty ones are left out."""
    for table in (_law(of), _parts(of), _spans(of), _demands(of)):
        if table.row_count:
            console.print(fitted(table, console))
    if text := held_out(of):
        console.print(Text(text))
    for warning in of.law.warnings:
        console.print(Text(f"note: {warning}", style="yellow"))


def _name(text: str) -> str:
    """As it is, also where a program calls its spans as rich calls its styles."""
    return escape(printable(text))


def _law(of: Scaling) -> Table:
    sizes = ", ".join(str(n) for n in of.sizes)
    title = f"Growth with the number of jobs (N = {sizes}; {len(of.storms)} storms)"
    table = titled_table(title, "of the jobs", "start-up", "per extra job")
    for name, line in of.law.lines.items():
        table.add_row(name, duration(line.start), duration(line.slope))
    return table


def held_out(of: Scaling) -> str:
    """A line on how the law predicts its own largest N; "" where it was not checked."""
    check = of.law.makespan.check
    if check is None:
        return ""
    return (
        f"Fitted without N = {check.jobs}, the makespan there is {duration(check.predicted)}; measured "
        f"{format_duration(check.measured)} ({100 * check.error:+.0f} %)."
    )


def _parts(of: Scaling) -> Table:
    small, large = of.sizes[0], of.sizes[-1]
    table = titled_table(
        "What stretches", "of a mean job", "per extra job", "of the growth", f"N = {small}", f"N = {large}"
    )
    for growth in [g for g in of.parts if g.share >= LEAST][:ROWS]:
        at = (format_duration(max(growth.line.value_at(n), 0)) for n in (small, large))
        table.add_row(
            _name(growth.key.words), duration(growth.line.slope), f"{100 * growth.share:.0f} %", *at
        )
    return table


def _spans(of: Scaling) -> Table:
    """Only those that stretch more than a job as a whole does."""
    small, large = of.sizes[0], of.sizes[-1]
    whole = of.mean.value_at(large) / max(of.mean.value_at(small), 1.0)
    title = f"Spans that stretch faster than the job ({whole:.1f} ×), waits included"
    table = titled_table(title, "span", "per extra job", f"N = {small}", f"N = {large}", "stretch")
    for growth in [g for g in of.spans if g.share >= LEAST and g.stretch > whole][:ROWS]:
        at = (format_duration(max(growth.line.value_at(n), 0)) for n in (small, large))
        table.add_row(_name(growth.key.name), duration(growth.line.slope), *at, f"{growth.stretch:.1f} ×")
    return table


def _demands(of: Scaling) -> Table:
    headers, rows = demand_rows(of)
    table = titled_table("What one job asks of each resource", *headers)
    for name, *cells in rows:
        table.add_row(_name(name), *cells)
    return table


def demand_rows(of: Scaling) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Headers, and a row for each resource."""
    headers = (
        "resource",
        "busy per job (D)",
        f"busy at N = {of.sizes[-1]}",
        "of the growth",
    )
    rows: list[tuple[str, ...]] = []
    for demand in of.demands[:ROWS]:
        share = max(demand.waited.share, 0.0) if demand.waited is not None else 0.0
        waited = f"{100 * share:.0f} %"
        rows.append((" ".join(demand.key), duration(demand.estimate), f"{100 * demand.busy:.0f} %", waited))
    return headers, rows
