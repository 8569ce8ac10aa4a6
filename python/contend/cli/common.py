"""Parts that several verbs share: where runs are, progress, and how a run ends for people and machines."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from contend.clock import Began
from contend.errors import BadInput, HostFailed, ThresholdCrossed
from contend.store.damage import noting, uncollected
from contend.text.answer import VERDICTS, Answer
from contend.text.safe import safe_console, write_json

if TYPE_CHECKING:
    from contend.analysis.price import Price
    from contend.document import Analysis
    from contend.document.context import Context
    from contend.engine.execution import Outcome
    from contend.report.model import ReportInput
    from contend.report.progress import Progress
    from contend.sample.summary import Summary
    from contend.store.directory import RunDirectory

INCOMPLETE = 3
"""The exit code where planned trials are missing."""
READ_AHEAD = 64 << 20
"""Bytes of trials from which on the series are read while they are."""
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def runs_option(function: F) -> F:
    """`--runs DIR`: where run directories are made."""
    option = click.option(
        "--runs",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path("runs"),
        show_default=True,
        envvar="CONTEND_RUNS",
        help="Where run directories are made.",
    )
    return option(function)


def typed(name: str) -> bool:
    """True where this command line gives the parameter; False for a default, or one from the environment or config file."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def no_stream(output: Path | None) -> None:
    """Raises BadInput for `-o -`: a recording is a directory."""
    if output is not None and str(output) == "-":
        raise BadInput(
            "a recording is a directory, and not written to stdout",
            hint="--json prints the answer; contend sql DIR QUERY --csv prints rows of the recording",
        )


def began_ns() -> int:
    """The moment when the command line was entered, CLOCK_MONOTONIC ns: from then on a budget is being spent."""
    began = click.get_current_context().find_object(Began)
    return time.monotonic_ns() if began is None else began.ns


def offer_page(page: Path | None, why: str, *, open_page: bool) -> None:
    """Open a trace's page where the user wants it. Where there is none, `why` says so; raises HostFailed where
    `open_page` is set."""
    if page is not None:
        if open_page:
            click.launch(str(page))
        return
    if open_page:
        raise HostFailed(why, hint="copy the trace to a directory of yours")
    print(f"note: no page: {why}", file=sys.stderr)


def make_progress(as_json: bool, *, quiet: bool = False) -> Progress:
    from contend.report.progress import NoProgress, console_progress

    return NoProgress() if quiet or (as_json and not sys.stderr.isatty()) else console_progress()


def load_report(
    run: RunDirectory,
    context: Context | None = None,
    *,
    for_page: bool = False,
) -> ReportInput:
    """Load everything a report needs, from the run directory alone; and of what lies beside it, unless `context` is
    given, the storm that a component's cost is put in. for_page: its timelines too, read meanwhile.

    Of a damaged directory, what its whole files and rows allow. Raises BadInput where its plan or scenario is unreadable.
    """
    with noting() as damage:
        report = _load(run, context, for_page)
    all_damage = tuple(dict.fromkeys((*report.analysis.damage, *(item.within(run.path) for item in damage))))
    return replace(report, analysis=replace(report.analysis, damage=all_damage))


def _load(run: RunDirectory, context: Context | None, for_page: bool) -> ReportInput:
    from contend.analysis.ahead import ahead
    from contend.analysis.analyse import analyse
    from contend.analysis.run import probe_cost
    from contend.contention.alibi.cells import cell_alibis, phase_alibis
    from contend.contention.alibi.recording import Recording
    from contend.contention.alibi.scope import read_group, victims
    from contend.contention.scheduling import cell_schedules
    from contend.context.choose import beside
    from contend.context.shown import InContext
    from contend.document import PLAIN
    from contend.report.model import ReportInput
    from contend.report.series import Timelines, read_timelines
    from contend.report.traced_cells import traced_cells
    from contend.store.cells import elsewhere
    from contend.store.hosts import hosts_of_run, on_one_clock
    from contend.store.rows import latest
    from contend.store.series import series_or
    from contend.studies.scenarios import of_run

    text = run.scenario_text()
    scenario = of_run(run)
    recorded = run.plan(scenario.study)
    name = recorded.get("scenario", "")
    scenario = scenario.model_copy(update={"origin": name or str(shown(run.path) / "scenario.yaml")})
    if hosts_of_run(run):  # each host's timelines and hardware are in its own directory
        on_one = on_one_clock(run.compact_rows(recorded))
        return ReportInput(
            analysis=analyse(run, scenario),
            environment=run.environment(),
            scenario_text=text,
            rows=tuple(on_one),
            series_dir=None,
            command=str(recorded.get("command", f"contend run {shown(run.path)}/scenario.yaml")),
            run_dir=str(shown(run.path)),
        )
    large = run.trials_path.is_file() and run.trials_path.lstat().st_size > READ_AHEAD
    with ahead(worth_it=large) as meanwhile:  # DuckDB reads while Python parses and judges

        def read(default: T, of: Callable[[], T]) -> Callable[[], T]:
            return meanwhile.begin(lambda: series_or(run.series, default, of))

        recording_of = read(Recording({}), lambda: Recording.of_run(run))
        rows = run.compact_rows(recorded)
        seated = victims(rows)
        own_recording_of = read(None, lambda: read_group(run.series, seated))
        newest = latest(rows)
        # Of a forecast's hundreds of cells those that tables are about.
        in_tables = [row for row in newest if row["factors"].get("role", "pair") == "pair"]
        events = run.events()
        analysis = analyse(run, scenario, rows=rows, events=events)
        recording, own_recording = recording_of(), own_recording_of()
        begun = [int(row["started_ns"]) for row in rows if row.get("started_ns") is not None]
        timelines_of = (
            read(Timelines(), lambda: read_timelines(run.series, min(begun)))
            if for_page and begun and large
            else None
        )
        beside_run = context or beside(run, scenario)
        analysis = replace(
            analysis,
            phase_alibis=phase_alibis(newest, recording),
            alibis=cell_alibis(in_tables, recording, own_recording, elsewhere=elsewhere(recorded)),
            schedules=series_or(run.series, (), lambda: cell_schedules(newest, run.series)),
            probe=probe_cost(events, recording.interval_ns),
            context=beside_run,
            in_context=PLAIN if beside_run is None else InContext(beside_run),
        )
        timelines = timelines_of() if timelines_of is not None else None
    return ReportInput(
        analysis=analysis,
        environment=run.environment(),
        scenario_text=text,
        rows=tuple(rows),
        series_dir=run.series,
        timelines=timelines,
        command=str(recorded.get("command", f"contend run {shown(run.path)}/scenario.yaml")),
        run_dir=str(shown(run.path)),
        traced=partial(traced_cells, run.path),
    )


