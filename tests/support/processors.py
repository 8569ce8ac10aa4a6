"""Processors that are kept awake."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

_WAKE = """
import os
parent = os.getppid()
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
while os.getppid() == parent:
    pass
"""


@contextlib.contextmanager
def awake() -> Iterator[list[int]]:
    """Keep every processor at work that gives way to all other work: an idle one of a virtual machine wakes up to some
    milliseconds late, more so the longer it was idle, so that programs that sleep take as long as their host has them.

    Yields the pids of who does it.
    """
    wake = [subprocess.Popen([sys.executable, "-c", _WAKE]) for _ in os.sched_getaffinity(0)]
    try:
        yield [each.pid for each in wake]
    finally:
        for each in wake:
            each.kill()
            each.wait()
