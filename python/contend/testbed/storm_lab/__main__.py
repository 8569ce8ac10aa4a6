"""`python -m storm_lab ROLE URL EXCHANGE OPTIONS [HOST]`: one process of the service."""

from __future__ import annotations

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1  # prctl(2)


def main(arguments: list[str]) -> int:
    """Exit code of the role: compute and conductor serve until SIGTERM, driver until its input ends."""
    from .options import Storm

    # Nothing of a storm outlives who started it.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    role, url, exchange, told, *rest = arguments
    options = Storm.from_json(told)
    if role == "conductor":
        from . import conductor

        return conductor.main(url, exchange, options)
    if role == "compute":
        from . import compute

        return compute.main(url, exchange, options, *rest)
    from . import driver

    return driver.main(url, exchange, options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
