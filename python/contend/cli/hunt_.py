"""`contend hunt`: where the time of a batch of jobs went, who held it up, and what would help."""

from __future__ import annotations

from pathlib import Path

import click

from contend.cli.common import offer_page, print_answer, shown
from contend.text.safe import safe_console


@click.command("hunt", short_help="Find what a batch of jobs waits for, and for whom.")
@click.argument("sources", nargs=-1, required=True, metavar="RUN|TRACE...")
@click.option("--vs", "after", metavar="RUN|TRACE", help="Another one beside it, as after a change.")
@click.option(
    "--job",
    "jobs",
    metavar="PATTERN",
    help="What is a job: spans of that name, with * and ?. Else what is marked as one, or served from outside.",
)
@click.option(
    "--cell", metavar="PATTERN", help="Of a run: this cell first, with * and ?. Else the first of its plan."
)
@click.option(
    "--limit",
    metavar="DURATION",
    help="Of storms of several sizes: the number of jobs from which on they take longer.",
)
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Findings to show.")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON document on stdout (docs/reference/hunt.schema.json)."
)
@click.option("--open", "open_page", is_flag=True, help="Show the page.")
def command(
    sources: tuple[str, ...],
    after: str | None,
    jobs: str | None,
    cell: str | None,
    limit: str | None,
    top: int,
    as_json: bool,
    open_page: bool,
) -> int:
    """Rank what the time of the jobs in a trace went to: locks and who held them, pools, repeated calls, the GIL.

    The hardware has the first word (`contend trace --sample` records what it did). A finding says which part of the
    jobs' time it explains, who held whom up, where to see that, and the `contend whatif` that says what mending it would
    bring. hunt.html, in the trace or run, has the blame matrix, the graph of waits, and every job's time.

    A run's traced trials are put together by cell; the other cells stand beside the first one. Several traces are put
    together too, those of as many jobs. Where sizes differ, it is told what stretches as jobs are added, what each
    resource is asked for, what an extra job adds, and with --limit how many jobs are too many.

    \b
    Examples:
      contend hunt slow
      contend hunt slow --job 'POST /servers'
      contend hunt before --vs after --open
      contend hunt storm-4 storm-8 storm-16 storm-32 --limit 30s
      contend hunt runs/storm-lab-20260102-101500 --json
    """
    from contend.contention.growth import growth
    from contend.contention.hunt import batch_of, by_jobs, hunt
    from contend.contention.hunting.sources import groups, ordered
    from contend.report.hunt_page import write_page
    from contend.units import parse_duration_ns

    limit_ns = parse_duration_ns(limit) if limit is not None else None
    chosen = ordered(groups(sources), cell)
    batches = [batch_of(group.name, group.traces, jobs) for group in chosen]
    if 1 < len(chosen) == len(sources) and all(len(group.traces) == 1 for group in chosen):
        batches = by_jobs(batches)
    grown, no_growth = growth(batches, limit_ns=limit_ns)
    beside = [batch_of(group.name, group.traces, jobs) for group in (groups([after]) if after else ())]
    hunted = hunt(batches[0], [*batches[1:], *beside], top=top, growth=grown, no_growth=no_growth)
    page, why = write_page(hunted, Path(sources[0]))
    if as_json:
        from contend.contention.hunt_document import hunt_document
        from contend.report.hunt_terminal import nothing

        print_answer(
            hunted.findings[0].sentence if hunted.findings else nothing(hunted), hunt_document(hunted)
        )
    else:
        from contend.report.hunt_terminal import print_hunt

        print_hunt(hunted, safe_console(soft_wrap=True))
        if page is not None:
            print(f"page: {shown(page)}")
    offer_page(page, why, open_page=open_page)
    return 0
