"""Kernel and initramfs of the bed's real guests: the initramfs takes its address and serves.

The guest's init reads its address and its name from the config drive, listens on port 22, answers HTTP on port 80, and
says so on the console. A word `silent=PATTERN` of the kernel's command line (the image's property os_command_line) keeps
those from serving whose server's name fits that pattern of the shell's: guests that never come up, to see how that is told.

With tools (`contend.testbed.openstack.guest_tools`) it answers SSH on port 22, to the key pair of its server.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from contend.errors import CannotHonour
from contend.platforms.guests import drivers, initramfs, kernels
from contend.platforms.guests.boot import COMMAND_LINE
from contend.platforms.guests.initramfs import Node, archive
from contend.testbed.openstack import guest_tools

SAYS = b"contend guest up"
TOOLS = guest_tools.NETWORK.name
"""The image of guests that are logged in to."""
# What commands over SSH are made of.
_APPLETS = ("sh", "cat", "cut", "head", "sleep", "timeout", "echo", "ls", "uname", "ps", "rm")
PORTS = 22, 80
MEMORY_MIB = 128  # the kernel does not come up in 64
# The network card, and a drive for CDs on the machine that libvirt makes where nothing else is asked for (i440FX).
_DRIVERS = ("virtio_pci", "virtio_net", "ata_piix", "sr_mod", "isofs")
_DISKS = ("virtio_blk",)
# The first value of that name is a word's: no parser is needed for what json.dumps has written. The server's own name is
# the last, behind those of its keys.
_INIT = """\
#!/bin/busybox sh
b=/bin/busybox
word() {{ $b grep -o "\\"$1\\": *\\"[^\\"]*" /config/openstack/latest/$2 | $b "${{3:-head}}" -n 1 | $b sed 's/.*"//'; }}
$b mount -t devtmpfs dev /dev
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
for module in {modules}; do $b insmod /modules/$module; done
for try in $($b seq 500); do [ -b /dev/sr0 ] && break; $b usleep 20000; done
$b mount -t iso9660 -o ro /dev/sr0 /config
name=$(word name meta_data.json tail)
case $name in
${{silent:-/}}) echo "contend guest silent" && exec $b sleep 1000000 ;;
esac
$b ifconfig lo 127.0.0.1
address=$(word ip_address network_data.json)
[ -z "$address" ] || $b ifconfig eth0 "$address" netmask "$(word netmask network_data.json)"
{start}for port in {ports}; do $b httpd -p $port -h /www; done
read -r up rest </proc/uptime
echo "{says} $name $up"
# Not one program: orphans are this one's to wait for, which a shell does that waits.
while :; do $b sleep 1000000; done
"""


@dataclass(frozen=True, slots=True)
class Guest:
    """A guest's image as glance has it. `digest`: of its content."""

    kernel: Path
    initramfs: Path
    digest: str
    command_line: str = COMMAND_LINE
    name: str = "guest"
    """Of the image."""
    user: str = ""
    """Whom it lets in by key."""


def need() -> None:
    """Check that this host can make guests. Raises CannotHonour."""
    _busybox()
    _kernel()


def make(folder: Path, image: guest_tools.Image | None = None) -> Guest:
    """Make the guest's files in `folder`. image: of a guest to log in to. Raises CannotHonour."""
    kernel, modules = _kernel(_DISKS if image is guest_tools.STORAGE else ())
    packed = archive(_nodes(_busybox(), modules, image))
    folder.mkdir(parents=True, exist_ok=True)
    initramfs = folder / ("initramfs" + (image.name.removeprefix("guest") if image else ""))
    initramfs.write_bytes(packed)
    digest = hashlib.sha256(packed + str(kernel).encode() + COMMAND_LINE.encode()).hexdigest()
    if image:
        return Guest(kernel, initramfs, digest[:16], name=image.name, user=guest_tools.USER)
    return Guest(kernel, initramfs, digest[:16])


def _nodes(busybox: bytes, modules: dict[str, bytes], image: guest_tools.Image | None) -> Iterator[Node]:
    for name in ("dev", "proc", "sys", "bin", "modules", "config", "www"):
        yield Node(name, 0o040755)
    yield Node("dev/console", 0o020600, rdev=(5, 1))  # the kernel opens it as init's standard streams
    yield Node("bin/busybox", 0o100755, busybox)
    for name, data in modules.items():
        yield Node(f"modules/{name}", 0o100644, data)
    yield Node("www/index.html", 0o100644, SAYS + b"\n")
    ports = " ".join(map(str, PORTS[1:] if image else PORTS))
    if image:
        yield from guest_tools.nodes(image, _APPLETS)
    start = guest_tools.START if image else ""
    init = _INIT.format(modules=" ".join(modules), ports=ports, says=SAYS.decode(), start=start)
    yield Node("init", 0o100755, init.encode())


def _busybox() -> bytes:
    program = initramfs.of_this_host()
    if program is None:
        raise CannotHonour("a guest needs a static busybox", hint="apt-get install busybox-static")
    return program.read_bytes()


def _kernel(more: tuple[str, ...] = ()) -> tuple[Path, dict[str, bytes]]:
    """The first one whose drivers are there too."""
    for kernel in kernels.readable():
        try:
            return kernel, drivers.load(kernels.modules_of(kernel), (*_DRIVERS, *more))
        except CannotHonour:
            continue
    raise CannotHonour(
        "a guest needs a kernel with its modules: none in /boot and /lib/modules that can be read",
        hint="apt-get install linux-image-cloud-amd64, or scripts/kernel.sh",
    )
