"""The command line of a generator that has verbs: one function each, set as `run_verb` of its parser."""

from __future__ import annotations

import argparse
import sys

from contend.errors import ContendError


def run(parser: argparse.ArgumentParser, arguments: list[str]) -> int:
    """The exit code: that of the error where there is one, which is said on standard error."""
    given = parser.parse_args(arguments)
    try:
        given.run_verb(given)
    except ContendError as error:
        print(f"error: {error.message}" + (f" ({error.hint})" if error.hint else ""), file=sys.stderr)
        return error.exit_code
    return 0
