"""`contend trace`: a Python program, unchanged, traced."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

import click

from contend.errors import BadInput


@click.command("trace", short_help="Run a Python program traced: functions, locks, queues, tasks.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Directory of the trace (default: trace-TIME here). One file a process.",
)
@click.option(
    "--include",
    multiple=True,
    metavar="PATTERN",
    help="Trace these functions: MODULE:NAME with * and ?, like 'nova.compute.manager:*'. May be given again.",
)
@click.option("--exclude", multiple=True, metavar="PATTERN", help="But not these.")
@click.option(
    "--cpu-times", is_flag=True, help="The thread's CPU time at both ends of every span (200 ns each)."
)
@click.option(
    "--overflow",
    type=click.Choice(["drop", "block"]),
    default="drop",
    show_default=True,
    help="When the disk cannot follow: drop new events and count them, or let the program wait.",
)
@click.option("--summary", is_flag=True, help="When it has ended: hottest spans, most waited locks, calls.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def command(
    output: Path | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    cpu_times: bool,
    overflow: str,
    summary: bool,
    command: tuple[str, ...],
) -> int:
    """Run COMMAND and record what its Python processes do, from their first import on, children too.

    On record are the locks, conditions, semaphores and queues of `threading` and `queue` (who waits, for whom, how
    long), asyncio tasks and greenlets, pools of threads, subprocesses, and the functions that --include names when
    their modules are imported (the script itself, __main__, is none). The command keeps its input, output, terminal
    and exit code (128 + N after signal N). A Python started with -I, -E or -S is not reached.

    \b
    Examples:
      contend trace -- python service.py
      contend trace --include 'app.*' --exclude 'app.models:*' -o before -- pytest -q
      contend trace --summary -- nova-compute --config-file nova.conf
      contend export before --to perfetto
    """
    from contend.trace.launch import Asked, run

    if shutil.which(command[0]) is None:
        raise BadInput(
            f"there is no program '{command[0]}'", hint="give the command as its words: -- python service.py"
        )
    for pattern in (*include, *exclude):
        if not pattern.partition(":")[0]:
            raise BadInput(f"'{pattern}' names no module", hint="MODULE:NAME, like 'app.db:Store.*'")
    stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{random.SystemRandom().randrange(16**4):04x}"
    directory = output or Path(f"trace-{stamp}")
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise BadInput(f"{directory} is there already", hint="name a directory that is new or empty")
    code = run(Asked(directory, include, exclude, overflow=overflow, cpu_times=cpu_times), command)
    _tell(directory, summary)
    return code


def _tell(directory: Path, summary: bool) -> None:
    """On standard error: the command's output is its own."""
    files = list(directory.glob("*.ctrace"))
    if not files:
        click.echo(
            "contend: nothing was recorded: no Python ran that reads PYTHONPATH (python -I, -E and -S do not)",
            err=True,
        )
        return
    size = sum(file.stat().st_size for file in files)
    many = f"{len(files)} processes" if len(files) > 1 else "1 process"
    click.echo(f"contend: {directory}: {many}, {size / 1e6:.1f} MB", err=True)
    if summary:
        from rich.console import Console

        from contend.report.trace_summary import print_summary, summarise

        print_summary(summarise(directory), Console(stderr=True, highlight=False))
    else:
        click.echo(
            f"  contend report {directory}   contend export {directory} --to perfetto   (ui.perfetto.dev)",
            err=True,
        )
