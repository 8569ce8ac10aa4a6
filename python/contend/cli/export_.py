"""`contend export`: a run or a trace in the formats of others."""

from __future__ import annotations

import shutil
import sys
import tempfile
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
    help="File, or directory for svg and png; '-' is stdout (default: in the run directory, or beside the trace).",
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
    limit = parse_fraction(fail_above)
    if output == Path("-"):
        _to_stdout(sources, form, limit)
        return 0
    for path in _written(sources, form, output, limit):
        print(shown(path))
    return 0


def _to_stdout(sources: Sequence[str], form: str, limit: float) -> None:
    with tempfile.TemporaryDirectory(prefix="contend-export-") as folder:
        paths = _written(sources, form, Path(folder) / f"export.{SUFFIX.get(form, form)}", limit)
        if len(paths) != 1 or paths[0].is_dir():
            raise BadInput(f"{form} is several files here: stdout takes one", hint="-o DIR")
        sys.stdout.flush()
        with paths[0].open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)


def _written(sources: Sequence[str], form: str, output: Path | None, limit: float) -> list[Path]:
    """Write the files. Raises BadInput for a form that the sources do not have."""
    from contend.store.directory import RunDirectory
    from contend.store.traces import is_trace

    if len(sources) > 1 or is_trace(sources[0]):
        return [_trace(sources, form, output)]

    (run,) = sources
    directory = RunDirectory.open(run, samples=True)
    if form in TRACES:
        from contend.report.counters import export_counters

        target = output or directory.path / f"export.{SUFFIX[form]}"
        export_counters(directory, form, target)
        return [target]
    if directory.is_sample or directory.is_watch:
        from contend.report.sample_export import export_sample

        return [export_sample(directory, form, output)]
    if form == STACKS:
        raise BadInput(
            "a run has no stacks", hint="contend sample --sched process --off-cpu-stacks records them"
        )
    report = load_report(directory)
    if form in TABLES:
        from contend.report.export import export

        target = output or directory.path / f"export.{SUFFIX[form]}"
        export(report, form, target, fail_above=limit)
        return [target]
    from contend.report.plots import save_plots

    return list(save_plots(report, output or directory.path / "plots", formats=(form,)))


def _trace(sources: Sequence[str], form: str, output: Path | None) -> Path:
    from contend.report.trace_export import export_traces
    from contend.store.traces import is_trace, notes

    if form not in TRACES:
        raise BadInput(f"a trace cannot be written as '{form}'", hint="--to perfetto or --to chrome")
    first = Path(next(filter(is_trace, sources), sources[0]))
    target = output or (first if first.is_dir() else first.parent) / f"export.{SUFFIX[form]}"
    for note in notes(export_traces(sources, form, target)):
        print(f"note: {note}", file=sys.stderr)
    return target
