"""Snapshots of this machine, and which disk holds a directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from contend.probes.snapshot import Snapshot, device_of, parse_net, parse_pressure, parse_stat


def test_a_snapshot_of_this_machine() -> None:
    device = device_of(Path(__file__).parent)
    first = Snapshot.take((device,) if device else ())
    second = Snapshot.take((device,) if device else ())
    assert set(first.cpus) >= os.sched_getaffinity(0)
    assert all(sum(second.cpus[c]) >= sum(first.cpus[c]) for c in first.cpus)
    assert set(first.disks) == ({device} if device else set())
    assert "lo" in first.net_bytes
    assert set(first.psi_ns) == {r for r in ("cpu", "io", "memory") if _pressure_is_readable(r)}


def _pressure_is_readable(resource: str) -> bool:
    try:
        return Path(f"/proc/pressure/{resource}").read_text().startswith("some")
    except OSError:
        return False


def test_an_unknown_device_is_absent() -> None:
    assert Snapshot.take(("no-such-device",)).disks == {}


def sysfs(tmp_path: Path, device: int, partition: bool) -> Path:
    """/sys/dev/block as the kernel lays it out: a link into the tree of disks, partitions below them."""
    disk = tmp_path / "devices" / "block" / "sdq"
    leaf = disk / "sdq1" if partition else disk
    leaf.mkdir(parents=True)
    if partition:
        (leaf / "partition").write_text("1\n")
    numbers = tmp_path / "dev" / "block"
    numbers.mkdir(parents=True)
    (numbers / f"{os.major(device)}:{os.minor(device)}").symlink_to(leaf)
    return tmp_path


@pytest.mark.parametrize("partition", [True, False])
def test_the_whole_device_is_named(tmp_path: Path, partition: bool) -> None:
    here = tmp_path / "here"
    here.mkdir()
    device = here.stat().st_dev
    if os.major(device) == 0:
        pytest.fail("the temporary directory lies on no block device; set TMPDIR to one that does")
    assert device_of(here, sys=sysfs(tmp_path / "sys", device, partition)) == "sdq"


def test_a_mount_with_a_number_of_its_own_is_found_by_its_source(tmp_path: Path) -> None:
    number = Path("/proc").stat().st_dev  # anonymous, like a btrfs subvolume's
    disks = [p for p in Path("/dev").iterdir() if p.is_block_device()]
    if not disks:
        pytest.fail("this machine shows no block device in /dev")
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        f"36 25 {os.major(number)}:{os.minor(number)} / /mnt rw shared:1 - btrfs {disks[0]} rw\n"
    )
    sys = sysfs(tmp_path / "sys", disks[0].stat().st_rdev, partition=False)
    assert device_of(Path("/proc"), sys=sys, mounts=mounts) == "sdq"


def test_no_device_under_proc() -> None:
    assert device_of(Path("/proc")) is None


def test_empty_files_tell_nothing() -> None:
    assert parse_stat(b"") == ({}, 0, 0)
    assert parse_pressure(b"") is None
    assert parse_net(b"") == {}
