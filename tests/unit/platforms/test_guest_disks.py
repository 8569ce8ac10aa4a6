"""What a user's disk is taken for: where its root is, where its kernels are, and what is refused with which words."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from contend.errors import CannotHonour, HostFailed
from contend.platforms.guests import boot, disk, image, initramfs
from contend.store.ledger import Ledger, leftovers
from support.disks import MIB, as_qcow2, file_system, partitioned
from support.prerequisites import need

STATIC, DYNAMIC = b"\x7fELF static", b"\x7fELF\0/lib64/ld-linux-x86-64.so.2\0"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for program in ("mkfs.ext4", "debugfs"):
        need(shutil.which(program, path=image.search_path()) is not None, f"{program} is not on PATH")
    monkeypatch.setenv("PATH", image.search_path())


def system(
    root: Path, *, kernels: tuple[str, ...] = ("6.1.0-9", "6.1.0-10"), program: bytes = STATIC
) -> Path:
    """A directory with what a guest's system has, its drivers built in."""
    for name in ("etc", "usr/bin", "boot"):
        (root / name).mkdir(parents=True)
    (root / "usr/bin/python3").write_bytes(b"python")
    (root / "usr/bin/busybox").write_bytes(program)
    for version in kernels:
        (root / f"boot/vmlinuz-{version}").write_bytes(f"kernel {version}".encode())
    for version in ("6.1.0-9", "6.1.0-10"):
        (root / f"usr/lib/modules/{version}/kernel").mkdir(parents=True)
        (root / f"usr/lib/modules/{version}/modules.dep").write_text("kernel/fs/other.ko:\n")
    return root


def test_a_file_system_by_itself_is_the_first_disk(tmp_path: Path) -> None:
    raw = file_system(tmp_path / "disk", system(tmp_path / "root"))
    booted = boot.prepare(raw)
    assert booted.version == "6.1.0-10", "the newest, as numbers go"
    assert booted.kernel.read_bytes() == b"kernel 6.1.0-10"
    initramfs = booted.initramfs.read_bytes()
    assert b"/dev/vda /root" in initramfs and STATIC in initramfs


def test_the_root_is_found_on_a_disk_with_partitions(tmp_path: Path) -> None:
    (tmp_path / "efi").write_bytes(bytes(MIB))
    root = file_system(tmp_path / "ext4", system(tmp_path / "root"))
    found = disk.find(partitioned(tmp_path / "disk", [tmp_path / "efi", root]))
    assert (found.root.device, found.root.offset, found.kernels) == ("/dev/vda2", 2 * MIB, "/boot")
    assert found.boot == found.root
    assert b"/dev/vda2 /root" in boot.prepare(found.root.disk).initramfs.read_bytes()


def test_kernels_may_have_a_partition_of_their_own(tmp_path: Path) -> None:
    root = system(tmp_path / "root")
    (root / "boot").rename(tmp_path / "boot")
    (root / "boot").mkdir()
    parts = [file_system(tmp_path / f"{name}.ext4", tmp_path / name) for name in ("boot", "root")]
    raw = partitioned(tmp_path / "disk", parts)
    found = disk.find(raw)
    assert (found.root.device, found.boot.device, found.kernels) == ("/dev/vda2", "/dev/vda1", "/")
    assert boot.prepare(raw).kernel.read_bytes() == b"kernel 6.1.0-10"


def test_a_busybox_that_needs_libraries_is_left_for_this_hosts(tmp_path: Path) -> None:
    need(initramfs.of_this_host() is not None, "this host has no static busybox")
    raw = file_system(tmp_path / "disk", system(tmp_path / "root", program=DYNAMIC))
    unpacked = boot.prepare(raw).initramfs.read_bytes()
    assert DYNAMIC not in unpacked
    ours = initramfs.of_this_host()
    assert ours is not None and ours.read_bytes() in unpacked


@pytest.mark.parametrize(
    ("missing", "said"),
    [("boot", "no kernel"), ("usr/bin/python3", "no /usr/bin/python3"), ("usr/lib", "has no .*modules.dep")],
)
def test_what_a_guest_needs_is_asked_for_by_name(tmp_path: Path, missing: str, said: str) -> None:
    root = system(tmp_path / "root")
    gone = root / missing
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    with pytest.raises(CannotHonour, match=said):
        boot.prepare(file_system(tmp_path / "disk", root))
    assert not list(image.home().glob("boot-*")) and not list(image.home().glob(".boot-*"))


def test_a_disk_without_a_root_is_refused(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    data = file_system(tmp_path / "ext4", tmp_path / "root")
    with pytest.raises(CannotHonour, match="no root on ext4"):
        boot.prepare(partitioned(tmp_path / "disk", [data]))


def test_another_format_is_converted_once_and_what_was_half_done_goes(tmp_path: Path) -> None:
    need(shutil.which("qemu-img") is not None, "qemu-img is not on PATH")
    raw = partitioned(tmp_path / "raw", [file_system(tmp_path / "ext4", system(tmp_path / "root"))])
    given = as_qcow2(raw, tmp_path / "given.qcow2")
    with Ledger(tmp_path / "ledger.ndjson") as ledger:
        assert disk.as_raw(raw, "r1", ledger) == raw, "what is raw stays where it is"
        assert not image.home().exists()
        converted = disk.as_raw(given, "r1", ledger)
        assert converted.read_bytes() == raw.read_bytes()
        when = converted.stat().st_mtime_ns
        assert disk.as_raw(given, "r2", ledger) == converted and converted.stat().st_mtime_ns == when
        assert disk.find(converted).root.device == "/dev/vda1"
        broken = bytearray(given.read_bytes())  # the first of its tables is where none can be
        tables = int.from_bytes(broken[40:48])
        broken[tables : tables + 8] = (1 << 63 | 513).to_bytes(8)
        given.write_bytes(broken)
        with pytest.raises(HostFailed, match="cannot be converted"):
            disk.as_raw(given, "r3", ledger)
    assert leftovers(tmp_path / "ledger.ndjson") == [] and image.left() == []


def test_a_disk_that_reads_another_file_is_refused(tmp_path: Path) -> None:
    """Whoever made it would get any file of this host into the guest."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"of the host" * 400)
    need(shutil.which("qemu-img") is not None, "qemu-img is not on PATH")
    overlay = tmp_path / "overlay"
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(secret), str(overlay)], check=True
    )
    with Ledger(tmp_path / "ledger.ndjson") as ledger, pytest.raises(CannotHonour, match="backing file"):
        disk.as_raw(overlay, "r1", ledger)
