"""`contend stats`: the same statistics for measurements made elsewhere."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import click

from contend.cli.common import shown
from contend.errors import BadInput, NoVerdict
from contend.files import size_or_zero
from contend.text.safe import write_json
from contend.units import parse_fraction

SLOW_MIB = 16  # from which on it takes more than a second


@click.command("stats", short_help="Compare measurements from a CSV file.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--baseline", metavar="CELL", help="The cell to compare with (default: the first in the file).")
@click.option("--level", metavar="PERCENT", default="95%", show_default=True, help="Level of the interval.")
@click.option(
    "--scaling",
    type=click.Choice(["storm", "sustained"]),
    help="How it grows with the number of jobs, instead: of jobs that begin together, or of a number that stays the same.",
)
@click.option(
    "--at", type=click.IntRange(min=1), metavar="N", help="With --scaling: what N jobs would measure."
)
@click.option(
    "--limit", type=float, metavar="VALUE", help="With --scaling storm: the N from which it takes longer."
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="The estimate as one JSON document (several treatments: an array).",
)
def command(
    file: Path,
    baseline: str | None,
    level: str,
    scaling: str | None,
    at: int | None,
    limit: float | None,
    as_json: bool,
) -> int:
    """Compare the cells of FILE, a CSV with the columns block, cell, value (and time or order, if you have it).

    A block is one randomised pass over the cells; a value is one whole run. Files that can not carry an
    interval (all of A, then all of B; iterations of one run) are refused: exit code 5.

    With --scaling the columns are jobs, value: a row for each storm, its time (median or makespan, in any unit), or for
    each run at a steady number of jobs, its jobs per second.
    """
    if scaling is None and (at is not None or limit is not None):
        raise BadInput(
            "--at and --limit go with --scaling", hint="contend stats storms.csv --scaling storm --at 128"
        )
    if scaling is not None:
        if baseline is not None:
            raise BadInput("--baseline does not go with --scaling", hint="one file of jobs,value a law")
        return _scaling(file, scaling, parse_fraction(level), at, limit, as_json)
    from contend.stats.csv_file import compare_csv

    if (mib := size_or_zero(file) >> 20) >= SLOW_MIB:
        print(f"reading {mib:,} MiB of {shown(file)} …", file=sys.stderr)
    found = compare_csv(file, baseline=baseline, level=parse_fraction(level))
    if as_json:
        documents = [{"treatment": cell, **estimate.to_json()} for cell, estimate in found]
        write_json(documents[0] if len(documents) == 1 else documents)
    else:
        from contend.units import format_ratio

        for cell, e in found:
            ratio = format_ratio(e.value, e.low, e.high)
            print(f"{cell}: {ratio} of the baseline, {e.verdict} (n = {e.n} blocks, {e.level:.0%})")
            print(f"  {e.method}")
            for warning in e.warnings:
                print(f"  warning: {warning}")
    refused = [cell for cell, e in found if e.verdict in ("refused", "too few")]
    if refused:
        raise NoVerdict(
            f"no interval can be given for {', '.join(refused)}",
            hint=next((w for _, e in found for w in e.warnings), "measure more blocks"),
        )
    return 0


def _scaling(file: Path, load: str, level: float, at: int | None, limit: float | None, as_json: bool) -> int:
    from contend.stats.scaling_csv import read_points, storm_document, sustained_document

    points = read_points(file)
    if load == "storm":
        told = storm_document(points, level=level, at=at, limit=limit)
    elif limit is not None:
        raise BadInput(
            "--limit goes with --scaling storm", hint="a steady number of jobs has a peak, which is told"
        )
    else:
        told = sustained_document(points, level=level, at=at)
    if as_json:
        write_json(told)
    else:
        for text in _lines(told, at, limit):
            print(text)
    unsaid = [
        e["warnings"][0] for e in (told.get("at"), told.get("breaks")) if e and e["verdict"] == "refused"
    ]
    if unsaid or told["law"] == "none":
        raise NoVerdict("it cannot be told from these", hint=unsaid[0] if unsaid else told["why"])
    return 0


def _lines(told: dict[str, Any], at: int | None, limit: float | None) -> list[str]:
    lines = [f"law: {told['law']} ({told['why']})"]
    if told["law"] == "batch":
        lines += [
            f"start-up: {_words(told['start'])}",
            f"per extra job: {_words(told['slope'])}"
            f" (n = {told['slope']['n']} storms, {100 * told['slope']['level']:.0f} %)",
        ]
        check = told["held_out"]
        if check:
            lines.append(
                f"fitted below N = {check['jobs']}: {_words(check['predicted'])} there, measured {check['measured']:.4g}"
                f" ({100 * check['error']:+.0f} %)"
            )
    for name in ("usl", "closed"):
        for what, estimate in (told.get(name) or {}).items():
            said = _words(estimate) if isinstance(estimate, dict) else f"{estimate:.3g}"
            lines.append(f"{name}, {what}: {said}")
    if told.get("at"):
        lines.append(f"at N = {at}: {_words(told['at'])}")
    if told.get("breaks"):
        lines.append(f"longer than {limit:g} from N = {_words(told['breaks'], whole=True)} on")
    return [*lines, *(f"warning: {warning}" for warning in told["warnings"])]


def _words(estimate: dict[str, Any], *, whole: bool = False) -> str:
    """`whole`: of jobs, which are counted."""
    if estimate["verdict"] == "refused":
        return f"not told: {estimate['warnings'][0]}"
    figures = (estimate["value"], estimate["low"], estimate["high"])
    value, low, high = ("?" if x is None else f"{math.ceil(x)}" if whole else f"{x:.4g}" for x in figures)
    return f"{value} [{low}, {high}]"
