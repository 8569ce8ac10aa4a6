"""The command line: one file a verb, loaded only when it is asked for (`contend --help` must stay quick)."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

from contend import __version__
from contend.errors import ContendError, suggest

# verb: what it is for. The order is the one of the help text.
VERBS = {
    "run": "Run a scenario: who slows whom, by how much, and why.",
    "ab": "Compare two commands, interleaved, with an interval that holds on noisy hosts.",
    "report": "Make the report of a run again, or show it in the terminal.",
    "compare": "Which cells changed between two runs, beyond their intervals.",
    "export": "Write a run as CSV, Parquet, JUnit, OpenMetrics, SVG or PNG.",
    "sql": "Ask a run's rows anything, with DuckDB.",
    "stats": "Compare measurements made elsewhere, from a CSV file.",
    "list": "Show built-in scenarios, workloads, platforms and probes.",
    "validate": "Check a scenario or workload file without running it.",
    "doctor": "Say what this host can run, and the fix for what it cannot.",
    "destroy": "Remove what runs left on this host; run directories stay.",
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


@click.command(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="contend")
def cli() -> None:
    """Measures, explains and predicts what workloads on shared machines contend for.

    Start with `contend run noisy-neighbour`, or compare two commands of yours: `contend ab -- CMD_A --vs CMD_B`.

    Exit codes: 0 done, 1 failed, 2 bad input, 3 incomplete (resumable), 4 a threshold was crossed,
    5 a verdict was asked for and the data cannot give it.
    """


def main(arguments: list[str] | None = None) -> None:
    """Entry point: every error becomes one message with its hint and its exit code."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    try:
        result: Any = cli.main(arguments, standalone_mode=False)
        return result if isinstance(result, int) else 0
    except ContendError as error:
        return fail(error.message, error.hint, error.exit_code)
    except click.ClickException as error:
        message = error.format_message()
        context = getattr(error, "ctx", None)
        hint = "" if "hint:" in message else f"{context.command_path if context else 'contend'} --help"
        return fail(message, hint, 2)
    except (click.Abort, KeyboardInterrupt):
        return fail("interrupted", "", 3)
    except BrokenPipeError:
        sys.stderr.close()  # the reader has gone; Python would complain once more while closing
        return 0
    except OSError as error:
        return fail(str(error), "is there space left, and permission?", 1)


def fail(message: str, hint: str, code: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"  hint: {hint}", file=sys.stderr)
    return code
