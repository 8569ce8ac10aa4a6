"""Instances of a run are there once nova says all of them that a run goes by: state and addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend.clouds.http import Api
from contend.clouds.instances import made, placed
from contend.clouds.instances.topology import Topology, read
from contend.clouds.openstack import MARK, Cloud, Record, unique_name
from contend.errors import HostFailed
from support.bad_api import BadApi, bad_api

RUN = "network-placement-20260102-101500-7f3a"
FIXED = {"addr": "10.201.0.7", "version": 4, "OS-EXT-IPS:type": "fixed"}
FLOATING = {"addr": "198.51.100.9", "version": 4, "OS-EXT-IPS:type": "floating"}


def topology(external: str) -> Topology:
    return read(places="ss", pairs=1, means="groups", external=external)


def maker(api: BadApi, record: Record, external: str, within_s: float = 20.0) -> made.Maker:
    """One that finds a server with its fixed address only, and gives it a floating one while it waits."""
    cloud = Cloud(Api(api.access(), sleep=lambda s: None), RUN)
    prefix = unique_name(RUN, "ab12")
    ids = [
        api.add(f"{prefix}-{guest.role}", metadata={MARK: RUN}, addresses={"net1": [FIXED]})
        for guest in topology(external).guests()
    ]

    def sleep(_: float) -> None:
        late = next((i for i in ids if len(api.servers[i]["addresses"]["net1"]) == 1), None)
        if late is not None:
            api.servers[late]["addresses"] = {"net1": [FIXED, FLOATING]}

    return made.Maker(cloud, record, prefix, topology(external), within_s, sleep)


@pytest.mark.parametrize(("external", "reach"), [("public", FLOATING["addr"]), ("", FIXED["addr"])])
def test_a_floating_address_that_nova_learns_of_late_is_waited_for(
    tmp_path: Path, external: str, reach: str
) -> None:
    with bad_api() as api, Record(tmp_path / "ledger.ndjson", run=RUN, cloud="bad", config="") as record:
        found = maker(api, record, external).await_active()
        assert {placed.read(item).reach for item in found.values()} == {reach}


def test_one_that_never_comes_is_told(tmp_path: Path) -> None:
    with (
        bad_api() as api,
        Record(tmp_path / "ledger.ndjson", run=RUN, cloud="bad", config="") as record,
        pytest.raises(HostFailed, match=r"without a floating address: (c1|s1)"),
    ):
        maker(api, record, "public", within_s=0.0).await_active()
