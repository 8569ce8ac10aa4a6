"""Instances of a real OpenStack as ends of pairs: placed by it over two hosts (faked), read back, made by requests and by
Heat, removed after a kill; and a pair of real guests, emulated, that sends by iperf3 within a subnet and over a router.

On a bed of the test's own. A quarter of an hour on two processors that have nothing else to do.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contend.clouds.http import Api
from contend.clouds.instances import made, placed
from contend.clouds.instances.topology import Topology, read
from contend.clouds.login import login
from contend.clouds.openstack import KINDS, Cloud, Record, unique_name
from contend.errors import ContendError, HostFailed
from contend.store.ledger import leftovers, read_rows
from contend.testbed import virt
from contend.testbed.openstack import guest, guest_tools, hypervisor, network
from contend.testbed.openstack.bed import CLOUD, Bed
from contend.testbed.openstack.cloud import variables
from contend.workloads.generators.cloud import server_of
from support.clouds import bed_command, need_services
from support.command_line import Home, rows, wait_for
from support.prerequisites import need

pytestmark = pytest.mark.accept

RUN = "network-placement-20260102-101500-7f3a"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHVudXNlZHVudXNlZHVudXNlZHVudXNlZHVudXNlZHVu"
CIDRS = ("10.201.0.0/24", "10.202.0.0/24")
OUTSIDE = "198.51.100.0/24"
STUDY = ("run", "network-placement", "--cloud", CLOUD)


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """Two hosts with faked guests, one with real ones."""
    place = tmp_path_factory.mktemp("placement") / "bed"
    need_services()
    need(not guest_tools.lacks(), guest_tools.lacks())
    try:
        hypervisor.need(Bed(place, "", {}))
    except ContendError as error:
        need(False, f"{error.message} ({error.hint})")
    try:
        bed_command(place, "up", "--computes=2", "--libvirt=1", "--web-workers=1", "--without=volume")
        found = Bed.load(place)
        assert found is not None
        yield found
    finally:
        bed_command(place, "down", "--wipe")
    assert network.left(found) == []
    assert virt.guests(found.libvirt) == {}


@pytest.fixture(scope="module")
def api(bed: Bed) -> Iterator[Api]:
    access = login(CLOUD, str(bed.clouds_yaml), made.SERVICES)
    found = Api(access)
    make_networks(found)
    yield found
    found.close()


def make_networks(api: Api) -> None:
    """Two tenant networks whose guests have fixed addresses without DHCP, which the bed has not, and an outer one."""
    for name, cidr in zip(("one", "other", "outer"), (*CIDRS, OUTSIDE), strict=True):
        outer = {"router:external": True} if name == "outer" else {}
        body = {"network": {"name": name, **outer}}
        id_ = api.request("POST", "network", "/networks", body=body).json()["network"]["id"]
        subnet = {"network_id": id_, "ip_version": 4, "cidr": cidr, "enable_dhcp": False}
        api.request("POST", "network", "/subnets", body={"subnet": subnet})


def ours(api: Api) -> list[str]:
    """Whatever contend has on the cloud, of every kind."""
    cloud = Cloud(api, "")
    services = api.access.endpoints
    return [
        i["name"] for kind in KINDS.values() if kind.service in services for i in cloud.list(kind, "contend-")
    ]


@pytest.fixture
def record(tmp_path: Path, bed: Bed) -> Iterator[Record]:
    with Record(tmp_path / "ledger.ndjson", run=RUN, cloud=CLOUD, config=str(bed.clouds_yaml)) as found:
        yield found


def maker(api: Api, record: Record, topology: Topology) -> made.Maker:
    return made.Maker(Cloud(api, RUN), record, unique_name(RUN, "ab12"), topology, 300.0)


def wanted(api: Api) -> made.Wanted:
    server = server_of(api, "blank", "tiny", "none")
    return made.Wanted(server["imageRef"], server["flavorRef"], KEY)


@pytest.mark.parametrize("by", ["requests", "heat"])
@pytest.mark.parametrize("means", ["groups", "hosts"])
def test_instances_are_where_they_were_asked_for_and_all_of_it_goes(
    api: Api, record: Record, by: str, means: str
) -> None:
    hosts = "nova:fake-1,nova:fake-2" if means == "hosts" else ""
    topology = read(places="ss,sd,ds,dd", pairs=1, means=means, hosts=hosts, external="outer")
    of = maker(api, record, topology)
    found = of.by_heat(wanted(api)) if by == "heat" else of.by_requests(wanted(api))
    try:
        guests = {role: placed.read(item) for role, item in found.items()}
        assert set(guests) == {each.role for each in topology.guests()}
        placed.check(topology, guests)
        if means == "hosts":
            assert {guests["c1"].host, guests["s1-sd"].host} == {"fake-1"}
            assert guests["s1-ds"].host == "fake-2"
        for each in topology.guests():
            assert guests[each.role].address.startswith(f"10.20{each.subnet}.0.")
            assert guests[each.role].reach.startswith("198.51.100."), "SSH goes to its floating address"
        announced = {row["kind"] for row in read_rows(record.path) if row["event"] == "intend"}
        assert announced == ({"openstack-stack"} if by == "heat" else announced | {"openstack-floating-ip"})
    finally:
        left = made.remove(of.cloud, record)
    assert left == {}
    assert ours(api) == []
    assert leftovers(record.path) == []


def test_hints_that_the_scheduler_ignores_are_seen_when_read_back(api: Api, record: Record) -> None:
    """Nova's usual filters know neither same_host nor different_host: what it makes of them by chance is not trusted."""
    topology = read(places="ss,ds", pairs=2, means="hints", networks="one")
    of = maker(api, record, topology)
    try:
        found = of.by_requests(wanted(api))
        guests = {role: placed.read(item) for role, item in found.items()}
        together = {
            role: guests[role].host_id == guests[f"c{role[1]}"].host_id for role in guests if role[0] == "s"
        }
        as_asked = all(together[role] == role.endswith("-ss") for role in together)
        if as_asked:
            placed.check(topology, guests)
        else:
            with pytest.raises(HostFailed, match="the cloud has them") as refused:
                placed.check(topology, guests)
            assert "means=groups" in refused.value.hint
    finally:
        made.remove(of.cloud, record)
    assert ours(api) == []


