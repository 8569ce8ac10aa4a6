"""Limits that somebody changes, of every kind that an engine or a user sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend.platforms import standing

LIMITS = {
    "cpu.max": ("max 100000", "50000 100000"),
    "cpu.weight": ("100", "10"),
    "cpuset.cpus": ("0-1", "0"),
    "memory.max": ("max", "1048576"),
    "io.max": ("", "8:0 riops=100"),
    "cpu.cfs_quota_us": ("-1", "50000"),
    "cpu.shares": ("1024", "2"),
    "blkio.throttle.read_iops_device": ("", "8:0 100"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_changed_limit_is_told_with_both_values(tmp_path: Path, name: str) -> None:
    for file, (before, _) in LIMITS.items():
        (tmp_path / file).write_text(f"{before}\n")
    first = standing.read([tmp_path])
    assert list(standing.changes(first, standing.read([tmp_path]))) == []
    (tmp_path / name).write_text(f"{LIMITS[name][1]}\n")
    (change,) = standing.changes(first, standing.read([tmp_path]))
    assert (Path(change.file).name, change.before, change.after) == (name, *LIMITS[name])


def test_counters_and_groups_that_are_gone_are_no_change(tmp_path: Path) -> None:
    group = tmp_path / "box"
    group.mkdir()
    (group / "cpu.max").write_text("max 100000\n")
    (group / "cpu.stat").write_text("usage_usec 1\n")
    first = standing.read([group])
    (group / "cpu.stat").write_text("usage_usec 2\n")
    assert list(standing.changes(first, standing.read([group]))) == []
    assert list(standing.changes(first, standing.read([tmp_path / "gone"]))) == []


def test_groups_of_what_a_host_says() -> None:
    assert standing.groups_of({"groups": ["/a", "/b"]}) == [Path("/a"), Path("/b")]
    assert standing.groups_of({}) == []
