"""What nova wrote down of a creation: found by the id of the request that asked for it, else looked for."""

from __future__ import annotations

import json
from collections.abc import Callable

from contend.clouds.access import Access
from contend.clouds.http import Api
from contend.clouds.openstack import KINDS, Cloud
from contend.clouds.storm.actions import creation
from support.wire_servers import serving

AT = "/servers/s-1/os-instance-actions"
ACTION = {
    "action": "create",
    "request_id": "req-1",
    "start_time": "2026-01-02T10:15:00.000000",
    "events": [
        {"event": "compute__do_build_and_run_instance", "start_time": "2026-01-02T10:15:02.000000",
         "finish_time": "2026-01-02T10:15:03.000000", "result": "Success"},
        {"event": "conductor_schedule", "start_time": "2026-01-02T10:15:01.000000", "finish_time": None, "result": None},
    ],
}  # fmt: skip
KNOWN = {
    AT: {"instanceActions": [{"action": "reboot", "request_id": "req-9"}, {**ACTION, "events": None}]},
    f"{AT}/req-1": {"instanceAction": ACTION},
}


def nova(known: dict[str, object]) -> Callable[[bytes], bytes]:
    def reply(request: bytes) -> bytes:
        found = known.get(request.split()[1].decode())
        body = json.dumps(found or {"itemNotFound": {"message": "no such action"}}).encode()
        status = b"200 OK" if found else b"404 Not Found"
        return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)

    return reply


def asked(known: dict[str, object], request: str) -> tuple[list[str], list[str]]:
    """Names of events, and what was asked for."""
    with serving(nova(known)) as server:
        api = Api(Access("c", "", "t", 2e9, "p", {"compute": server.url}))
        events = [event.name for event in creation(api, "s-1", request)]
        api.close()
        return events, [told.split()[1].decode() for told in server.requests]


EVENTS = ["create", "conductor_schedule", "compute__do_build_and_run_instance"]


def test_one_question_where_the_request_is_known() -> None:
    assert asked(KNOWN, "req-1") == (EVENTS, [f"{AT}/req-1"])


def test_actions_are_listed_where_it_is_not() -> None:
    assert asked(KNOWN, "") == (EVENTS, [AT, f"{AT}/req-1"])
    assert asked(KNOWN, "req-of-a-proxy") == (EVENTS, [f"{AT}/req-of-a-proxy", AT, f"{AT}/req-1"])


def test_a_server_without_a_creation_tells_none() -> None:
    assert asked({}, "req-1")[0] == []
    assert asked({AT: {"instanceActions": []}}, "")[0] == []


def test_the_id_of_a_request_comes_with_its_answer() -> None:
    said = (
        b"HTTP/1.1 202 Accepted\r\nx-openstack-request-id: %s\r\nContent-Length: 23\r\n\r\n"
        + b'{"server": {"id": "1"}}'
    )
    for ids, expected in ((b"req-7", "req-7"), (b"req-7\r\nX-Openstack-Request-Id: req-8", "req-7")):
        with serving(said % ids) as server:
            api = Api(Access("c", "", "t", 2e9, "p", {"compute": server.url}))
            assert Cloud(api, "run").ask(KINDS["server"], "n", {}) == ({"id": "1"}, expected)
            api.close()
