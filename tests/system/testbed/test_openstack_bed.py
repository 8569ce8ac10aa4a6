"""The test bed: a real OpenStack comes up, recorded, boots a server, survives the loss of a part, and leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from contend.contention.events import Events, read
from contend.errors import ContendError
from contend.testbed.openstack import guest, hypervisor, network
from contend.testbed.openstack.bed import CLOUD, GUESTS, Bed, answers
from contend.testbed.openstack.cloud import BUILD, variables
from support.clouds import Looking, Stormed, check_beside, check_glance, check_growth, run_storms
from support.command_line import Home, wait_for
from support.openstack_bed import OpenStack
from support.prerequisites import need

BOOT = """
import json, openstack, time
cloud = openstack.connect()
image, flavour = cloud.image.find_image("blank"), cloud.compute.find_flavor("tiny")
network = cloud.network.find_network("net")
server = cloud.compute.create_server(
    name="first", image_id=image.id, flavor_id=flavour.id, networks=[{"uuid": network.id}])
server = cloud.compute.wait_for_server(server, interval=0.2, wait=60)
told = {"status": server.status, "addresses": list(server.addresses)}
cloud.compute.delete_server(server)
cloud.compute.wait_for_delete(server, interval=0.2, wait=60)
# It waits until a server is DELETED; a moment later it is no longer listed.
until = time.monotonic() + 60
while (left := len(list(cloud.compute.servers()))) and time.monotonic() < until:
    time.sleep(0.2)
print(json.dumps(told | {"left": left, "ports": len(list(cloud.network.ports()))}))
"""
GUEST = """
import openstack
cloud = openstack.connect()
image, flavour = cloud.image.find_image("guest"), cloud.compute.find_flavor("tiny")
network = cloud.network.find_network("net")
servers = [
    cloud.compute.create_server(
        name=name, image_id=image.id, flavor_id=flavour.id, networks=[{"uuid": network.id}], host="virt-1")
    for name in ("stays", "goes")]
stays, goes = (cloud.compute.wait_for_server(server, interval=0.2, wait=180) for server in servers)
cloud.compute.delete_server(goes)
cloud.compute.wait_for_delete(goes, interval=0.2, wait=60)
print(stays.id, next(iter(stays.addresses.values()))[0]["addr"])
"""


def processes_below(root: Path) -> list[str]:
    """Command lines of whatever still names the bed's directory, or works in it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            place = str((process / "cwd").readlink())
        except OSError:
            continue
        if int(process.name) != os.getpid() and (str(root) in line or place.startswith(str(root))):
            found.append(line)
    return found


def served(address: str) -> bytes:
    """What it answers by HTTP; b"" while it does not."""
    try:
        with urllib.request.urlopen(f"http://{address}:{guest.PORTS[1]}/", timeout=2) as answer:
            return bytes(answer.read())
    except OSError:
        return b""


