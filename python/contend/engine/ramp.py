"""Neighbours at a part of their strength: they run for a part of the time, before anything is measured.

By SIGSTOP and SIGCONT ten times a second, which needs no rights and works for every workload on this host.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from contend.engine.neighbours import Burning, ignite
from contend.engine.seating import Seating, clear
from contend.platforms.base import Host
from contend.studies.cell import Cell
from contend.studies.guard import Guard

PERIOD_S = 0.1


def ramp(seating: Seating, cells: Iterable[Cell], guard: Guard, directory: Path, seed: int) -> None:
    """Run every set of neighbours once, by the guard's steps. Raises TrialFailed. Nothing of them is left, whatever
    happens."""
    sets = {tuple(n.label for n in cell.neighbours): cell for cell in cells if cell.neighbours}
    for cell in sets.values():
        out = directory / "ramp"
        out.mkdir(parents=True, exist_ok=True)
        _, seats = seating.seats(cell)
        burning: list[Burning] = []
        try:
            for number, seat in enumerate(seats):
                burning.append(ignite(seat, out, number, seed))
            hosts = [host for seat in seats for host in (seat.host, seat.load) if host is not None]

            def pids(of: Sequence[Host] = hosts) -> Iterable[int]:
                return (pid for host in of for pid in host.pids())

            for share in guard.ramp:
                run_for(share, guard.step / 1e9, pids)
        finally:
            for one in reversed(burning):
                one.stop()
        clear(out)


def run_for(share: float, seconds: float, pids: Callable[[], Iterable[int]]) -> None:
    """Let processes run for a share (0–1) of so many seconds, stopped in between; then they run on."""
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            _send(pids(), signal.SIGCONT)
            time.sleep(share * PERIOD_S)
            if share < 1:
                _send(pids(), signal.SIGSTOP)
                time.sleep((1 - share) * PERIOD_S)
    finally:
        _send(pids(), signal.SIGCONT)


def _send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
