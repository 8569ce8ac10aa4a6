"""The start of a guest's root file system: its own kernel, and an initramfs made here with its drivers and the agent.

Both are read out of the image, which is never mounted for it, and are kept beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from contend.errors import CannotHonour, HostFailed
from contend.platforms import listening
from contend.platforms.guests import agent, drivers, image, initramfs, mirror
from contend.platforms.guests.disk import FileSystem, find, kernels_of
from contend.platforms.guests.initramfs import Node, archive
from contend.platforms.packages import install_command

# The root's disk, the agent's channel, the network. Those that a kernel has built in are not among its modules.
DRIVERS = ("virtio_pci", "virtio_blk", "ext4", "virtio_console", "virtio_net")
COMMAND_LINE = "console=ttyS0 quiet panic=-1 no_timer_check"  # under emulation the check fails now and then
ADDRESS = "contend.address"  # a word of the command line: the guest's, where that is not QEMU's own network
PACKAGE = "/run/contend"
# `mount -o noinit_itable`: no thread that finishes making the file system beside what is measured. The guest's name is
# QEMU's own network's (10.0.2.15); route_localnet lets what the host forwards reach a server that is bound to 127.0.0.1.
_INIT = """#!/bin/busybox sh
b=/bin/busybox
$b mount -t devtmpfs dev /dev
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
for module in {modules}; do $b insmod /modules/$module; done
for try in $($b seq 200); do [ -b {device} ] && break; $b usleep 20000; done
$b mount -t ext4 -o noatime,noinit_itable {device} /root || exit 1
$b ip link set lo up
if [ -d /sys/class/net/eth0 ]; then
    $b ip link set eth0 up
    address=$($b sed -n 's|.*{address}=\\([0-9./]*\\).*|\\1|p' /proc/cmdline)
    if [ "$address" ]; then
        $b ip addr add $address dev eth0
    else
        $b ip addr add 10.0.2.15/24 dev eth0 && $b ip route add default via 10.0.2.2
    fi
    echo 1 >/proc/sys/net/ipv4/conf/eth0/route_localnet
fi
$b hostname contend
for place in dev proc sys; do $b mount -o move /$place /root/$place; done
$b mkdir -p /root/dev/pts /root/dev/shm
$b mount -t devpts devpts /root/dev/pts
$b mount -t tmpfs tmpfs /root/dev/shm
$b mount -t tmpfs tmpfs /root/run
$b mount -t cgroup2 cgroup2 /root/sys/fs/cgroup
$b ln -s /proc/self/fd /root/dev/fd
$b cp -r /agent /root{package}
exec $b switch_root /root {start}
"""
_START = (
    "import sys; sys.path.insert(0, '{package}'); "
    "from contend.platforms.guests.agent import main; main({port!r})"
)


@dataclass(frozen=True, slots=True)
class Boot:
    """Files and words for QEMU to boot from."""

    disk: Path
    kernel: Path
    initramfs: Path
    version: str  # of the kernel

    @property
    def what(self) -> str:
        """A name for the guest's system, under which contend keeps what it can do."""
        return f"{self.disk}:{self.disk.stat().st_mtime_ns}"


def start_agent(port: str) -> list[str]:
    """The command that starts the agent inside; nothing of the guest's own Python settings has a say."""
    return ["/usr/bin/python3", "-I", "-S", "-c", _START.format(package=PACKAGE, port=port)]


def prepare(disk: Path) -> Boot:
    """The kernel and the initramfs of an image, from the cache or made now. Raises CannotHonour for one without."""
    now = disk.stat()
    ingredients = [str(disk.resolve()), now.st_size, now.st_mtime_ns, _INIT, DRIVERS, *_sources().values()]
    key = hashlib.sha256(json.dumps(ingredients).encode()).hexdigest()[:16]
    kept = image.home() / f"boot-{key}"
    if not (kept / "version").is_file():
        image.home().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".boot-", dir=image.home()) as folder:
            made = Path(folder) / "made"
            made.mkdir()
            _extract(disk, made)
            try:
                made.rename(kept)
            except OSError as error:  # another was quicker
                if not kept.is_dir():
                    raise HostFailed(f"cannot write {kept}: {error.strerror}", hint="df -h") from error
    version = (kept / "version").read_text(encoding="ascii")
    return Boot(disk, kept / "vmlinuz", kept / "initramfs", version)


