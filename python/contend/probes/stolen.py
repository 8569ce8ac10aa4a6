"""Time that the hypervisor took from a victim: as much as is known from what it took of CPUs, whoever ran on them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Ran(NamedTuple):
    """A CPU in a window: seconds in which any task ran on it, and seconds in which the hypervisor kept it from running."""

    ran_s: float
    stolen_s: float


_TICK_S = 0.01
"""Of the kernel's counters of CPUs: so long somebody may have run on one that did not run by them."""


def stolen_s(cpus: Iterable[Ran], used_s: float, wall_s: float) -> tuple[float, float]:
    """Seconds of `wall_s` in which the hypervisor kept a victim from running: the least, and the most.

    cpus: those that it may use. used_s: its CPU time. A hypervisor does not know who is on a CPU that it takes: of what is
    stolen from one, whoever ran on it has lost the part that was its of the time in which it ran. On which of several CPUs
    the victim ran is not counted: it lost least where least was stolen, most where most was. What it lost of one CPU while
    it ran on others too held it up by as much less, as in `evidence.held_s`.

    >>> stolen_s([Ran(3.0, 1.0)], 3.0, 4.0), stolen_s([Ran(3.0, 1.0)], 0.75, 4.0)
    ((1.0, 1.0), (0.25, 0.25))
    >>> stolen_s([Ran(3.0, 1.0), Ran(3.0, 0.0)], 3.0, 4.0), stolen_s([Ran(3.0, 1.0), Ran(3.0, 1.0)], 6.0, 4.0)
    ((0.0, 1.0), (1.0, 1.0))
    """
    by_part = sorted(((max(cpu.ran_s, _TICK_S), cpu.stolen_s) for cpu in cpus), key=lambda of: of[1] / of[0])

    def held_up(order: Iterable[tuple[float, float]]) -> float:
        left_s, lost_s = used_s, 0.0
        for ran_s, stolen in order:
            here_s = min(ran_s, left_s)
            lost_s, left_s = lost_s + stolen * here_s / ran_s, left_s - here_s
        return lost_s / max(1.0, (used_s + lost_s) / wall_s) if wall_s > 0 else 0.0

    return held_up(by_part), held_up(reversed(by_part))
