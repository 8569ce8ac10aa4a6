"""Request → first served on an OpenStack with real guests: their own answers by TCP and HTTP, one that never answers, and
nothing left after kills. Guests are emulated: counts are asserted here, and no times.

On a bed of the test's own with the libvirt driver. A quarter of an hour on two processors that have nothing else to do.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from contend.errors import ContendError
from contend.store.ledger import leftovers
from contend.testbed import virt
from contend.testbed.openstack import guest, hypervisor, network
from contend.testbed.openstack.bed import CLOUD, Bed
from contend.testbed.openstack.cloud import variables
from support.clouds import STORM, Looking, bed_command, own_bed
from support.command_line import Home
from support.prerequisites import need

pytestmark = pytest.mark.accept

N = 3
WITHIN_S = 240
# An image as `guest` is, but for those of its servers that are the third of their storm.
SILENT = """
import openstack
cloud = openstack.connect()
known = cloud.image.find_image("guest")
cloud.create_image("third-is-silent", data=b"\\0" * 1024, disk_format="raw", container_format="bare", wait=True,
    validate_checksum=False, kernel_id=known.kernel_id, ramdisk_id=known.ramdisk_id, img_config_drive="mandatory",
    os_command_line=known.os_command_line + " silent=*-2")
"""


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    place = tmp_path_factory.mktemp("serve") / "bed"
    try:
        hypervisor.need(Bed(place, "", {}))
    except ContendError as error:
        need(False, f"{error.message} ({error.hint})")
    links = links_of_this_host()
    with own_bed(place, "--computes=0", "--libvirt=1", "--web-workers=1", "--notifications") as found:
        yield found
        # Whatever was killed, with guests that are up.
        for pid in found.processes():
            os.kill(pid, signal.SIGKILL)
    assert network.left(found) == []
    assert virt.guests(found.libvirt) == {}
    assert links_of_this_host() <= links


def links_of_this_host() -> set[str]:
    return {name for _, name in socket.if_nameindex() if name.startswith(("tap", "ctdos"))}


@pytest.mark.parametrize("service", [f"tcp:{guest.PORTS[0]}", f"http:{guest.PORTS[1]}/"])
def test_when_guests_serve_is_told_beside_active(bed: Bed, contend: Home, service: str) -> None:
    storms, analysis = run_storms(bed, contend, service, "guest")
    for storm in storms:
        serving = storm["serving"]
        assert (serving["answered"], serving["at_once"], serving["timed_out"]) == (N, 0, 0)
        assert storm["median_s"] < serving["median_s"] <= serving["p90_s"] <= serving["max_s"]
        assert serving["guest_s"] > 0 and serving["width_s"] > 0
        for server in storm["servers"]:
            low, high = server["served_s"]
            assert server["sent_s"] <= low < high
            assert high > server["active_s"][0], "it answers before libvirt has started it"
    (size,) = analysis["storms"]["sizes"]
    assert size["serving"]["levels"].keys() == {"median", "p90", "max", "after_active", "guest", "width"}
    phases = size["phases_s"]
    assert {"scheduling", "networking", "spawning", "guest"} <= phases.keys()
    assert phases["guest"] == pytest.approx(sum(s["serving"]["guest_s"] for s in storms) / len(storms))


def test_a_guest_that_never_answers_is_told_and_counted(bed: Bed, contend: Home) -> None:
    run_on(bed, SILENT)
    storms, analysis = run_storms(bed, contend, f"tcp:{guest.PORTS[0]}", "third-is-silent", within_s=120)
    for storm in storms:
        serving = storm["serving"]
        assert (serving["answered"], serving["at_once"], serving["timed_out"]) == (N - 1, 0, 1)
        silent = [server["name"] for server in storm["servers"] if server["served_s"] is None]
        assert silent == [server["name"] for server in storm["servers"] if server["name"].endswith("-2")]
        assert storm["failed"] == 0, "it is ACTIVE all the same"
    (size,) = analysis["storms"]["sizes"]
    assert size["serving"]["timed_out"] == len(storms)
    assert size["serving"]["levels"] == {} and "guest" not in size["phases_s"]
    said = contend("report", str(contend.the_run())).fine().out
    assert f"{len(storms)} of {N * len(storms)} guests did not answer in time" in " ".join(said.split())


def test_after_a_kill_destroy_leaves_no_guest(bed: Bed, contend: Home) -> None:
    looking = Looking(CLOUD, str(bed.clouds_yaml))
    words = settings(f"tcp:{guest.PORTS[0]}", "guest", WITHIN_S)
    process = contend.start(
        *STORM, *words, env={**variables(bed)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    assert virt.guests(bed.libvirt) == {}
    wait(lambda: len(virt.guests(bed.libvirt)) > 0, "no guest came up")
    process.kill()  # first: it would tidy up after the others
    process.wait()
    for pid, _ in contend._processes():
        os.kill(pid, signal.SIGKILL)
    run = contend.the_run()
    assert looking.names(f"contend-{run.name}") != []
    contend("destroy", str(run), timeout=300, env={**variables(bed)}).fine()
    assert looking.names(f"contend-{run.name}") == []
    assert leftovers(run / "ledger.ndjson") == []
    # nova has accepted to delete them: it does so a moment later.
    wait(lambda: not virt.guests(bed.libvirt) and not taps(bed), "guests or taps are left")


def test_the_bed_finds_its_guests_again_after_kills(bed: Bed) -> None:
    """The agent and libvirt are killed while a guest is up: `up` has it go on, and the next one is served too."""
    made = run_on(bed, BOOT.format(name="stays")).split()
    wait(lambda: answers(made[1]), "the guest does not answer")
    before = virt.guests(bed.libvirt)
    for pid, service in bed.processes().items():
        if service in (network.SERVICE, hypervisor.SERVICE):
            os.kill(pid, signal.SIGKILL)
    bed_command(bed.root, "up")
    assert virt.guests(bed.libvirt) == before
    assert answers(made[1])
    other = run_on(bed, BOOT.format(name="comes")).split()
    wait(lambda: answers(other[1]), "the guest that came after does not answer")
    assert len(taps(bed)) == 2


BOOT = """
import openstack
cloud = openstack.connect()
image, flavour = cloud.image.find_image("guest"), cloud.compute.find_flavor("tiny")
network = cloud.network.find_network("net")
server = cloud.compute.create_server(
    name="{name}", image_id=image.id, flavor_id=flavour.id, networks=[{{"uuid": network.id}}])
