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
from typing import Any, TextIO

import click

from contend.clock import Began
from contend.errors import ContendError, suggest
from contend.store.damage import Damage, noting
from contend.text.printable import passage
from contend.text.safe import guard_streams

# verb: what it is for. The order is the one of the help text.
VERBS = {
    "run": "Run a scenario: who slows whom, by how much, and why.",
    "fleet": "Bring up, show and take down the machines of a run on several hosts.",
    "ab": "Compare two commands, interleaved, with an interval that holds on noisy hosts.",
    "sample": "Record the host and its processes while a command runs.",
    "watch": "Who waits for whom on this host, now, without any load of ours.",
    "trace": "Run a Python program traced: functions, locks, queues, tasks.",
    "whatif": "What would change if: replay a traced storm with edits.",
    "report": "Make the report of a run again, or show it in the terminal.",
    "advise": "What to do, by a run: which workloads together, which apart.",
    "hunt": "Find what a batch of traced jobs waits for, and for whom.",
    "import": "Take in what fio, Rally, hyperfine, k6 and others measured.",
    "compare": "Which cells changed between two runs, beyond their intervals.",
    "serve": "A page of many runs: list, filter, compare, trends.",
    "context": "What one RPC's or download's cost is of a whole cloud's CPU time.",
    "export": "Write a run as CSV, Parquet, JUnit, OpenMetrics, SVG or PNG.",
    "fetch": "Download a URL or an image, verified, within a CPU and rate budget.",
    "sql": "Ask a run's rows anything, with DuckDB.",
    "stats": "Compare measurements made elsewhere, from a CSV file.",
    "list": "Show studies, scenarios, workloads, platforms and probes.",
    "validate": "Check a scenario or workload file without running it.",
    "doctor": "Say what this host can run, and the fix for what it cannot.",
    "destroy": "Remove what runs left on this host; run directories stay.",
}


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


class Lazy(click.Group):
    """A group whose commands are imported on use; a misspelt verb is answered with the nearest one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f"contend.cli.{cmd_name}_").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            raise click.UsageError(f"no verb is called '{args[0]}'\n  hint: {suggest(args[0], VERBS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.command(
    cls=Lazy,
    context_settings={"help_option_names": ["-h", "--help"]},
    subcommand_metavar="VERB [ARGUMENTS]...",
)
@click.version_option(package_name="contend", prog_name="contend")
def cli() -> None:
    """Measures, explains and predicts what workloads on shared machines contend for.

    Start with `contend run noisy-neighbour`, or compare two commands of yours: `contend ab -- CMD_A --vs CMD_B`.
    `contend VERB --help` explains a verb; `contend doctor` says what this host can run.

    Exit codes: 0 done, 1 failed, 2 bad input, 3 incomplete (resumable), 4 a threshold was crossed,
    5 a verdict was asked for and the data cannot give it.
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
    try:
        result: Any = cli.main(arguments, standalone_mode=False, obj=began or Began(time.monotonic_ns()))
        return result if isinstance(result, int) else 0
    except ContendError as error:
        return fail(error.message, error.hint, error.exit_code, getattr(error, "__notes__", []))
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return fail("no verb was given", "contend run noisy-neighbour", 2)
    except click.ClickException as error:
        return _usage(error, sys.argv[1:] if arguments is None else arguments)
    except (click.Abort, KeyboardInterrupt):
        return _interrupted()
    except BrokenPipeError:
        _silence(sys.stdout)
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        hint = _HINTS.get(error.errno or 0, "is it still there, and may this user use it?")
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


def _interrupted() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return fail("interrupted", "nothing is left behind; trials that had finished are kept", 3)


def _usage(error: click.ClickException, arguments: Sequence[str]) -> int:
    """A mistake on the command line, with the nearest thing that would have been right."""
    message, hint = error.format_message(), ""
    if isinstance(error, click.NoSuchOption):
        message = f"no option is called '{error.option_name}'"
        hint = f"did you mean '{error.possibilities[0]}'?" if error.possibilities else ""
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
