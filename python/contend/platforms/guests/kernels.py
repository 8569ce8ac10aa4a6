"""The kernels of this host that guests can boot, and where their modules are."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from contend.errors import CannotHonour
from contend.platforms.packages import install_command
from contend.store import state


def find(chosen: str = "") -> Path:
    """Find the kernel that guests boot: the chosen one, else this host's own, else one from the cache. Raises
    CannotHonour."""
    if chosen:
        path = Path(chosen).expanduser()
        if not os.access(path, os.R_OK) or path.is_dir():
            raise CannotHonour(f"there is no kernel to be read at {path}", hint="a vmlinuz (bzImage)")
        return path.resolve()
    if not (usable := readable()):
        unreadable = any(path.is_file() for path in _kernels())
        raise CannotHonour(
            "a micro-VM needs a kernel, and "
            + (
                "those in /boot are not readable for this user"
                if unreadable
                else "there is no /boot/vmlinuz*"
            ),
            hint=f"{install_command('linux-image-cloud-amd64')}, or --set parameters.kernel=VMLINUZ",
        )
    return usable[0]


def readable() -> list[Path]:
    """List the kernels that this user can read: this host's own first, then the newest of /boot, then those of the cache."""
    return [path for path in _kernels() if path.is_file() and os.access(path, os.R_OK)]


def modules_of(kernel: Path) -> Path:
    """The directory of a kernel's modules, by its name: the host's, or beside it in the cache; it may not be there."""
    version = kernel.name.removeprefix("vmlinuz-")
    return kernel.parent / version if kernel.parent == _cached() else Path("/lib/modules") / version


def _kernels() -> list[Path]:
    own = Path("/boot") / f"vmlinuz-{platform.release()}"
    return [own, *_newest(Path("/boot")), *_newest(_cached())]


def _cached() -> Path:
    return state.cache() / "kernel"


def _newest(directory: Path) -> list[Path]:
    kernels = directory.glob("vmlinuz*")
    return sorted(kernels, key=lambda path: path.stat().st_mtime, reverse=True)
