"""The hosts: which system, how it is started, and who uses it."""

from __future__ import annotations

from dataclasses import dataclass, replace

SYSTEM = (
    *(
        "systemd-sysv",
        "libpam-systemd",
        "dbus",
        "dbus-user-session",
        "procps",
        "iproute2",
        "kmod",
        "busybox-static",
    ),
    *("python3", "sudo", "fio", "stress-ng", "apparmor"),
    *("nfs-kernel-server", "nfs-common"),
    *("docker.io", "podman", "crun", "runc", "uidmap", "slirp4netns", "fuse-overlayfs", "iptables"),
)
LEGACY = "systemd.unified_cgroup_hierarchy=0"
OWN = "systemd.legacy_systemd_cgroup_controller"


@dataclass(frozen=True, slots=True)
class Image:
    """A root file system, made once for all hosts that start it. contend: what of it is installed; tests: and its tests."""

    suite: str
    packages: tuple[str, ...] = SYSTEM
    contend: str = "contend[fetch,rpc]"
    tests: bool = True


BOOKWORM = Image("bookworm")
# From Debian 13 on Docker's client is a package of its own.
TRIXIE, SID = (Image(suite, (*SYSTEM, "docker-cli")) for suite in ("trixie", "sid"))


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of host. `words`: of its kernel's command line; `first`: a command of root's before anything is tried; `more`:
    steps besides those that are tried on each."""

    name: str
    what: str
    image: Image = TRIXIE
    words: str = ""
    smp: str = "2"
    cpu: str = ""
    """Further features of its CPUs."""
    qemu: tuple[str, ...] = ()
    memory_mib: int = 2048
    user: str = "root"
    first: str = ""
    more: tuple[str, ...] = ()
    slower: float = 2.0
    """So much more time each step has: many CPUs emulated on few wait for each other."""


LIMITS = ("Docker", "podman", "limits", "prove")
CPUS = ("own cores", "limits")
# The kernel's own way, which asks no writer; a home stays, as on systems of that kind.
READ_ONLY = "mount -t tmpfs tmpfs /root && echo u >/proc/sysrq-trigger && sleep 5 && ! touch /etc/written"
DEFAULT = Kind(
    "debian-13",
    "Debian 13: systemd, cgroup v2, Docker by its systemd driver, AppArmor",
    more=(*LIMITS, "runs over NFS"),
)
KINDS = (
    DEFAULT,
    replace(DEFAULT, name="debian-12", what="Debian 12: the same", image=BOOKWORM, more=LIMITS),
    replace(DEFAULT, name="sid", what="Debian sid and its Python", image=SID, more=LIMITS),
    replace(
        DEFAULT,
        name="hybrid",
        what="cgroup v1 controllers, v2 beside them",
        image=BOOKWORM,
        words=f"{LEGACY} {OWN}=0",
        more=LIMITS,
    ),
    replace(DEFAULT, name="v1", what="cgroup v1 only", image=BOOKWORM, words=f"{LEGACY} {OWN}=1", more=LIMITS),
    replace(DEFAULT, name="one-cpu", what="one CPU", smp="1", more=CPUS),
    replace(DEFAULT, name="four-cpus", what="four CPUs", smp="4", more=CPUS),
    replace(DEFAULT, name="sixteen-cpus", what="sixteen CPUs", smp="16", memory_mib=3072, more=CPUS, slower=4),
    replace(
        DEFAULT,
        name="smt",
        what="two cores of two hardware threads",
        smp="4,cores=2,threads=2",
        cpu=",vendor=GenuineIntel",
        more=CPUS,
    ),
    replace(
        DEFAULT,
        name="numa",
        what="two NUMA nodes of two CPUs",
        smp="4",
        qemu=(
            *("-object", "memory-backend-ram,id=m0,size=1024M", "-object", "memory-backend-ram,id=m1,size=1024M"),
            *("-numa", "node,nodeid=0,cpus=0-1,memdev=m0", "-numa", "node,nodeid=1,cpus=2-3,memdev=m1"),
        ),
        more=CPUS,
    ),
    replace(
        DEFAULT,
        name="hole",
        what="four CPUs, of which the second is offline",
        smp="4",
        first="echo 0 >/sys/devices/system/cpu/cpu1/online",
        more=CPUS,
    ),
    replace(
        DEFAULT,
        name="user",
        what="a user without rights, in a session of systemd",
        user="alice",
        more=("Docker", "podman"),
    ),
    replace(
        DEFAULT,
        name="delegated",
        what="the same, with every controller delegated",
        user="alice",
        first="mkdir -p /etc/systemd/system/user@.service.d && "
        "printf '[Service]\\nDelegate=cpu cpuset io memory pids\\n' >/etc/systemd/system/user@.service.d/delegate.conf && "
        "systemctl daemon-reload && systemctl restart user@1000.service",
        more=("podman",),
    ),
    replace(DEFAULT, name="no-bpf", what="a kernel that is locked down: no BPF", words="lockdown=confidentiality", more=()),
    replace(DEFAULT, name="read-only", what="a root that nobody can write to", first=READ_ONLY, more=()),
)  # fmt: skip
BY_NAME = {kind.name: kind for kind in KINDS}
