"""A command that works for a part of the time: `python -m contend.workloads.generators pulse --share P -- COMMAND…`.

Every PERIOD the command's processes go on for P % of it and are stopped (SIGSTOP) for the rest: an intensity for tools that
have none of their own, the same for all resources. At 100 this is the command itself. The period is long beside a slice of
the scheduler's and short beside a trial. What the kernel has in flight for it (a write on its way to a disk) goes on.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

PERIOD_S = 0.02
_PR_SET_PDEATHSIG = 1  # prctl(2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command in pulses and return its exit code, or 128 + the signal that ended it."""
    parser = argparse.ArgumentParser(prog="pulse", description="Run a command for a part of the time.")
    parser.add_argument("--share", type=float, required=True, help="of the time that it works, %% (1 to 100)")
    parser.add_argument("command", nargs="+", help="after --")
    given = parser.parse_args(arguments)
    if not 1 <= given.share <= 100:
        print(
            f"error: --share {given.share:g} is not from 1 to 100\n  hint: it is a percentage",
            file=sys.stderr,
        )
        return 2
    if given.share == 100:
        return _become(given.command)
    me = os.getpid()
    libc = ctypes.CDLL(None)
    child = os.fork()
    if child == 0:
        os.setsid()  # a group of its own: what is stopped must not be what stops it
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != me:  # who would have to start it again is gone already
            os._exit(1)
        os._exit(_become(given.command))
    return _pulse(child, given.share / 100)


def _become(command: Sequence[str]) -> int:
    try:
        os.execvp(command[0], list(command))
    except OSError as error:
        print(f"error: cannot run {command[0]}: {error.strerror}\n  hint: is it installed?", file=sys.stderr)
    return 127


def _pulse(child: int, share: float) -> int:
    began = time.monotonic()
    turn = 0
    while True:
        start = began + turn * PERIOD_S
        for number, until in ((signal.SIGCONT, start + share * PERIOD_S), (signal.SIGSTOP, start + PERIOD_S)):
            with suppress(ProcessLookupError):  # it has ended, or is no group of its own yet
                os.killpg(child, number)
            time.sleep(max(0.0, until - time.monotonic()))
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            with suppress(ProcessLookupError):  # what it has left stopped
                os.killpg(child, signal.SIGKILL)
            return (
                os.waitstatus_to_exitcode(status) % 256 if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
            )
        # Late by more than a turn (its CPU was another's): on with the present one, not with all that was missed.
        turn = max(turn + 1, int((time.monotonic() - began) / PERIOD_S))


if __name__ == "__main__":
    sys.exit(main())
