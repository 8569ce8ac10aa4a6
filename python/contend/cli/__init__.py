"""The command line: one file a verb, loaded only when it is asked for (`contend --help` must stay quick)."""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

import click

from contend.cli import config, questions
from contend.cli.own_command import TakesCommand
from contend.clock import Began
from contend.errors import ContendError, suggest
from contend.files import room_hint
from contend.store.damage import Damage, noting
from contend.text.printable import passage
from contend.text.safe import guard_streams

# verb: what it is for. The order is the one of the help text.
VERBS = {
    "watch": "Show live who delays whom. Adds no load.",
    "prove": "Prove what a neighbour costs a service, on the live host.",
    "try": "Try a finding's advice in turns, with and without.",
    "ab": "Compare two commands, interleaved in one run.",
    "run": "Run a scenario, or measure a command beside neighbours.",
    "sample": "Record the host and its processes while a command runs.",
    "trace": "Trace a Python program: functions, locks, queues, tasks.",
    "hunt": "Find what traced jobs wait for, and who holds it.",
    "whatif": "Predict a change: replay traced jobs with edits.",
    "report": "Show a run, a recording or a trace, or write its page.",
    "compare": "Say what changed between two runs.",
    "advise": "Say which workloads can share a host.",
    "serve": "Serve many runs as pages: list, compare, trends.",
    "sql": "Query a run's rows with SQL.",
    "export": "Write a run as CSV, Parquet, LaTeX, JUnit, OpenMetrics or SVG.",
    "import": "Import results of fio, Rally, hyperfine, k6 and others.",
    "stats": "Compare measurements from a CSV file.",
    "context": "Show what a part costs of the whole cloud's CPU time.",
    "fetch": "Download a URL or image within CPU and rate limits.",
    "fleet": "Run on many hosts: start, show and stop their machines.",
    "init": "Write a workload file from a command.",
    "list": "List studies, scenarios, workloads, platforms, probes.",
    "validate": "Check a scenario or workload file. Runs nothing.",
    "doctor": "Say what this host can run, and how to fix the rest.",
    "destroy": "Remove what runs left on this host. Keeps their data.",
}
# What users of other tools type, and what it is called here.
_VERBS_MEANT = {
    "analyse": "hunt", "analyze": "hunt", "bench": "ab", "benchmark": "ab", "blame": "watch", "check": "doctor",
    "clean": "destroy", "cleanup": "destroy", "convert": "export", "delete": "destroy", "diff": "compare",
    "diagnose": "hunt", "download": "fetch", "explain": "hunt", "graph": "report", "html": "report",
    "hyperfine": "ab", "iostat": "sample", "live": "watch", "load": "import", "ls": "list", "measure": "run",
    "monitor": "watch", "new": "init", "open": "report", "perf": "sample", "pidstat": "sample", "plot": "report",
    "predict": "whatif", "profile": "trace", "query": "sql", "record": "sample",
    "remove": "destroy", "replay": "whatif", "rm": "destroy", "save": "export", "show": "report", "simulate": "whatif",
    "start": "run", "stat": "sample", "status": "doctor", "stop": "fleet", "test": "ab", "top": "watch", "ui": "serve",
    "view": "report", "vmstat": "sample", "web": "serve", "why": "hunt",
}  # fmt: skip
_OPTIONS_MEANT = {
    "--against": ("--beside", "--vs"), "--clean": ("--stop",), "--conclude": ("--stop",), "--count": ("--blocks",),
    "--dir": ("--output", "--runs"), "--directory": ("--output", "--runs"), "--duration": ("--for", "--budget"),
    "--format": ("--to", "--json"), "--iterations": ("--blocks",), "--max-time": ("--budget",), "--neighbor": ("--beside",),
    "--neighbors": ("--beside",), "--neighbour": ("--beside",), "--neighbours": ("--beside",), "--out": ("--output",),
    "--html": ("--open", "--page"), "--period": ("--interval",), "--process": ("--pid",),
    "--repeat": ("--blocks",), "--repetitions": ("--count", "--blocks"), "--samples": ("--count", "--blocks"),
    "--seconds": ("--for", "--budget"), "--setup": ("--prepare",), "--shell-mode": ("--shell",),
    "--time": ("--for", "--budget"), "--timeout": ("--for", "--budget"), "--victim": ("--set",), "--victims": ("--set",),
    "--with": ("--beside",),
}  # fmt: skip

