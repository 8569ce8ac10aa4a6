"""`contend export`: a run in the formats of others."""

from __future__ import annotations

from pathlib import Path

import click

from contend.cli.common import load_report, shown
from contend.errors import BadInput
from contend.units import parse_fraction

TABLES = ("csv", "parquet", "junit", "openmetrics")
TRACES = ("perfetto", "chrome")
STACKS = "folded"
SUFFIX = {
    "csv": "csv",
    "parquet": "parquet",
    "junit": "xml",
    "openmetrics": "txt",
    "perfetto": "perfetto-trace",
    "chrome": "json",
}


@click.command("export", short_help="Write a run in another format.")
@click.argument("run")
@click.option(
    "--to",
    "form",
    type=click.Choice([*TABLES, *TRACES, STACKS, "svg", "png"]),
    required=True,
    help="svg and png write one file a plot; perfetto and chrome the recorded timelines as counters, with a run's"
    " trials as slices; folded the"
    " off-CPU stacks of a recording, in µs, for flamegraph.pl or speedscope.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File, or directory for svg and png (default: in the run directory).",
)
@click.option(
    "--fail-above",
    metavar="PERCENT",
    default="5%",
    show_default=True,
    help="junit: a slowdown whose interval lies above this is a failure.",
)
def command(run: str, form: str, output: Path | None, fail_above: str) -> int:
    """Write RUN as tidy CSV or Parquet (a row a trial and metric), JUnit, OpenMetrics, a trace, or its plots.

    Of a recording of `contend sample` or `contend watch`, csv and parquet write a directory with a file a table.
    """
    from contend.store import RunDirectory

    directory = RunDirectory.open(run, samples=True)
    if form in TRACES:
        from contend.report.counters import export_counters

        target = output or directory.path / f"export.{SUFFIX[form]}"
        export_counters(directory, form, target)
        print(shown(target))
        return 0
    if directory.is_sample or directory.is_watch:
        from contend.report.sample_export import export_sample

        print(shown(export_sample(directory, form, output)))
        return 0
    if form == STACKS:
        raise BadInput(
            "a run has no stacks", hint="contend sample --sched process --off-cpu-stacks records them"
        )
    report = load_report(directory)
    if form in TABLES:
        from contend.report.export import export

        target = output or directory.path / f"export.{SUFFIX[form]}"
        export(report, form, target, fail_above=parse_fraction(fail_above))
        print(shown(target))
    else:
        from contend.report.plots import save_plots

        for path in save_plots(report, output or directory.path / "plots", formats=(form,)):
            print(shown(path))
    return 0
