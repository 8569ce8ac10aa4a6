"""Archives that a kernel unpacks as its first root file system (initramfs), and a busybox for them, without libraries."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Node:
    """An entry of the archive. `rdev`: major and minor of a device."""

    name: str
    mode: int
    data: bytes = b""
    rdev: tuple[int, int] = (0, 0)


def archive(nodes: Iterable[Node]) -> bytes:
    """A cpio archive in the `newc` format that the kernel unpacks (Documentation/driver-api/early-userspace).

    >>> archive([]).startswith(b"070701"), b"TRAILER!!!" in archive([])
    (True, True)
    """
    packed = bytearray()
    for number, node in enumerate([*nodes, Node("TRAILER!!!", 0)], start=1):
        name = node.name.encode() + b"\0"
        fields = (number, node.mode, 0, 0, 1, 0, len(node.data), 0, 0, *node.rdev, len(name), 0)
        packed += b"070701" + b"".join(b"%08X" % field for field in fields) + name
        packed += bytes(-len(packed) % 4) + node.data
        packed += bytes(-len(packed) % 4)
    return bytes(packed)


def is_static(program: bytes) -> bool:
    """True for a program without libraries: a dynamic one names its loader (PT_INTERP) in the first page.

    >>> is_static(b"\\x7fELF...\\0/lib64/ld-linux-x86-64.so.2\\0"), is_static(b"\\x7fELF")
    (False, True)
    """
    return b"/ld-" not in program[:4096]


def of_this_host() -> Path | None:
    """Find this host's busybox, if it has one that needs no libraries."""
    program = shutil.which("busybox", path=f"{os.environ.get('PATH', os.defpath)}:/bin:/usr/bin:/sbin")
    return Path(program) if program and is_static(Path(program).read_bytes()) else None