def run_on(bed: Bed, script: str) -> str:
    """What a script of the bed's own Python prints, as its administrator."""
    done = subprocess.run(
        [str(bed.python), "-c", script],
        env={**os.environ, "OS_CLIENT_CONFIG_FILE": str(bed.clouds_yaml), "OS_CLOUD": CLOUD},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# It comes up


def test_up_says_how_to_reach_it(openstack: OpenStack) -> None:
    assert str(openstack.bed.clouds_yaml) in openstack.printed
    assert all(value in openstack.printed for value in variables(openstack.bed).values())


def test_all_that_a_boot_takes_is_up(openstack: OpenStack) -> None:
    rows = openstack.status()
    assert {row["state"] for row in rows.values()} == {"up"}
    assert {"keystone", "glance", "placement", "neutron", "nova-api", "nova-compute-fake-1"} < set(rows)


def test_nothing_is_done_twice(openstack: OpenStack) -> None:
    before = {name: row["pid"] for name, row in openstack.status().items()}
    openstack("up", *openstack.traced)
    assert {name: row["pid"] for name, row in openstack.status().items()} == before


def test_a_server_boots_and_goes(openstack: OpenStack) -> None:
    told = json.loads(run_on(openstack.bed, BOOT))
    assert told == {"status": "ACTIVE", "addresses": ["net"], "left": 0, "ports": 0}


# Storms on it, from the command line to the report


@pytest.fixture(scope="module")
def looking(openstack: OpenStack) -> Looking:
    return Looking(CLOUD, str(openstack.bed.clouds_yaml))


@pytest.fixture(scope="module")
def reached(openstack: OpenStack) -> dict[str, str | None]:
    """The environment of whoever wants to reach it."""
    return {**variables(openstack.bed)}


@pytest.fixture(scope="module")
def stormed(
    openstack: OpenStack, reached: dict[str, str | None], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stormed]:
    home = Home(tmp_path_factory.mktemp("stormed"))
    settings = ("parameters.quiet=2", f"parameters.traces={openstack.traces}")
    yield run_storms(home, small=1, large=3, blocks=1, env=reached, settings=settings)
    home.nothing_left()


def test_storms_are_run_and_nothing_is_left(stormed: Stormed, looking: Looking) -> None:
    stormed.check(looking)


def test_what_stands_beside_a_storm_agrees_with_it(openstack: OpenStack, stormed: Stormed) -> None:
    check_beside(stormed.home, openstack.bed.root)


def test_an_image_is_downloaded_from_its_glance(
    contend: Home, looking: Looking, reached: dict[str, str | None]
) -> None:
    """Client and server are both here."""
    check_glance(contend, looking, reached)


# Its control plane as it fills, a few of several kinds


@pytest.fixture(scope="module")
def grown(
    looking: Looking, reached: dict[str, str | None], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    """By kind. There is no cinder here."""
    home = Home(tmp_path_factory.mktemp("grown"))
    analysis = check_growth(
        home,
        looking,
        kinds={"subnet": 3, "user": 3, "volume": 0},
        step=1,
        rounds=1,
        modes="[quiet,neighbour]",
        env=reached,
    )
    yield {kind["kind"]: kind for kind in analysis["growth"]["kinds"]}
    home.nothing_left()


def test_an_administrator_can_make_a_second_tenant(grown: dict[str, Any]) -> None:
    assert grown["subnet"]["modes_left_out"] == {}


def test_a_neighbour_floods_while_it_fills(grown: dict[str, Any]) -> None:
    assert grown["subnet"]["flooded_per_s"]["neighbour"] > 0


def test_a_neighbour_that_may_make_no_users_is_left_out(grown: dict[str, Any]) -> None:
    assert "403" in grown["user"]["modes_left_out"]["neighbour"]


# A compute of the libvirt driver beside the fake one


@dataclass(frozen=True)
class Guest:
    """One of two that were booted; the other was deleted."""

    id: str
    address: str


@pytest.fixture(scope="module")
def stays(openstack: OpenStack) -> Guest:
    """It is left running: the end of the bed is its end."""
    try:
        hypervisor.need(openstack.bed)
    except ContendError as error:
        need(False, f"{error.message} ({error.hint})")
    openstack("up", *openstack.traced, "--libvirt=1")
    return Guest(*run_on(openstack.bed, GUEST).split())


def test_a_guest_serves(openstack: OpenStack, stays: Guest) -> None:
    until = time.monotonic() + 180
    while not served(stays.address) and time.monotonic() < until:
        time.sleep(0.1)
    said = hypervisor.console(openstack.bed, stays.id)
    assert served(stays.address) == guest.SAYS + b"\n", said.decode(errors="replace")


def test_a_guest_has_its_name_from_the_config_drive(openstack: OpenStack, stays: Guest) -> None:
    wait_for(
        lambda: guest.SAYS + b" stays" in hypervisor.console(openstack.bed, stays.id),
        "name of the guest",
        180,
    )


@pytest.mark.usefixtures("stays")
def test_a_guest_that_was_deleted_is_gone(openstack: OpenStack) -> None:
    assert len(hypervisor.domains(openstack.bed)) == 1


@pytest.mark.usefixtures("stays")
def test_guests_go_on_when_what_is_up_is_brought_up(openstack: OpenStack) -> None:
    bed = openstack.bed
    (running,) = (pid for pid, service in bed.processes().items() if service == GUESTS)
    openstack("up", *openstack.traced)
    assert running in bed.processes()


# It goes. All that is asserted was looked at when it did


@dataclass(frozen=True)
class Gone:
    """lost: the states after two of its parts were killed, and the exit code of `status` then; then `down` was said."""

    lost: dict[str, dict[str, Any]]
    lost_code: int
    answered: list[int]
    answer: list[int]
    links: set[str]
    stranger_ended: int | None


@pytest.fixture(scope="module")
def gone(openstack: OpenStack) -> Gone:
    bed = openstack.bed
    links = {name for _, name in socket.if_nameindex()}
    stranger = subprocess.Popen(["sleep", "300"], cwd="/", start_new_session=True)
    try:
        rows = openstack.status()
        for name in ("neutron", "mariadb"):
            os.kill(rows[name]["pid"], signal.SIGKILL)
        lost, lost_code = openstack.status(), openstack("status", check=False).returncode
        answered = [port for port in bed.ports.values() if answers(port)]
        openstack("down", "--wipe")
        return Gone(
            lost,
            lost_code,
            answered,
            [port for port in bed.ports.values() if answers(port)],
            links,
            stranger.poll(),
        )
    finally:
        stranger.kill()
        stranger.wait()


def test_a_part_that_is_lost_is_told(gone: Gone) -> None:
    assert gone.lost["mariadb"]["state"] == "ended"
    assert gone.lost_code == 1


def test_down_ends_what_a_lost_part_left_behind(openstack: OpenStack, gone: Gone) -> None:
    assert gone.answered, "others still answered"
    assert gone.answer == []
    assert processes_below(openstack.bed.root) == []


def test_down_ends_nothing_of_others(gone: Gone) -> None:
    assert gone.stranger_ended is None


@pytest.mark.usefixtures("gone")
def test_down_removes_its_directory(openstack: OpenStack) -> None:
    assert not openstack.bed.root.exists()


def test_down_removes_its_network(openstack: OpenStack, gone: Gone) -> None:
    assert network.left(openstack.bed) == []
    # Links of tests beside this one go too.
    wait_for(
        lambda: {name for _, name in socket.if_nameindex()} <= gone.links, "host without the bed's links"
    )


@pytest.mark.usefixtures("gone")
def test_where_no_bed_is_status_says_so(openstack: OpenStack) -> None:
    assert openstack("status", check=False).returncode == 3


# What it did is on record: the boots, from the API's request to the hypervisor's host, in Nova as it comes


@pytest.fixture(scope="module")
def record(openstack: OpenStack, gone: Gone) -> Events:  # what is recorded is whole when all have ended
    return read(openstack.traces, jobs="POST /v2.1/servers")


def test_each_part_of_a_boot_is_on_record(record: Events) -> None:
    assert len(record.jobs) > 1
    spans = {(row["name"], row["process"]) for row in record.spans.to_pylist()}
    assert spans >= {
        ("POST /v2.1/servers", "nova-api"),
        ("rpc cast schedule_and_build_instances", "nova-api"),
        ("rpc serve schedule_and_build_instances", "nova-conductor"),
        ("rpc serve select_destinations", "nova-scheduler"),
        ("rpc serve build_and_run_instance", "nova-compute"),
        (BUILD, "nova-compute"),
        ("POST /v2.0/ports", "neutron"),
        ("COMMIT", "nova-conductor"),
    }, sorted(spans)


def test_locks_are_on_record(record: Events) -> None:
    locks = {row["name"]: row["holds"] for row in record.locks.to_pylist()}
    assert locks["compute_resources"] > 0 and locks["refresh_cache-*"] > 0


def test_pools_are_on_record(record: Events) -> None:
    pools = {(row["name"], row["process"]) for row in record.pools.to_pylist()}
    # What nova does with its instances, and what its service serves: a pool each, of one class.
    assert ("MainProcess.long_task", "nova-compute") in pools, pools
    assert any(name.startswith("ThreadPoolExecutor (oslo_messaging/") for name, _ in pools), pools
