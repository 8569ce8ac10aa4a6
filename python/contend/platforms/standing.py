"""The limits of a workload's control groups as they are now, and whether somebody else has changed them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contend.text.shape import Shape

# What a user or an engine sets (docker update, systemctl set-property), in v2 and v1; nothing that only counts.
_FILES = (
    *("cpu.max", "cpu.max.burst", "cpu.weight", "cpu.weight.nice", "cpu.idle", "cpu.uclamp.max"),
    *("cpuset.cpus", "cpuset.mems", "memory.max", "memory.high", "io.max", "io.weight"),
    *("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us", "cpu.shares", "memory.limit_in_bytes"),
    *("blkio.weight", "blkio.bfq.weight"),
    *(f"blkio.throttle.{way}_{what}_device" for way in ("read", "write") for what in ("iops", "bps")),
)

Standing = Mapping[str, str]  # by file


@dataclass(frozen=True, slots=True)
class Change(Shape):
    """A limit file that read differently before and after.

    >>> str(Change("/sys/fs/cgroup/box/cpu.max", "50000 100000", "20000 100000"))
    'cpu.max of /sys/fs/cgroup/box: 50000 100000 → 20000 100000'
    """

    file: str
    before: str
    after: str

    def __str__(self) -> str:
        path = Path(self.file)
        return f"{path.name} of {path.parent}: {self.before or '(empty)'} → {self.after or '(empty)'}"


def groups_of(honoured: Mapping[str, object]) -> list[Path]:
    """The control groups that a host says it got."""
    groups = honoured.get("groups", [])
    return [Path(str(group)) for group in groups] if isinstance(groups, list) else []


def read(groups: Collection[Path]) -> dict[str, str]:
    """Read these groups' limit files: text by path; those that are not there are left out."""
    texts = {}
    for group in groups:
        for name in _FILES:
            try:
                texts[f"{group}/{name}"] = (group / name).read_text(encoding="ascii").strip()
            except OSError:  # another version's, a controller that is off, or the group is gone
                continue
    return texts


def changes(before: Standing, after: Standing) -> Iterator[Change]:
    """List files that are in both readings and differ: a group that is gone has no limits that were changed."""
    for file, text in before.items():
        if file in after and after[file] != text:
            yield Change(file, text, after[file])


def limits_changed(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Find the first limit of each cell that somebody else changed during a trial: such a cell is not one condition."""
    changes: dict[str, str] = {}
    for row in rows:
        for change in row.get("limits_changed", ())[:1]:
            changes.setdefault(row["cell"], str(Change(change["file"], change["before"], change["after"])))
    return changes
