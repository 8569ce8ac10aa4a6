"""A hunt on the terminal: the hardware first, then the findings, then how to see more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contend.contention.alibi.words import short
from contend.contention.hunt import Batch, Hunt
from contend.contention.hunt_changes import changes
from contend.report.printer import one_line
from contend.report.scaling_terminal import print_scaling
from contend.units import format_duration, of_time

if TYPE_CHECKING:
    from rich.console import Console

    from contend.advice.finding import Finding

EVIDENCE = 6  # of a finding; more are in the JSON and on the page
EXPLAINED = 0.5  # of the jobs' time, by the first finding: there is no need to say where else it is
CHANGES = 8  # causes that are compared; as above


def print_hunt(hunt: Hunt, console: Console) -> None:
    """Print all that fits a terminal. No meaning depends on colour."""
    batch = hunt.batch
    console.print(one_line(batch.name, "bold"))
    console.print(one_line(f"  {batch.whole.chosen}"))
    console.print(one_line(f"  {jobs_line(batch)}"))
    console.print(one_line(f"  Hardware: {alibi_line(batch)}"))
    for other in hunt.others:
        console.print(one_line(f"beside it: {other.name}", "bold"))
        console.print(one_line(f"  {jobs_line(other)}{against(batch, other)}"))
        console.print(one_line(f"  Hardware: {alibi_line(other)}"))
        for line in change_lines(batch, other):
            console.print(one_line(f"  {line}"))
    console.print()
    if not hunt.findings:
        console.print(one_line(nothing(hunt)))
    for number, finding in enumerate(hunt.findings, start=1):
        _print(number, finding, batch.whole.whole, console)
    if hunt.whereabouts and not (hunt.findings and (hunt.findings[0].share or 0) >= EXPLAINED):
        console.print(one_line(hunt.whereabouts))
    if hunt.findings and hunt.hidden:
        console.print(one_line(hidden(hunt), "dim"))
    if hunt.growth is not None:
        print_scaling(hunt.growth, console)
    if hunt.no_growth:
        console.print(one_line(f"note: {hunt.no_growth}", "yellow"))
    for note in batch.whole.notes:
        console.print(one_line(f"note: {note}", "yellow"))


def jobs_line(batch: Batch) -> str:
    """The times of the jobs in a line."""
    whole = batch.whole
    if not whole.jobs:
        return "no jobs on record: everything is counted, whoever waited (--job PATTERN says what a job is)"
    many = f"{len(batch.traces)} traces, " if len(batch.traces) > 1 else ""
    return (
        f"{many}median {format_duration(whole.median_ns)}, p90 {format_duration(whole.p90_ns)},"
        f" makespan {format_duration(whole.makespan_ns)}"
    )


def alibi_line(batch: Batch) -> str:
    """The verdict on the hardware, or why there is none."""
    if batch.alibi is None:
        return f"not known: {batch.no_alibi}"
    return f"{short(batch.alibi)}. {batch.alibi.text}"


def against(batch: Batch, other: Batch) -> str:
    """A phrase on how much longer or shorter its jobs took than the other batch's, by the median."""
    before, after = batch.whole.median_ns, other.whole.median_ns
    return f" ({100 * (after / before - 1):+.0f} % of the median)" if before and after else ""


def change_lines(batch: Batch, other: Batch) -> list[str]:
    """A line for each cause that is a finding in either batch: what it takes of a job in the one and in the other."""
    return [
        f"{row.kind} {row.resource}: {_of_job(row.before_ns)} of a job → {_of_job(row.after_ns)}, {row.change}"
        for row in changes(batch, other)[:CHANGES]
    ]


def _of_job(ns: int) -> str:
    return format_duration(ns) if ns else "nothing"


def nothing(hunt: Hunt) -> str:
    """A sentence that there is no finding, and what was looked at."""
    return f"Nothing found. Looked at: {'; '.join(hunt.looked_at)}. {hidden(hunt)}".strip()


def hidden(hunt: Hunt) -> str:
    """A line on how many findings are not shown, because they are too small or too many."""
    if not hunt.hidden:
        return ""
    many = f"{hunt.hidden:,} more {'is' if hunt.hidden == 1 else 'are'} not shown"
    return f"{many}: below {of_time(hunt.least_share)} of {hunt.batch.whole.whole} each, or beyond --top."


def _print(number: int, finding: Finding, whole: str, console: Console) -> None:
    share = f"{of_time(finding.share)} of {whole}" if finding.share is not None else ""
    console.print(one_line(f"{number:>2} {finding.kind} {finding.resource}   {share}", "bold"))
    console.print(one_line(f"   {finding.sentence}"))
    for row in finding.evidence[:EVIDENCE]:
        value = (
            f"{row.value:.4g} {row.unit}".strip() if row.unit != "of the time waited" else of_time(row.value)
        )
        console.print(one_line(f"     {row.what}: {value}", "dim"))
    console.print(one_line(f"   → {finding.advice}"))
    if finding.verify:
        console.print(one_line(f"     {finding.verify}", "cyan"))
    console.print()
