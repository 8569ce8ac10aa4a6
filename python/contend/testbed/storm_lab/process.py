"""The start of each process of the service: `python bin/ROLE.py URL EXCHANGE OPTIONS [HOST]`."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Callable

from .options import Storm

_PR_SET_PDEATHSIG = 1  # prctl(2)


def run(main: Callable[..., int]) -> None:
    """Run it as this process and leave with its exit code. Nothing of a storm outlives who started it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    url, exchange, told, *rest = sys.argv[1:]
    sys.exit(main(url, exchange, Storm.from_json(told), *rest))
