"""The command that installs a program here. contend knows packages by Debian's names; others have names of their own."""

from __future__ import annotations

import functools
from pathlib import Path

_COMMANDS = {
    "apt": "apt-get install",
    "dnf": "dnf install",
    "zypper": "zypper install",
    "apk": "apk add",
    "pacman": "pacman -S",
}
_MANAGERS = {
    "debian": "apt",
    "ubuntu": "apt",
    "fedora": "dnf",
    "rhel": "dnf",
    "centos": "dnf",
    "suse": "zypper",
    "opensuse": "zypper",
    "sles": "zypper",
    "alpine": "apk",
    "arch": "pacman",
}
_OTHERS = ("dnf", "zypper", "apk", "pacman")
# Those that are not called as in Debian, in the order of _OTHERS; "" where Debian's name holds.
_NAMES = {
    "busybox-static": ("busybox", "", "", "busybox"),
    "docker.io": ("moby-engine", "docker", "docker", "docker"),
    "ffmpeg": ("ffmpeg-free", "", "", ""),
    "iproute2": ("iproute", "", "", ""),
    "iperf3": ("", "iperf", "", ""),
    "libc6-dev": ("glibc-devel", "glibc-devel", "musl-dev", "glibc"),
    "libelf-dev": ("elfutils-libelf-devel", "libelf-devel", "elfutils-dev", "libelf"),
    "libopenmpi-dev": ("openmpi-devel", "openmpi-devel", "openmpi-dev", "openmpi"),
    "libvirt-clients": ("libvirt-client", "libvirt-client", "libvirt-client", "libvirt"),
    "libvirt-daemon-system": ("libvirt-daemon", "libvirt", "libvirt-daemon", "libvirt"),
    "linux-image-cloud-amd64": ("kernel-core", "kernel-default", "linux-virt", "linux"),
    "mount": ("util-linux", "util-linux", "util-linux", "util-linux"),
    "nginx-light": ("nginx", "nginx", "nginx", "nginx"),
    "openjdk-17-jre-headless": (
        "java-17-openjdk-headless",
        "java-17-openjdk-headless",
        "openjdk17-jre-headless",
        "jre17-openjdk-headless",
    ),
    "openmpi-bin": ("openmpi", "openmpi", "openmpi", "openmpi"),
    "openvswitch-switch": ("openvswitch", "openvswitch", "openvswitch", "openvswitch"),
    "postgresql": ("postgresql-server", "postgresql-server", "", ""),
    "qemu-system-x86": ("qemu-system-x86-core", "qemu-x86", "qemu-system-x86_64", "qemu-system-x86"),
    "qemu-utils": ("qemu-img", "qemu-tools", "qemu-img", "qemu-img"),
    "rabbitmq-server": ("", "", "", "rabbitmq"),
    "redis-server": ("redis", "redis", "redis", "redis"),
    "redis-tools": ("redis", "redis", "redis", "redis"),
    "zlib1g-dev": ("zlib-devel", "zlib-devel", "zlib-dev", "zlib"),
}


def install_command(*names: str) -> str:
    """The command for packages by Debian's names: a hint.

    >>> install_command("iproute2").endswith(("iproute2", "iproute"))
    True
    """
    return command(manager(), names)


def command(manager: str, names: tuple[str, ...]) -> str:
    """The command of one package manager.

    >>> command("apt", ("redis-server", "redis-tools")), command("dnf", ("redis-server", "redis-tools", "fio"))
    ('apt-get install redis-server redis-tools', 'dnf install redis fio')
    """
    wanted = dict.fromkeys(_called(name, manager) for name in names)
    return f"{_COMMANDS[manager]} {' '.join(wanted)}"


@functools.cache
def manager(os_release: Path = Path("/etc/os-release")) -> str:
    """This system's package manager; apt where the system is none that is known, for names are Debian's then."""
    try:
        text = os_release.read_text(encoding="utf-8")
    except OSError:
        text = ""
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    families = f"{fields.get('ID', '')} {fields.get('ID_LIKE', '')}".replace('"', "").split()
    known = (_MANAGERS.get(family) or _MANAGERS.get(family.partition("-")[0]) for family in families)
    return next((each for each in known if each), "apt")


def _called(name: str, manager: str) -> str:
    others = _NAMES.get(name, ("",) * len(_OTHERS))
    return (others[_OTHERS.index(manager)] if manager in _OTHERS else "") or name
