"""A device at its ceiling for real: fio at growing depth on a disk that blkio.throttle or io.max holds to a rate.

What a limit holds back waits above the limited disk, unseen by its counters. So the load goes to a loop device whose
file is on that disk: of the loop device the limit is the ceiling, and its queue is seen. Lightly loaded it never is.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from contend.contention.alibi.judge import judge
from contend.contention.alibi.recording import Recording
from contend.errors import CannotHonour
from contend.platforms.limits import whole_disk
from contend.probes.client import ProbeProcess
from support.alibi_loads import Ground, scratch
from support.command_line import wait_for
from support.prerequisites import need

pytestmark = [pytest.mark.slow, pytest.mark.alone]

IOPS = 400
STEP_S = 4.0


@dataclass
class Device:
    """A loop device and the Ground from which requests to it are limited."""

    ground: Ground
    path: str
    depth: int = 0

    def add(self, depth: int) -> None:
        """Random reads, so many more in flight: returns when they are."""
        self.depth += depth
        self.ground.run(
            "fio", "--name=load", f"--filename={self.path}", "--direct=1", "--rw=randread", "--bs=16k",
            "--ioengine=libaio", f"--iodepth={depth}", "--time_based", "--runtime=60",
        )  # fmt: skip
        wait_for(lambda: self.in_flight() >= self.depth, f"{self.depth} requests in flight")

    def in_flight(self) -> int:
        told = Path("/sys/block", Path(self.path).name, "inflight").read_text(encoding="ascii")
        return sum(map(int, told.split()))

    def phase(self) -> tuple[int, int]:
        began = time.monotonic_ns()
        time.sleep(STEP_S)
        assert self.ground.alive(), self.ground.said()
        return began, time.monotonic_ns()


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    need(shutil.which("losetup"), "losetup")
    with scratch(tmp_path) as directory:
        ground = Ground(directory)
        try:
            file = ground.file()
            try:
                limit_reads(ground, file)
            except CannotHonour as error:
                need(False, f"an I/O limit: {error.message}")
            made = subprocess.run(
                ("losetup", "--find", "--show", "--direct-io=on", str(file)), capture_output=True, text=True
            )
            need(made.returncode == 0, f"a loop device: {made.stderr.strip()}")
            loop = made.stdout.strip()
            try:
                yield Device(ground, loop)
            finally:
                ground.end_loads()
                subprocess.run(("losetup", "--detach", loop), check=True)
        finally:
            ground.close()


def limit_reads(ground: Ground, file: Path) -> None:
    disk = whole_disk(file.parent)
    ground.limit(
        "blkio" if "blkio" in ground.layout.v1 else "io",
        {"blkio.throttle.read_iops_device": f"{disk} {IOPS}"},
        {"io.max": f"{disk} riops={IOPS}"},
    )


def test_a_queue_that_deepens_at_the_devices_ceiling(device: Device) -> None:
    device.add(2)
    # From here on: no request was ever alone, so that nothing but the flat throughput can tell.
    probe = ProbeProcess({"interval_ms": 250, "host": True, "processes": True})
    shallow = device.phase()
    device.add(4)
    deep = device.phase()
    recording = Recording.of_tables(probe.stop().tables)
    name = Path(device.path).name
    found = judge(recording, *deep)
    track = next((s for s in found.saturated if (s.resource, s.subject) == ("disk", name)), None)
    assert track is not None and track.share >= 0.5, found.to_json()
    figures = {e.what: e.value for e in track.evidence}
    assert figures["requests a second"] == pytest.approx(IOPS, rel=0.2)
    assert figures["requests in flight at which it did as much already"] == pytest.approx(2, rel=0.3)
    assert "time of a request alone, in this recording" not in figures
    before = judge(recording, *shallow)
    assert name not in [s.subject for s in before.saturated], before.to_json()
