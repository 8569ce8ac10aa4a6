"""Children of this process that a test bed started; whoever ends the bed ends them, and this process reaps them.

An ended process is a zombie until its parent asks how it ended. Python asks for a child that nobody has a reference to
any more, and only when it starts the next one; so they are kept here and asked for when a bed ends something.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable

from contend.platforms import procfs

_started: set[subprocess.Popen[bytes]] = set()
_adopted: set[int] = set()


def keep(process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """Let `reap` reap this child, and return it."""
    _started.add(process)
    return process


def adopt(pids: Iterable[int]) -> None:
    """Let `reap` also reap these processes, which others forked and left to this one."""
    own = {process.pid for process in _started}
    _adopted.update(p for p in pids if p not in own and (one := procfs.stat(p)) and one.ppid == os.getpid())


def reap() -> None:
    """Reap the children that have ended; the others go on."""
    for pid in tuple(_adopted):
        try:
            ended = os.waitpid(pid, os.WNOHANG)[0]
        except ChildProcessError:  # somebody else has asked
            ended = pid
        _adopted.discard(ended)
    for process in list(_started):
        # A leader whose threads are still ending is a zombie that cannot be reaped yet: worth the wait.
        if process.poll() is not None or _is_ending(process.pid):
            process.wait()
            _started.discard(process)


def _is_ending(pid: int) -> bool:
    status = procfs.stat(pid)
    return status is not None and status.state in "ZX"
