"""A libvirt of one's own: the daemon in a mount namespace where its directories are ours, so that the host's, if there is
one, is neither asked nor changed. It needs root, for that namespace, and no systemd. Where the host lacks a directory that
ours is mounted on (/var/lib/libvirt and the like), an empty one is made there and stays.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from contend.errors import CannotHonour, HostFailed
from contend.files import last_line
from contend.platforms import procfs
from contend.platforms.packages import install_command

PROGRAM = "libvirtd"
_SYSTEM_PATH = ":/usr/local/sbin:/usr/sbin:/sbin"
# Guests are this user's processes, in no cgroup and no namespace of their own; their consoles are plain files.
_QEMU_CONF = """\
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
cgroup_controllers = [ ]
namespaces = [ ]
stdio_handler = "file"
"""
_LIBVIRTD_CONF = """\
auth_unix_ro = "none"
auth_unix_rw = "none"
"""
# What Debian's libvirtd looks up before it reads that it is not wanted; the package that makes it wants systemd.
_USER = "libvirt-qemu"
# Of the host, by name below the place; /run is all new, so that neither the host's daemons nor its D-Bus are found.
_FOLDERS = {
    "etc": "/etc/libvirt",
    "lib": "/var/lib/libvirt",
    "cache": "/var/cache/libvirt",
    "log": "/var/log/libvirt",
}
_SCRIPT = """\
set -e
mount -t tmpfs none /run
mkdir /run/libvirt
mount --bind "$1/run" /run/libvirt
{binds}
mount --bind "$1/passwd" /etc/passwd
mount --bind "$1/group" /etc/group
exec libvirtd --config "$1/etc/libvirtd.conf"
"""


def need() -> None:
    """Check that this host can have such a libvirt. Raises CannotHonour."""
    path = os.environ.get("PATH", os.defpath) + _SYSTEM_PATH
    for program, package in (
        (PROGRAM, "libvirt-daemon libvirt-daemon-driver-qemu"),
        ("virsh", "libvirt-clients"),
        ("unshare", "util-linux"),
    ):
        if shutil.which(program, path=path) is None:
            raise CannotHonour(f"{program} was not found", hint=install_command(package))
    if os.geteuid() != 0:
        raise CannotHonour("a libvirt of one's own needs root", hint="qemu:///session needs none")


def uri(directory: Path) -> str:
    """URI by which clients find the libvirt of this directory."""
    return f"qemu+unix:///system?socket={directory}/run/libvirt-sock"


def make(directory: Path) -> None:
    """Make directories and configuration."""
    for name in ("run", *_FOLDERS):
        (directory / name).mkdir(parents=True, exist_ok=True)
    (directory / "etc/qemu.conf").write_text(_QEMU_CONF, encoding="ascii")
    (directory / "etc/libvirtd.conf").write_text(_LIBVIRTD_CONF, encoding="ascii")
    for name, entry in (("passwd", ":x:64055:64055::/nonexistent:/usr/sbin/nologin"), ("group", ":x:64055:")):
        known = Path("/etc", name).read_text(encoding="utf-8")
        lines = known.splitlines()
        if not any(line.startswith(f"{_USER}:") for line in lines):
            lines.append(_USER + entry)
        (directory / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def command(directory: Path) -> list[str]:
    """Arguments that start the daemon, in the foreground. A guest's process outlives it: see `guests`."""
    binds = "\n".join(
        f'mkdir -p {there} && mount --bind "$1/{name}" {there}' for name, there in _FOLDERS.items()
    )
    script = _SCRIPT.format(binds=binds)
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", str(directory)]


def answers(directory: Path) -> bool:
    """True if the daemon takes connections."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(directory / "run/libvirt-sock"))
        except OSError:
            return False
    return True


def guests(directory: Path) -> dict[int, str]:
    """Guests' processes that live: pid → domain, from libvirt's own notes, so also after the daemon has ended."""
    domains = {}
    for path in (directory / "run/qemu").glob("*.pid"):
        with contextlib.suppress(OSError, ValueError):
            pid = int(path.read_text(encoding="ascii"))
            line = (procfs.PROC / str(pid) / "cmdline").read_bytes()
            if b"guest=" + path.stem.encode() in line:
                domains[pid] = path.stem
    return domains


@contextlib.contextmanager
def running(directory: Path, within_s: float = 30.0) -> Iterator[str]:
    """Run a libvirt while the block runs, and yield its URI. Raises CannotHonour, HostFailed."""
    need()
    make(directory)
    environment = {**os.environ, "PATH": os.environ.get("PATH", os.defpath) + _SYSTEM_PATH}
    with (
        (directory / "said").open("wb") as log,
        subprocess.Popen(
            command(directory), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
        ) as daemon,
    ):
        try:
            until = time.monotonic() + within_s
            while not answers(directory):
                if daemon.poll() is not None or time.monotonic() > until:
                    raise HostFailed("libvirtd does not start", hint=last_line(directory / "said"))
                time.sleep(0.05)
            yield uri(directory)
        finally:
            daemon.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(10)
            daemon.kill()
            procfs.kill_until_gone(lambda: guests(directory))
