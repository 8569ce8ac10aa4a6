"""How a generator tells what it cannot do, so that the run that started it can read it (contend.said)."""

from __future__ import annotations

import sys

from contend.errors import ContendError


def failed(error: ContendError) -> int:
    """Say it on standard error, in the two lines of contend's own command line. Returns the exit code.

    >>> from contend.errors import BadInput
    >>> failed(BadInput("no image is called 'x'", hint="name one that is there"))
    2
    """
    print(f"error: {error.message}" + (f"\n  hint: {error.hint}" if error.hint else ""), file=sys.stderr)
    return error.exit_code
