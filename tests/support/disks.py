"""Disks as users have them: partitions, file systems made of directories, formats of hypervisors."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

MIB = 1 << 20
LINUX = 0x83  # a partition's type


def partitioned(disk: Path, contents: list[Path]) -> Path:
    """A raw disk with an MBR, and each file in a partition of its own, holes and all, from 1 MiB on."""
    begins, at = [], MIB
    for content in contents:
        begins.append(at)
        at += -(-content.stat().st_size // MIB) * MIB
    with disk.open("wb") as file:
        file.truncate(at)
        rows = [
            struct.pack("<B3xB3xII", 0, LINUX, begin // 512, content.stat().st_size // 512)
            for begin, content in zip(begins, contents, strict=True)
        ]
        file.seek(446)
        file.write(b"".join(rows).ljust(64, b"\0") + b"\x55\xaa")
    for begin, content in zip(begins, contents, strict=True):
        with content.open("rb") as source, disk.open("r+b") as file:
            _copy_data(source.fileno(), file.fileno(), begin)
    return disk


def _copy_data(source: int, to: int, begin: int) -> None:
    """What of a file is no hole."""
    at, end = 0, os.fstat(source).st_size
    while at < end:
        try:
            at = os.lseek(source, at, os.SEEK_DATA)
        except OSError:  # nothing but a hole is left
            return
        hole = os.lseek(source, at, os.SEEK_HOLE)
        while at < hole:
            at += os.copy_file_range(source, to, hole - at, at, begin + at)


def file_system(image: Path, root: Path, size: str = "4M") -> Path:
    """ext4 with what is in the directory."""
    subprocess.run(["mkfs.ext4", "-q", "-F", "-d", str(root), str(image), size], check=True)
    return image


def as_qcow2(raw: Path, to: Path) -> Path:
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", str(raw), str(to)], check=True)
    return to
