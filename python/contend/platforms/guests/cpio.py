"""Archives that a kernel unpacks as its first root file system (initramfs)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


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
