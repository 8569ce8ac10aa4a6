"""fio over real SSH: servers on addresses of the loopback device stand for instances, loop devices for their volumes. What a
cloud is needed for is in tests/accept/test_storage_cloud.py."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from contend.clouds.instances import fio, reach
from contend.clouds.instances.placed import Placed
from contend.clouds.instances.volumes import Held
from contend.errors import HostFailed, TrialFailed
from contend.platforms import procfs
from contend.studies.scenarios import load
from contend.studies.storage import cloud_cells, cloud_pools, fio_words, pools
from contend.studies.storage.model import Storage
from contend.workloads import parameters_file
from contend.workloads.generators import on_cloud, storage_cloud
from contend.workloads.instance import resolve
from support.instances import Instances
from support.prerequisites import need

ADDRESS = "127.0.72.2"
ID = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
# Of these tests alone: contend's own workloads are called `trial`, and other tests may run some meanwhile.
JOB = f"over-ssh-{os.getpid()}"
LOAD = (
    f"fio --name={JOB} --thread --filename=DEVICE --size=16M --rw=randrw --bs=4k --ioengine=psync --time_based"
    " --runtime={} --unified_rw_reporting=1 --output-format=json"
)


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[tuple[Placed, reach.Way]]:
    need(os.geteuid() == 0, "root, to listen on port 22")
    need(shutil.which("fio"), "fio")
    made = Instances(tmp_path)
    try:
        yield made.start(ADDRESS), made.way
    finally:
        made.end()


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Held]:
    """A loop device, which says of itself whether it still is what it was."""
    need(Path("/dev/loop-control").exists(), "loop devices")
    file = tmp_path / "volume"
    file.write_bytes(b"")
    os.truncate(file, 16 * 2**20)
    said = subprocess.run(
        ["losetup", "--find", "--show", str(file)], capture_output=True, text=True, check=True
    ).stdout
    device = said.strip()
    name = Path(device).name
    yield Held(ID, "ssd", 1, "", device, f"[ $(cat /sys/block/{name}/loop/backing_file) = {file} ]")
    subprocess.run(["losetup", "--detach", device], check=True)


def counters(device: str) -> int:
    """Bytes moved since the device is there: sectors read and written."""
    told = (Path("/sys/block") / Path(device).name / "stat").read_text().split()
    return (int(told[2]) + int(told[6])) * 512


def test_a_trial_s_figures_come_back(instance: tuple[Placed, reach.Way], volume: Held) -> None:
    to, way = instance
    told = asyncio.run(fio.run("measured", to, way, LOAD.format("1s"), volume, 30))
    (job,) = told["jobs"]
    assert job["mixed"]["total_ios"] > 100 and job["error"] == 0
    assert counters(volume.device) > 100 * 4096, "and it was that device"
    assert left() == []


def test_a_device_that_is_another_now_is_not_written_to(
    instance: tuple[Placed, reach.Way], volume: Held
) -> None:
    to, way = instance
    before = counters(volume.device)
    with pytest.raises(HostFailed, match=f"no longer volume {ID}"):
        asyncio.run(fio.run("measured", to, way, LOAD.format("1s"), volume._replace(test="[ 1 = 2 ]"), 30))
    assert counters(volume.device) == before


def test_what_fio_refuses_is_told_in_its_words(instance: tuple[Placed, reach.Way], volume: Held) -> None:
    to, way = instance
    with pytest.raises(TrialFailed, match="status 1") as refused:
        asyncio.run(fio.run("measured", to, way, "fio --no-such-option", volume, 30))
    assert "no-such-option" in refused.value.hint


def test_a_neighbour_tells_what_it_has_moved_and_ends_with_who_asked_for_it(
    instance: tuple[Placed, reach.Way], volume: Held
) -> None:
    to, way = instance
    seen: list[int] = []

    async def for_a_while() -> None:
        running = asyncio.create_task(
            fio.neighbour("neighbour", to, way, LOAD.format("30d"), volume, 3600, seen.append)
        )
        until = time.monotonic() + 20
        # It tells before fio has begun, too.
        while (len(seen) < 3 or seen[-1] == seen[0]) and time.monotonic() < until:
            await asyncio.sleep(0.05)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(for_a_while())
    assert len(seen) >= 3 and seen == sorted(seen) and seen[-1] > seen[0], "counters of the disk"
    asyncio.run(fio.quiet("neighbour", to, way))
    assert left() == []


def test_after_a_kill_here_nothing_runs_there(
    instance: tuple[Placed, reach.Way], volume: Held, tmp_path: Path
) -> None:
    to, way = instance
    code = (
        "import asyncio, sys; from pathlib import Path; from contend.clouds.instances import fio, reach\n"
        "from contend.clouds.instances.placed import Placed; from contend.clouds.instances.volumes import Held\n"
        f"to, way, volume = {to!r}, reach.Way({way.user!r}, Path({str(way.key)!r})), {volume!r}\n"
        f"asyncio.run(fio.neighbour('neighbour', to, way, {LOAD.format('30d')!r}, volume, 3600, print))"
    )
    with subprocess.Popen([sys.executable, "-uc", code], stdout=subprocess.PIPE, text=True) as asking:
        assert asking.stdout is not None
        assert asking.stdout.readline().strip().isdecimal()
        assert _after(lambda: [] if left(0) else [0], 20) == [], (
            "fio itself: the disk is read before fio has begun"
        )
        asking.send_signal(signal.SIGKILL)
    assert left() == []
    asyncio.run(fio.quiet("neighbour", to, way))
    assert not list(Path("/tmp").glob("contend-fio-*"))


def test_an_ended_shell_that_nobody_there_waits_for_is_no_work(instance: tuple[Placed, reach.Way]) -> None:
    """As in an instance whose first process leaves its orphans as they are."""
    to, way = instance
    note = Path(fio.NOTE.format(role="neighbour"))
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        note.write_text(f"{ended.pid}\n")
        try:
            asyncio.run(fio.quiet("neighbour", to, way))
        finally:
            note.unlink()


def test_the_generator_lays_a_volume_out_and_tells_where_it_all_stood(
    instance: tuple[Placed, reach.Way], volume: Held, tmp_path: Path
) -> None:
    to, way = instance
    run, out = tmp_path / "run", tmp_path / "run/work/victim-ssd"
    for place in (run / "work/instances", out):
        place.mkdir(parents=True)
    shutil.copy(way.key, run / "work/instances" / on_cloud.KEY)
    backed = volume._replace(backend="cinder@ssd#ssd")
    guests = {"measured": to, "neighbour": to._replace(emulated=True)}
    state = on_cloud.State("contend-run-ab12", "root", guests, {"measured-ssd": backed})
    state.write(run / "work/instances" / on_cloud.STATE)
    words = fio_words.layout(fio.DEVICE, 16 * 2**20, 2, direct=True).replace("{offset}", "0")
    scenario = load("storage-sweep", ("cloud=c", "pools=[ssd]"))
    assert isinstance(scenario, Storage)
    made = cloud_cells.workload(scenario.named[0], 16 * 2**20, 2, 1.0)
    asked = resolve(made, cloud_cells.parameters(scenario, scenario.named[0], first=True)).parameters
    parameters_file.write(out / "asked.json", asked, parameters_file.Placeholders(out, out))
    assert storage_cloud.main(["layout", str(out / "asked.json"), *words.split()]) == 0
    assert counters(volume.device) >= 2 * 16 * 2**20
    assert [of["written_bytes"] for of in pools.preconditioned(run / "work")] == [2 * 16 * 2**20]
    assert cloud_pools.instances_record(run / "work", scenario) == {
        "hosts": {"measured": "host h", "neighbour": "host h"},
        "emulated": True,
        "backends": {"ssd": "cinder@ssd#ssd"},
        "apart": {},
    }


def left(within_s: float = 5.0) -> list[int]:
    """fio of these tests that still runs, after a moment to end."""
    return _after(
        lambda: [p.pid for p in procfs.processes() if f"--name={JOB} ".encode() in _line(p.pid)], within_s
    )


def _line(pid: int) -> bytes:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return b""
    return b" ".join(line) if line[0] == b"fio" else b""


def _after(found: Callable[[], list[int]], within_s: float) -> list[int]:
    until = time.monotonic() + within_s
    while (there := found()) and time.monotonic() < until:
        time.sleep(0.05)
    return there
