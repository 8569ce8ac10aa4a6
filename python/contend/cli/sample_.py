"""`contend sample`: the host and its processes, recorded while a command runs or for a time."""

from __future__ import annotations

import random
import re
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from contend.cli.common import no_stream, print_answer, runs_option, shown, write_sample_report
from contend.errors import BadInput, ContendError
from contend.interrupts import new_threads_take_none
from contend.text.safe import plain

if TYPE_CHECKING:
    from contend.sample.session import Live
    from contend.sample.summary import Summary
    from contend.store.directory import RunDirectory

USUAL = "1s"
"""Between samples."""


@click.command("sample", short_help="Record the host and its processes while a command runs.")
@click.option("-i", "--interval", metavar="TIME", help=f"Between samples, from 10ms (default: {USUAL}).")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Directory of the recording, new or empty (default: sample-TIME below --runs).",
)
@click.option(
    "--for",
    "length",
    metavar="TIME",
    help="Record so long, like 30s. Without it and without a command: until Ctrl-C.",
)
@click.option(
    "-p",
    "--pid",
    type=click.IntRange(min=1),
    metavar="PID",
    help="Record until this process ends, and say what held it up, with its descendants.",
)
@click.option(
    "--source",
    type=click.Choice(["auto", "bpf", "taskstats", "proc"]),
    default="auto",
    show_default=True,
    help="Where figures of processes come from; auto: the cheapest that works here.",
)
@click.option(
    "--sched",
    type=click.Choice(["process", "cgroup", "thread"]),
    help="Histograms of times on a CPU, off it and waiting for one, of each (tables sched_hist, sched_total).",
)
@click.option(
    "--off-cpu-stacks",
    "stacks",
    is_flag=True,
    help="With --sched: where tasks were in their code when they blocked, by time (table sched_stack).",
)
@click.option("-q", "--quiet", is_flag=True, help="No lines while it goes on.")
@click.option(
    "--json", "as_json", is_flag=True, help="The summary as one JSON document, the last line of stdout."
)
@runs_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def command(
    interval: str | None,
    output: Path | None,
    length: str | None,
    pid: int | None,
    source: str,
    sched: str | None,
    stacks: bool,
    quiet: bool,
    as_json: bool,
    runs: Path,
    command: tuple[str, ...],
) -> int:
    """Record what the host and every process do while COMMAND runs, or for a time.

    The command keeps its input, output and terminal; its exit code is passed on (128 + N after signal N), whatever
    becomes of the recording. Needs no root: what this user may not see is left out, and said.

    \b
    Examples:
      contend sample -- make -j4 test
      contend sample -i 100ms -o before -- ./bench
      contend sample --for 30s
      contend sample 1 30                    as vmstat: every second, thirty times
      contend sample -p 4711 --for 1m
      contend sample --sched process --off-cpu-stacks -- ./bench
      contend report before --open
      contend sql before "select name, sum(user_ns) from process_use group by name"
    """
    with new_threads_take_none():  # signals are the command's, and waited for
        from contend.sample.session import SampleOptions, record, sample_directory
    from contend.units import parse_duration_ns

    every, length, command = _as_vmstat(interval, length, command)
    if pid is not None and command:
        raise BadInput("--pid follows a process, and a command is one of its own", hint="give one of the two")
    if pid is not None and not Path(f"/proc/{pid}").exists():
        raise BadInput(
            f"no process has the number {pid}", hint="pgrep NAME prints the numbers of those called NAME"
        )
    wanted = SampleOptions(
        pid=pid,
        interval_ns=parse_duration_ns(every),
        command=command,
        for_ns=parse_duration_ns(length) if length is not None else None,
        source=source,
        sched=sched or "",
        stacks=stacks,
    )
    if command and shutil.which(command[0]) is None:
        raise BadInput(
            f"there is no program '{command[0]}'", hint="give the command as its words: -- make -j4 test"
        )
    no_stream(output)
    stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{random.SystemRandom().randrange(16**4):04x}"
    run = sample_directory(output, runs, stamp)
    try:
        outcome = record(wanted, run, _live(wanted.command, quiet))
    except BaseException:
        if not run.is_sample:  # it never began
            run.remove()
        raise
    code = 0 if outcome.recorded else 1
    if outcome.ended is None:
        _tell(run, as_json=as_json, beside_command=False, code=code)
        return code
    try:
        _tell(run, as_json=as_json, beside_command=True, code=code)
    except Exception as error:  # noqa: BLE001 - how the command ended is the answer, whatever becomes of its report
        message = error.message if isinstance(error, ContendError) else f"{type(error).__name__}: {error}"
        print(f"warning: no report: {message}\n  hint: contend report {shown(run.path)}", file=sys.stderr)
    return outcome.ended.status


def _as_vmstat(
    interval: str | None, length: str | None, command: tuple[str, ...]
) -> tuple[str, str | None, tuple[str, ...]]:
    """Two numbers for a command are the seconds between samples, and how many there are; one is the seconds.

    Raises BadInput where options say another time.
    """
    from contend.units import NS_PER_S, exact_duration

    if not command or len(command) > 2 or not all(re.fullmatch(r"\d+(\.\d+)?", word) for word in command):
        return interval or USUAL, length, command
    if interval is not None or (length is not None and len(command) == 2):
        option = "-i" if interval is not None else "--for"
        raise BadInput(
            f"{option} and '{' '.join(command)}' say the same twice",
            hint="contend sample 1 30, or contend sample -i 1s --for 30s",
        )
    if len(command) == 1:
        return f"{command[0]}s", length, ()
    return f"{command[0]}s", exact_duration(round(float(command[0]) * float(command[1]) * NS_PER_S)), ()


def _live(words: tuple[str, ...], quiet: bool) -> Live:
    from contend.sample.live import Line, Quiet

    if quiet:
        return Quiet(plain(sys.stderr))
    return Line(plain(sys.stderr), redraw=sys.stderr.isatty() and not words)


def _tell(run: RunDirectory, *, as_json: bool, beside_command: bool, code: int = 0) -> None:
    """Write summary.json and report.html, and print the summary: on stderr where stdout is the command's."""
    summary = write_sample_report(run)
    if as_json:
        print_answer(summary.headline, summary, code=code)
        return
    print_summary(summary, run, to_stderr=beside_command)


def print_summary(summary: Summary, run: RunDirectory, *, to_stderr: bool = False) -> None:
    """Print the table, and where the recording is."""
    from contend.report.sample_terminal import WIDTH, lines

    stream = sys.stderr if to_stderr else sys.stdout
    where = shown(run.path)
    width = shutil.get_terminal_size().columns if stream.isatty() else WIDTH
    print("\n".join([*lines(summary, width), "", f"{where}   report: {where}/report.html"]), file=stream)
