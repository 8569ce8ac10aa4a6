"""The test bed: a real OpenStack comes up, recorded, boots a server, survives the loss of a part, and leaves nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from contend.contention.events import read
from contend.errors import ContendError
from contend.testbed.lab import broker
from contend.testbed.openstack import guest, hypervisor, network
from contend.testbed.openstack.bed import CLOUD, GUESTS, Bed, answers
from contend.testbed.openstack.cloud import BUILD, variables
from support.clouds import Looking, check_beside, check_glance, check_growth, check_storms
from support.command_line import Home
from support.prerequisites import need

pytestmark = pytest.mark.system

COMMAND = [sys.executable, "-P", "-m", "contend.testbed.openstack"]
# What a boot with a network takes, as small as it can be.
SMALL = ["--computes=1", "--web-workers=1", "--notifications", "--without=volume", "--without=orchestration"]
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


def openstack(root: Path, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, "--root", str(root), *words], capture_output=True, text=True, timeout=900
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def states(root: Path) -> dict[str, dict[str, Any]]:
    told = json.loads(openstack(root, "status", "--json", check=False).stdout)
    return {row["service"]: row for row in told["services"]}


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


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    need(shutil.which("mariadbd", path="/usr/sbin:/usr/local/sbin:" + os.environ["PATH"]), "mariadb-server")
    need(broker.server(), "RabbitMQ: apt-get install rabbitmq-server")
    place = tmp_path_factory.mktemp("openstack") / "bed"
    try:
        yield place
    finally:
        openstack(place, "down", "--wipe", check=False)


def test_servers_boot_on_a_bed_that_comes_and_goes(root: Path, contend: Home) -> None:
    traces = root.parent / "traces"
    traced = ("--traced", str(traces))
    printed = openstack(root, "up", *SMALL, *traced).stdout
    bed = Bed.load(root)
    assert bed is not None
    assert str(bed.clouds_yaml) in printed

    links = [name for _, name in socket.if_nameindex()]
    # Nothing is done twice.
    before = {name: row["pid"] for name, row in states(root).items()}
    openstack(root, "up", *traced)
    rows = states(root)
    assert {name: row["pid"] for name, row in rows.items()} == before
    assert {row["state"] for row in rows.values()} == {"up"}
    assert {"keystone", "glance", "placement", "neutron", "nova-api", "nova-compute-fake-1"} < set(rows)

    assert json.loads(run_on(bed, BOOT)) == {"status": "ACTIVE", "addresses": ["net"], "left": 0, "ports": 0}

    # Storms on it, from the command line to the report.
    looking = Looking(CLOUD, str(bed.clouds_yaml))
    told_of = variables(bed)
    assert all(value in printed for value in told_of.values())
    settings = ("parameters.quiet=2", f"parameters.traces={traces}")
    check_storms(contend, looking, small=1, large=3, blocks=1, env={**told_of}, settings=settings)
    check_beside(contend, root)

    # A download from its glance, whose client and server are both here.
    check_glance(contend, looking, {**told_of})

    # Its control plane as it fills, a few of several kinds; there is no cinder here.
    grown = check_growth(
        contend,
        looking,
        kinds={"subnet": 3, "user": 3, "volume": 0},
        step=1,
        rounds=1,
        modes="[quiet,neighbour]",
        env={**told_of},
    )
    kinds = {kind["kind"]: kind for kind in grown["growth"]["kinds"]}
    assert kinds["subnet"]["modes_left_out"] == {}, "an administrator can make a second tenant"
    assert kinds["subnet"]["flooded_per_s"]["neighbour"] > 0
    assert "403" in kinds["user"]["modes_left_out"]["neighbour"], "who may make no users"

    _has_real_guests(bed, traced)

    # A part that is lost is told, and what it leaves behind is ended too.
    stranger = subprocess.Popen(["sleep", "300"], cwd="/", start_new_session=True)
    rows = states(root)
    for name in ("neutron", "mariadb"):
        os.kill(rows[name]["pid"], signal.SIGKILL)
    lost = states(root)
    assert lost["mariadb"]["state"] == "ended"
    assert openstack(root, "status", check=False).returncode == 1
    ports = [port for port in bed.ports.values() if answers(port)]
    assert ports
    openstack(root, "down", "--wipe")
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()
    assert processes_below(root) == []
    assert [port for port in bed.ports.values() if answers(port)] == []
    assert not root.exists()
    assert [name for _, name in socket.if_nameindex() if name not in links] == []
    assert network.left(bed) == []
    assert openstack(root, "status", check=False).returncode == 3

    _is_on_record(traces)


def _has_real_guests(bed: Bed, traced: Sequence[str]) -> None:
    """With a compute of the libvirt driver beside the fake one. One of its guests is left running."""
    try:
        hypervisor.need(bed)
    except ContendError as error:
        need(False, f"{error.message} ({error.hint})")
    openstack(bed.root, "up", *traced, "--libvirt=1")
    server, address = run_on(bed, GUEST).split()
    until = time.monotonic() + 180
    while not served(address) and time.monotonic() < until:
        time.sleep(0.1)
    said = hypervisor.console(bed, server)
    assert served(address) == guest.SAYS + b"\n", said.decode(errors="replace")
    assert guest.SAYS + b" stays" in said, "the guest has its name from the config drive"
    assert len(hypervisor.domains(bed)) == 1
    (running,) = (pid for pid, service in bed.processes().items() if service == GUESTS)
    openstack(bed.root, "up", *traced)
    assert running in bed.processes(), "guests go on"


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


def _is_on_record(traces: Path) -> None:
    """The boots, from the API's request to the hypervisor's host, in Nova as it comes."""
    told = read(traces, jobs="POST /v2.1/servers")
    assert len(told.jobs) > 1
    spans = {(row["name"], row["process"]) for row in told.spans.to_pylist()}
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
    locks = {row["name"]: row["holds"] for row in told.locks.to_pylist()}
    assert locks["compute_resources"] > 0 and locks["refresh_cache-*"] > 0
    pools = {(row["name"], row["process"]) for row in told.pools.to_pylist()}
    # What nova does with its instances, and what its service serves: a pool each, of one class.
    assert ("MainProcess.long_task", "nova-compute") in pools, pools
    assert any(name.startswith("ThreadPoolExecutor (oslo_messaging/") for name, _ in pools), pools
