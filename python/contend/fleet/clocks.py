"""How far a host's CLOCK_MONOTONIC is from the starting machine's, as NTP estimates it (RFC 5905, section 8).

Of several round trips the quickest is kept: the host's reading was taken within it, so the offset lies within half of
its length of the middle. Clocks run apart, so it is estimated again while the host is followed; an estimate at the end
gives the drift.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from contend.store.host_record import ClockRecord, Drift, Offset

TRIPS = 12


def of_trip(sent_ns: int, theirs_ns: int, received_ns: int) -> Offset:
    """Make an offset from one round trip: our clock, the host's while it was underway, our clock.

    >>> of_trip(1000, 51_500, 2000)
    Offset(offset_ns=50000, bound_ns=500, at_ns=1500)
    """
    middle = (sent_ns + received_ns) // 2
    return Offset(theirs_ns - middle, -(-(received_ns - sent_ns) // 2), middle)


async def estimate(read: Callable[[], Awaitable[int]], trips: int = TRIPS) -> Offset:
    """Estimate a host's clock offset by the best of several round trips. read: asks the host for its clock, in ns."""
    best: Offset | None = None
    for _ in range(trips):
        sent_ns = time.monotonic_ns()
        theirs_ns = await read()
        offset = of_trip(sent_ns, theirs_ns, time.monotonic_ns())
        if best is None or offset.bound_ns < best.bound_ns:
            best = offset
    assert best is not None
    return best


AGES_PPM = 15.0  # PHI of RFC 5905, section 7.1: how fast what is known of a clock becomes less sure


def surer(known: Offset, now: Offset) -> Offset:
    """The estimate that is closer at the later one's moment: of a busy host's clock the next is not always better.

    >>> surer(Offset(0, 1000, 0), Offset(5000, 9000, 10**9)).offset_ns
    5000
    >>> surer(Offset(0, 1000, 0), Offset(5000, 9000, 10**8)).offset_ns
    0
    """
    age_ns = max(0, now.at_ns - known.at_ns)
    return now if now.bound_ns <= known.bound_ns + age_ns * AGES_PPM / 1e6 else known


def drift(first: Offset, last: Offset) -> Drift | None:
    """Drift between two offsets; None where the two are one, or no time lies between them.

    >>> drift(Offset(0, 1000, 0), Offset(5000, 1000, 1_000_000_000))
    Drift(ppm=5.0, bound_ppm=2.0)
    """
    span_ns = last.at_ns - first.at_ns
    if span_ns <= 0:
        return None
    return Drift(
        (last.offset_ns - first.offset_ns) / span_ns * 1e6, (first.bound_ns + last.bound_ns) / span_ns * 1e6
    )


MOST_PPM = (
    1000.0  # a clock that runs away faster than twice what adjtimex(2) corrects was set or started anew
)


def restarted(known: Offset, now: Offset) -> bool:
    """True if the host was restarted: its CLOCK_MONOTONIC started again.

    >>> restarted(Offset(0, 1000, 0), Offset(5000, 1000, 10**9)), restarted(Offset(0, 1000, 0), Offset(-10**12, 1000, 10**9))
    (False, True)
    """
    span_ns = abs(now.at_ns - known.at_ns)
    return abs(now.offset_ns - known.offset_ns) > known.bound_ns + now.bound_ns + span_ns * MOST_PPM / 1e6


def clock_record(first: Offset, last: Offset | None) -> ClockRecord:
    """The entry on a host's clock in the record of a run."""
    return ClockRecord(first, last, drift(first, last) if last is not None else None)
