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
    """Run `main` as this process and exit with its code. The process ends with its parent."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    exchange, options, *rest = sys.argv[1:]
    sys.exit(main(os.environ["CONTEND_TRANSPORT_URL"], exchange, Storm.from_json(options), *rest))
