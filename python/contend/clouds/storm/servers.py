"""A storm's servers on an OpenStack cloud: asked for by its API, watched by one poller, narrowed by its own stamps."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from contend.clouds.http import Api, RequestFailed
from contend.clouds.openstack import Cloud, Record
from contend.clouds.storm import roles
from contend.clouds.storm.actions import creation, seconds
from contend.clouds.storm.stamps import PHASES, Track, clocks, of_server
from contend.clouds.storm.watch import SERVER, Poller
from contend.clouds.storm.watchers import Beside, hear, narrow, wait_for_guests

if TYPE_CHECKING:
    from contend.clouds.storm.storm import Happened


class Servers:
    """Nova's servers as the machines of a storm (see `clouds.base.Machines`). `wanted`: what every request wants
    besides the name: image, flavour, networks.

    prefix: how the names of its servers begin, unlike any other's. poll_share: part of one API worker's time, at most.
    states: those on the way to ACTIVE are watched too; without them there are no phases but the API's. beside: what
    else watches; the caller closes it.
    """

    awaited = "ACTIVE"
    phases = PHASES

    def __init__(
        self,
        api: Api,
        record: Record,
        prefix: str,
        wanted: Mapping[str, Any],
        *,
        poll_s: float = 0.1,
        poll_share: float = 0.5,
        states: bool = True,
        beside: Beside | None = None,
    ) -> None:
        self._api, self._record, self._prefix, self._wanted = api, record, prefix, wanted
        self._cloud = Cloud(api, record.run)
        self._beside = beside or Beside()
        each = self._beside.prober is not None  # an address is to be asked as soon as it is known
        listed = self._beside.listed
        self._poller = Poller(api, prefix, poll_s, poll_share, states=states, each=each, listed=listed)

    @property
    def counts(self) -> Mapping[str, int]:
        return self._api.counts

    def announce(self, tracks: Sequence[Track]) -> None:
        self._record.intend(SERVER, (track.name for track in tracks))
        self._poller.warm()

    def count_cpu(self) -> Callable[[], dict[str, float]]:
        if self._beside.counting is not None:
            self._beside.counting.begin()
        known = roles.ports(self._api.access.catalogue)
        before = roles.read(known)
        strangers = roles.pids() - {pid for pid, _ in before}  # need not be looked at again
        return lambda: roles.between(before, roles.read(known, but=strangers))

    def create(self, track: Track) -> None:
        try:
            made, track.request = self._cloud.ask(SERVER, track.name, self._wanted)
        except RequestFailed as error:
            track.problem = f"refused: {error.message.partition(': ')[2]}"
            return
        track.accepted_ns = time.monotonic_ns()
        track.id = track.id or str(made["id"])

    def watch(self, tracks: Sequence[Track], until_ns: int, sending: Callable[[], bool]) -> None:
        self._poller.until_settled(tracks, until_ns, sending)

    def ask(self, happened: Happened) -> None:
        """Add what nova knows: a server is launched before any listing can show it ACTIVE; the compute's build ends
        after it is."""
        self._record.created(SERVER, {track.name: track.id for track in happened.tracks if track.id})
        happened.polls, happened.asking_ns = self._poller.polls, self._poller.asking_ns
        happened.widest_ns = self._poller.widest_ns
        if self._beside.counting is not None:
            boots, polls = len(happened.tracks), self._poller.polls
            happened.counted = self._beside.counting.end(boots, polls, self._poller.again)
        wait_for_guests(happened, self._beside)
        clock = happened.clock = clocks(self._poller.dates)
        offset = time.time_ns() - time.monotonic_ns()
        for track in happened.tracks:
            if track.name not in happened.active:
                continue
            stamp = self._poller.launched.get(track.id, "")
            if stamp and clock is not None:
                narrow(happened, track.name, after=(of_server(seconds(stamp), clock, offset),))
            events = happened.events[track.name] = creation(self._api, track.id, track.request)
            ends = [e.finish for e in events if e.finish is not None and "build_and_run" in e.name]
            if ends and clock is not None:
                narrow(happened, track.name, before=(of_server(max(ends), clock, offset),))
        if self._beside.notices is not None:
            hear(self._api, happened, self._beside.notices)

    def delete(self, track: Track) -> None:
        self._cloud.delete(SERVER, track.id)

    def watch_gone(self, tracks: Sequence[Track], until_ns: int) -> None:
        self._poller.until_gone(tracks, until_ns)
        if failed := len(self._poller.undeleted):  # `clear` deletes them anew
            self._api.counts["deletions that failed"] += failed

    def clear(self, tracks: Sequence[Track], within_s: float) -> dict[str, str]:
        names = [track.name for track in tracks]
        _, left = self._cloud.remove(SERVER, names, within_s=within_s)
        # What was never answered for may yet come: that is for the end of the run to wait for.
        unsure = {t.name for t in tracks if not t.id and not t.problem.startswith("refused: 4")}
        self._record.removed(SERVER, [n for n in names if n not in left and n not in unsure])
        return left
