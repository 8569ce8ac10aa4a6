"""Volumes that guests can write to: backends of Cinder's whose volumes are files of the bed, behind loop devices of the
host.

A device is there while its volume is attached. The driver makes and frees it; what a kill leaves is found by the file behind
it, which lies below the bed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from contend.errors import BadInput, CannotHonour
from contend.testbed.openstack.bed import Bed

MODULE = "contend_testbed_volumes"
FILE = f"python/{MODULE}.py"
"""Below the bed's etc."""
_BLOCK = Path("/sys/block")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def read(backends: Sequence[str]) -> dict[str, int]:
    """Parse backends like slow=300: name → the most IOPS of each of its volumes, 0 for no limit. Raises BadInput.

    >>> read(("fast", "slow=300"))
    {'fast': 0, 'slow': 300}
    """
    limits: dict[str, int] = {}
    for text in backends:
        name, limited, most = text.partition("=")
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,19}", name) or name == "fake" or name in limits:
            raise BadInput(f"'{text}' names no backend", hint="--backends fast,slow=300")
        if limited and not (most.isdecimal() and int(most) > 0):
            raise BadInput(f"'{text}': IOPS are a whole number above 0", hint="--backends fast,slow=300")
        limits[name] = int(most) if limited else 0
    return limits


def need() -> None:
    """Check that this host can have such volumes. Raises CannotHonour."""
    if shutil.which("losetup", path=_PATH) is None:
        raise CannotHonour("volumes need losetup", hint="apt-get install mount")
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        raise CannotHonour(
            "volumes are behind loop devices, which take root and /dev/loop-control", hint="as root"
        )


def backends_folder(bed: Bed) -> Path:
    """Directory of the backends."""
    return bed.data / "volumes"


def environment(bed: Bed) -> dict[str, str]:
    """Variables by which cinder-volume finds the driver."""
    return {"PYTHONPATH": str((bed.etc / FILE).parent)}


def sections(bed: Bed, backends: Iterable[str]) -> str:
    """Write the backends' sections of cinder.conf."""
    return "".join(
        f"[{name}]\nvolume_driver = {MODULE}.Driver\nvolume_backend_name = {name}\n"
        f"contend_place = {backends_folder(bed) / name}\n"
        for name in backends
    )


def left(bed: Bed, block: Path = _BLOCK) -> dict[str, Path]:
    """Find this host's loop devices of volumes of the bed: device → file."""
    devices, below = {}, f"{backends_folder(bed).resolve()}/"
    for entry in sorted(block.glob("loop*/loop/backing_file")):
        try:
            file = entry.read_text(encoding="utf-8").strip().removesuffix(" (deleted)")
        except OSError:  # freed meanwhile
            continue
        if file.startswith(below):
            devices[f"/dev/{entry.parent.parent.name}"] = Path(file)
    return devices


def end(bed: Bed) -> None:
    """Free the bed's loop devices, after all guests have ended. Idempotent."""
    for device in left(bed):
        subprocess.run(["losetup", "--detach", device], capture_output=True, check=False, env={"PATH": _PATH})
