"""The command line of a generator that has verbs: one function each, set as `run_verb` of its parser."""

from __future__ import annotations

import argparse
import signal

from contend.errors import ContendError
from contend.workloads.generators.telling import failed


def run(parser: argparse.ArgumentParser, arguments: list[str]) -> int:
    """The exit code: that of the error where there is one, which is said on standard error."""
    given = parser.parse_args(arguments)
    try:
        given.run_verb(given)
    except ContendError as error:
        return failed(error)
    return 0


def interruptible(parser: argparse.ArgumentParser, arguments: list[str]) -> int:
    """As `run`. SIGTERM, by which a trial is ended, is an interrupt: what was started is ended on the way out."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run(parser, arguments)
    except KeyboardInterrupt:
        return 130
