"""Disks that guests boot from: where on one the root's file system is, and files read out of it.

A disk is raw when it is read here: debugfs reads a file system out of it, wherever it begins, and needs neither root nor
a mount. What a user has in another format is converted once, and kept by what the file was.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from contend.errors import CannotHonour, HostFailed
from contend.platforms import procfs
from contend.platforms.guests import image
from contend.platforms.packages import install_command
from contend.platforms.programs import search_path
from contend.store.ledger import Ledger

# First bytes of what qemu-img converts. A raw disk is never asked for its format: whoever writes to it could make it
# look like another one, with a backing file of the host's.
_FORMATS = {b"QFI\xfb": "qcow2", b"KDMV": "vmdk", b"vhdxfile": "vhdx"}
_MAGIC_AT, _MAGIC = 0x438, b"\x53\xef"  # s_magic of ext2 and its followers: filesystems/ext4/super.rst
_SECTOR = 512  # of partx's START, whatever the disk's own are
FIRST = "/dev/vda"  # a guest's only disk


@dataclass(frozen=True, slots=True)
class FileSystem:
    """An ext4 file system. offset: bytes from the disk's begin; device: how a guest names it."""

    disk: Path
    offset: int = 0
    device: str = FIRST

    def ask(self, request: str) -> str:
        """Send a request to debugfs and return its output; empty for what is not there. Raises CannotHonour without
        debugfs."""
        # libext2fs takes what follows a ? for options of its reader, in the path itself, too.
        if "?" in str(self.disk):
            raise CannotHonour(f"debugfs cannot read a path with a '?': {self.disk}", hint="rename it")
        try:
            done = subprocess.run(
                ["debugfs", "-R", request, f"{self.disk}?offset={self.offset}"],
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                env={**os.environ, "PATH": search_path()},
            )
        except FileNotFoundError as error:
            raise CannotHonour(
                "a guest's kernel is read with debugfs, not found on PATH", hint=install_command("e2fsprogs")
            ) from error
        return done.stdout

    def names(self, inside: str) -> list[str]:
        """Names in a directory; empty for one that is not there, or is a link."""
        # /inode/mode/uid/gid/name/size/
        lines = [line.split("/") for line in self.ask(f'ls -p "{inside}"').splitlines()]
        return [line[5] for line in lines if len(line) > 6]

    def copy(self, inside: str, to: Path) -> bool:
        """Write what that file holds into another; False where there is no such file, or nothing in it."""
        self.ask(f'dump "{inside}" "{to}"')
        return to.is_file() and to.stat().st_size > 0


@dataclass(frozen=True, slots=True)
class Disk:
    """A system's file systems. `boot` has the kernels, in its directory `kernels`."""

    root: FileSystem
    boot: FileSystem
    kernels: str


def as_raw(path: Path, run_id: str, ledger: Ledger) -> Path:
    """Return the disk if it is raw, else convert it, once, and return that file.

    Raises CannotHonour for one that is not whole without another file, HostFailed when it cannot be converted.
    """
    with path.open("rb") as file:
        first = file.read(8)
    kind = next((kind for magic, kind in _FORMATS.items() if first.startswith(magic)), "raw")
    if kind == "raw":
        return path
    _check_alone(path, kind)
    now = path.stat()
    identity = json.dumps([str(path.resolve()), now.st_size, now.st_mtime_ns])
    kept = image.home() / f"converted-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
    with image.half_built(kept, run_id, ledger) as half:
        if half is not None:
            _convert(path, kind, half / "disk.raw", run_id)
    return kept / "disk.raw"


def _check_alone(path: Path, kind: str) -> None:
    """Files that a disk names are read with contend's rights: whoever made it could have any of them in the guest."""
    done = _qemu_img("info", "-f", kind, "--output=json", str(path))
    if done.returncode != 0:
        raise HostFailed(f"{path} cannot be read: {_why(done)}", hint="qemu-img info")
    description = json.loads(done.stdout)
    data_file = description.get("format-specific", {}).get("data", {}).get("data-file")
    if other := description.get("backing-filename") or data_file:
        raise CannotHonour(
            f"{path} has a backing file, {other}", hint=f"qemu-img convert -O qcow2 {path.name} WHOLE.qcow2"
        )


def _convert(path: Path, kind: str, to: Path, run_id: str) -> None:
    done = _qemu_img("convert", "-f", kind, "-O", "raw", str(path), str(to), run_id=run_id)
    if done.returncode != 0:
        raise HostFailed(f"{path} cannot be converted: {_why(done)}", hint=f"df -h {to.parent}")


def _qemu_img(*words: str, run_id: str = "") -> subprocess.CompletedProcess[str]:
    marks = {procfs.MARKER: run_id, procfs.MEMBER_MARKER: image.MEMBER} if run_id else {}
    return subprocess.run(
        ["qemu-img", *words], capture_output=True, text=True, check=False, env={**os.environ, **marks}
    )


def _why(done: subprocess.CompletedProcess[str]) -> str:
    lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    return lines[-1].removeprefix("qemu-img: ")[-300:]


def find(disk: Path) -> Disk:
    """Find the root file system on a raw disk, with or without partitions. Raises CannotHonour where none is ext4."""
    if _is_ext4(disk, 0):
        whole = FileSystem(disk)
        return Disk(whole, whole, "/boot")
    parts = [part for part in _partitions(disk) if _is_ext4(disk, part.offset)]
    root = next((part for part in parts if {"etc", "usr"} <= set(part.names("/"))), None)
    if root is None:
        raise CannotHonour(
            f"{disk} has no root on ext4",
            hint="an image is a disk with partitions or the root's file system itself; ext4, no LVM, no encryption",
        )
    if kernels_of(root, "/boot"):
        return Disk(root, root, "/boot")
    for part in parts:  # a partition of its own, which is mounted on /boot
        if kernels_of(part, "/"):
            return Disk(root, part, "/")
    return Disk(root, root, "/boot")


def kernels_of(system: FileSystem, inside: str) -> list[str]:
    """Versions of the kernels in a directory of it, in no order."""
    return [name.removeprefix("vmlinuz-") for name in system.names(inside) if name.startswith("vmlinuz-")]


def _is_ext4(disk: Path, offset: int) -> bool:
    with disk.open("rb") as file:
        file.seek(offset + _MAGIC_AT)
        return file.read(2) == _MAGIC


def _partitions(disk: Path) -> list[FileSystem]:
    """Partitions by partx, of util-linux, which reads GPT and MBR."""
    program = shutil.which("partx", path=search_path())
    if program is None:
        raise CannotHonour("partitions are found with partx, not on PATH", hint=install_command("util-linux"))
    done = subprocess.run(
        [program, "--raw", "--noheadings", "--output", "NR,START", str(disk)],
        capture_output=True,
        text=True,
        check=False,
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    return [FileSystem(disk, int(start) * _SECTOR, f"{FIRST}{number}") for number, start in rows]
