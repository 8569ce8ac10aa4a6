"""A guest that a libvirt of the test's own starts: what it is given, what libvirt says of it, and its network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest

from contend import names
from contend.errors import CannotHonour
from contend.platforms import cgroups, network, procfs
from contend.platforms.base import HostSpec, Limit
from contend.platforms.guests import virsh
from contend.platforms.guests.needs import need as need_guests
from contend.platforms.vm import VmPlatform
from contend.store.ledger import Ledger, leftovers
from contend.testbed import virt
from support.command_line import Home
from support.platform_cases import shell
from support.prerequisites import need

pytestmark = pytest.mark.one_of("strays")

SERVER = """
import socket
with socket.create_server(("", 7007)) as server:
    connection, _ = server.accept()
    connection.sendall(b"from inside")
"""


@pytest.fixture
def uri() -> Iterator[str]:
    need(os.geteuid() == 0, "root")
    try:
        need_guests()
        virt.need()
    except CannotHonour as error:
        need(False, f"{error.message} ({error.hint})")
    with tempfile.TemporaryDirectory(prefix="contend-virt-") as name:  # a socket's path is short
        with virt.running(Path(name)) as found:
            yield found
        assert virt.guests(Path(name)) == {}


def test_a_container_in_a_guest_in_a_network_namespace(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run, cpu = f"by-libvirt-{os.getpid()}", max(os.sched_getaffinity(0))
    with Ledger(tmp_path / "ledger.ndjson") as ledger:
        networks = network.Networks(run, ledger)
        platform = VmPlatform(run, ledger, directory=tmp_path, hypervisor=uri, contained=True)
        try:
            pair = networks.pair("victim")
            limit = Limit(cpus=0.5, memory_bytes=256 << 20, iops=900)
            spec = HostSpec(
                "guest", "victim", (cpu,), limit, netns=pair.server_ns, directory=tmp_path, ports=(7007,)
            )
            host = platform.prepare(spec)
            got, told = host.honoured(), platform.describe()
            described = virsh.ask(uri, "dumpxml", f"contend-{run}-guest")
            assert described.code == 0, described.err
            check_machine(ElementTree.fromstring(described.out), cpu)
            (pid,) = host.pids()
            group = host.cgroup()
            assert pid in (cgroups.members(group) if group else procfs.marked(run, member="guest"))
            server = host.run(shell(f"exec python3 -c '{SERVER}'", tmp_path))
            assert fetched(pair, 7007) == b"from inside"
            assert server.wait(60).code == 0, (tmp_path / "err").read_text()
        finally:
            platform.close()
            networks.close()
    assert str(got["mechanism"]).startswith("container (crun) in a virtual machine (QEMU by libvirt, ")
    assert (got["cpus"], got["quota_cpus"], got["memory_limit"]) == ([cpu], 0.5, 256 << 20)
    assert got["limits"]["disk.iops_rd"] == "900"  # type: ignore[index]
    assert (got["libvirt"], got["netns"]) == (uri, pair.server_ns)
    assert told["libvirt"]["uri"] == uri  # type: ignore[index]
    assert virsh.ask(uri, "list", "--all", "--name").out.split() == []
    assert procfs.marked(run) == set()
    assert leftovers(tmp_path / "ledger.ndjson") == []
    assert list(Path("/var/tmp").glob(f"contend-{names.short_hash(run)}-*")) == []


def check_machine(domain: ElementTree.Element, cpu: int) -> None:
    """What libvirt says of it, once it runs."""
    (pinned,) = domain.findall("cputune/vcpupin")
    assert pinned.get("cpuset") == str(cpu)
    assert domain.findtext("devices/disk/iotune/read_iops_sec") == "900"
    ports = [target.get("name") for target in domain.findall("devices/channel/target")]
    assert ports == ["agent", "inner"]


def fetched(pair: network.NetPair, port: int, within_s: float = 60.0) -> bytes:
    """What a server in the guest says to a client in the pair's other namespace."""
    client = (
        "import socket, sys; s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20); "
        "sys.stdout.write(s.recv(99).decode())"
    )
    words = [
        *("ip", "netns", "exec", pair.client_ns),
        *(sys.executable, "-c", client, pair.server_address, str(port)),
    ]
    until = time.monotonic() + within_s
    while True:
        done = subprocess.run(words, capture_output=True, timeout=60, check=False)
        if done.returncode == 0 or time.monotonic() > until:
            return done.stdout or done.stderr
        time.sleep(0.2)


OVERHEAD = ("run", "platform-overhead", "--set", "app=true", "--set", "sizes=1", "--set", "platforms=vm")


def test_a_libvirt_that_does_not_answer_is_one_error(contend: Home) -> None:
    try:
        need_guests()
        virsh.need_program()
    except CannotHonour as error:
        need(False, f"{error.message} ({error.hint})")
    absent = f"hypervisor=qemu+unix:///system?socket={contend.path}/none"
    contend(*OVERHEAD, "--set", absent).error(
        2, "no libvirt answers", "/none", "hypervisor=qemu, which needs none"
    )
    programs = contend.path / "bin"
    programs.mkdir()
    for name in ("qemu-system-x86_64", "qemu-img", "true"):
        (programs / name).symlink_to(shutil.which(name) or f"/no/{name}")
    said = contend(*OVERHEAD, "--set", "hypervisor=libvirt", env={"PATH": str(programs)})
    said.error(2, "virsh was not found", "apt-get install libvirt-clients")
    assert contend.run_directories() == []
