"""Watchers of a storm's servers beside the poller: counters, notifications, a prober of the guests."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from contend.clouds.http import Api
from contend.clouds.storm import roles
from contend.clouds.storm.stamps import NS, Clocks, Interval, Stamped, Track, merge

if TYPE_CHECKING:
    from contend.clouds.storm.counted import Counting
    from contend.clouds.storm.notices import Notices
    from contend.clouds.storm.served import Prober
    from contend.clouds.storm.storm import Happened

_NOTICES_S = 2.0  # after the last server that was ACTIVE, for the notifications still to come


class Beside(NamedTuple):
    """Watchers of one storm; each is None where it was not wanted, or cannot work.

    served_s: how long guests may take to serve, from the last server that was due.
    """

    counting: Counting | None = None
    notices: Notices | None = None
    prober: Prober | None = None
    served_s: float = 0.0

    def listed(self, track: Track, server: Mapping[str, Any]) -> None:
        """Note that a poll has listed a server."""
        if self.prober is None:
            return
        from contend.clouds.storm.served import address_of

        if address := address_of(server):
            self.prober.watch(track.name, address)

    def close(self) -> None:
        """Stop all watchers. Idempotent."""
        if self.counting is not None:
            self.counting.counters.close()
        if self.notices is not None:
            self.notices.close()
        if self.prober is not None:
            self.prober.stop()


def wait_for_guests(happened: Happened, beside: Beside) -> None:
    """Wait until all guests that are ACTIVE serve, or for as long as they may take."""
    prober = beside.prober
    if prober is None:
        return
    watched = [track for track in happened.tracks if track.name in happened.active]
    last_due = max(track.due_ns for track in happened.tracks)
    prober.wait(last_due + round(beside.served_s * NS) if watched else 0)
    prober.stop()
    happened.probes, happened.served_at_once = prober.attempts, len(prober.at_once)
    for track in watched:
        if seen := prober.served.get(track.name):
            happened.served[track.name] = Interval(max(seen.low, track.sent_ns), seen.high)


def hear(api: Api, happened: Happened, notices: Notices) -> None:
    """Narrow `active` by notifications: the first that says that a server is ACTIVE was sent just after it was."""
    tracks = [track for track in happened.tracks if track.name in happened.active]
    notices.wait_for_ends([track.id for track in tracks], _NOTICES_S)
    if notices.failure:
        api.counts["notifications ended"] += 1
    clock = happened.clock
    if clock is not None and clock.low <= 0 <= clock.high and roles.is_here(api.access.endpoint("compute")):
        clock = Clocks(0, 0)  # one host, one clock
    offset = time.time_ns() - time.monotonic_ns()
    for track in tracks:
        of_server = notices.of(track.id)
        happened.stamps[track.name] = {what: notice.stamp_ns - offset for what, notice in of_server.items()}
        ends = [of_server[what] for what in ("active", "end") if what in of_server]
        if not ends:
            continue
        first = min(ends, key=lambda notice: notice.stamp_ns)
        at = first.received_ns
        if clock is not None:
            at = min(at, first.stamp_ns - clock.low - offset)
        before = happened.unheard[track.name] = happened.active[track.name]
        narrow(happened, track.name, before=(Interval(at, at),))
        if happened.active[track.name].high == at != before.high:
            happened.active[track.name] = Stamped(*happened.active[track.name])


def narrow(
    happened: Happened, name: str, *, after: Sequence[Interval] = (), before: Sequence[Interval] = ()
) -> None:
    """Narrow a server's ACTIVE by moments that came before it (`after`) and after it (`before`)."""
    happened.active[name], agree = merge(happened.active[name], after, before)
    happened.disagree += not agree
