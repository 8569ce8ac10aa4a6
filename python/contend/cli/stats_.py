"""`contend stats`: the same statistics for measurements made elsewhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from contend.errors import NoVerdict
from contend.units import parse_fraction


@click.command("stats", short_help="Compare measurements from a CSV file.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--baseline", metavar="CELL", help="The cell to compare with (default: the first in the file).")
@click.option("--level", metavar="PERCENT", default="95%", show_default=True, help="Level of the interval.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="The estimate as one JSON document (several treatments: an array).",
)
def command(file: Path, baseline: str | None, level: str, as_json: bool) -> int:
    """Compare the cells of FILE, a CSV with the columns block, cell, value (and time or order, if you have it).

    A block is one randomised pass over the cells; a value is one whole run. Files that can not carry an
    interval (all of A, then all of B; iterations of one run) are refused: exit code 5.
    """
    from contend.stats.csv_file import compare_csv

    found = compare_csv(file, baseline=baseline, level=parse_fraction(level))
    if as_json:
        documents = [{"treatment": cell, **estimate.to_json()} for cell, estimate in found]
        json.dump(documents[0] if len(documents) == 1 else documents, sys.stdout, allow_nan=False)
        print()
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
