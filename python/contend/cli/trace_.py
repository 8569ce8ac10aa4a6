"""`contend trace`: a Python program, unchanged, traced; one that is started, or one that runs."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from contend.cli.common import typed
from contend.errors import BadInput, HostFailed
from contend.text.safe import plain, safe_console

if TYPE_CHECKING:
    from contend.trace.launch import TraceOptions


@click.command("trace", short_help="Trace a Python program: functions, locks, queues, tasks.")
@click.option("--pid", type=int, metavar="PID", help="Attach to this process instead of running a command.")
@click.option(
    "--for", "length", metavar="TIME", help="With --pid: so long, like 10s. Without it: until Ctrl-C."
)
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
    "--cpu-times",
    is_flag=True,
    help="The thread's CPU time at both ends of every span and job, and where a wait begins (a system call each: 0.2 to"
    " 0.7 µs).",
)
@click.option(
    "--run-delay",
    is_flag=True,
    help="How long the thread was ready and had no CPU, at both ends of every span and job (about 5 µs each).",
)
@click.option(
    "--overflow",
    type=click.Choice(["drop", "block"]),
    default="drop",
    show_default=True,
    help="When the disk cannot follow: drop new events and count them, or let the program wait.",
)
@click.option(
    "--sample",
    is_flag=True,
    help="Record the host beside it, as contend sample does: in DIR/sample, and in what contend export writes.",
)
@click.option(
    "--sample-interval",
    default="200ms",
    metavar="TIME",
    show_default=True,
    help="Between samples, from 10ms.",
)
@click.option(
    "--gil/--no-gil",
    default=True,
    show_default=True,
    help="Waits for the interpreter's lock, and who held it.",
)
@click.option("--gc/--no-gc", default=True, show_default=True, help="Pauses for garbage collection.")
@click.option(
    "--io/--no-io",
    default=True,
    show_default=True,
    help="System calls that take 50 µs and more: files, sockets, children, sleep.",
)
@click.option(
    "--blocked-after",
    "blocked_after_ms",
    type=click.FloatRange(min=0, max=1e6),
    default=10,
    show_default=True,
    metavar="MS",
    help="What keeps an event loop or hub from all others for longer; 0: none.",
)
@click.option(
    "--digests/--no-digests",
    default=True,
    show_default=True,
    help="Of a call's arguments 64 bits, by a random key that is not in the trace: whether it is made with them again.",
)
@click.option("--summary", is_flag=True, help="When it has ended: hottest spans, most waited locks, calls.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def command(
    pid: int | None,
    length: str | None,
    output: Path | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    cpu_times: bool,
    run_delay: bool,
    overflow: str,
    sample: bool,
    sample_interval: str,
    gil: bool,
    gc: bool,
    io: bool,
    blocked_after_ms: float,
    digests: bool,
    summary: bool,
    command: tuple[str, ...],
) -> int:
    """Run COMMAND and record what its Python processes do, from their first import on, children too.

    On record are the locks, conditions, semaphores and queues of `threading` and `queue` (who waits, for whom, how
    long), the interpreter's own lock, garbage collections, callbacks that block an event loop or hub, asyncio tasks and
    greenlets, pools of threads, subprocesses, locks of oslo.concurrency, calls by RPC, SQL, HTTP and libvirt, requests
    that are served (docs/guides/tracing.md), and the functions that --include names when
    their modules are imported (the script itself, __main__, is none). The command keeps its input, output, terminal
    and exit code (128 + N after signal N). A Python started with -I, -E or -S is not reached.

    With --pid a process that runs already is attached to (CPython 3.11 to 3.15 on x86-64): functions that --include
    names, tasks, pools, subprocesses, and the locks that are made from then on; afterwards it is as before. Locks that
    exist, and functions that were handed on before, are not reached.

    \b
    Examples:
      contend trace -- python service.py
      contend trace --include 'app.*' --exclude 'app.models:*' -o before -- pytest -q
      contend trace --summary -- nova-compute --config-file nova.conf
      contend trace --sample -o slow -- python service.py
      contend trace --pid 4711 --for 10s --include 'app.db:*' -o now
      contend export before --to perfetto
    """
    from contend.platforms import quota_log
    from contend.trace.launch import TraceOptions, run

    _check(pid, length, sample, command)
    if not sample and typed("sample_interval"):
        raise BadInput("--sample-interval goes with --sample", hint="add --sample")
    for pattern in (*include, *exclude):
        if not pattern.partition(":")[0]:
            raise BadInput(f"'{pattern}' names no module", hint="MODULE:NAME, like 'app.db:Store.*'")
    stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{random.SystemRandom().randrange(16**4):04x}"
    directory = output or Path(f"trace-{stamp}")
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise BadInput(f"{directory} is there already", hint="name a directory that is new or empty")
    wanted = TraceOptions(
        directory,
        include,
        exclude,
        overflow=overflow,
        cpu_times=cpu_times,
        run_delay=run_delay,
        gil=gil,
        gc=gc,
        io=io,
        blocked_after_ms=blocked_after_ms,
        digests=digests,
    )
    if pid is not None:
        code = _attach(pid, wanted, length)
    else:
        with quota_log.logging(directory):
            code = _sampled(wanted, command, sample_interval) if sample else run(wanted, command)
    _tell(directory, summary)
    return code


def _sampled(options: TraceOptions, command: tuple[str, ...], interval: str) -> int:
    """Run it with the host recorded beside it; its exit code."""
    from contend.sample import session
    from contend.sample.live import Quiet
    from contend.store.directory import RunDirectory
    from contend.store.traces import SAMPLE
    from contend.trace.launch import environment
    from contend.units import parse_duration_ns

    interval_ns = parse_duration_ns(interval)
    line = shlex.join(["contend", "trace", "--sample", "--sample-interval", interval, "--", *command])
    wanted = session.SampleOptions(interval_ns, command, environ=environment(options, os.environ), line=line)
    run = RunDirectory.at(options.directory / SAMPLE)
    try:
        outcome = session.record(wanted, run, Quiet(plain(sys.stderr)))
    except BaseException:
        if not run.is_sample:  # it never began
            run.remove()
        raise
    return outcome.ended.status if outcome.ended is not None else 1


def _check(pid: int | None, length: str | None, sample: bool, command: tuple[str, ...]) -> None:
    if pid is not None and command:
        raise BadInput(
            "--pid and a command: one of them", hint="contend trace --pid PID, or contend trace -- COMMAND"
        )
    if pid is not None and sample:
        raise BadInput("--sample is for a command", hint="beside --pid: contend sample --for 10s -o DIR")
    if pid is None and length is not None:
        raise BadInput(
            "--for is for --pid: a command has its own end", hint="contend trace --pid PID --for 10s"
        )
    if pid is None and not command:
        raise BadInput(
            "nothing to trace", hint="contend trace -- python service.py, or contend trace --pid PID"
        )
    if command and shutil.which(command[0]) is None:
        raise BadInput(
            f"there is no program '{command[0]}'", hint="give the command as its words: -- python service.py"
        )


def _attach(pid: int, options: TraceOptions, length: str | None) -> int:
    """Until that time, Ctrl-C, a SIGTERM, or the end of the process."""
    from contend.interrupts import Interrupts
    from contend.trace.attach import Session
    from contend.units import parse_duration_ns

    seconds = None if length is None else parse_duration_ns(length) / 1e9
    with Interrupts(), contextlib.closing(Session(pid, options)) as session:
        begun = session.begin()
        stopped = "" if begun.stopped_ns is None else f", stood still for {begun.stopped_ns / 1000:.0f} µs"
        many = f"{begun.functions} function{'s' if begun.functions != 1 else ''} traced"
        click.echo(f"contend: process {pid}: Python {begun.python}{stopped}; {many}", err=True)
        if options.include and not begun.functions:
            click.echo("  no function that is imported by now matches --include", err=True)
        ends = "Ctrl-C ends it" if length is None else f"for {length}"
        click.echo(f"  recording into {options.directory}, {ends}", err=True)
        with contextlib.suppress(KeyboardInterrupt):
            session.wait(seconds)
        ended = session.end()
    if ended.failure:
        raise HostFailed(f"the recording ended early: {ended.failure}", hint="is there space left?")
    if ended.lost:
        click.echo(f"contend: {ended.lost} events were lost: the disk could not follow", err=True)
    click.echo(f"contend: process {pid} {'has ended' if ended.gone else 'goes on as before'}", err=True)
    return 0


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
        from contend.report.trace_terminal import print_summary
        from contend.store.trace_summary import summarise

        print_summary(summarise(directory), safe_console(stderr=True))
    else:
        click.echo(
            f"  contend hunt {directory}   contend report {directory}   contend export {directory} --to perfetto",
            err=True,
        )
