"""Trace files that a stranger left: one clear error, in bounded time and memory, and the whole ones beside them are read."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support import ctrace_files as c
from support.damaged_shelf import traced

SECONDS, MOST_KIB = 60, 600_000
# What a process says of itself: what wait4(2) says of it holds the peak of whoever forked it.
WITH_PEAK = """
import sys
from contend import cli
code = cli.run(sys.argv[1:])
lines = open("/proc/self/status").read().splitlines()
print(next(line for line in lines if line.startswith("VmHWM:")), file=sys.stderr)
sys.exit(code)
"""


def hunt(place: Path) -> subprocess.CompletedProcess[str]:
    """A process by itself: what waits in native code for a FIFO hears no signal."""
    done = subprocess.run(
        [sys.executable, "-c", WITH_PEAK, "hunt", str(place)],
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert "mistake in contend itself" not in done.stderr and "Traceback" not in done.stderr, done.stderr
    rest, _, peak = done.stderr.rpartition("VmHWM:")
    assert int(peak.split()[0]) < MOST_KIB
    done.stderr = rest
    return done


def sparse(path: Path) -> None:
    """40 GB, in a chunk of events that claims 4 GB of them."""
    path.write_bytes(c.Made(7).bytes() + struct.pack("<IIQ", 1, 2**32 - 16, 7))
    with path.open("r+b") as file:
        file.truncate(40 * 10**9)


def counts(path: Path) -> None:
    """Events, strings and tracks that claim to be more than the file holds; their sums are right."""
    made = c.Made(7)
    made.chunk(1, struct.pack("<II", 1, 2**32 - 1) + c.event(5, c.BEGIN, 1))
    made.chunk(2, struct.pack("<II", 1, 2**32 - 1) + b"abcd")
    made.chunk(2, struct.pack("<II", 2**32 - 1, 4) + b"abcd")
    made.chunk(3, struct.pack("<IIIIQQ", 2**32 - 1, 2**32 - 1, 2**32 - 1, 2**32 - 1, 2**64 - 1, 0))
    made.chunk(4, struct.pack("<IIIIQ", 2**24, 9, 2**32 - 1, 2**32 - 1, 2**64 - 1))
    made.chunk(6, struct.pack("<IIQQQ", 1, 0, 2**64 - 1, 2**64 - 1, 0))
    made.chunk(5, struct.pack("<QQ", 2**64 - 1, 2**64 - 1))
    path.write_bytes(made.bytes())


# What is whole of these is read, and the rest is said.
READ = {"counts", "cut", "40 GB sparse"}
HOSTILE: dict[str, Callable[[Path], object]] = {
    "a link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "a link to a secret": lambda path: path.symlink_to("/etc/passwd"),
    "a FIFO": os.mkfifo,
    "a directory": Path.mkdir,
    "40 GB sparse": sparse,
    "counts": counts,
    "empty": Path.touch,
    "cut": lambda path: path.write_bytes(traced(c.Made(7)).bytes()[:90]),
    "random": lambda path: path.write_bytes(bytes(range(256)) * 9),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_it_alone_is_one_clear_error(what: str, tmp_path: Path) -> None:
    HOSTILE[what](tmp_path / "7-77.ctrace")
    done = hunt(tmp_path)
    if what in READ:
        assert done.returncode == 0 and "note:" in done.stdout + done.stderr
    else:
        assert done.returncode == 2, done.stdout
        assert done.stderr.count("error:") == 1 and "hint:" in done.stderr
        assert "root:" not in done.stderr


@pytest.mark.parametrize("what", HOSTILE)
def test_a_whole_one_beside_it_is_read(what: str, tmp_path: Path) -> None:
    traced(c.Made(100)).save(tmp_path)
    HOSTILE[what](tmp_path / "7-77.ctrace")
    done = hunt(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 jobs" in done.stdout


def test_a_link_that_a_user_names_is_followed(tmp_path: Path) -> None:
    link = tmp_path / "mine.ctrace"
    link.symlink_to(traced(c.Made(100)).save(tmp_path))
    assert hunt(link).returncode == 0
