"""Nova's own record of a creation: its instance action with the events of each service."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, NamedTuple

from contend.clouds.http import Api, RequestFailed

# Hosts of events are told to administrators only; start and finish to everybody who may see the server.
_VERSION = "2.62"


class Event(NamedTuple):
    """Seconds since the epoch by the server's clock; `finish` is None while it goes on."""

    name: str
    start: float
    finish: float | None
    result: str

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "start_s": self.start, "finish_s": self.finish, "result": self.result}


def creation(api: Api, server: str, request: str = "") -> tuple[Event, ...]:
    """Events of the server's `create` action, in order; the action itself first. Empty where the cloud does not tell.

    request: id of the request that asked for it, by which the action goes; without it actions are listed first.
    """
    path = f"/servers/{server}/os-instance-actions"
    try:
        answer = None
        if request:
            answer = api.request("GET", "compute", f"{path}/{request}", version=_VERSION, absent=True)
        if answer is None or answer.status == 404:  # a proxy in front of the API may have ids of its own
            listed = api.request("GET", "compute", path, version=_VERSION).json()["instanceActions"]
            made = next((a for a in listed if a["action"] == "create"), None)
            if made is None:
                return ()
            answer = api.request("GET", "compute", f"{path}/{made['request_id']}", version=_VERSION)
        action = answer.json()["instanceAction"]
    except RequestFailed as error:
        if error.status in (403, 404, 406):  # not this user's to see, or an API without it
            return ()
        raise
    begun = Event("create", seconds(action["start_time"]), None, "")
    events = [_event(e) for e in action.get("events") or ()]
    return (begun, *sorted(events, key=lambda event: event.start))


def _event(data: Mapping[str, Any]) -> Event:
    finish = data.get("finish_time")
    start = seconds(data["start_time"])
    return Event(
        str(data["event"]), start, seconds(finish) if finish else None, str(data.get("result") or "")
    )


def seconds(stamp: str) -> float:
    """An API's time, UTC, as seconds since the epoch.

    >>> seconds("2026-01-02T10:15:00.000000"), seconds("2026-01-02T10:15:00Z") == seconds("2026-01-02T10:15:00")
    (1767348900.0, True)
    """
    moment = datetime.datetime.fromisoformat(stamp)
    return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()
