"""Peak memory of programs of known size, smaller and larger than this process itself."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from contend.platforms.base import Exit
from contend.probes.peak import PeakMemory

CODE = "import time; x = bytearray({size}); x[::4096] = b'x' * len(x[::4096]); {free}time.sleep(0.3)"


def ended(max_rss_bytes: int) -> Exit:
    return Exit(0, 10**9, 1, 1, max_rss_bytes, 0, 0)


@pytest.mark.parametrize("free", ["", "del x; "], ids=["at its end", "freed before its end"])
def test_a_program_of_known_size(free: str) -> None:
    size = 60 * 2**20
    child = subprocess.Popen([sys.executable, "-S", "-c", CODE.format(size=size, free=free)])
    peak = PeakMemory(lambda: (child.pid,))
    child.wait()
    peak.stop()
    assert size < peak.of(ended(0)) < size + 30 * 2**20


def test_a_small_program_does_not_show_the_size_of_this_one() -> None:
    ballast = bytearray(200 * 2**20)
    ballast[::4096] = b"x" * len(ballast[::4096])
    child = subprocess.Popen(["sleep", "0.2"])
    peak = PeakMemory(lambda: (child.pid,))
    time.sleep(0.05)
    child.wait()
    peak.stop()
    # What rusage says of a child of a process with 200 MiB.
    assert peak.of(ended(len(ballast))) < 20 * 2**20
