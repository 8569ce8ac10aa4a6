"""When something happened that is only seen by asking: intervals, and what the server's own stamps add to them.

All times are CLOCK_MONOTONIC of the client, in ns. A poll that was sent at s and answered at r shows a state that was
true at some moment between. So a change lies after the sending of the last poll that did not show it, and before the
answer to the first that did. A stamp of the server is a whole second of its own clock (databases keep no more), which
the Date headers of its answers tie to ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

NS = 1_000_000_000
ACTIVE, ERROR, GONE = "active", "error", "gone"
PHASES = ("api", "scheduling", "claim", "networking", "block devices", "spawning")
# nova's task states of a server that is being built, in their order; none is set while the host is claimed.
_STATES: Mapping[str | None, str] = {
    "scheduling": "scheduling",
    None: "claim",
    "networking": "networking",
    "block_device_mapping": "block devices",
    "spawning": "spawning",
}


class Interval(NamedTuple):
    """A moment that lies between `low` and `high`."""

    low: int
    high: int

    @property
    def estimate(self) -> int:
        """Its middle: a poll's phase is as likely here as there."""
        return (self.low + self.high) // 2

    @property
    def width(self) -> int:
        return self.high - self.low


class Stamped(Interval):
    """An Interval whose end is a fine stamp of just after the moment."""

    __slots__ = ()

    @property
    def estimate(self) -> int:
        return self.high


def state_of(server: Mapping[str, Any]) -> str:
    """The state that a listing shows a server in: one of PHASES but `api`, ACTIVE or ERROR.

    >>> state_of({"status": "BUILD", "OS-EXT-STS:task_state": "spawning"}), state_of({"status": "ACTIVE"})
    ('spawning', 'active')
    """
    status = server.get("status")
    if status in ("ACTIVE", "ERROR"):
        return ACTIVE if status == "ACTIVE" else ERROR
    task = server.get("OS-EXT-STS:task_state")
    return _STATES.get(task, str(task))


class Poll(NamedTuple):
    """One question to the API. whole: servers in all states were asked for, not only those that are ACTIVE."""

    sent_ns: int
    received_ns: int
    whole: bool = True


class Track:
    """One server as the client saw it. `due_ns` is when it was to be asked for; 0 stands for not yet.

    No data class, like all that a storm's client needs: making those costs it more than a storm does (ADR 0021).
    """

    def __init__(
        self, name: str, *, due_ns: int = 0, sent_ns: int = 0, accepted_ns: int = 0, delete_ns: int = 0
    ) -> None:
        self.name = name
        self.due_ns = due_ns
        self.sent_ns = sent_ns
        self.accepted_ns = accepted_ns
        self.running_ns = 0  # as its maker's own exact stamp says
        self.id = ""
        self.request = ""  # the API's own id of the request that asked for it
        self.problem = ""  # why it will never be ACTIVE
        self.entries: list[tuple[str, Interval]] = []  # states in the order they were first seen
        self.delete_ns = delete_ns  # when its deletion was asked for
        self.gone: Interval | None = None
        # Sending of the last poll that would have shown it ACTIVE, and of the last that would have shown any state: what is
        # seen from now on came after it.
        self._last_ns, self._last_whole_ns = 0, 0

    @property
    def state(self) -> str:
        return self.entries[-1][0] if self.entries else ""

    def observe(self, state: str, poll: Poll) -> None:
        """Note the state that a poll showed; "" where it was not listed."""
        if state and state != self.state:
            since = self._last_ns if state == ACTIVE else self._last_whole_ns
            self.entries.append((state, Interval(max(since, self.sent_ns), poll.received_ns)))
        self._last_ns = max(self._last_ns, poll.sent_ns)
        if poll.whole:
            self._last_whole_ns = max(self._last_whole_ns, poll.sent_ns)

    def observe_gone(self, present: bool, poll: Poll) -> None:
        """Note what a poll after the request for its deletion showed."""
        if present:
            self._last_ns = max(self._last_ns, poll.sent_ns)
        elif self.gone is None:
            self.gone = Interval(max(self._last_ns, self.delete_ns), poll.received_ns)

    @property
    def active(self) -> Interval | None:
        return next((interval for state, interval in self.entries if state == ACTIVE), None)


def phases(track: Track, active: Interval, order: Sequence[str] = PHASES) -> dict[str, int]:
    """Time of a server in each phase, ns; they add up to the time from due to ACTIVE.

    order: of the phases; the first ends when the request is accepted, the second when a state is seen. Moments are the
    middles of their intervals; a state that no poll showed took no time as far as this can tell.
    """
    # What the server's stamps say of ACTIVE may be earlier than the middle of a wide interval before it.
    on_the_way = [entry for entry in track.entries if entry[0] not in (ACTIVE, ERROR)]
    moments = [(state, min(interval.estimate, active.estimate)) for state, interval in on_the_way]
    first, second = order[0], order[1]
    beyond = [at for state, at in moments if state != second]
    # The answer may come back later than the work it answers has gone on to the next service.
    accepted = min([track.accepted_ns, active.estimate, *beyond])
    spent = {first: accepted - track.due_ns}
    # A server that was never seen before it was ACTIVE may have been anywhere.
    state, since = second if moments else "all the rest", accepted
    for following, at in [*moments, (ACTIVE, active.estimate)]:
        at = max(at, since)
        spent[state] = spent.get(state, 0) + at - since
        state, since = following, at
    return spent


class Clocks(NamedTuple):
    """How far the server's wall clock may be ahead of ours, ns."""

    low: int
    high: int


def clocks(dates: Iterable[tuple[int, int, int]]) -> Clocks | None:
    """Bound the server's clock from answers' Date headers: (seconds since the epoch, our wall clock at sending and at
    receiving, ns).

    A Date is a whole second, cut off. None without any, and where they contradict one another: several clocks.

    >>> clocks([(100, 100 * NS + 600, 100 * NS + 700), (101, 101 * NS - 50, 101 * NS + 20)])
    Clocks(low=-20, high=999999400)
    """
    bounds = [(second * NS - received, (second + 1) * NS - sent) for second, sent, received in dates]
    if not bounds:
        return None
    agreed = Clocks(max(low for low, _ in bounds), min(high for _, high in bounds))
    return agreed if agreed.low <= agreed.high else None


def of_server(second: float, clock: Clocks, wall_minus_monotonic_ns: int) -> Interval:
    """A stamp of the server in our time. MariaDB cuts the fraction off, MySQL rounds: it may be half a second early or
    a whole one late; one that has a fraction is taken as it is."""
    ns = round(second * NS)
    early, late = (NS // 2, NS) if second == int(second) else (0, 0)
    offset = wall_minus_monotonic_ns
    return Interval(ns - early - clock.high - offset, ns + late - clock.low - offset)


def merge(seen: Interval, after: Sequence[Interval], before: Sequence[Interval]) -> tuple[Interval, bool]:
    """Narrow `seen` by moments that came before it (`after`) and after it (`before`); also returns whether all agree.

    Where they contradict, clocks differ by more than was thought, and what the client saw stands.

    >>> merge(Interval(10, 30), after=[Interval(15, 40)], before=[Interval(0, 25)])
    (Interval(low=15, high=25), True)
    >>> merge(Interval(10, 30), after=[Interval(31, 40)], before=[])
    (Interval(low=10, high=30), False)
    """
    low = max([seen.low, *(moment.low for moment in after)])
    high = min([seen.high, *(moment.high for moment in before)])
    return (Interval(low, high), True) if low <= high else (seen, False)
