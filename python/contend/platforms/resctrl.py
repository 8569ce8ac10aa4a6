"""Caches and memory by party, as the processor counts them, where the kernel's resctrl is mounted.

A group for monitoring only limits nobody: it takes one of the few ids with which the processor counts. Formats:
Documentation/filesystems/resctrl.rst of the kernel.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from contend import names
from contend.platforms.procfs import text_or_empty

ROOT = Path("/sys/fs/resctrl")
KIND = "resctrl-group"
"""In the ledger."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Counters of a group, over all caches. None: this processor does not count it, or not now.

    cache_bytes: held now. memory_bytes: moved to and from memory since the group was made.
    """

    cache_bytes: int | None = None
    memory_bytes: int | None = None


def is_there(root: Path = ROOT) -> bool:
    """True if resctrl is mounted, this user may make groups, and the processor counts."""
    return bool(text_or_empty(root / "info/L3_MON/mon_features").split()) and os.access(
        root / "mon_groups", os.W_OK
    )


def path_of(run_id: str, workload: str, root: Path = ROOT) -> Path:
    """Path of a party's group.

    >>> path_of("r-1", "victim").name
    'contend.r-1.victim'
    """
    return root / "mon_groups" / f"{names.run_group(run_id)}.{workload.replace('/', '-')}"


def counted(group: Path) -> Counted:
    """Read a group's counters. A counter that answers `Unavailable` or `Error` for one cache is known for none."""
    data = group / "mon_data"
    return Counted(_sum(data, "llc_occupancy"), _sum(data, "mbm_total_bytes"))


def _sum(data: Path, name: str) -> int | None:
    texts = [text_or_empty(file).strip() for file in sorted(data.glob(f"mon_L3_*/{name}"))]
    return sum(map(int, texts)) if texts and all(text.isdigit() for text in texts) else None


def remove(group: Path) -> bool:
    """Remove a group; its tasks are counted where they were before. False where there is none. Raises OSError."""
    if not group.exists():
        return False
    group.rmdir()
    return True
