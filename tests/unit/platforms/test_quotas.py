"""Quotas of groups around and inside a party, read from made trees of both versions."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from contend.platforms.quotas import QuotaWatch, Throttling


class Tree:
    """A cgroup file system and a /proc that tells who is where."""

    def __init__(self, path: Path, version: int, *, local: bool = True, root: str = "/") -> None:
        self.version, self.local, self.root = version, local, path / "cgroup"
        self.proc = path / "proc"
        kind = "cgroup2 cgroup2 rw" if version == 2 else "cgroup cgroup rw,cpu,cpuacct"
        self.mountinfo = f"30 29 0:26 {root} {self.root} rw - {kind}\n"
        self.group("")
        self.put("self", "/")

    def put(self, pid: str, group: str) -> None:
        (self.proc / pid).mkdir(parents=True, exist_ok=True)
        line = f"0::{group}\n" if self.version == 2 else f"3:cpu,cpuacct:{group}\n0::/elsewhere\n"
        (self.proc / pid / "cgroup").write_bytes(os.fsencode(line))

    def group(
        self,
        path: str,
        quota: str = "max",
        throttled_ms: int = 0,
        periods: int = 0,
        local_ms: int | None = None,
    ) -> Path:
        made = self.root / path
        made.mkdir(parents=True, exist_ok=True)
        local_ms = throttled_ms if local_ms is None else local_ms
        if self.version == 2:
            (made / "cpu.stat").write_text(
                f"usage_usec 1\nnr_periods 9\nnr_throttled {periods}\nthrottled_usec {throttled_ms * 1000}\n"
            )
            (made / "cpu.max").write_text("max 100000" if quota == "max" else f"{quota} 100000")
            local = f"throttled_usec {local_ms * 1000}\n"
        else:
            (made / "cpu.stat").write_text(f"nr_throttled {periods}\nthrottled_time {throttled_ms * 10**6}\n")
            (made / "cpu.cfs_quota_us").write_text("-1" if quota == "max" else quota)
            (made / "cpu.cfs_period_us").write_text("100000")
            local = f"throttled_time {local_ms * 10**6}\n"
        if self.local and path:
            (made / "cpu.stat.local").write_text(local)
        return made

    def watch(self, *party: Path, hidden: bool = False) -> QuotaWatch:
        (self.proc / "self/mountinfo").write_bytes(os.fsencode(self.mountinfo))
        return QuotaWatch(party, proc=self.proc, hidden=hidden)


@pytest.fixture(params=[(1, True), (1, False), (2, True), (2, False)], ids=["v1", "v1 old", "v2", "v2 old"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    version, local = request.param
    return Tree(tmp_path, version, local=local)


def told(watch: QuotaWatch) -> list[tuple[str, float, str, float]]:
    return [(Path(q.group).name, q.cpus, q.whose, q.throttled_s) for q in watch.throttling().quotas]


def test_a_group_above(tree: Tree) -> None:
    """The party's own group has no quota; that in which contend was started has."""
    tree.group("slice", "50000", 100, 1)
    party = tree.group("slice/contend.run/victim")
    tree.put("self", "/slice")
    tree.put("7", "/slice/contend.run/victim")
    watch = tree.watch(party)
    watch.look([7])
    tree.group("slice", "50000", 1100, 11)
    tree.group("slice/contend.run/victim", local_ms=1000)
    watch.look([7])
    assert told(watch) == [("slice", 0.5, "above", 1.0)]
    assert watch.throttling() == Throttling(1.0, 10, watch.throttling().quotas)


def test_contends_own_group_where_the_party_has_none_in_that_hierarchy(tree: Tree) -> None:
    tree.group("unit", "50000", local_ms=0)
    tree.put("self", "/unit")
    tree.put("7", "/unit")
    watch = tree.watch()
    watch.look([7])
    tree.group("unit", "50000", 700, 7)
    watch.look([7])
    assert told(watch) == [("unit", 0.5, "above", 0.7)] and watch.throttling().held_s == 0.7


def test_groups_below_that_come_and_go(tree: Tree) -> None:
    """A job scheduler's slot below, gone before the end: what was counted of it stays."""
    party = tree.group("contend.run/victim")
    tree.put("7", "/contend.run/victim")
    watch = tree.watch(party)
    watch.look([7])
    for number, ms in enumerate((0, 400)):
        slot = tree.group("contend.run/victim/slot", "20000", ms, number)
        tree.put("7", "/contend.run/victim/slot")
        watch.look([7])
    for file in slot.iterdir():
        file.unlink()
    slot.rmdir()
    watch.look([])
    assert told(watch) == [("slot", 0.2, "below", 0.4)] and watch.throttling().held_s == 0.4


