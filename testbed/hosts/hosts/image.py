"""A root file system with systemd, contend from its wheels, and what runs in it; made once, and kept in the cache."""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from contend.platforms.guests import drivers, initramfs
from contend.platforms.guests.initramfs import Node, archive
from contend.store import state
from hosts.kinds import Image
from support import chroots

ROOT = Path(__file__).parents[3]
INSIDE = Path(__file__).with_name("inside.py")
PYTHONS = {"bookworm": "3.11", "trixie": "3.13", "sid": "3.14"}
TESTS = ("pytest", "pytest-xdist", "pytest-timeout", "pytest-rerunfailures", "hypothesis", "jsonschema")
DRIVERS = ("virtio_pci", "virtio_blk", "ext4", "virtio_console")
SIZE = "12G"
KERNEL = "linux-image-cloud-amd64"
UNIT = """[Unit]
Description=What is tried of contend
After=multi-user.target docker.service
[Service]
Type=oneshot
ExecStart=/usr/bin/python3 /opt/inside.py
StandardOutput=journal+console
[Install]
WantedBy=multi-user.target
"""
INIT = """#!/bin/busybox sh
b=/bin/busybox
$b mount -t devtmpfs dev /dev
for module in {modules}; do $b insmod /modules/$module; done
for try in $($b seq 200); do [ -b /dev/vda ] && break; $b usleep 20000; done
$b mount -t ext4 -o noatime,noinit_itable /dev/vda /root || exit 1
$b mount -o move /dev /root/dev
exec $b switch_root /root /sbin/init
"""
# A guest has no network: nothing is to wait for one. linger: alice's manager is there without a login of hers.
MAKE = """set -eu
packages=$1 suite=$2 line=$3 size=$4 payload=$5
export TMPDIR=$PWD/tmp
mkdir -p root tmp && mount -t tmpfs -o mode=755,size=8g tmpfs root
mmdebstrap --quiet --mode=root --variant=apt --format=directory --include="$packages" \\
    --aptopt='Acquire::Languages "none"' --aptopt='Acquire::Check-Valid-Until "false"' --dpkgopt=force-unsafe-io \\
    --dpkgopt=path-exclude=/usr/share/doc/* --dpkgopt=path-exclude=/usr/share/man/* \\
    --dpkgopt=path-exclude=/usr/share/locale/* "$suite" root "$line"
cp -a "$payload"/. root/
for each in contend tests; do # once, instead of at each start of somebody who may not write there
    chroot root python3 -m compileall -qq -j 0 /opt/$each/lib || true
done
mkdir -p root/var/lib/systemd/linger
chroot root useradd --create-home --shell /bin/bash alice
touch root/var/lib/systemd/linger/alice
for unit in systemd-networkd-wait-online apt-daily.timer apt-daily-upgrade.timer systemd-timesyncd; do
    chroot root systemctl mask --quiet "$unit"
done
chroot root systemctl enable --quiet matrix.service
echo host >root/etc/hostname
cp root/boot/vmlinuz-* vmlinuz
cp -a root/usr/lib/modules modules
truncate -s "$size" disk.part
mkfs.ext4 -q -F -d root -L host -E lazy_itable_init=1,lazy_journal_init=1 disk.part
mv disk.part disk.ext4
"""


@dataclass(frozen=True, slots=True)
class Made:
    """Files that QEMU starts."""

    disk: Path
    kernel: Path
    initramfs: Path


def made(image: Image, wheels: Path) -> Made:
    """The image, with these wheels installed in it. Needs root, and the network where it is not there yet.

    Raises RuntimeError with what mmdebstrap or uv says.
    """
    payload = _payload(image, wheels)
    key = hashlib.sha256(
        json.dumps([image.suite, image.packages, MAKE, UNIT, INIT, payload.name]).encode()
    ).hexdigest()[:16]
    home = state.cache() / "hosts"
    kept = home / f"{image.suite}-{key}"
    with (home / f"{kept.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.is_dir():
            part = home / f".{kept.name}"
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            apart = ("unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc")
            packages = ",".join(sorted({*image.packages, KERNEL}))
            _do(
                *apart,
                "sh",
                "-c",
                MAKE,
                "make",
                packages,
                image.suite,
                chroots.line(image.suite),
                SIZE,
                payload,
                cwd=part,
            )
            (part / "initramfs").write_bytes(_initramfs(part / "modules"))
            for scratch in ("root", "tmp", "modules"):
                shutil.rmtree(part / scratch)
            part.rename(kept)
    return Made(kept / "disk.ext4", kept / "vmlinuz", kept / "initramfs")


def _payload(image: Image, wheels: Path) -> Path:
    """What is copied over the root: contend in /opt/contend, the tests' libraries, the tests, and what runs the plan."""
    digest = hashlib.sha256(
        b"".join(hashlib.sha256(of.read_bytes()).digest() for of in sorted(wheels.glob("*.whl")))
    )
    digest.update(image.contend.encode())
    tests = sorted((ROOT / "tests").rglob("*.py")) if image.tests else []
    for of in (*tests, INSIDE, Path(__file__)):
        digest.update(of.read_bytes())
    home = state.cache() / "hosts"
    home.mkdir(parents=True, exist_ok=True)
    kept = home / f"payload-{image.suite}-{digest.hexdigest()[:16]}"
    if kept.is_dir():
        return kept
    for old in home.glob(f"payload-{image.suite}-*"):
        shutil.rmtree(old)
    part = home / f".{kept.name}"
    shutil.rmtree(part, ignore_errors=True)
    _do(
        ROOT / "scripts/environment.sh",
        PYTHONS[image.suite],
        part,
        "/opt/contend",
        wheels,
        image.contend,
        cwd=ROOT,
    )
    if image.tests:
        _tests(image, part, wheels)
    shutil.copy(INSIDE, part / "opt/inside.py")
    unit = part / "etc/systemd/system/matrix.service"
    unit.parent.mkdir(parents=True)
    unit.write_text(UNIT)
    part.rename(kept)
    return kept


def _tests(image: Image, root: Path, wheels: Path) -> None:
    """contend's tests and their libraries."""
    _do(ROOT / "scripts/environment.sh", PYTHONS[image.suite], root, "/opt/tests", wheels, *TESTS, cwd=ROOT)
    shutil.copytree(ROOT / "tests", root / "opt/checkout/tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root / "opt/checkout/")


def _initramfs(modules: Path) -> bytes:
    """Its first root: the drivers of its disk, and busybox."""
    (of,) = modules.iterdir()
    wanted = drivers.load(of, DRIVERS)
    nodes = [Node(name, 0o040755) for name in ("dev", "root", "bin", "modules")]
    nodes.append(Node("dev/console", 0o020600, rdev=(5, 1)))
    nodes += [Node(f"modules/{name}", 0o100644, data) for name, data in wanted.items()]
    busybox = initramfs.of_this_host()
    if busybox is None:
        raise RuntimeError("no static busybox here: apt-get install busybox-static")
    nodes.append(Node("bin/busybox", 0o100755, busybox.read_bytes()))
    nodes.append(Node("init", 0o100755, INIT.format(modules=" ".join(wanted)).encode()))
    return archive(nodes)


def _do(*command: str | Path, cwd: Path) -> None:
    done = subprocess.run(
        command, check=False, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {(done.stderr or done.stdout).strip()[-1500:]}")
