"""Five hundred servers in one storm on a real cloud, as `contend run boot-storm` does one: counts, and what it costs.

Needs a cloud without a quota in the way (`testbed/openstack up --without volume --without orchestration --computes 8`
and those of the variables that it prints that name the cloud; its quotas are unlimited). Several computes: a boot asks
placement for the allocations of all servers on its host. CONTEND_TEST_SERVERS says how many.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from contend.clouds import openstack
from contend.clouds.openstack import KINDS, Cloud, Record
from contend.clouds.storm import watch
from contend.clouds.storm.document import document
from contend.clouds.storm.servers import Servers
from contend.clouds.storm.storm import MOST_AT_ONCE, StormOptions, storm
from contend.store.ledger import leftovers, read_rows
from contend.workloads.generators.cloud import server_of
from results.files import save
from support.clouds import Looking, need_cloud
from support.generators import parameters_file

pytestmark = pytest.mark.accept

COMMAND = [sys.executable, "-P", "-m", "contend.workloads.generators", "boot-storm"]
WITHIN_S = 900


@pytest.fixture(scope="module")
def looking() -> Looking:
    return Looking(need_cloud())


def test_many_servers_in_one_storm(looking: Looking, tmp_path: Path) -> None:
    n = int(os.environ.get("CONTEND_TEST_SERVERS", "500"))
    run = tmp_path / "boot-storm-scale"
    work, out = run / "work/storm", run / "outputs/000001/storm.json"
    for directory in (work, out.parent):
        directory.mkdir(parents=True)
    subprocess.run([*COMMAND, "prepare", parameters_file("boot-storm", work, work)], check=True)
    asked = parameters_file("boot-storm", work, out.parent, n=n, within=WITHIN_S)
    began = time.monotonic()
    with subprocess.Popen([*COMMAND, "storm", asked]) as client:
        threads, memory = watched(client.pid)
    took_s = time.monotonic() - began
    assert client.returncode == 0
    told = json.loads(out.read_text())
    cpu_s = told["process_cpu_s"]
    print(
        f"\n{n} servers: {told['served']} ACTIVE, {told['failed']} failed, median {told['median_s']:.1f} s, makespan"
        f" {told['makespan_s']:.1f} s, deleted in {told['delete_makespan_s']:.1f} s, {took_s:.0f} s in all\n"
        f"client: {cpu_s:.2f} CPU-s, {cpu_s * 100 / n:.2f} per 100 boots ({told['client_cpu_s']:.2f} while they booted),"
        f" {told['polls']} polls, interval {told['width_s']:.2f} s wide, {threads} threads, {memory >> 20} MiB at most\n"
        f"requests and troubles: {told['counts']}"
    )
    found = {
        "servers": n,
        "active": told["served"],
        "failed": told["failed"],
        "left": sum(told["left"].values()),
        "disagreeing_stamps": told["disagree"],
        "median_s": told["median_s"],
        "makespan_s": told["makespan_s"],
        "deleted_s": told["delete_makespan_s"],
        "client_cpu_s": cpu_s,
        "client_cpu_s_per_100": cpu_s * 100 / n,
        "while_booting_cpu_s": told["client_cpu_s"],
        "polls": told["polls"],
        "width_median_s": told["width_s"],
        "requests": told["counts"]["requests"],
        "threads": threads,
        "memory_mib": memory >> 20,
    }
    save("boot-storm-scale", found)
    assert (told["served"], told["failed"], told["left"]) == (n, 0, {})
    assert told["disagree"] == 0
    assert looking.names("contend-boot-storm-scale") == []
    assert leftovers(run / "ledger.ndjson") == []
    announced = [r for r in read_rows(run / "ledger.ndjson") if r["event"] == "intend"]
    assert len({row["name"] for row in announced}) == n
    assert threads <= MOST_AT_ONCE + 1, "one poller, and a few that send"
    assert memory < 200 << 20
    # Requests that are not polls: one for each server, one for its deletion, one for its record, and a few.
    assert (
        told["counts"]["requests"] < 3 * n + 2 * told["polls"] + told["counts"].get("no answer", 0) * 5 + 400
    )


def watched(pid: int) -> tuple[int, int]:
    """Most threads at a time, and peak of resident memory in bytes, until that child has ended."""
    most = peak = 0
    while True:
        try:
            lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
        except OSError:
            break
        told = dict(line.split(":", 1) for line in lines if ":" in line)
        if "VmHWM" not in told:  # it has ended, and waits to be asked
            break
        most = max(most, int(told["Threads"]))
        peak = int(told["VmHWM"].split()[0]) << 10
        time.sleep(0.1)
    return most, peak


def test_listings_of_many_pages(looking: Looking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As beyond the thousand that nova gives at once, on a page of two."""
    whole = len(looking.names("contend-paged-"))
    monkeypatch.setattr(openstack, "PAGE", 2)
    monkeypatch.setattr(watch, "PAGE", 2)
    wanted = server_of(looking.api, "", "", "none")
    seen: list[int] = []

    def look() -> None:
        cloud = Cloud(looking.api, "paged")
        while not done.is_set():
            seen.append(len(cloud.list(KINDS["server"], "contend-paged-")))
            time.sleep(0.2)

    done = threading.Event()
    beside = threading.Thread(target=look)
    beside.start()
    try:
        with Record(tmp_path / "ledger.ndjson", run="paged", cloud="c", config="") as record:
            servers = Servers(looking.api, record, "contend-paged-1-ab", wanted)
            happened = storm(servers, "contend-paged-1-ab", StormOptions(7))
    finally:
        done.set()
        beside.join()
    told = document(happened)
    assert (told["served"], told["disagree"], told["left"]) == (7, 0, {})
    assert max(seen) == 7
    assert looking.names("contend-paged-") == [] and whole == 0
    assert leftovers(tmp_path / "ledger.ndjson") == []
