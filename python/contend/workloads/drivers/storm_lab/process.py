"""The start of each process of the service: `python bin/ROLE.py EXCHANGE OPTIONS [HOST]`.

The broker's URL is in the environment, since it holds a password.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

from .options import Storm

_PR_SET_PDEATHSIG = 1  # prctl(2)


def run(main: Callable[..., int]) -> None:
    """Run it as this process and leave with its exit code. Nothing of a storm outlives who started it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    exchange, told, *rest = sys.argv[1:]
    sys.exit(main(os.environ["CONTEND_TRANSPORT_URL"], exchange, Storm.from_json(told), *rest))