server = cloud.compute.wait_for_server(server, interval=0.2, wait=180)
print(server.id, next(iter(server.addresses.values()))[0]["addr"])
"""


def settings(service: str, image: str, within_s: float) -> list[str]:
    asked = (
        f"n=[{N}]",
        "network=net",
        "measure.blocks=1",
        "parameters.quiet=1",
        f"parameters.image={image}",
        f"parameters.served={service}",
        f"parameters.served_within={within_s}",
        "timeout=20m",
    )
    return [word for setting in asked for word in ("--set", setting)]


def run_storms(
    bed: Bed, contend: Home, service: str, image: str, within_s: float = WITHIN_S
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The documents of a run's counted storms, and its analysis; nothing of it is left."""
    words = settings(service, image, within_s)
    analysis: dict[str, Any] = (
        contend(*STORM, *words, "--json", timeout=1800, env={**variables(bed)}).fine().json()
    )
    run = contend.the_run()
    assert Looking(CLOUD, str(bed.clouds_yaml)).names(f"contend-{run.name}") == []
    assert leftovers(run / "ledger.ndjson") == []
    wait(lambda: not virt.guests(bed.libvirt) and not taps(bed), "guests or taps are left")
    return [json.loads(file.read_text()) for file in sorted(run.glob("outputs/*/storm.json"))], analysis


def taps(bed: Bed) -> list[str]:
    """What stands on the bed's bridge, but for the way to this host."""
    words = ["ip", "-n", network.namespace(bed), "-j", "link", "show", "master", network.BRIDGE]
    told = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout or "[]")
    return [link["ifname"] for link in told if link["ifname"].startswith("tap")]


def answers(address: str) -> bool:
    try:
        with socket.create_connection((address, guest.PORTS[1]), timeout=1):
            return True
    except OSError:
        return False


def run_on(bed: Bed, script: str) -> str:
    """What a script of the bed's own Python prints, as its administrator."""
    env = {**os.environ, "OS_CLIENT_CONFIG_FILE": str(bed.clouds_yaml), "OS_CLOUD": CLOUD}
    env.pop("PYTHONPATH", None)
    words = [str(bed.python), "-c", script]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def wait(ready: Callable[[], bool], what: str, limit_s: float = 240) -> None:
    until = time.monotonic() + limit_s
    while not ready():
        assert time.monotonic() < until, what
        time.sleep(0.05)
