"""`contend run network-placement` on this host, in real namespaces: packets go the way they should, a slow router is found,
and nothing of it stays."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import jsonschema
import pytest

from contend.analysis.schema import analysis_schema
from contend.platforms import network
from contend.platforms.guests import respond
from contend.store.ledger import Record, leftovers
from contend.testbed.placement import ovs
from contend.testbed.placement.bed import Bed
from contend.testbed.placement.layout import UNDERLAY, WAY, Encapsulation, Layout, Where
from contend.workloads.drivers.placement import trial
from support.command_line import Home, check_files, rows, wait_for
from support.prerequisites import Cannot, cannot, need

# What a test makes without a run is of no live one: nobody may look for strays meanwhile.
pytestmark = pytest.mark.one_of("strays")

PORT = 7001
IP_RECVTTL = 12  # linux/in.h; not in Python's socket


@pytest.fixture(scope="module", autouse=True)
def _what_it_needs() -> None:
    need(os.geteuid() == 0, "root")
    for program in ("iperf3", "ip", "tc"):
        need(shutil.which(program), program)


def make(place: Path, encapsulation: Encapsulation, pairs: int = 1) -> tuple[Bed, Path]:
    """A bed with every place, and its ledger."""
    ledger = place / "ledger.ndjson"
    layout = Layout(f"placement-{os.getpid()}-{place.name}", encapsulation)
    bed = Bed(layout, place / "bed", Record(ledger, layout.run))
    hosts: tuple[Where, ...] = ("same", "different") if encapsulation == "none" else ("different",)
    for host in hosts:
        for subnet in ("same", "different"):
            bed.up(list(layout.instances(pairs, host, subnet)))  # type: ignore[arg-type]
    return bed, ledger


@pytest.fixture(params=["none", "vxlan", "ovs"])
def bed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bed]:
    # Its package brings a service that starts from the next boot on: not for those who only run tests.
    if request.param == "ovs" and (why := ovs.missing()):
        cannot(Cannot.OPEN_VSWITCH, why)
    made, ledger = make(tmp_path, request.param)
    try:
        yield made
    finally:
        made.down()
        made.down()
    assert network.namespaces(made.layout.run) == []
    assert leftovers(ledger) == []


def packets(namespace: str, device: str) -> int:
    """That a device has sent."""
    with network.inside(namespace):
        for line in Path("/proc/thread-self/net/dev").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name.strip() == device:
                return int(rest.split()[9])
    raise AssertionError(f"no {device} in {namespace}")


def forwarded(namespace: str) -> int:
    """Packets that were routed there: ForwDatagrams of /proc/net/snmp."""
    with network.inside(namespace):
        names, values = [
            line.split()
            for line in Path("/proc/thread-self/net/snmp").read_text().splitlines()
            if line.startswith("Ip:")
        ]
    return int(values[names.index("ForwDatagrams")])


def time_to_live(server: str, address: str, client: str) -> list[int]:
    """Of ten datagrams from the client, as they arrive at the server: what a traceroute counts."""
    with network.inside(server):
        served = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with network.inside(client):
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with served, sender:
        served.setsockopt(socket.IPPROTO_IP, IP_RECVTTL, 1)
        served.bind((address, PORT))
        served.settimeout(5)
        found = []
        for _ in range(10):
            sender.sendto(b"x" * 100, (address, PORT))
            _, more, _, _ = served.recvmsg(200, socket.CMSG_SPACE(4))
            found.append(int.from_bytes(more[0][2][:4], "little"))
        return found


def test_each_place_is_reached_by_the_way_it_should_be(bed: Bed) -> None:
    layout = bed.layout
    a, _, router = layout.frame()
    hosts: tuple[Where, ...] = ("same", "different") if layout.encapsulation == "none" else ("different",)
    for host in hosts:
        for subnet in ("same", "different"):
            ends = layout.ends(1, host, subnet)  # type: ignore[arg-type]
            before = forwarded(router), packets(a, WAY)
            ttl = time_to_live(ends.server.namespace, ends.server.address, ends.client.namespace)
            routed, crossed = forwarded(router) - before[0], packets(a, WAY) - before[1]
            assert set(ttl) == ({64} if subnet == "same" else {63}), (host, subnet)
            assert (routed >= 10) == (subnet == "different"), (host, subnet, routed)
            assert (crossed >= 10) == (host == "different"), (host, subnet, crossed)
    if layout.encapsulation == "vxlan":
        assert packets(a, UNDERLAY) >= packets(a, WAY) >= 20
    # None of it is on the host.
    assert not {"eth0.contend", WAY, UNDERLAY} & {link.name for link in Path("/sys/class/net").iterdir()}


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_a_trial_of_two_pairs_between_hosts_and_subnets(protocol: respond.Protocol, tmp_path: Path) -> None:
    bed, _ = make(tmp_path, "vxlan", pairs=2)
    try:
        ends = [bed.layout.ends(number, "different", "different") for number in (1, 2)]
        pairs = [
            (
                trial.InNamespace(of.client.namespace, of.client.address),
                trial.InNamespace(of.server.namespace, of.server.address),
            )
            for of in ends
        ]
        told = trial.run(pairs, trial.Traffic(protocol, 1200, 0.5, 200.0, 1), tmp_path)
    finally:
        bed.down()
    assert told["pairs"] == 2
    assert len(told["throughput"]["by_pair"]) == 2
    assert told["throughput"]["bytes_per_s"] == pytest.approx(sum(told["throughput"]["by_pair"]))
    assert min(told["throughput"]["by_pair"]) > 1e5
    cost = told["cpu_s_per_gb"]
    assert cost["ends"] > 0 and cost["host"] > 0
    assert 0 < told["latency_s"]["p50"] <= told["latency_s"]["p99"] < 5
    assert told["answered"] > 0.5
    assert ("delivered" in told) == (protocol == "udp")
    if protocol == "udp":
        assert 0 < told["delivered"] <= 1


def test_a_server_that_stalls_shows_in_every_request_that_it_delayed() -> None:
    """An open loop: it stands still for 300 ms of a second, so a third of what was due waits for it."""
    for protocol in ("tcp", "udp"):
        served = respond.listen(protocol, "127.0.0.1")  # type: ignore[arg-type]
        thread = threading.Thread(target=_stalling, args=(served, protocol), daemon=True)
        thread.start()
        due = respond.schedule(200.0, 1.0, 5)
        told = respond.pace(
            protocol,  # type: ignore[arg-type]
            "127.0.0.1",
            served.getsockname()[1],
            message=64,
            due_ns=due,
            seconds=1.0,
        )
        thread.join(5)
        assert len(told.latencies_s) == told.due == len(due)
        delayed = sum(wait > 0.1 for wait in told.latencies_s)
        # What was due in its first 200 ms waited for more than 100.
        assert delayed > 0.1 * len(due), protocol
        assert max(told.latencies_s) > 0.25


def _stalling(served: socket.socket, protocol: str) -> None:
    import time

    with served, suppress(OSError):
        if protocol == "tcp":
            of, _ = served.accept()
            left = 40 * 64
            while left and (data := of.recv(left)):
                of.sendall(data)
                left -= len(data)
            time.sleep(0.3)
            with of:
                while data := of.recv(65536):
                    of.sendall(data)
            return
        served.settimeout(2)
        for number in range(10**6):
            data, client = served.recvfrom(65536)
            served.sendto(data, client)
            if number == 40:
                time.sleep(0.3)


# ---- the command

SHORT = (
    "protocols=tcp",
    "messages=16k",
    "pairs=1",
    "parameters.rate=200",
    "measure.target=null",
    "measure.pilot=0",
    "measure.design=pairs",
    "measure.trial=200ms",
)


@pytest.fixture
def contend(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    yield home
    home.nothing_left()


def words(blocks: int, *settings: str) -> list[str]:
    asked = [*SHORT, f"measure.blocks={blocks}", *settings]
    return ["run", "network-placement", *(word for setting in asked for word in ("--set", setting))]


def test_a_slow_router_is_found_as_the_cost_of_a_different_subnet(contend: Home) -> None:
    """`tc tbf` on the router's port of the second subnet, as soon as that is there."""
    with contend.start(*words(6, "hosts=same")) as process:
        wait_for(lambda: list(contend.runs.glob("*/work/placement/none.json")), "bed", 120)
        (router,) = [name for name in network.namespaces(contend.the_run().name) if name.endswith("-0r")]
        limit = "rate 80mbit burst 64kb latency 20ms"
        subprocess.run(
            ["ip", "netns", "exec", router, *f"tc qdisc add dev r2 root tbf {limit}".split()], check=True
        )
        out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    run = contend.the_run()
    check_files(run)
    told = json.loads((run / "findings.json").read_text())
    jsonschema.validate(told, analysis_schema())
    assert all(row["factors"]["ends"] == "namespaces of one machine" for row in rows(run))
    assert "namespaces of one machine" in " ".join(out.split())
    slow = [
        m["value"]
        for row in rows(run)
        if row["factors"]["subnet"] == "different"
        for m in row["metrics"]
        if m["name"] == "throughput"
    ]
    assert len(slow) == 6 and max(slow) < 15, "MB/s: 80 Mbit/s are 10"
    (finding,) = [f for f in told["findings"] if f["kind"] == "placement-subnet"]
    assert finding["estimate"]["high"] < 1
    claims = {claim["id"]: claim["verdict"] for claim in told["placement"]["claims"]}
    assert claims["subnet-on-one-host"] == "confirmed"
    assert claims["ten-times-on-one-host"] == "cannot tell"


def test_what_a_killed_run_made_is_removed(contend: Home) -> None:
    """SIGKILL while pairs send between hosts; all beds and what runs in them stand."""
    ways = ["none", "vxlan", *([] if ovs.missing() else ["ovs"])]
    with contend.start(*words(50, f"encapsulation=[{','.join(ways)}]")) as process:
        wait_for(lambda: any(rows(run) for run in contend.run_directories()), "trial", 120)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    left = contend.left()
    # Hosts and router, one client and four servers; of each other way, hosts and router, one client and two servers.
    assert sum(line.startswith("netns ") for line in left) == 8 + 6 * (len(ways) - 1)
    contend("destroy", str(contend.the_run())).fine()
    contend.nothing_left()