def test_what_no_host_has_room_for_is_told_in_nova_s_words_and_leaves_nothing(
    api: Api, record: Record
) -> None:
    topology = read(places="ss", pairs=1, means="hosts", hosts="nova:no-such-host", networks="one")
    of = maker(api, record, topology)
    with pytest.raises(ContendError):
        of.by_requests(wanted(api))
    made.remove(of.cloud, record)
    assert ours(api) == [] and leftovers(record.path) == []


# ---- real guests


@pytest.fixture
def way(bed: Bed, api: Api, tmp_path: Path) -> Iterator[Path]:
    """The bed's namespace as the router of both networks, and an SSH configuration that goes through it."""
    inside = network.namespace(bed)
    for cidr in CIDRS:
        address = cidr.replace(".0/24", ".1/24")
        subprocess.run(["ip", "-n", inside, "address", "replace", address, "dev", network.BRIDGE], check=True)
    forward = ["ip", "netns", "exec", inside, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"]
    subprocess.run(forward, check=True)
    path = tmp_path / "ssh_config"
    path.write_text(f"Host *\n  ProxyCommand ip netns exec {inside} busybox nc %h %p\n")
    yield path
    for cidr in CIDRS:
        address = cidr.replace(".0/24", ".1/24")
        subprocess.run(["ip", "-n", inside, "address", "delete", address, "dev", network.BRIDGE], check=True)


def settings(way: Path, *more: str) -> list[str]:
    asked = (
        "hosts=same",  # one of the bed's hosts has real guests
        "protocols=tcp",
        "messages=1400",
        "pairs=1",
        "measure.blocks=1",
        "measure.pilot=0",
        "measure.target=null",
        f"parameters.image={guest.TOOLS}",
        "parameters.flavor=small",
        "parameters.networks=one,other",
        "parameters.rate=50",
        f"parameters.ssh_config={way}",
        *more,
    )
    return [word for setting in asked for word in ("--set", setting)]


@pytest.mark.parametrize("by", ["requests", "heat"])
def test_a_pair_of_real_guests_sends_within_a_subnet_and_over_a_router(
    bed: Bed, api: Api, contend: Home, way: Path, by: str
) -> None:
    words = settings(way, f"parameters.by={by}")
    said = contend(*STUDY, *words, "--json", timeout=1500, env={**variables(bed)}).fine()
    run = contend.the_run()
    told = {row["cell"]: {m["name"]: m["value"] for m in row["metrics"]} for row in rows(run)}
    assert {name.partition(" |")[0] for name in told} == {
        "same host, same subnet",
        "same host, same subnet (control)",
        "same host, different subnet",
    }
    for figures in told.values():
        assert figures["throughput"] > 0.1 and figures["answered"] > 0.5
        assert 0 < figures["latency_p50"] <= figures["latency_p99"]
        assert figures["guests_cpu_per_gb"] >= 0
        assert figures["emulated"] == 1.0, "and every row says so"
    assert said.json()["placement"]["ends"] == "instances of a cloud"
    documents = [json.loads(file.read_text()) for file in run.glob("outputs/*/placement.json")]
    assert {tuple(document["hosts"]) for document in documents} == {("virt-1",)}
    assert (run / "stack.yaml").exists() == (by == "heat")
    assert ours(api) == []
    assert leftovers(run / "ledger.ndjson") == []
    assert not list(run.rglob("key")), "the private key went with the instances"
    wait_for(lambda: not virt.guests(bed.libvirt), "guests are gone", 120)


@pytest.mark.parametrize("by", ["requests", "heat"])
def test_after_a_kill_destroy_finds_and_removes_all_of_it(
    bed: Bed, api: Api, contend: Home, way: Path, by: str
) -> None:
    words = settings(way, f"parameters.by={by}")
    wait_for(lambda: not virt.guests(bed.libvirt), "guests of other tests are gone", 120)
    process = contend.start(
        *STUDY, *words, env={**variables(bed)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_for(lambda: virt.guests(bed.libvirt), "a guest is up", 240)
    process.kill()  # first: it would tidy up after the others
    process.wait()
    for pid, _ in contend._processes():
        os.kill(pid, signal.SIGKILL)
    run = contend.the_run()
    assert ours(api) != []
    contend("destroy", str(run), timeout=400, env={**variables(bed)}).fine()
    assert ours(api) == []
    assert leftovers(run / "ledger.ndjson") == []
    wait_for(lambda: not virt.guests(bed.libvirt), "guests are gone", 120)


def test_an_image_that_does_not_say_its_user_is_refused_before_anything_is_made(
    bed: Bed, api: Api, contend: Home, way: Path
) -> None:
    words = settings(way, "parameters.image=guest")
    began = time.monotonic()
    contend(*STUDY, *words, timeout=300, env={**variables(bed)}).error(2, "os_admin_user", "parameters.user")
    assert time.monotonic() - began < 120
    assert ours(api) == []
    assert contend.run_directories() == []
