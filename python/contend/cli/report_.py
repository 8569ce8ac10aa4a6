"""`contend report`: the page and the table of a run, made again from its rows; the summary of a trace."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from contend.cli.common import (
    headline,
    offer_page,
    print_answer,
    print_report,
    shown,
    write_report,
    write_sample_report,
)
from contend.errors import BadInput
from contend.text.safe import safe_console

if TYPE_CHECKING:
    from contend.analysis.price import Price
    from contend.store.directory import RunDirectory


@click.command("report", short_help="Make the report of a run again.")
@click.argument("run", metavar="RUN|TRACE")
@click.option(
    "--of",
    metavar="STORM",
    help="Of a run about RPCs or downloads: the boot storm to put their cost in (default: the newest beside RUN).",
)
@click.option(
    "--price",
    metavar="AMOUNT/core-h",
    help="The price of a core: what each slowdown costs in cores and money a month. /core-month, and a currency, go too.",
)
@click.option(
    "--card",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the answer as one picture to share, 1,200 × 630: FILE.png (needs contend[plots]) or FILE.svg.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show every metric and control.")
@click.option("--json", "as_json", is_flag=True, help="The analysis as one JSON document.")
@click.option("--open", "open_page", is_flag=True, help="Open report.html in the browser.")
def command(
    run: str,
    of: str | None,
    price: str | None,
    card: Path | None,
    verbose: bool,
    as_json: bool,
    open_page: bool,
) -> int:
    """Analyse RUN (a run directory) again, write findings.json and report.html, and print the table.

    Of a recording of `contend sample` or `contend watch -o` it writes summary.json, or watch.json, and report.html, and
    prints the summary.
    Of a trace (a .ctrace file, or the directory of them that a traced program wrote) it prints the hottest spans, the
    locks that were waited for and who held them, the calls that leave the process, and those that are repeated, and
    writes report.html beside it, with a timeline.
    Works on an interrupted run too: what is on disk is what counts.
    """
    from contend.store.traces import is_trace

    if card is not None and card.suffix not in (".png", ".svg"):
        raise BadInput(f"--card {card}: a card is PNG or SVG", hint="--card card.png")
    if is_trace(run):
        _no_card(run, card)
        _no_storm(run, of)
        _no_price(run, price)
        return _trace(run, as_json, open_page)
    from contend.store.directory import RunDirectory

    directory = RunDirectory.open(run, samples=True)
    if directory.is_sample or directory.is_watch:
        _no_card(run, card)
    if directory.is_sample:
        _no_storm(run, of)
        _no_price(run, price)
        _sample(directory, as_json)
        return _opened(directory, open_page)
    if directory.is_watch:
        _no_storm(run, of)
        _no_price(run, price)
        from contend.cli.watch_ import report_again

        report_again(directory, as_json)
        return _opened(directory, open_page)
    context = None
    if of is not None:
        from contend.context.choose import put

        context = put(directory, of)
    report = write_report(directory, context, _parsed(price))
    if price is not None and not report.analysis.costs:
        print(
            f"note: --price {price}: nothing here has a cost, which is of a time or a rate that got worse or better",
            file=sys.stderr,
        )
    if card is not None:
        from contend.report.card import save_card

        save_card(report, card)
    if as_json:
        print_answer(headline(report.analysis), report.analysis)
    else:
        print_report(report, verbose=verbose)
        if card is not None:
            print(f"card: {card}")
    return _opened(directory, open_page)


def _no_storm(run: str, of: str | None) -> None:
    if of is not None:
        raise BadInput(f"--of {of}: {run} tells no component's cost", hint="contend context --help")


def _no_card(run: str, card: Path | None) -> None:
    if card is not None:
        raise BadInput(
            f"--card {card}: {run} compares nothing", hint="of a run: contend report RUN --card card.png"
        )


def _no_price(run: str, price: str | None) -> None:
    if price is not None:
        raise BadInput(
            f"--price {price}: {run} compares nothing",
            hint="of a run: contend report RUN --price 0.04/core-h",
        )


def _parsed(price: str | None) -> Price | None:
    from contend.analysis.price import parse_price

    return None if price is None else parse_price(price)


def _trace(source: str, as_json: bool, open_page: bool) -> int:
    from contend.report.trace_page import write_page
    from contend.report.trace_terminal import print_summary
    from contend.report.trace_words import answer

    summary, page, why = write_page(source)
    if as_json:
        print_answer(answer(summary), summary)
    else:
        print_summary(summary, safe_console())
        if page is not None:
            print(f"{source}   page: {shown(page)}")
    offer_page(page, why, open_page=open_page)
    return 0


def _sample(directory: RunDirectory, as_json: bool) -> None:
    from contend.cli.sample_ import print_summary

    summary = write_sample_report(directory)
    if as_json:
        print_answer(summary.headline, summary)
    else:
        print_summary(summary, directory)


def _opened(directory: RunDirectory, open_page: bool) -> int:
    if open_page:
        click.launch(str(shown(directory.path) / "report.html"))
    return 0
