"""One poller for all servers of a storm."""

from __future__ import annotations

import datetime
import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from contend.clouds.http import Answer, Api
from contend.clouds.openstack import KINDS, PAGE
from contend.clouds.storm.stamps import ACTIVE, ERROR, Poll, Track, state_of

SERVER = KINDS["server"]
_ERRORS_EVERY = 10  # polls that do not show states
_WHOLE = "/servers/detail"
_NAMES = "/servers"
_TASK = "OS-EXT-STS:task_state"
# After a listing with states, so many times as long as it took without another one, and this long at most.
_WITHOUT_STATES, _WITHOUT_STATES_S = 7, 1.0
_PAUSE_MOST_S = 0.25  # after an answer that took long for waiting behind the storm's own requests


class Poller:
    """Asks for the names of those that are ACTIVE, of all servers whose names begin alike, with one request (a page of them
    at a time), every `interval_s`; less often where the API takes so long that it would be busy with polls for more than
    `share` of the time.

    A listing with the states on the way costs nova and those behind it more, and makes the next poll for ACTIVE late, so
    that it comes between them only now and then.

    `polls` and `asking_ns` are its own cost: how often it asked, and how long the API worked on that; `wholes` are polls
    with states; `undeleted` are faults of deletions that failed, by name. `dates` are the answers' Date headers with our
    wall clock before and after.

    listed: is told of each server that a poll shows on its way, or there for the first time.

    states: those on the way are asked for too; else only now and then for those in ERROR. each: with every poll, for who
    wants to know more of a server at once.
    """

    def __init__(
        self,
        api: Api,
        prefix: str,
        interval_s: float,
        share: float = 1.0,
        *,
        states: bool = True,
        each: bool = False,
        listed: Callable[[Track, Mapping[str, Any]], None] = lambda _track, _server: None,
    ) -> None:
        self._api, self._prefix, self._interval_s, self._share = api, prefix, interval_s, share
        self._states, self._each, self._listed = states, each, listed
        self.polls, self.wholes, self.asking_ns = 0, 0, 0
        self.widest_ns = 0  # from a poll's sending to the next one's answer, at most
        self.dates: list[tuple[int, int, int]] = []
        self.launched: dict[str, str] = {}  # the server's own stamp, by id
        self.undeleted: dict[str, str] = {}
        self._began_ns = 0  # of the last poll
        self._due_ns, self._whole_due_ns = 0, 0

    def warm(self) -> None:
        """Connect, and let the service look at the token, before anything is timed."""
        self._poll(_NAMES)
        self.polls, self.asking_ns, self.widest_ns, self._began_ns = 0, 0, 0, 0

    def until_settled(self, tracks: Sequence[Track], until_ns: int, sending: Callable[[], bool]) -> None:
        """Watch until every server is ACTIVE, in ERROR or refused, or until that moment. sending: more will come."""
        while time.monotonic_ns() < until_ns:
            pending = [t for t in tracks if not t.problem and t.state not in (ACTIVE, ERROR)]
            if not pending and not sending():
                if any(t.state == ACTIVE and t.id not in self.launched for t in tracks):
                    self._stamps(self._poll(_WHOLE)[0].values())
                return
            listed, poll = self._look()
            for track in pending:
                server = listed.get(track.name)
                track.observe("" if server is None else state_of(server), poll)
                if server is None:
                    continue
                track.id = track.id or str(server["id"])
                self._listed(track, server)
                if track.state == ERROR:
                    track.problem = f"ERROR: {_fault(server)}"
            self._pause()

    def again(self, times: int) -> None:
        """Send that many more polls, in turn as while servers boot."""
        share = self.wholes / max(1, self.polls)
        for number in range(times):
            if int((number + 1) * share) > int(number * share):
                self._poll(_WHOLE)
            else:
                self._poll(_NAMES, "ACTIVE")

    def _look(self) -> tuple[dict[str, Mapping[str, object]], Poll]:
        """One poll of the kind that is due."""
        if self._states and (self._each or time.monotonic_ns() >= self._whole_due_ns):
            listed, poll = self._poll(_WHOLE)
            self._stamps(listed.values())
            self.wholes += 1
            without = min(_WITHOUT_STATES * (poll.received_ns - poll.sent_ns), round(_WITHOUT_STATES_S * 1e9))
            self._whole_due_ns = poll.received_ns + without
            return listed, poll
        errors = not self._states and self.polls % _ERRORS_EVERY == _ERRORS_EVERY - 1
        failed = self._poll(_WHOLE, "ERROR")[0] if errors else {}
        listed, poll = self._poll(_NAMES, "ACTIVE")
        active = {name: {**server, "status": "ACTIVE"} for name, server in listed.items()}
        return {**active, **failed}, poll._replace(whole=False)

    def _stamps(self, listed: Iterable[Mapping[str, object]]) -> None:
        for server in listed:
            if stamp := server.get("OS-SRV-USG:launched_at"):
                self.launched[str(server["id"])] = str(stamp)

    def until_gone(self, tracks: Sequence[Track], until_ns: int) -> None:
        """Watch until none is listed any more, or until that moment; not those whose deletion has failed, which nova leaves
        in ERROR, and at nothing."""
        for number in itertools.count(1):
            pending = [t for t in tracks if t.delete_ns and t.gone is None and t.name not in self.undeleted]
            if not pending or time.monotonic_ns() >= until_ns:
                return
            if number % _ERRORS_EVERY == 0:
                failed = self._poll(_WHOLE, "ERROR")[0]
                at_nothing = (t for t in pending if t.name in failed and not failed[t.name].get(_TASK))
                self.undeleted |= {t.name: _fault(failed[t.name]) for t in at_nothing}
            listed, poll = self._poll(_NAMES)
            for track in pending:
                track.observe_gone(track.name in listed, poll)
            self._pause()

    def _poll(self, path: str, status: str = "") -> tuple[dict[str, Mapping[str, object]], Poll]:
        """Servers by name; from when the first page was asked for until the last was there."""
        only = f"&status={status}" if status else ""
        following, first = f"{path}?limit={PAGE}&name={quote(self._prefix)}{only}", 0
        servers: dict[str, Mapping[str, object]] = {}
        while following:
            answer = self._api.request("GET", SERVER.service, following, version=SERVER.version)
            first = first or answer.sent_ns
            self._count(answer)
            page = answer.json()
            servers |= {str(server["name"]): server for server in page["servers"]}
            links = page.get("servers_links") or ()
            href = next((link["href"] for link in links if link.get("rel") == "next"), "")
            following = f"{path}?{urlsplit(href).query}" if href else ""
        received = answer.received_ns
        if self._began_ns:
            self.widest_ns = max(self.widest_ns, received - self._began_ns)
        self._began_ns, took = first, received - first
        pause = min(round(took / self._share) - took, round(_PAUSE_MOST_S * 1e9))
        self._due_ns = max(first + round(self._interval_s * 1e9), received + pause)
        return servers, Poll(first, received)

    def _count(self, answer: Answer) -> None:
        self.polls += 1
        self.asking_ns += answer.received_ns - answer.sent_ns
        second = date_s(answer.headers.get("Date", ""))
        if second is not None:
            offset = time.time_ns() - time.monotonic_ns()
            self.dates.append((second, answer.sent_ns + offset, answer.received_ns + offset))

    def _pause(self) -> None:
        """Until the next poll is due: so long after the last began, not after it was answered."""
        time.sleep(max(0.0, (self._due_ns - time.monotonic_ns()) / 1e9))


def _fault(server: Mapping[str, Any]) -> str:
    fault = server.get("fault") or {}
    return str(fault.get("message") or "the server tells no fault")


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def date_s(text: str) -> int | None:
    """Seconds since the epoch of a Date header; None for other forms than that which servers must send (RFC 9110,
    5.6.7).

    >>> date_s("Fri, 02 Jan 2026 10:15:00 GMT"), date_s("yesterday")
    (1767348900, None)
    """
    words = text.split()
    try:
        _, day, month, year, clock, zone = words
        hour, minute, second = clock.split(":")
        if zone != "GMT":
            return None
        number = 1 + _MONTHS.index(month)
        at = datetime.datetime(int(year), number, int(day), int(hour), int(minute), tzinfo=datetime.UTC)
        return int(at.timestamp()) + int(second)  # 60 in a leap second
    except ValueError:
        return None
