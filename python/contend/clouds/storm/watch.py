"""One poller for all servers of a storm."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from contend.clouds.http import Answer, Api
from contend.clouds.openstack import KINDS, PAGE
from contend.clouds.storm.stamps import ACTIVE, ERROR, Track, state_of

SERVER = KINDS["server"]
_ERRORS_EVERY = 10  # polls that look for ACTIVE only


class Poller:
    """Lists all servers whose names begin alike, with one request (a page of them at a time), every `interval_s`; less
    often where the API takes so long that it would be busy with polls for more than `share` of the time.

    `polls` and `asking_ns` are its own cost: how often it asked, and how long the API worked on that. `dates` are the
    answers' Date headers with our wall clock before and after.

    listed: is told of each server that a poll shows on its way, or there for the first time.

    states: with the states on the way, from detailed listings; else only names of those that are ACTIVE are asked for,
    which costs nova about half, and those in ERROR now and then.
    """

    def __init__(
        self,
        api: Api,
        prefix: str,
        interval_s: float,
        share: float = 1.0,
        *,
        states: bool = True,
        listed: Callable[[Track, Mapping[str, Any]], None] = lambda _track, _server: None,
    ) -> None:
        self._api, self._prefix, self._interval_s, self._share = api, prefix, interval_s, share
        self._states, self._listed = states, listed
        self.polls, self.asking_ns = 0, 0
        self.widest_ns = 0  # from a poll's sending to the next one's answer, at most
        self.dates: list[tuple[int, int, int]] = []
        self.launched: dict[str, str] = {}  # the server's own stamp, by id
        self._began_ns, self._took_ns = 0, 0  # of the last poll

    def until_settled(self, tracks: Sequence[Track], until_ns: int, sending: Callable[[], bool]) -> None:
        """Watch until every server is ACTIVE, in ERROR or refused, or until that moment. sending: more will come."""
        while time.monotonic_ns() < until_ns:
            pending = [t for t in tracks if not t.problem and t.state not in (ACTIVE, ERROR)]
            if not pending and not sending():
                if not self._states:  # the server's own stamps
                    self._stamps(self._poll("/servers/detail")[0].values())
                return
            if self._states:
                listed, sent_ns, received_ns = self._poll("/servers/detail")
                self._stamps(listed.values())
            else:
                failed = self._poll("/servers/detail", "ERROR")[0] if self.polls % _ERRORS_EVERY == 9 else {}
                listed, sent_ns, received_ns = self._poll("/servers", "ACTIVE")
                listed = {**{n: {**s, "status": "ACTIVE"} for n, s in listed.items()}, **failed}
            for track in pending:
                server = listed.get(track.name)
                track.observe("" if server is None else state_of(server), sent_ns, received_ns)
                if server is None:
                    continue
                track.id = track.id or str(server["id"])
                self._listed(track, server)
                if track.state == ERROR:
                    fault = server.get("fault")
                    said = str(fault.get("message", "")) if isinstance(fault, Mapping) else ""
                    track.problem = f"ERROR: {said or 'the server tells no fault'}"
            self._pause()

    def again(self) -> None:
        """Ask once more, as while servers boot."""
        if self._states:
            self._poll("/servers/detail")
        else:
            self._poll("/servers", "ACTIVE")

    def _stamps(self, listed: Iterable[Mapping[str, object]]) -> None:
        for server in listed:
            if stamp := server.get("OS-SRV-USG:launched_at"):
                self.launched[str(server["id"])] = str(stamp)

    def until_gone(self, tracks: Sequence[Track], until_ns: int) -> None:
        """Watch until none is listed any more, or until that moment."""
        while time.monotonic_ns() < until_ns:
            pending = [t for t in tracks if t.delete_ns and t.gone is None]
            if not pending:
                return
            listed, sent_ns, received_ns = self._poll("/servers")
            for track in pending:
                track.observe_gone(track.name in listed, sent_ns, received_ns)
            self._pause()

    def _poll(self, path: str, status: str = "") -> tuple[dict[str, Mapping[str, object]], int, int]:
        """Servers by name, and when the first page was asked for and the last was there."""
        only = f"&status={status}" if status else ""
        following, first = f"{path}?limit={PAGE}&name={quote(self._prefix)}{only}", 0
        found: dict[str, Mapping[str, object]] = {}
        while following:
            answer = self._api.request("GET", SERVER.service, following, version=SERVER.version)
            first = first or answer.sent_ns
            self._count(answer)
            page = answer.json()
            found |= {str(server["name"]): server for server in page["servers"]}
            links = page.get("servers_links") or ()
            href = next((link["href"] for link in links if link.get("rel") == "next"), "")
            following = f"{path}?{urlsplit(href).query}" if href else ""
        if self._began_ns:
            self.widest_ns = max(self.widest_ns, answer.received_ns - self._began_ns)
        self._began_ns, self._took_ns = first, answer.received_ns - first
        return found, first, answer.received_ns

    def _count(self, answer: Answer) -> None:
        self.polls += 1
        self.asking_ns += answer.received_ns - answer.sent_ns
        second = date_s(answer.headers.get("Date", ""))
        if second is not None:
            offset = time.time_ns() - time.monotonic_ns()
            self.dates.append((second, answer.sent_ns + offset, answer.received_ns + offset))

    def _pause(self) -> None:
        """Until the next poll is due: so long after the last began, not after it was answered."""
        due_ns = self._began_ns + max(round(self._interval_s * 1e9), round(self._took_ns / self._share))
        time.sleep(max(0.0, (due_ns - time.monotonic_ns()) / 1e9))


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def date_s(text: str) -> int | None:
    """A Date header as seconds since the epoch; None for other forms than that which servers must send (RFC 9110, 5.6.7).

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