_MOST_LINES = 12
_LEFT_OUT = "  hint: what is damaged was left out; the rest was used. A copy from before, or --resume, may bring it back"
_HINTS = {
    errno.ENOSPC: "free some space, then try again",
    errno.EDQUOT: "free some of this user's space, then try again",
    errno.ENOENT: "did something remove it meanwhile?",
    errno.EACCES: "this user may not do that",
    errno.EPERM: "this user may not do that; contend doctor says what needs which right",
    errno.EMFILE: "raise the limit of open files: ulimit -n 4096",
}


def _is_slip_of(word: str, verb: str) -> bool:
    """True for the same letters but one: nobody is led to remove things by a word that is only a little like it."""
    return abs(len(word) - len(verb)) <= 1 and len(set(word) ^ set(verb)) <= 1


class Lazy(click.Group):
    """A group whose commands are imported on use; a misspelt verb is answered with the nearest one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f"contend.cli.{cmd_name}_").command
        ctx.default_map = {**(ctx.default_map or {}), cmd_name: config.defaults(cmd_name, command, VERBS)}
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            hint = suggest(args[0], [v for v in VERBS if v != "destroy" or _is_slip_of(args[0], v)])
            if (meant := _VERBS_MEANT.get(args[0].lower())) is not None:
                hint = f"contend {meant}: {VERBS[meant]}"
            raise click.UsageError(f"no verb is called '{args[0]}'\n  hint: {hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # before click, which takes it for a failure: the reader has seen enough
            _silence(sys.stdout)
            return 0

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.command(
    cls=Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "CONTEND"},
    subcommand_metavar="VERB [ARGUMENTS]...",
)
@click.option(
    "--no-color", is_flag=True, help="Print without colours, also behind a verb. NO_COLOR=1 does the same."
)
@click.version_option(package_name="contend", prog_name="contend")
def cli(no_color: bool) -> None:
    """Measure, explain and predict what workloads on shared machines contend for.

    \b
    Start with:
      contend watch                               who delays whom on this host, now
      contend ab 'gzip -6 -c f' 'gzip -9 -c f'    which of two commands is faster
      contend run noisy-neighbour -- ./mine       what slows your program, and why

    `contend VERB --help` explains a verb; `contend doctor` says what this host can run. Defaults of options stand in
    ~/.config/contend/config.toml, or in the environment as CONTEND_VERB_OPTION.

    Exit codes: 0 done, 1 failed, 2 bad input, 3 incomplete (resumable), 4 a threshold was crossed, 5 undecided.
    """


def main(arguments: list[str] | None = None) -> None:
    """Entry point: every error becomes one message with its hint and its exit code."""
    began = Began(time.monotonic_ns())
    open_streams()
    guard_streams()
    code = run(arguments, began)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # one more Ctrl-C must not change the exit code now
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _silence(sys.stdout)  # the reader has seen enough: `contend … | head -1`
    except OSError as error:
        _silence(sys.stdout)
        code = fail(f"cannot write the output: {error.strerror}", "is there space left?", 1)
    sys.exit(code)


def run(arguments: list[str] | None = None, began: Began | None = None) -> int:
    """Run a command line and return its exit code. began: when it was entered, for what has a budget; now where it is
    None."""
    with noting() as damage:
        code = _run(arguments, began)
    tell(damage)
    return code


def tell(damage: Iterable[Damage]) -> None:
    """Print which files of those that a verb has read are damaged."""
    lines = [f"damaged: {item}" for item in damage]
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"damaged: {len(lines) - _MOST_LINES} more places in these files"]
    if lines:
        with contextlib.suppress(OSError, ValueError):
            print("\n".join([*lines, _LEFT_OUT]), file=sys.stderr, flush=True)


def _run(arguments: list[str] | None, began: Began | None) -> int:
    arguments = _plainly(sys.argv[1:] if arguments is None else arguments)
    try:
        if not arguments and sys.stdin.isatty() and sys.stdout.isatty():
            return questions.ask(lambda words: run(words, began))
        result: Any = cli.main(arguments, standalone_mode=False, obj=began or Began(time.monotonic_ns()))
        return result if isinstance(result, int) else 0
    except ContendError as error:
        return fail(error.message, error.hint, error.exit_code, getattr(error, "__notes__", []))
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return fail("no verb was given", "contend watch, or contend run noisy-neighbour -- ./mine", 2)
    except click.ClickException as error:
        return _usage(error, arguments)
    except (click.Abort, KeyboardInterrupt):
        return _interrupted()
    except BrokenPipeError:
        _silence(sys.stdout)
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        hint = _HINTS.get(error.errno or 0, "is it still there, and may this user use it?")
        if error.errno == errno.ENOSPC and error.filename:
            hint = room_hint(Path(str(error.filename)), "then try again")
        return fail(f"{where}{error.strerror or error}", hint, 1, getattr(error, "__notes__", []))
    except Exception as error:  # a mistake of ours; a user is told so in a user's words
        from contend.interrupts import is_interrupt

        if is_interrupt(error):
            return _interrupted()
        if os.environ.get("CONTEND_DEBUG"):
            raise
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        from contend.studies.registry import OWN_DEFECT, whose_defect

        if (whose := whose_defect(error)) != OWN_DEFECT:
            hint = "CONTEND_DEBUG=1 in the environment shows where; a run that was measured is kept, for `contend report`"
        else:
            hint = "please report it with what CONTEND_DEBUG=1 in the environment shows"
        return fail(f"this is {whose}: {what}", hint, 1, getattr(error, "__notes__", []))


def _plainly(arguments: list[str]) -> list[str]:
    """The command line with what stands for an option elsewhere in its place: `help VERB`, `version`, `--no-color`."""
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    own, rest = arguments[:cut], arguments[cut:]
    if "--no-color" in own:
        os.environ["NO_COLOR"] = "1"  # for what is started, too
        own = [word for word in own if word != "--no-color"]
    if own[:1] == ["help"]:
        own = [*own[1:], "--help"]
    elif own == ["version"]:
        own = ["--version"]
    return [*own, *rest]


def _interrupted() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return fail("interrupted", "nothing is left behind; trials that had finished are kept", 3)


def _usage(error: click.ClickException, arguments: Sequence[str]) -> int:
    """A mistake on the command line, with the nearest thing that would have been right."""
    message, hint = error.format_message(), ""
    if isinstance(error, click.NoSuchOption):
        message = f"no option is called '{error.option_name}'"
        known = {spelt for each in error.ctx.command.params for spelt in each.opts} if error.ctx else set()
        meant = [each for each in _OPTIONS_MEANT.get(error.option_name, ()) if each in known]
        likely = [*meant, *(error.possibilities or ())]
        hint = f"did you mean '{likely[0]}'?" if likely else ""
        if error.ctx and isinstance(error.ctx.command, TakesCommand) and not hint:
            hint = f"an option of your command stands behind --: {error.ctx.command_path} … -- ./mine {error.option_name}"
    if not hint and "hint:" not in message:
        hint = " ".join(["contend", *(a for a in arguments[:1] if a in VERBS), "--help"])
    return fail(message, hint, 2)


def open_streams() -> None:
    """Make the three standard streams usable, whatever contend was started with.

    A closed one becomes /dev/null: else the next file opened would get its number, and a print would go into
    a run's files. What an encoding cannot hold is replaced, not an error.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as we live
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _silence(stream: TextIO) -> None:
    """Point a stream that nobody reads at /dev/null, so that Python's last flush does not complain either."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def fail(message: str, hint: str, code: int, notes: Sequence[str] = ()) -> int:
    from contend.text.masking import mask

    lines = [f"error: {passage(mask(message))}"]
    lines += [f"  hint: {passage(mask(hint))}"] if hint else []
    lines += [f"  {passage(mask(note))}" for note in notes]
    with contextlib.suppress(OSError, ValueError):  # nobody listens: the exit code still tells
        print("\n".join(lines), file=sys.stderr, flush=True)
    return code
