"""The command line of a generator: `NAME VERB FILE [SECONDS]`.

FILE holds its parameters (contend.workloads.parameters_file). SECONDS stands in the command, where the verb works for a
time: so a workload's file shows which do.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from contend.errors import BadInput, ContendError
from contend.units import parse_duration_ns
from contend.workloads.parameters_file import Fields, Placeholders, read


def failed(error: ContendError) -> int:
    """Print the error on standard error, in the two lines of contend's own command line, and return the exit code.

    >>> from contend.errors import BadInput
    >>> failed(BadInput("no image is called 'x'", hint="name one that is there"))
    2
    """
    print(f"error: {error.message}" + (f"\n  hint: {error.hint}" if error.hint else ""), file=sys.stderr)
    return error.exit_code


Verbs = Mapping[str, Callable[[Fields, Placeholders], Any]]


def run(arguments: Sequence[str], kind: type[Fields], verbs: Verbs[Fields]) -> int:
    """Run a verb and return the exit code. An error is printed on standard error, and its exit code returned."""
    try:
        if len(arguments) not in (2, 3) or arguments[0] not in verbs:
            raise BadInput(
                f"'{' '.join(arguments)}' is not {' | '.join(verbs)}, and a file",
                hint="VERB FILE [SECONDS]: {parameters} names the file",
            )
        verb, file, *seconds = arguments
        verbs[verb](*read(Path(file), kind, *(parse_duration_ns(text) / 1e9 for text in seconds)))
    except ContendError as error:
        return failed(error)
    return 0


def interruptible(arguments: Sequence[str], kind: type[Fields], verbs: Verbs[Fields]) -> int:
    """As `run`. SIGTERM, by which a trial is ended, is an interrupt: what was started is ended on the way out."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run(arguments, kind, verbs)
    except KeyboardInterrupt:
        return 130
