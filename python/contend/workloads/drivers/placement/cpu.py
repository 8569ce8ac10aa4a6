"""CPU time of the whole host, from /proc/stat: what a transfer cost wherever the kernel charged it.

The work of a bridge, a router and a vxlan is done in softirqs, and is charged to whom they interrupt, or to nobody. So
the cost of a transfer is what the host was busy while it went on, less what it is busy without it.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

_STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class Reading:
    """CPU time at one moment. busy_s: of all CPUs, all but idle, waiting for I/O and stolen; softirq_s: a part of it."""

    at_ns: int
    busy_s: float
    softirq_s: float

    @staticmethod
    def now() -> Reading:
        return parse(_STAT.read_text(encoding="ascii"), time.monotonic_ns(), os.sysconf("SC_CLK_TCK"))


def parse(text: str, at_ns: int, ticks_per_s: int) -> Reading:
    """Parse the first line of /proc/stat: user nice system idle iowait irq softirq steal guest guest_nice. Guests' time is
    part of user's (man 5 proc).

    >>> parse("cpu  100 10 50 900 5 1 20 3 0 0\\ncpu0 1", 7, 100)
    Reading(at_ns=7, busy_s=1.81, softirq_s=0.21)
    """
    fields = [int(field) for field in text.split("\n", 1)[0].split()[1:]]
    user, nice, system, _, _, irq, softirq = fields[:7]
    return Reading(at_ns, (user + nice + system + irq + softirq) / ticks_per_s, (irq + softirq) / ticks_per_s)


@dataclass(frozen=True, slots=True)
class Spent:
    """CPU seconds beyond what the host is busy when nothing is sent."""

    host_s: float
    softirq_s: float
    idle_share: float  # CPUs' worth that the host is busy without it


def spent(idle: tuple[Reading, Reading], during: tuple[Reading, Reading]) -> Spent:
    """
    >>> idle = Reading(0, 1.0, 0.0), Reading(500_000_000, 1.05, 0.01)
    >>> told = spent(idle, (Reading(0, 2.0, 0.5), Reading(2_000_000_000, 5.2, 1.5)))
    >>> round(told.host_s, 3), round(told.softirq_s, 3), round(told.idle_share, 3)
    (3.0, 0.96, 0.1)
    """
    seconds = (during[1].at_ns - during[0].at_ns) / 1e9
    before = (idle[1].at_ns - idle[0].at_ns) / 1e9

    def beyond(at: tuple[float, float], when: tuple[float, float]) -> float:
        rate = (when[1] - when[0]) / before if before > 0 else 0.0
        return at[1] - at[0] - rate * seconds

    busy = (idle[0].busy_s, idle[1].busy_s)
    return Spent(
        beyond((during[0].busy_s, during[1].busy_s), busy),
        beyond((during[0].softirq_s, during[1].softirq_s), (idle[0].softirq_s, idle[1].softirq_s)),
        (busy[1] - busy[0]) / before if before > 0 else 0.0,
    )
