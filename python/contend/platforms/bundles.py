"""Parts of a container of contend's: an almost empty root, the host's own directories, OCI settings.

The root holds only mount points and links, so the same programs run on bare and in the container, and what is
compared is the platform and not two builds of a program.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contend import names
from contend.store import state
from contend.store.ledger import Ledger

ANNOTATION = "contend.run"
_HOST = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt")
# What docker and podman leave to a container: the set both document as their default.
_CAPABILITIES = (
    *("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_NET_BIND_SERVICE"),
    *("CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT"),
)


@dataclass(frozen=True, slots=True)
class Mount:
    """A directory of the host that is seen under the same path inside."""

    path: Path
    writable: bool = False


def host_mounts(writable: Sequence[Path]) -> list[Mount]:
    """The host's programs read-only, the interpreter that runs contend, and `writable`; outer ones first."""
    mounts = {Path(p): Mount(Path(p)) for p in _HOST if Path(p).is_dir() and not Path(p).is_symlink()}
    package = Path(__file__).resolve().parents[2]
    for path in (Path(sys.base_prefix), Path(sys.prefix), Path(sys.base_prefix).resolve(), package):
        if path.is_dir() and not any(path.is_relative_to(seen) for seen in mounts):
            mounts[path] = Mount(path)
    for path in writable:
        mounts[path.resolve()] = Mount(path.resolve(), writable=True)
    return sorted(mounts.values(), key=lambda mount: len(mount.path.parts))


@dataclass(frozen=True, slots=True)
class Bundle:
    """A directory with `rootfs/`, `config.json` and `exchange/`, where a command's stamps are written."""

    path: Path

    @property
    def rootfs(self) -> Path:
        return self.path / "rootfs"

    @property
    def exchange(self) -> Path:
        return self.path / "exchange"

    def make_rootfs(self, run_id: str = "") -> None:
        """Make mount points and the host's links from / into /usr; write the run's id into `owner`."""
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "owner").write_text(run_id, encoding="utf-8")
        for name in ("proc", "sys", "dev", "tmp", "run", "var/tmp", "root", "etc", "usr"):
            (self.rootfs / name).mkdir(parents=True, exist_ok=True)
        (self.rootfs / "tmp").chmod(0o1777)
        self.exchange.mkdir(exist_ok=True)
        for text in _HOST:
            host, inside = Path(text), self.rootfs / text.lstrip("/")
            if host.is_symlink() and not inside.is_symlink():
                inside.symlink_to(host.readlink())

    def write_config(self, config: Mapping[str, Any]) -> None:
        (self.path / "config.json").write_text(json.dumps(config), encoding="utf-8")

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=False)

    def drop(self, ledger: Ledger) -> None:
        """Remove it, if it is there, and its row in the ledger."""
        if self.path.exists():
            self.remove()
        ledger.removed("bundle", str(self.path))


def home() -> Path:
    """Where bundles are made: beside the pointers of this user's runs."""
    return state.folder().parent / "bundles"


def left() -> list[tuple[Path, str]]:
    """List every bundle that is left: (directory, run id)."""
    if not home().is_dir():
        return []
    return [
        (path, _owner(path)) for path in sorted(home().iterdir()) if path.name.startswith(f"{names.PREFIX}-")
    ]


def _owner(path: Path) -> str:
    owner = path / "owner"
    return owner.read_text(encoding="utf-8") if owner.exists() else ""


def run_of(config: Path) -> str:
    """The run id in a bundle's config.json; "" when it cannot be read."""
    try:
        return str(json.loads(config.read_text(encoding="utf-8"))["annotations"][ANNOTATION])
    except (OSError, ValueError, KeyError):
        return ""


def oci_process(args: Sequence[str], env: Mapping[str, str], cwd: str) -> dict[str, Any]:
    """The `process` of the OCI runtime specification, with the limits this tool has itself."""
    limits = [
        {"type": name, "soft": soft if soft >= 0 else 2**64 - 1, "hard": hard if hard >= 0 else 2**64 - 1}
        for name in ("RLIMIT_NOFILE", "RLIMIT_NPROC")
        for soft, hard in (resource.getrlimit(getattr(resource, name)),)
    ]
    sets = ("bounding", "effective", "permitted")
    return {
        "terminal": False,
        "user": {"uid": os.getuid(), "gid": os.getgid()},
        "args": list(args),
        "env": [f"{key}={value}" for key, value in env.items()],
        "cwd": cwd,
        "capabilities": {name: list(_CAPABILITIES) for name in sets},
        "rlimits": limits,
        "noNewPrivileges": False,
    }


def oci_config(
    rootfs: Path,
    args: Sequence[str],
    mounts: Sequence[Mount],
    resources: Mapping[str, Any],
    *,
    cgroup: str = "",
    netns: Path | None = None,
    run_id: str = "",
) -> dict[str, Any]:
    """config.json of the OCI runtime specification 1.0: own pid, ipc, uts and mount namespaces.

    The network is the host's, or the namespace `netns`. `resources` is `linux.resources`.
    """
    namespaces: list[dict[str, str]] = [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]
    if netns is not None:
        namespaces.append({"type": "network", "path": str(netns)})
    return {
        "ociVersion": "1.0.2",
        "annotations": {ANNOTATION: run_id},
        "hostname": "contend",
        "root": {"path": str(rootfs), "readonly": False},
        "process": oci_process(args, {"PATH": os.environ.get("PATH", os.defpath)}, "/"),
        "mounts": [
            _special("/proc", "proc", "proc"),
            _special("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
            _special(
                "/dev/pts",
                "devpts",
                "devpts",
                "nosuid",
                "noexec",
                "newinstance",
                "ptmxmode=0666",
                "mode=0620",
            ),
            _special("/dev/shm", "tmpfs", "shm", "nosuid", "noexec", "nodev", "mode=1777", "size=65536k"),
            _special("/dev/mqueue", "mqueue", "mqueue", "nosuid", "noexec", "nodev"),
            _special("/sys", "none", "/sys", "rbind", "nosuid", "noexec", "nodev", "ro"),
            _special("/tmp", "tmpfs", "tmpfs", "nosuid", "nodev", "mode=1777"),
            _special("/run", "tmpfs", "tmpfs", "nosuid", "nodev", "mode=755"),
            *(
                _special(str(m.path), "none", str(m.path), "rbind", "rw" if m.writable else "ro")
                for m in mounts
            ),
        ],
        "linux": {
            "namespaces": namespaces,
            "resources": {"devices": [{"allow": True, "access": "rwm"}], **resources},
            **({"cgroupsPath": cgroup} if cgroup else {}),
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
        },
    }


def _special(destination: str, kind: str, source: str, *options: str) -> dict[str, Any]:
    return {"destination": destination, "type": kind, "source": source, "options": list(options)}
