"""`contend stats`: the same statistics for measurements made elsewhere."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from contend.cli.common import print_answer, shown
from contend.errors import BadInput, NoVerdict
from contend.files import size_or_zero
from contend.stats.estimate import Estimate
from contend.text.shape import FLAT, Shape
from contend.units import format_ratio, parse_fraction

if TYPE_CHECKING:
    from contend.stats.scaling_csv import StormLaw, SustainedLaw

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
    estimates = compare_csv(file, baseline=baseline, level=parse_fraction(level))
    refused = [cell for cell, e in estimates if e.verdict in ("refused", "too few")]
    if as_json:
        documents = tuple(starmap(Treated, estimates))
        data = documents[0] if len(documents) == 1 else documents
        headline = "; ".join(starmap(_ratio, estimates))
        print_answer(headline, data, code=NoVerdict.exit_code if refused else 0)
    else:
        for cell, e in estimates:
            print(_ratio(cell, e))
            print(f"  {e.method}")
            for warning in e.warnings:
                print(f"  warning: {warning}")
    if refused:
        raise NoVerdict(
            f"no interval can be given for {', '.join(refused)}",
            hint=next((w for _, e in estimates for w in e.warnings), "measure more blocks"),
        )
    return 0


@dataclass(frozen=True, slots=True)
class Treated(Shape):
    """A cell against the baseline."""

    treatment: str
    estimate: Annotated[Estimate, FLAT]


def _ratio(cell: str, e: Estimate) -> str:
    """The line on one treatment."""
    ratio = format_ratio(e.value, e.low, e.high)
    return f"{cell}: {ratio} of the baseline, {e.verdict} (n = {e.n} blocks, {100 * e.level:g} %)"


def _scaling(file: Path, load: str, level: float, at: int | None, limit: float | None, as_json: bool) -> int:
    from contend.stats.scaling_csv import read_points, storm_law, sustained_law

    points = read_points(file)
    law: StormLaw | SustainedLaw
    if load == "storm":
        law = storm_law(points, level=level, at=at, limit=limit)
        lines, estimates = _storm_lines(law, at, limit), (law.at, law.breaks)
    elif limit is not None:
        raise BadInput(
            "--limit goes with --scaling storm", hint="a steady number of jobs has a peak, which is told"
        )
    else:
        law = sustained_law(points, level=level, at=at)
        lines, estimates = _sustained_lines(law, at), (law.at, None)
    refusals = [e.warnings[0] for e in estimates if e is not None and e.verdict == "refused"]
    refused = bool(refusals) or law.law == "none"
    head = f"law: {law.law} ({law.why})"
    if as_json:
        print_answer(head, law, code=NoVerdict.exit_code if refused else 0)
    else:
        print("\n".join([head, *lines, *(f"warning: {warning}" for warning in law.warnings)]))
    if refused:
        raise NoVerdict("it cannot be told from these", hint=refusals[0] if refusals else law.why)
    return 0


def _storm_lines(law: StormLaw, at: int | None, limit: float | None) -> list[str]:
    slope, check = law.slope, law.held_out
    lines = [
        f"start-up: {_words(law.start)}",
        f"per extra job: {_words(slope)} (n = {slope.n} storms, {100 * slope.level:g} %)",
    ]
    if check is not None:
        lines.append(
            f"fitted below N = {check.jobs}: {_words(check.predicted)} there, measured {check.measured:.4g}"
            f" ({100 * check.error:+.0f} %)"
        )
    if law.at is not None:
        lines.append(f"at N = {at}: {_words(law.at)}")
    if law.breaks is not None:
        lines.append(f"longer than {limit:g} from N = {_words(law.breaks, whole=True)} on")
    return lines


def _sustained_lines(law: SustainedLaw, at: int | None) -> list[str]:
    lines: list[str] = []
    if (by := law.usl) is not None:
        figures = {"contention": by.contention, "coherency": by.coherency, "peak": by.peak}
        lines += [f"usl, {what}: {_words(estimate)}" for what, estimate in figures.items()]
    if (of := law.closed) is not None:
        lines += [f"closed, demand: {_words(of.demand)}", f"closed, elsewhere: {_words(of.elsewhere)}"]
        lines.append(f"closed, knee: {of.knee:.3g}")
    if law.at is not None:
        lines.append(f"at N = {at}: {_words(law.at)}")
    return lines


def _words(estimate: Estimate, *, whole: bool = False) -> str:
    """An estimate with its interval. whole: of jobs, which are counted."""
    if estimate.verdict == "refused":
        return f"not told: {estimate.warnings[0]}"
    figures = (estimate.value, estimate.low, estimate.high)
    value, low, high = (
        "?" if not math.isfinite(x) else f"{math.ceil(x)}" if whole else f"{x:.4g}" for x in figures
    )
    return f"{value} [{low}, {high}]"