def test_a_process_that_leaves_the_party_is_followed(tree: Tree) -> None:
    party = tree.group("contend.run/victim")
    tree.group("system.slice/run-u1.scope", "50000", 0)
    tree.put("7", "/contend.run/victim")
    watch = tree.watch(party)
    watch.look([7])
    tree.put("7", "/system.slice/run-u1.scope")
    watch.look([])
    tree.group("system.slice/run-u1.scope", "50000", 900, 9)
    watch.look([])
    assert told(watch) == [("run-u1.scope", 0.5, "below", 0.9)] and watch.throttling().held_s == 0.9


def test_within_each_other_the_longer_counts_and_beside_each_other_both(tree: Tree) -> None:
    party = tree.group("box", "50000")
    watch = tree.watch(party)
    for one, two in ((0, 0), (300, 500)):
        tree.group("box", "50000", one, one)
        tree.group("box/a", "20000", two, two)
        tree.group("box/b", "20000", one, one)
        watch.look([])
    assert watch.throttling().held_s == pytest.approx(0.8)
    assert told(watch)[0][:3] == ("a", 0.2, "below")
    assert ("box", 0.5, "own", 0.3) in told(watch)


def test_others_beside_are_none_of_its(tree: Tree) -> None:
    party = tree.group("contend.run/victim")
    tree.group("another")
    tree.put("7", "/contend.run/victim")
    watch = tree.watch(party)
    watch.look([7])
    tree.group("another", "10000", 5000, 50)
    watch.look([7])
    assert told(watch) == [] and watch.throttling().held_s == 0.0


def test_what_cannot_be_seen_is_unknown(tmp_path: Path) -> None:
    inside = Tree(tmp_path, 2, local=False)
    watch = inside.watch(inside.group("victim"), hidden=True)
    watch.look([])
    assert watch.throttling().held_s is None and "above this container" in watch.throttling().unknown
    part = Tree(tmp_path / "part", 2, local=False, root="/docker/1")
    part.put("7", "/system.slice/other")
    watch = part.watch()
    watch.look([7])
    assert watch.throttling().held_s is None and "not mounted here" in watch.throttling().unknown


def test_in_a_container_a_kernel_that_counts_in_every_group_knows(tmp_path: Path) -> None:
    tree = Tree(tmp_path, 2)
    party = tree.group("victim")
    watch = tree.watch(party, hidden=True)
    watch.look([])
    tree.group("victim", local_ms=600)
    watch.look([])
    found = watch.throttling()
    assert found.held_s == 0.6 and found.quotas == () and found.unknown == ""


def test_a_quota_that_is_gone_has_no_size(tree: Tree) -> None:
    party = tree.group("box", "50000")
    for name in ("cpu.max", "cpu.cfs_quota_us"):
        (party / name).unlink(missing_ok=True)
    watch = tree.watch(party)
    watch.look([])
    for file, text in (("cpu.stat", "nr_throttled 3\nthrottled_usec 5\nthrottled_time 5000\n"),):
        (party / file).write_text(text)
    watch.look([])
    (quota,) = watch.throttling().quotas
    assert math.isnan(quota.cpus) and quota.to_json()["cpus"] is None


@pytest.mark.parametrize(
    "odd", ["\r", "\x0b", "\x1c", "\x85", "\u2028", "\u3000", b"\xff".decode(errors="surrogateescape")]
)
def test_names_may_hold_what_unicode_has_for_line_ends_and_blanks(tree: Tree, odd: str) -> None:
    """A mount point's and a group's: the kernel writes only its own blanks and line ends in octal."""
    tree.mountinfo = f"29 1 254:1 / /media/a{odd}b rw - ext4 /dev/sd{odd} rw\n{tree.mountinfo}"
    victim = tree.group(f"a{odd}b/victim", "50000", 100, 1)
    tree.put("7", f"/a{odd}b/victim")
    watch = tree.watch(victim)
    watch.look([7])
    tree.group(f"a{odd}b/victim", "50000", 1100, 11)
    watch.look([7])
    assert told(watch) == [("victim", 0.5, "own", 1.0)]
