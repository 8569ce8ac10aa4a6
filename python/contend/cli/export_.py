"""`contend export`: a run or a trace in the formats of others."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from contend.cli.common import load_report, shown
from contend.errors import BadInput
from contend.units import parse_fraction

TABLES = ("csv", "parquet", "latex", "junit", "openmetrics")
TRACES = ("perfetto", "chrome")
STACKS = "folded"
SUFFIX = {
    "csv": "csv",
    "parquet": "parquet",
    "latex": "tex",
    "junit": "xml",
    "openmetrics": "txt",
    "perfetto": "perfetto-trace",
    "chrome": "json",
}


@click.command("export", short_help="Write a run or a trace in another format.")
@click.argument("sources", metavar="RUN|TRACE...", nargs=-1, required=True)
@click.option(
    "--to",
    "form",
    type=click.Choice([*TABLES, *TRACES, STACKS, "svg", "png"]),
    required=True,
    help="svg and png write one file a plot; perfetto and chrome a trace, or a run's timelines as counters with its"
    " trials as slices; folded the"
    " off-CPU stacks of a recording, in µs, for flamegraph.pl or speedscope.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File, or directory for svg and png (default: in the run directory, or beside the trace).",
)
@click.option(
    "--fail-above",
    metavar="PERCENT",
    default="5%",
    show_default=True,
    help="junit: a slowdown whose interval lies above this is a failure.",
)
def command(sources: tuple[str, ...], form: str, output: Path | None, fail_above: str) -> int:
    """Write RUN as tidy CSV or Parquet (a row a trial and metric), a LaTeX table, JUnit, OpenMetrics, a trace, or plots.

    Of a recording of `contend sample` or `contend watch`, csv and parquet write a directory with a file a table.

    A TRACE is a .ctrace file, or the directory of them that a traced program wrote, its processes merged on one clock.
    Several traces, and recordings of `contend sample` or runs beside them, become one file: the host's CPU, run queue,
    pressure, disks and memory as counters, and those of each traced process.
    """
    from contend.store.directory import RunDirectory
    from contend.store.traces import is_trace

    if len(sources) > 1 or is_trace(sources[0]):
        return _trace(sources, form, output)

    (run,) = sources
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


def _trace(sources: Sequence[str], form: str, output: Path | None) -> int:
    from contend.report.trace_export import export_traces
    from contend.store.traces import is_trace, notes

    if form not in TRACES:
        raise BadInput(f"a trace cannot be written as '{form}'", hint="--to perfetto or --to chrome")
    first = Path(next(filter(is_trace, sources), sources[0]))
    target = output or (first if first.is_dir() else first.parent) / f"export.{SUFFIX[form]}"
    for note in notes(export_traces(sources, form, target)):
        print(f"note: {note}", file=sys.stderr)
    print(shown(target))
    return 0
