"""`contend import`: results of other tools as a run directory of ours."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from contend.cli.common import headline, print_answer, print_report, runs_option, write_report
from contend.files import size_or_zero


@click.command("import", short_help="Take in what another tool measured.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--as",
    "form",
    metavar="FORMAT",
    default="",
    help="fio, hyperfine, iperf3, jmeter, k6, pgbench, rally or sysbench (default: by what is in the files).",
)
@click.option("--name", metavar="NAME", default="", help="Of the run: runs/NAME-TIME (default: the tool's).")
@runs_option
@click.option("-v", "--verbose", is_flag=True, help="Show every metric.")
@click.option("--json", "as_json", is_flag=True, help="The analysis as one JSON document.")
def command(files: tuple[Path, ...], form: str, name: str, runs: Path, verbose: bool, as_json: bool) -> int:
    """Make a run directory of FILEs that one tool wrote: it is reported, compared, queried and exported like a run of ours.

    \b
    fio        --output-format=json or json+           hyperfine  --export-json
    iperf3     --json, TCP and UDP                     sysbench   what it prints
    pgbench    what it prints, also with -P and -r     k6         --out csv=FILE, --summary-export
    jmeter     -l FILE as CSV                          rally      task results, task report --json

    Each run gives one value a metric: requests, intervals and iterations inside it are no replicates. Several files are
    several runs; where their settings differ they are cells of their own. A level has an interval from six runs on. A ratio
    between cells is refused, unless the stamps in the files prove that their runs took turns: contend ab interleaves them.
    """
    from contend.imports.read import read_files
    from contend.imports.write import write_run
    from contend.report.reading import Reading

    with Reading(sys.stderr, sum(map(size_or_zero, files))) as reading:
        measured = read_files(files, form, reading.read)
    run = write_run(measured, runs, name)
    try:
        report = write_report(run)
    except BaseException:
        run.remove()
        raise
    if as_json:
        print_answer(headline(report.analysis), report.analysis)
    else:
        print_report(report, verbose=verbose)
    return 0
