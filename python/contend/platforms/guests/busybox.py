"""A busybox that needs no libraries: an initramfs has none."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def is_static(program: bytes) -> bool:
    """A dynamic one names its loader (PT_INTERP) in the first page.

    >>> is_static(b"\\x7fELF...\\0/lib64/ld-linux-x86-64.so.2\\0"), is_static(b"\\x7fELF")
    (False, True)
    """
    return b"/ld-" not in program[:4096]


def of_this_host() -> Path | None:
    """This host's, if it has one that needs no libraries."""
    found = shutil.which("busybox", path=f"{os.environ.get('PATH', os.defpath)}:/bin:/usr/bin:/sbin")
    return Path(found) if found and is_static(Path(found).read_bytes()) else None
