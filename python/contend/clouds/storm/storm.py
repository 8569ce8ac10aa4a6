"""A storm from its announcement to the last deletion."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from contend.clouds.http import Api, RequestFailed
from contend.clouds.openstack import Cloud, Record
from contend.clouds.storm import roles
from contend.clouds.storm.actions import Event, creation, seconds
from contend.clouds.storm.send import Sending
from contend.clouds.storm.stamps import NS, Clocks, Interval, Track, clocks, merge, of_server
from contend.clouds.storm.watch import SERVER, Poller

_LEAD_S = 0.02  # between the start of the threads and the first request, so that all of them wait for it


@dataclass(frozen=True, slots=True)
class Asked:
    """What a storm is to be. `server` is what every request wants besides its name: image, flavour, networks.

    rate: servers a second, sent when due whatever has been answered; 0: all at once. within_s: how long to wait for
    them, and again for their deletion.
    """

    n: int
    server: Mapping[str, Any]
    rate: float = 0.0
    poll_s: float = 0.1
    poll_share: float = 0.5  # of one worker's time, at most
    states: bool = (
        True  # those on the way to ACTIVE are watched too: without them there are no phases but the API's
    )
    within_s: float = 300.0


@dataclass
class Happened:
    """One storm. Times are CLOCK_MONOTONIC ns; `active` by name, merged of what both sides saw."""

    asked: Asked
    tracks: list[Track]
    begin_ns: int = 0
    active: dict[str, Interval] = field(default_factory=dict)
    disagree: int = 0  # servers whose own stamps contradict what was seen
    events: dict[str, tuple[Event, ...]] = field(default_factory=dict)  # by name
    clock: Clocks | None = None
    client_cpu_ns: int = 0  # of this process, from the first request to the last server that was ACTIVE
    roles: dict[str, float] = field(default_factory=dict)  # CPU seconds by role, meanwhile
    polls: int = 0
    asking_ns: int = 0  # the API worked on polls
    watched_ns: int = 0  # from the first request to the last poll's answer
    counts: dict[str, int] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)  # names that could not be deleted, and why


def storm(api: Api, record: Record, prefix: str, asked: Asked) -> Happened:
    """Run one. `prefix`: how the names of its servers begin, unlike any other's. Raises HostFailed.

    Whatever happens, its servers are deleted as far as they can be.
    """
    tracks = [Track(f"{prefix}-{number}") for number in range(asked.n)]
    happened = Happened(asked, tracks)
    cloud = Cloud(api, record.run)
    record.intend(SERVER, (track.name for track in tracks))
    try:
        _boot(api, cloud, prefix, asked, happened)
        record.created(SERVER, {track.name: track.id for track in tracks if track.id})
        _ask_the_server(api, happened)
    finally:
        _delete(api, cloud, record, prefix, happened)
    happened.counts = dict(api.counts)
    return happened


def _boot(api: Api, cloud: Cloud, prefix: str, asked: Asked, happened: Happened) -> None:
    known = roles.ports(api.access.catalogue)
    before = roles.read(known)
    strangers = roles.pids() - {pid for pid, _ in before}  # need not be looked at again
    happened.begin_ns = begin = time.monotonic_ns() + round(_LEAD_S * NS)
    step = NS / asked.rate if asked.rate else 0.0
    due = [begin + round(number * step) for number in range(asked.n)]
    for track, at in zip(happened.tracks, due, strict=True):
        track.due_ns = at

    def send(track: Track) -> None:
        track.sent_ns = time.monotonic_ns()
        try:
            made = cloud.post(SERVER, track.name, asked.server)
        except RequestFailed as error:
            track.problem = f"refused: {error.message.partition(': ')[2]}"
            return
        track.accepted_ns = time.monotonic_ns()
        track.id = track.id or str(made["id"])

    sending = Sending(happened.tracks, due, send)
    poller = Poller(api, prefix, asked.poll_s, asked.poll_share, states=asked.states)
    began_cpu_ns = time.process_time_ns()
    sending.start()
    until = due[-1] + round(asked.within_s * NS)
    time.sleep(max(0.0, (begin - time.monotonic_ns()) / NS))
    poller.until_settled(happened.tracks, until, sending.alive)
    happened.watched_ns = time.monotonic_ns() - begin
    sending.join()
    happened.client_cpu_ns = time.process_time_ns() - began_cpu_ns
    happened.roles = roles.between(before, roles.read(known, but=strangers))
    happened.polls, happened.asking_ns = poller.polls, poller.asking_ns
    happened.clock = clocks(poller.dates)
    for track in happened.tracks:
        if not track.problem and track.active is None:
            track.problem = f"not ACTIVE within {asked.within_s:g} s, last seen: {track.state or 'never'}"
        elif track.active is not None:
            happened.active[track.name] = track.active
    _launched(happened, poller.launched)


def _launched(happened: Happened, launched: Mapping[str, str]) -> None:
    """A server is launched before any listing can show it ACTIVE."""
    offset = time.time_ns() - time.monotonic_ns()
    for track in happened.tracks:
        stamp = launched.get(track.id, "")
        if track.name in happened.active and stamp and happened.clock is not None:
            moment = of_server(seconds(stamp), happened.clock, offset)
            _narrow(happened, track.name, after=(moment,), before=())


def _ask_the_server(api: Api, happened: Happened) -> None:
    """Its own word on each creation, after the storm. The compute's build ends after the server has become ACTIVE."""
    offset = time.time_ns() - time.monotonic_ns()
    for track in happened.tracks:
        if track.name not in happened.active:
            continue
        events = happened.events[track.name] = creation(api, track.id)
        ends = [e.finish for e in events if e.finish is not None and "build_and_run" in e.name]
        if ends and happened.clock is not None:
            _narrow(happened, track.name, after=(), before=(of_server(max(ends), happened.clock, offset),))


def _narrow(happened: Happened, name: str, *, after: Sequence[Interval], before: Sequence[Interval]) -> None:
    happened.active[name], agree = merge(happened.active[name], after, before)
    happened.disagree += not agree


def _delete(api: Api, cloud: Cloud, record: Record, prefix: str, happened: Happened) -> None:
    """All at once, timed; then whatever else is there by name, so that nothing is left to the following storm."""
    known = [track for track in happened.tracks if track.id]

    def send(track: Track) -> None:
        track.delete_ns = time.monotonic_ns()
        cloud.delete(SERVER, track.id)

    deleting = Sending(known, [time.monotonic_ns()] * len(known), send)
    deleting.start()
    poller = Poller(api, prefix, happened.asked.poll_s, happened.asked.poll_share)
    try:
        deleting.join()
        poller.until_gone(known, time.monotonic_ns() + round(happened.asked.within_s * NS))
    finally:
        names = [track.name for track in happened.tracks]
        _, happened.left = cloud.remove(SERVER, names, within_s=happened.asked.within_s)
        # What was never answered for may yet come: that is for the end of the run to wait for.
        unsure = {t.name for t in happened.tracks if not t.id and not t.problem.startswith("refused: 4")}
        record.removed(SERVER, [n for n in names if n not in happened.left and n not in unsure])
