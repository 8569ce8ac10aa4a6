"""Volumes of a run's instances: announced first, attached, and gone after the instance that has them, however that goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contend.clouds.http import Api
from contend.clouds.instances import made, tenants, volumes
from contend.clouds.instances.topology import Disk
from contend.clouds.openstack import KINDS, MARK, Cloud, Record, unique_name
from contend.clouds.removal import remove
from contend.errors import BadInput, HostFailed, UnknownName
from contend.store.ledger import leftovers, read_rows
from support.bad_api import BadApi, Fault, bad_api

RUN = "storage-sweep-20260102-101500-7f3a"


@pytest.fixture
def api() -> Iterator[BadApi]:
    with bad_api() as api:
        api.types = {"ssd": "available", "hdd": "available"}
        yield api


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Record]:
    with Record(tmp_path / "ledger.ndjson", run=RUN, cloud="bad", config="") as found:
        yield found


class Run:
    """The volumes of one run, and servers that are there already."""

    def __init__(self, api: BadApi, record: Record) -> None:
        self.api, self.record = api, record
        self.cloud = Cloud(Api(api.access(), sleep=lambda s: None), RUN, sleep=lambda s: None)
        disks = [Disk("ssd", "ssd", 1), Disk("hdd", "hdd", 1)]
        self.topology = tenants.read(disks=disks, neighbour_host="any", means="groups")
        self.servers = {}
        for guest in self.topology.guests():
            record.intend(KINDS["server"], [name(guest.role)])
            self.servers[guest.role] = api.add(name(guest.role), metadata={MARK: RUN})

    def make(self) -> None:
        volumes.make(self.cloud, self.record, name, self.topology)

    def wait(self, state: str, within_s: float = 5.0) -> dict[str, volumes.Held]:
        until = time.monotonic() + within_s
        servers = self.servers if state == "in-use" else {}
        return volumes.await_all(self.cloud, name, self.topology, state, until, servers, sleep=lambda s: None)

    def attached(self) -> dict[str, volumes.Held]:
        self.make()
        self.wait("available")
        volumes.attach(self.cloud, name, self.topology, self.servers)
        return self.wait("in-use")


@pytest.fixture
def run(api: BadApi, record: Record) -> Run:
    return Run(api, record)


def name(role: str) -> str:
    return f"{unique_name(RUN, 'ab12')}-{role}"


def test_each_instance_has_one_of_each_type_announced_before_its_request(api: BadApi, run: Run) -> None:
    found = run.attached()
    assert set(found) == {"measured-ssd", "measured-hdd", "neighbour-ssd", "neighbour-hdd"}
    for role, held in found.items():
        volume = api.volumes[held.id]
        assert volume["metadata"] == {MARK: RUN} and volume["volume_type"] == role.rpartition("-")[2]
        assert volume["of"] == run.servers[role.partition("-")[0]]
    rows = [row for row in read_rows(run.record.path) if row["kind"] == "openstack-volume"]
    assert [row["event"] for row in rows] == ["intend", "created"] * 4


def test_they_go_after_their_instances_though_cinder_holds_them_for_a_while(api: BadApi, run: Run) -> None:
    run.attached()
    api.holds = 9
    assert made.remove(run.cloud, run.record) == {}
    assert api.volumes == api.servers == {}
    assert leftovers(run.record.path) == []
    first = next(n for n, line in enumerate(api.seen) if line.startswith("DELETE /volumes"))
    assert all(not line.startswith("DELETE /servers") for line in api.seen[first:]), "servers went before"


def test_after_a_kill_destroy_removes_them_with_what_they_are_attached_to(api: BadApi, run: Run) -> None:
    run.attached()
    mine = {"name": name("measured-ssd"), "metadata": {}, "status": "available", "id": "a-stranger", "of": ""}
    api.volumes["a-stranger"] = mine
    rows = leftovers(run.record.path)
    gone = remove(rows, lambda cloud, config: Api(api.access()), sleep=lambda s: None)
    assert {of.name: of.why for of in gone} == {str(row["name"]): "" for row in rows}
    assert list(api.volumes) == ["a-stranger"], "one without the mark is somebody else's"


def test_a_type_that_nobody_serves_is_told_in_cinder_s_words(api: BadApi, run: Run) -> None:
    api.types["hdd"] = "error"
    api.messages = ["schedule allocate volume:Could not find any available weighted backend."]
    run.make()
    with pytest.raises(HostFailed, match=r"type 'hdd' is in ERROR: .*weighted backend") as refused:
        run.wait("available")
    assert "pools" in refused.value.hint
    api.messages.clear()
    with pytest.raises(HostFailed, match="Cinder does not say why"):
        run.wait("available")


@pytest.mark.parametrize("fault", [Fault(413), Fault(403)])
def test_a_quota_is_told_with_what_the_run_needs(api: BadApi, run: Run, fault: Fault) -> None:
    api.faults["POST"] = [fault]
    if fault.status == 403:  # a right that is missing is no quota
        with pytest.raises(HostFailed, match="403"):
            run.make()
        return
    with pytest.raises(BadInput, match="quota refuses a volume") as refused:
        run.make()
    assert "4 volumes, 4 GiB" in refused.value.hint


def test_an_attachment_that_nova_gives_up_is_told_in_its_words(api: BadApi, run: Run) -> None:
    api.unattached = "No connector for that backend on this host"
    with pytest.raises(HostFailed, match=r"did not attach volume measured-ssd .*No connector for that"):
        run.attached()


def test_a_volume_that_never_comes_is_told_by_its_state(api: BadApi, run: Run) -> None:
    api.types["ssd"] = "creating"
    run.make()
    with pytest.raises(HostFailed, match="measured-ssd of type 'ssd' is still creating, not available"):
        run.wait("available", within_s=0.2)


def test_a_type_that_is_not_there_is_named_with_those_that_are(api: BadApi, run: Run) -> None:
    volumes.check_types(run.cloud.api, ["ssd", "id-of-hdd"])
    with pytest.raises(UnknownName) as refused:
        volumes.check_types(run.cloud.api, ["sdd"])
    told: Any = refused.value
    assert "sdd" in told.message and "ssd" in told.hint
