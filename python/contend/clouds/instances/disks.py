"""The block device of each volume of an instance: by the volume's id, which hypervisors give the disk as its serial.

What cannot be told for certain is not written to. The name that nova gives with an attachment is not looked at: it is a
wish, which a guest's kernel does not know of.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from contend.clouds.instances.reach import output_of
from contend.clouds.instances.volumes import Held
from contend.errors import HostFailed

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection

SERIAL = 20
"""Characters that virtio has for a serial: what there is of a volume's id (VIRTIO 1.2, 5.2.6: VIRTIO_BLK_ID_BYTES)."""
WITHIN_S = 60.0
_SECTOR = 512
# A line a disk: name, sectors, serial if the kernel shows one. Then udev's links, whose names hold what SCSI disks tell.
ASK = (
    'for d in /sys/block/*; do echo "disk ${d##*/} $(cat $d/size) $(cat $d/serial 2>/dev/null)"; done;'
    " ls -l /dev/disk/by-id 2>/dev/null; true"
)
_LINK = re.compile(r"(\S+) -> (?:\.\./)+(\w+)$")


class Disk(NamedTuple):
    """A disk of a guest. links: names below /dev/disk/by-id."""

    name: str
    size_bytes: int
    serial: str
    links: tuple[str, ...]


def parse(output: str) -> list[Disk]:
    """
    >>> parse("disk vdb 2097152 0f1e2d3c-4b5a-6978-8\\ndisk sr0 2 \\nlrwx 1 root 9 Jan 1 00:00 virtio-0f1e -> ../../vdb\\n")
    [Disk(name='vdb', size_bytes=1073741824, serial='0f1e2d3c-4b5a-6978-8', links=('virtio-0f1e',)), Disk(name='sr0', \
size_bytes=1024, serial='', links=())]
    """
    rows, links = [], []
    for line in output.splitlines():
        words = line.split()
        if words[:1] == ["disk"] and len(words) > 2 and words[2].isdecimal():
            rows.append((words[1], int(words[2]) * _SECTOR, words[3] if len(words) > 3 else ""))
        elif match := _LINK.search(line):
            links.append((match[1], match[2]))
    return [Disk(*row, tuple(link for link, name in links if name == row[0])) for row in rows]


def test_of(disk: Disk, volume: Held) -> str:
    """A shell's test that this disk is that volume, "" where nothing says so.

    >>> of = Held("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", "ssd", 1)
    >>> test_of(Disk("vdb", 1, "0f1e2d3c-4b5a-6978-8", ()), of)
    '[ "$(cat /sys/block/vdb/serial)" = 0f1e2d3c-4b5a-6978-8 ]'
    >>> test_of(Disk("sda", 1, "", ("scsi-0QEMU_QEMU_HARDDISK_0f1e2d3c-4b5a-6978-8",)), of)
    '[ /dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_0f1e2d3c-4b5a-6978-8 -ef /dev/sda ]'
    >>> test_of(Disk("vda", 1, "", ("virtio-0f1e",)), of)
    ''
    """
    if len(disk.serial) >= SERIAL and volume.id.startswith(disk.serial):
        return f'[ "$(cat /sys/block/{disk.name}/serial)" = {shlex.quote(disk.serial)} ]'
    plain = volume.id.replace("-", "")
    for link in disk.links:
        if volume.id[:SERIAL] in link or plain in link.replace("-", ""):
            return f"[ /dev/disk/by-id/{shlex.quote(link)} -ef /dev/{disk.name} ]"
    return ""


def device(volume: Held, disks: list[Disk]) -> Held | None:
    """Find the disk of a volume: the volume with its device, None where no disk says that it is it. Raises HostFailed
    for one that is too small, or where two say so."""
    known = [(disk, test) for disk in disks if (test := test_of(disk, volume))]
    if not known:
        return None
    if len(known) > 1:
        names = " and ".join(disk.name for disk, _ in known)
        raise HostFailed(
            f"{names} both say that they are volume {volume.id}",
            hint="multipath? nothing is written to either",
        )
    disk, test = known[0]
    if disk.size_bytes < volume.gib * 2**30:
        raise HostFailed(
            f"/dev/{disk.name} holds {disk.size_bytes / 2**30:.3g} GiB, and volume {volume.id} has {volume.gib}",
            hint="nothing is written to a disk that may be another",
        )
    return volume._replace(device=f"/dev/{disk.name}", test=test)


async def find(
    role: str, connection: SSHClientConnection, volumes: Mapping[str, Held], *, within_s: float = WITHIN_S
) -> dict[str, Held]:
    """Wait until an instance's kernel shows its volumes; returns each with its device. Raises HostFailed."""
    until = time.monotonic() + within_s
    while True:
        disks = parse(await output_of(role, connection, ASK))
        by_name = {name: device(volume, disks) for name, volume in volumes.items()}
        missing = [name for name, held in by_name.items() if held is None]
        if not missing:
            return {name: held for name, held in by_name.items() if held is not None}
        if time.monotonic() > until:
            there = ", ".join(f"{disk.name} ({disk.serial or 'no serial'})" for disk in disks) or "none"
            raise HostFailed(
                f"instance {role} shows no disk that says it is volume {volumes[missing[0]].id}; its disks: {there}",
                hint="is its driver loaded (virtio_blk, or virtio_scsi with sd_mod)? Disks whose hypervisor gives them no"
                " serial are not written to",
            )
        await asyncio.sleep(1.0)
