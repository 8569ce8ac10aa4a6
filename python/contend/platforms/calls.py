"""Calls of an engine's programs: when each began and ended, what it printed, and its CPU time."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from contend.platforms import procfs

# The party that calls of an engine are marked as: one that is killed while it makes a network leaves parts of it that
# nobody knows, so a clean-up waits for them to end.
MEMBER = "engine-call"
_SPARE = 16  # descriptors below it are given to children: none of ours may stand in the way


@dataclass(frozen=True, slots=True)
class Ended:
    """How a call ended. Moments are CLOCK_MONOTONIC ns; `cpu_ns` is of the program and the children it waited for."""

    code: int
    out: str
    err: str
    began_ns: int
    ended_ns: int
    cpu_ns: int
    late: bool = False  # killed, since it took too long

    @property
    def why(self) -> str:
        """The last line of its standard error, or its exit status where there is none."""
        lines = self.err.strip().splitlines()
        return lines[-1].strip()[:300] if lines else f"exit status {self.code}"


def spawn(argv: Sequence[str], given: Mapping[int, int], environment: Mapping[str, str] | None = None) -> int:
    """Start a program with those of our descriptors as `given` numbers them, and nothing else: no input, without a 0.

    By posix_spawn: a fork would copy this process's page tables first, in the measured path. Raises OSError.
    """
    kept = {number: _above(fd) for number, fd in given.items()}
    actions = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]
    try:
        duplicates = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in kept.items()]
        return os.posix_spawnp(
            argv[0],
            list(argv),
            dict(os.environ if environment is None else environment),
            file_actions=[*actions, *duplicates],
            setsigdef=(signal.SIGINT, signal.SIGTERM, signal.SIGPIPE),
        )
    finally:
        for fd in kept.values():
            os.close(fd)


def _above(fd: int) -> int:
    """A copy that is closed on exec and that no number given to a child can overwrite before its turn."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _SPARE)


def call(
    argv: Sequence[str], within_s: float, environment: Mapping[str, str] | None = None, given: bytes = b""
) -> Ended:
    """Run a program to its end, with what it is given to read; after `within_s` it is killed. Its output goes to memory
    files, not pipes: what it leaves running would keep a pipe open. It is marked as a call (MEMBER) unless it has an
    environment of its own. Raises OSError where it cannot be started."""
    if environment is None:
        environment = {**os.environ, procfs.MEMBER_MARKER: MEMBER}
    kept = [os.memfd_create(name) for name in ("in", "out", "err")]
    try:
        os.pwrite(kept[0], given, 0)
        began_ns = time.monotonic_ns()
        pid = spawn(argv, dict(enumerate(kept)), environment)
        pidfd = os.pidfd_open(pid)
        late = not procfs.ends_within(pidfd, within_s)
        os.close(pidfd)
        if late:
            os.kill(pid, signal.SIGKILL)
        _, status, used = os.wait4(pid, 0)
        ended_ns = time.monotonic_ns()
        errors = _read(kept[2]) + (f"\nnot done within {within_s:g} s" if late else "")
        cpu_ns = round((used.ru_utime + used.ru_stime) * 1e9)
        code = os.waitstatus_to_exitcode(status)
        return Ended(code, _read(kept[1]), errors, began_ns, ended_ns, cpu_ns, late)
    finally:
        for fd in kept:
            os.close(fd)


def _read(fd: int) -> str:
    """All of a memory file; one read gives at most 2 GiB of it."""
    return os.pread(fd, os.fstat(fd).st_size, 0).decode(errors="replace")
