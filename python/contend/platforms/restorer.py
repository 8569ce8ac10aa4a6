"""Puts back what an experiment changed when the experiment cannot: `python -m contend.platforms.restorer RUN`.

It reads from its standard input until when a change may last: a line `until NS TICKS` of the monotonic clock, with the time
since the boot at which it began (`contend.platforms.heirs`; left out where nothing changes), or `never`. Past that moment it
puts back what the ledger of the run in the directory RUN says was changed. So it does when the input ends:
the kernel closes that whatever the experiment dies of. Signals do not end it, and it goes before others where it may.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterable
from pathlib import Path

from contend.errors import ContendError, HostFailed
from contend.platforms import heirs, obedience, treatments
from contend.platforms.treatments import Switch

READY_S = 60.0
"""Python has to start: seconds, on a slow host that is busy."""
_READY = b"ready\n"
_PASSED_OVER = (ContendError, OSError, ValueError, KeyError)


class Watchdog:
    """One that runs, in a session of its own. Raises HostFailed where it does not start."""

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            (sys.executable, "-P", "-m", __name__, str(directory)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        assert self._process.stdout is not None
        heard = b""
        if select.select([self._process.stdout], [], [], READY_S)[0]:
            heard = os.read(self._process.stdout.fileno(), len(_READY))
        if heard != _READY:
            self._process.kill()
            self._process.communicate()
            raise HostFailed("the watchdog that puts limits back does not start", hint="contend doctor")

    def until(self, moment_s: float | None, since_ticks: int | None = None) -> None:
        """Until when changes may last, on the monotonic clock; None: there are none. Raises HostFailed where it is dead.

        since_ticks: the time since the boot before which nothing was changed; None: nothing is.
        """
        since = "" if since_ticks is None else f" {since_ticks}"
        line = "never\n" if moment_s is None else f"until {round(moment_s * 1e9)}{since}\n"
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except OSError as error:
            raise HostFailed(
                "the watchdog that puts limits back was ended", hint="nothing is changed without it"
            ) from error

    def close(self) -> None:
        """End it; it puts back what is left. Idempotent."""
        with contextlib.suppress(OSError, ValueError):
            self._process.communicate()


def main(directory: Path) -> None:
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    _first()
    # Read before there is need: later the disk may be what an experiment is about.
    if (switches := _switches(directory)) is None:
        return
    nicer = treatments.treated(switches).values()
    os.write(1, _READY)
    kept = b""
    until: float | None = None
    since: int | None = None
    while True:
        left = None if until is None else max(0.0, until - time.monotonic())
        if not select.select([0], [], [], left)[0]:
            _restore(switches, nicer, since)
            until = since = None
            continue
        piece = os.read(0, 4096)
        if not piece:
            break
        *lines, kept = (kept + piece).split(b"\n")
        for line in lines:
            word, *moments = line.split()
            until = int(moments[0]) / 1e9 if word == b"until" else None
            since = int(moments[1]) if len(moments) > 1 else None
    _restore(switches, nicer, since)


def _first() -> None:
    """It does next to nothing, and must not wait for whom the experiment is about."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, -20)


def _switches(directory: Path) -> list[Switch] | None:
    """None where the ledger is not obeyed: nothing would be put back by it."""
    standing = obedience.judge(directory)
    if not isinstance(standing, obedience.Obeyed):
        return None
    switches = []
    for row in standing.left():
        if row.get("kind") in treatments.KINDS:
            with contextlib.suppress(*_PASSED_OVER):
                switches.append(treatments.announced(str(row["kind"]), str(row["name"]), row))
    return [switch for switch in switches if switch is not None]


def _restore(switches: Iterable[Switch], nicer: Collection[heirs.Treated], since_ticks: int | None) -> None:
    for switch in switches:
        with contextlib.suppress(*_PASSED_OVER):
            treatments.take_back(switch)
    if since_ticks is not None:
        with contextlib.suppress(*_PASSED_OVER):
            heirs.put_back(nicer, since_ticks)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