def _extract(raw: Path, made: Path) -> None:
    disk = find(raw)
    root = disk.root
    # vmlinuz comes with a link in / on Debian; what is in /boot has the version in its name.
    kernels = sorted(kernels_of(disk.boot, disk.kernels), key=_as_version)
    if not kernels:
        raise CannotHonour(f"{raw} has no kernel in /boot", hint="install linux-image-cloud-amd64 in it")
    if "python3" not in root.names("/usr/bin"):
        raise CannotHonour(f"{raw} has no /usr/bin/python3", hint="contend's agent in a guest is Python")
    version = kernels[-1]
    scratch = made / "scratch"
    (scratch / "modules").mkdir(parents=True)
    _copy(disk.boot, f"{disk.kernels.rstrip('/')}/vmlinuz-{version}", made / "vmlinuz")
    # debugfs follows no link from /lib to /usr/lib.
    merged = "kernel" in root.names(f"/usr/lib/modules/{version}")
    base = f"{'/usr' if merged else ''}/lib/modules/{version}"
    _copy(root, f"{base}/modules.dep", scratch / "modules.dep")
    wanted = in_order((scratch / "modules.dep").read_text(encoding="ascii"), DRIVERS)
    nodes = [Node(name, 0o040755) for name in ("dev", "proc", "sys", "root", "bin", "modules", "agent")]
    nodes.append(Node("dev/console", 0o020600, rdev=(5, 1)))
    for path in wanted:
        copy = scratch / "modules" / Path(path).name
        _copy(root, f"{base}/{path}", copy)
        nodes.append(Node(f"modules/{_plain(path)}", 0o100644, drivers.unpacked(copy)))
    nodes.append(Node("bin/busybox", 0o100755, _busybox(root, scratch / "busybox")))
    for name, text in _sources().items():
        parents = [str(parent) for parent in reversed(Path(name).parents) if str(parent) != "."]
        nodes += [Node(p, 0o040755) for p in parents if all(node.name != p for node in nodes)]
        nodes.append(Node(name, 0o100644, text.encode()))
    modules, start = " ".join(_plain(path) for path in wanted), shlex.join(start_agent("agent"))
    init = _INIT.format(modules=modules, device=root.device, package=PACKAGE, start=start, address=ADDRESS)
    nodes.append(Node("init", 0o100755, init.encode()))
    (made / "initramfs").write_bytes(archive(nodes))
    shutil.rmtree(scratch)
    (made / "version").write_text(version, encoding="ascii")
    for result in (made / "initramfs", made / "vmlinuz", made / "version"):
        with result.open("rb") as file:
            os.fsync(file.fileno())


def _busybox(root: FileSystem, scratch: Path) -> bytes:
    """The image's own where it needs no libraries, else this host's: it is the initramfs's alone."""
    for inside in ("/usr/bin/busybox", "/bin/busybox"):
        if root.copy(inside, scratch) and initramfs.is_static(program := scratch.read_bytes()):
            return program
    if (own := initramfs.of_this_host()) is None:
        raise CannotHonour(
            f"neither {root.disk} nor this host has a busybox without libraries",
            hint=install_command("busybox-static"),
        )
    return own.read_bytes()


def _sources() -> dict[str, str]:
    """The agent as the guest gets it: its modules, in packages that are otherwise empty."""
    texts = {"agent/contend/__init__.py": "", "agent/contend/platforms/__init__.py": ""}
    texts["agent/contend/platforms/guests/__init__.py"] = ""
    for module in (agent, mirror, listening):
        path = Path(str(module.__file__))
        folder = module.__name__.rpartition(".")[0].replace(".", "/")
        texts[f"agent/{folder}/{path.name}"] = path.read_text(encoding="utf-8")
    return texts


def in_order(dependencies: str, wanted: tuple[str, ...]) -> list[str]:
    """Sort modules' paths so that each comes after those it needs, by modules.dep(5); those built in are left out.

    >>> in_order("kernel/a.ko: kernel/b.ko kernel/c.ko\\nkernel/b.ko: kernel/c.ko\\nkernel/c.ko:\\n", ("a", "none"))
    ['kernel/c.ko', 'kernel/b.ko', 'kernel/a.ko']
    """
    by_name: dict[str, list[str]] = {}
    for line in dependencies.splitlines():
        path, _, needs = line.partition(":")
        by_name[_plain(path).removesuffix(".ko").replace("-", "_")] = [path, *needs.split()]
    ordered: dict[str, None] = {}
    for name in wanted:
        # Each module stands before what it needs, which stands before what that needs.
        for path in reversed(by_name.get(name, [])):
            ordered.setdefault(path)
    return list(ordered)


def _plain(path: str) -> str:
    return re.sub(r"\.(xz|zst|gz)$", "", Path(path).name)


def _as_version(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", text)]


def _copy(system: FileSystem, inside: str, to: Path) -> None:
    if not system.copy(inside, to):
        raise CannotHonour(f"{system.disk} has no {inside}", hint="an image with a kernel and its modules")