def write_report(
    run: RunDirectory, context: Context | None = None, price: Price | None = None
) -> ReportInput:
    """Write findings.json and report.html again; `context` as of `load_report`. price: of a core, to say costs in."""
    from contend.analysis.price import costs
    from contend.report.html import render_html

    with uncollected():
        report = load_report(run, context, for_page=True)
        if price is not None:
            report = replace(report, analysis=replace(report.analysis, costs=costs(report.analysis, price)))
        run.write_json("findings.json", report.analysis.to_json())
        run.write_text("report.html", render_html(report))
    return report


def write_sample_report(run: RunDirectory) -> Summary:
    """Write summary.json and report.html of a recording again."""
    from contend.report.sample_page import render_sample
    from contend.sample.summary import summarise
    from contend.store.series import read_series

    def read() -> tuple[Summary, str]:
        made = summarise(run)
        return made, render_sample(run, made, shown_as=str(shown(run.path)))

    summary, page = read_series(run.series, read)
    run.write_json("summary.json", summary.to_json())
    run.write_text("report.html", page)
    return summary


def finish(
    outcome: Outcome,
    *,
    verbose: bool,
    as_json: bool,
    quiet: bool = False,
    fail_above: float | None = None,
) -> int:
    """Write the report, print the answer, and give the exit code. quiet: print the answer's sentence alone. fail_above: as a
    gate, by how much a headline metric may be worse; None: by as much as was said when the run began, if anything was."""
    report = write_report(outcome.run)
    code, why = _ending(outcome, report.analysis)
    limit = outcome.run.plan().get("fail_above") if fail_above is None else fail_above
    remarks = []
    if limit is not None:
        from contend.report import gate

        remarks = [headline(report.analysis), *gate.remarks(report)]
        if not code:
            code, why = gate.verdict(report, limit)
    if as_json:
        print_answer(headline(report.analysis), report.analysis, code=code)
        for line in remarks:  # a job's log says what the document in its file does
            print(line, file=sys.stderr)
    elif quiet:
        print(headline(report.analysis))
    else:
        print_report(report, verbose=verbose)
    if why:
        print(why, file=sys.stderr)
    return code


def print_answer(headline: str, data: Any, *, code: int = 0) -> None:
    """Print the one JSON document of the command that is going on, its secrets masked: a line, or on a terminal several.

    data: a Shape, or what JSON has. code: with which the process will exit.
    """
    indent = 2 if sys.stdout.isatty() else None  # a person looks at it, or a program reads it by line
    write_json(Answer(verb(), headline, data, verdict=VERDICTS[code]).to_json(), indent=indent)


def headline(analysis: Analysis) -> str:
    """A run's answer; where it has none, its question and that there is no answer."""
    return analysis.answer or f"{analysis.title or analysis.study}: no answer"


def verb() -> str:
    """The words of the command that is running: run, fleet status."""
    words: list[str] = []
    context: click.Context | None = click.get_current_context()
    while context is not None and not (context.parent is None and isinstance(context.command, click.Group)):
        words.insert(0, context.command.name or "")
        context = context.parent
    return " ".join(words)


def _ending(outcome: Outcome, analysis: Analysis) -> tuple[int, str]:
    """The exit code of a run, and the message on stderr where that is not 0."""
    if outcome.guard:
        from contend.studies.registry import study

        hint = study(analysis.study).guard_hint
        return ThresholdCrossed.exit_code, f"stopped by the guard: {outcome.guard}\n  hint: {hint}"
    too_short = outcome.too_short(analysis)
    if not outcome.incomplete and not too_short:
        return 0, ""
    if outcome.interrupted:
        why = "interrupted"
    elif outcome.missing:
        why = "; ".join(outcome.missing)
    elif outcome.failed:
        why = f"{outcome.failed} trial{'s' if outcome.failed != 1 else ''} gave no result"
    else:
        why = "the budget was spent before anything that is compared had an interval"
        why = "the budget has no room for an answer" if outcome.would_do else why
        why += f": {outcome.spending}" if outcome.spending else ""
    more = f" --budget {outcome.would_do or 'DURATION'}" if too_short else ""
    return INCOMPLETE, f"incomplete: {why}\n  hint: contend run --resume {shown(outcome.run.path)}{more}"


def print_report(report: ReportInput, *, verbose: bool) -> None:
    from contend.report.terminal import show

    show(report, safe_console(), verbose=verbose)


def shown(path: Path) -> Path:
    """The path as a person would type it from the working directory."""
    relative = os.path.relpath(path)
    return path if relative.startswith("../..") else Path(relative)
