"""A storm of many: one poller, pages, a few threads, and what goes wrong on the way of some."""

from __future__ import annotations

import threading
from pathlib import Path

from contend.clouds.http import Api
from contend.clouds.openstack import Record
from contend.clouds.storm.document import document
from contend.clouds.storm.servers import Servers
from contend.clouds.storm.storm import MOST_AT_ONCE, StormOptions, storm
from contend.store.ledger import leftovers
from support.bad_api import Fault, bad_api

N = 120


def test_a_storm_of_many(tmp_path: Path) -> None:
    most = [0]
    with bad_api() as bad, Record(tmp_path / "ledger.ndjson", run="run", cloud="bad", config="") as record:
        bad.page = 50  # fewer than were asked for: as beyond what an API gives at once
        bad.faults["POST"] = [Fault(429, headers={"Retry-After": "0"})] * 5 + [Fault(act=True)]
        bad.faults["GET"] = [Fault(500)]
        api = Api(bad.access(), sleep=lambda s: None, connections=MOST_AT_ONCE + 1)
        original = bad.add

        def add(name: str, **more: object) -> str:
            most[0] = max(most[0], sum(t.name.startswith("send-") for t in threading.enumerate()))
            return original(name, **more)

        bad.add = add  # type: ignore[method-assign]
        servers = Servers(api, record, "contend-run-1-ab", {}, poll_s=0.05)
        told = document(storm(servers, "contend-run-1-ab", StormOptions(N, within_s=60)))
        api.close()
        listed = [line for line in bad.seen if line.startswith("GET /servers/detail")]
        assert bad.servers == {}
    assert (told["served"], told["failed"], told["left"]) == (N, 0, {})
    assert told["counts"]["rate limited (429)"] == 5
    assert told["counts"]["no answer"] == 1
    assert told["counts"]["server error (5xx)"] == 1
    assert most[0] <= MOST_AT_ONCE
    assert any("marker=100" in line for line in listed), "the third page"
    assert leftovers(tmp_path / "ledger.ndjson") == []
    for server in told["servers"]:
        assert server["sent_s"] <= server["active_s"][0] <= server["active_s"][1]
        assert server["deleted_s"] <= server["gone_s"][0] <= server["gone_s"][1]


def test_a_deletion_that_fails_is_not_waited_for(tmp_path: Path) -> None:
    """Nova leaves such a server in ERROR for ever: `within_s` would go by before it is deleted anew."""
    with bad_api() as bad, Record(tmp_path / "ledger.ndjson", run="run", cloud="bad", config="") as record:
        bad.undeletable = 2
        api = Api(bad.access(), connections=9)
        servers = Servers(api, record, "contend-run-1-ab", {}, poll_s=0.01)
        told = document(storm(servers, "contend-run-1-ab", StormOptions(8, within_s=3600)))
        api.close()
        assert bad.servers == {}
    assert told["counts"]["deletions that failed"] == 2
    assert (told["left"], sum(server["gone_s"] is not None for server in told["servers"])) == ({}, 6)
    assert leftovers(tmp_path / "ledger.ndjson") == []
