"""A storm from its announcement to the last deletion, whatever makes its machines."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from contend.clouds.base import Machines
from contend.clouds.storm.actions import Event
from contend.clouds.storm.stamps import NS, PHASES, Clocks, Interval, Track

T = TypeVar("T")
# More connections than this at once overrun the listen queues of small API servers, whose kernel then drops some.
MOST_AT_ONCE = 64


class Sending(Generic[T]):
    """Calls `send` for each of `items` at its due time, CLOCK_MONOTONIC ns. Start it, do something else, join it."""

    def __init__(self, items: Sequence[T], due_ns: Sequence[int], send: Callable[[T], None]) -> None:
        self._pairs = iter(zip(items, due_ns, strict=True))
        self._send = send
        self._lock = threading.Lock()
        self._errors: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._work, name=f"send-{number}", daemon=True)
            for number in range(min(len(items), MOST_AT_ONCE))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def alive(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def join(self) -> None:
        """Wait until all were sent; raises the first error that `send` let through."""
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _work(self) -> None:
        while True:
            with self._lock:
                pair = next(self._pairs, None)
            if pair is None:
                return
            item, due_ns = pair
            time.sleep(max(0.0, (due_ns - time.monotonic_ns()) / 1e9))
            try:
                self._send(item)
            except BaseException as error:  # noqa: BLE001 - raised again in join
                self._errors.append(error)
                return


_LEAD_S = 0.02  # between the start of the threads and the first request, so that all of them wait for it


class StormOptions(NamedTuple):
    """The shape of a storm.

    rate: machines a second, sent when due whatever has been answered; 0: all at once. within_s: how long to wait for
    them, and again for their deletion.
    """

    n: int
    rate: float = 0.0
    within_s: float = 300.0


class Happened:
    """The course of one storm. Times are CLOCK_MONOTONIC ns; `active` by name, merged of what both sides saw."""

    def __init__(
        self,
        options: StormOptions,
        tracks: list[Track],
        awaited: str = "ACTIVE",
        order: tuple[str, ...] = PHASES,
    ) -> None:
        self.options = options
        self.tracks = tracks
        self.awaited = awaited
        self.order = order  # of the phases on the way there
        self.begin_ns = 0
        self.wall_minus_monotonic_ns = 0  # of this host's clocks, at the beginning
        self.active: dict[str, Interval] = {}
        self.disagree = 0  # servers whose own stamps contradict what was seen
        self.events: dict[str, tuple[Event, ...]] = {}  # by name
        self.stamps: dict[str, dict[str, int]] = {}  # of notifications, by name and kind
        self.unheard: dict[str, Interval] = {}  # `active` as it was without notifications
        self.served: dict[str, Interval] = {}  # guests that answered, by name
        self.served_at_once = 0  # guests whose address answered the first attempt
        self.probes = 0
        self.counted: dict[str, Any] | None = (
            None  # statements and messages, where the cloud's counters can be read
        )
        self.clock: Clocks | None = None
        self.client_cpu_ns = 0  # of this process, from the first request to the last machine that came to it
        self.roles: dict[str, float] = {}  # CPU seconds by role, meanwhile
        self.polls = 0
        self.asking_ns = 0  # the API worked on polls
        self.widest_ns = 0  # from a poll's sending to the next one's answer, at most
        self.watched_ns = 0  # from the first request to the last poll's answer
        self.counts: dict[str, int] = {}
        self.left: dict[str, str] = {}  # names that could not be deleted, and why


def storm(machines: Machines, prefix: str, options: StormOptions) -> Happened:
    """Run one storm. `prefix`: how the names of its machines begin, unlike any other's. Raises HostFailed.

    Whatever happens, they are deleted as far as they can be.
    """
    tracks = [Track(f"{prefix}-{number}") for number in range(options.n)]
    happened = Happened(options, tracks, machines.awaited, machines.phases)
    machines.announce(tracks)
    try:
        _boot(machines, options, happened)
        machines.ask(happened)
    finally:
        _delete(machines, happened)
    happened.counts = dict(machines.counts)
    return happened


def _boot(machines: Machines, options: StormOptions, happened: Happened) -> None:
    cpu = machines.count_cpu()
    happened.begin_ns = begin = time.monotonic_ns() + round(_LEAD_S * NS)
    happened.wall_minus_monotonic_ns = time.time_ns() - time.monotonic_ns()
    step = NS / options.rate if options.rate else 0.0
    due = [begin + round(number * step) for number in range(options.n)]
    for track, at in zip(happened.tracks, due, strict=True):
        track.due_ns = at

    def send(track: Track) -> None:
        track.sent_ns = time.monotonic_ns()
        machines.create(track)

    sending = Sending(happened.tracks, due, send)
    began_cpu_ns = time.process_time_ns()
    sending.start()
    until = due[-1] + round(options.within_s * NS)
    time.sleep(max(0.0, (begin - time.monotonic_ns()) / NS))
    machines.watch(happened.tracks, until, sending.alive)
    happened.watched_ns = time.monotonic_ns() - begin
    sending.join()
    happened.client_cpu_ns = time.process_time_ns() - began_cpu_ns
    happened.roles = cpu()
    for track in happened.tracks:
        if not track.problem and track.active is None:
            within = f"not {machines.awaited} within {options.within_s:g} s"
            track.problem = f"{within}, last seen: {track.state or 'never'}"
        elif track.active is not None:
            happened.active[track.name] = track.active


def _delete(machines: Machines, happened: Happened) -> None:
    """All at once, timed; then whatever else is there by name, so that nothing is left to the following storm."""
    known = [track for track in happened.tracks if track.id]
    within_s = happened.options.within_s

    def send(track: Track) -> None:
        track.delete_ns = time.monotonic_ns()
        machines.delete(track)

    deleting = Sending(known, [time.monotonic_ns()] * len(known), send)
    deleting.start()
    try:
        deleting.join()
        machines.watch_gone(known, time.monotonic_ns() + round(within_s * NS))
    finally:
        happened.left = machines.clear(happened.tracks, within_s)
