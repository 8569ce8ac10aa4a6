"""Trials over real SSH, with iperf3 and Python at both ends: two servers on addresses of the loopback device stand for
instances. What a cloud is needed for is in tests/accept/test_placement_cloud.py."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contend.clouds.instances import reach
from contend.clouds.instances.placed import Placed
from contend.clouds.instances.reach import Way
from contend.errors import HostFailed, TrialFailed
from contend.workloads.drivers.placement import instances as trial
from contend.workloads.drivers.placement.trial import Traffic
from support.instances import Instances
from support.prerequisites import need

CLIENT, SERVER = "127.0.71.2", "127.0.71.3"


@pytest.fixture
def instances(tmp_path: Path) -> Iterator[Instances]:
    need(os.geteuid() == 0, "root, to listen on port 22")
    need(shutil.which("iperf3"), "iperf3")
    made = Instances(tmp_path)
    try:
        yield made
    finally:
        made.end()


def is_ready(to: Placed, way: Way) -> Placed:
    return asyncio.run(reach.ready("c1", to, way, install=False, within_s=5))


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_a_trial_between_two_ends(instances: Instances, protocol: str) -> None:
    client, server = (is_ready(instances.start(address), instances.way) for address in (CLIENT, SERVER))
    assert client.key != server.key, "each has its host key on record"
    asked = Traffic("udp" if protocol == "udp" else "tcp", 1400, 1.0, 200.0, 7, 20571)
    told = trial.run([(("c1", client), ("s1", server))], asked, instances.way)
    assert told["throughput"]["bytes_per_s"] > 1e6
    assert told["answered"] == 1.0
    assert 0 < told["latency_s"]["p50"] <= told["latency_s"]["p99"] < 1.0
    assert 120 < told["due"] < 290
    assert ("delivered" in told) == (protocol == "udp")
    assert left() == []


def test_two_pairs_at_once_are_added_up(instances: Instances) -> None:
    ends = [is_ready(instances.start(f"127.0.71.{n}"), instances.way) for n in (2, 3, 4, 5)]
    asked = Traffic("tcp", 1400, 1.0, 100.0, 7, 20573)
    pairs = [(("c1", ends[0]), ("s1", ends[1])), (("c2", ends[2]), ("s2", ends[3]))]
    told = trial.run(pairs, asked, instances.way)
    by_pair = told["throughput"]["by_pair"]
    assert len(by_pair) == 2 and sum(by_pair) == pytest.approx(told["throughput"]["bytes_per_s"])


def test_what_is_missing_is_named_with_what_to_do(instances: Instances, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "python3", "head", "cut"):
        (tools / name).symlink_to(shutil.which(name) or "")
    to = instances.start(CLIENT, path=str(tools))
    with pytest.raises(HostFailed, match="c1 has no iperf3") as refused:
        is_ready(to, instances.way)
    assert "parameters.install=true" in refused.value.hint


def test_another_host_key_at_the_same_address_is_refused(instances: Instances) -> None:
    first = is_ready(instances.start(CLIENT), instances.way)
    instances.end()
    instances.start(CLIENT)
    with pytest.raises(HostFailed, match="another host key"):
        asyncio.run(reach.connect("c1", first, instances.way))


def test_an_instance_that_is_not_there_is_told_with_ways_to_reach_it(instances: Instances) -> None:
    with pytest.raises(HostFailed, match=r"cannot be reached at 127\.0\.71\.9") as refused:
        is_ready(Placed("i", "127.0.71.9", "127.0.71.9", "h", "", "n"), instances.way)
    assert "external" in refused.value.hint and "ssh_config" in refused.value.hint


def test_a_server_that_cannot_listen_fails_the_trial_in_its_words(instances: Instances) -> None:
    client, server = (is_ready(instances.start(address), instances.way) for address in (CLIENT, SERVER))
    taken = server._replace(address="192.0.2.1")  # no address of this host's
    with pytest.raises(TrialFailed):
        asked = Traffic("tcp", 1400, 1.0, 100.0, 7, 20575)
        trial.run([(("c1", client), ("s1", taken))], asked, instances.way)
    assert left() == []


def left(within_s: float = 2.0) -> list[int]:
    """What still serves on the ports of these tests, after a moment to end."""
    until = time.monotonic() + within_s
    while (found := _serving()) and time.monotonic() < until:
        time.sleep(0.05)
    return found


def _serving() -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.startswith(b"2057") for word in line):
            found.append(int(process.name))
    return found
