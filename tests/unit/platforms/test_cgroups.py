from __future__ import annotations

import os
from pathlib import Path

import pytest

from contend.errors import CannotHonour, HostFailed
from contend.platforms import accounting, cgroups, limits
from contend.platforms.base import Limit
from contend.platforms.cgroups import Hierarchy, Layout, parse_layout
from contend.platforms.groups import Groups
from contend.store.ledger import Ledger

PURE = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
HYBRID = """31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
34 31 0:31 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
IN_A_CONTAINER = "40 30 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n"


def test_pure_v2() -> None:
    layout = parse_layout(PURE, "0::/user.slice/user-1000.slice/session-2.scope\n")
    assert layout.name == "v2"
    assert layout.v2 is not None
    assert layout.v2.own == Path("/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope")


def test_hybrid_with_controllers_mounted_together() -> None:
    layout = parse_layout(HYBRID, "4:memory:/batch\n3:cpu,cpuacct:/jobs\n1:name=systemd:/x\n0::/y\n")
    assert layout.name == "hybrid"
    assert layout.v2 is not None
    assert layout.v2.own == Path("/sys/fs/cgroup/unified/y")
    assert layout.v1["cpu"].own == Path("/sys/fs/cgroup/cpu,cpuacct/jobs")
    assert layout.v1["cpuacct"].controllers == {"cpu", "cpuacct"}
    assert layout.v1["memory"].own == Path("/sys/fs/cgroup/memory/batch")
    assert len(list(layout.hierarchies())) == 4


def test_a_mount_of_a_part_of_the_tree() -> None:
    inside = parse_layout(IN_A_CONTAINER, "0::/docker/abc/sub\n")
    assert inside.v2 is not None
    assert inside.v2.own == Path("/sys/fs/cgroup/sub")
    outside = parse_layout(IN_A_CONTAINER, "0::/elsewhere\n")
    assert outside.v2 is not None
    assert outside.v2.own == Path("/sys/fs/cgroup")


def test_a_host_without_cgroups() -> None:
    assert parse_layout("27 1 254:0 / / rw - ext4 /dev/vda rw\n", "").name == "none"
    assert cgroups.read_layout("none") == Layout(None, {})


def test_only_contends_own_groups_are_removed(tmp_path: Path) -> None:
    with pytest.raises(HostFailed, match="not one of contend's"):
        cgroups.remove(tmp_path)
    assert tmp_path.is_dir()
    assert cgroups.remove(tmp_path / "contend.gone" / "victim") is False


def layout_with(tmp_path: Path, *controllers: str) -> Layout:
    return Layout(None, {name: Hierarchy(1, tmp_path, tmp_path, frozenset({name})) for name in controllers})


def test_limits_take_the_hierarchy_that_has_the_controller(tmp_path: Path) -> None:
    limit = Limit(cpus=0.5, memory_bytes=1 << 30)
    v1 = layout_with(tmp_path, "cpu", "memory")
    assert limits.check(limit, v1, frozenset(), tmp_path) == {"cpu": 1, "memory": 1}
    assert limits.check(limit, v1, frozenset({"cpu"}), tmp_path) == {"cpu": 2, "memory": 1}


@pytest.mark.parametrize(
    ("limit", "word"),
    [(Limit(cpus=0.5), "cpu"), (Limit(memory_bytes=1 << 30), "memory"), (Limit(iops=100), "io")],
)
def test_a_limit_without_its_controller_is_refused(tmp_path: Path, limit: Limit, word: str) -> None:
    with pytest.raises(CannotHonour, match=f"cannot cap {word}") as refused:
        limits.check(limit, Layout(None, {}), frozenset(), tmp_path)
    assert refused.value.hint


@pytest.mark.parametrize("limit", [Limit(cpus=0.001), Limit(cpus=-1), Limit(memory_bytes=1), Limit(iops=0)])
def test_a_limit_that_the_kernel_would_refuse_is_refused_first(tmp_path: Path, limit: Limit) -> None:
    with pytest.raises(CannotHonour, match="is below"):
        limits.check(limit, layout_with(tmp_path, "cpu", "memory", "blkio"), frozenset(), tmp_path)


def test_what_is_written_for_each_controller() -> None:
    limit = Limit(cpus=1.5, memory_bytes=1 << 20, iops=40, bytes_per_s=1000)

    def written(controller: str, version: int) -> dict[str, list[str]]:
        files: dict[str, list[str]] = {}
        for cap in limits.caps(controller, version, limit, "8:0"):
            files.setdefault(cap.file, []).append(cap.text)
        return files

    assert written("cpu", 2) == {"cpu.max": ["150000 100000"]}
    assert written("cpu", 1) == {"cpu.cfs_period_us": ["100000"], "cpu.cfs_quota_us": ["150000"]}
    assert written("memory", 2) == {"memory.max": ["1048576"]}
    assert written("io", 2) == {"io.max": ["8:0 riops=40", "8:0 rbps=1000", "8:0 wiops=40", "8:0 wbps=1000"]}
    assert written("io", 1)["blkio.throttle.write_iops_device"] == ["8:0 40"]
    assert len(written("io", 1)) == 4


def test_a_value_that_the_kernel_changed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.read_text
    monkeypatch.setattr(
        Path, "read_text", lambda self, **kw: "max 100000\n" if self.name == "cpu.max" else real(self, **kw)
    )
    with pytest.raises(HostFailed, match="reads 'max 100000' after '50000 100000'"):
        limits.apply(tmp_path, "cpu", 2, Limit(cpus=0.5), tmp_path)


def test_the_kernel_may_round_memory_down_to_a_page(tmp_path: Path) -> None:
    (cap,) = limits.caps("memory", 2, Limit(memory_bytes=10_000_000), "")
    page = os.sysconf("SC_PAGE_SIZE")
    assert cap.accepted(f"{10_000_000 // page * page}\n")
    assert not cap.accepted("max\n")
    assert not cap.accepted("9000000\n")
    assert not cap.accepted("10000001\n")


def test_the_whole_disk_of_a_partition(tmp_path: Path) -> None:
    device = tmp_path.stat().st_dev
    disk = tmp_path / "sys/devices/pci/sda"
    (disk / "sda1").mkdir(parents=True)
    (disk / "dev").write_text("8:0\n")
    (disk / "sda1/dev").write_text("8:1\n")
    (disk / "sda1/partition").write_text("1\n")
    (tmp_path / "sys/dev/block").mkdir(parents=True)
    link = tmp_path / "sys/dev/block" / f"{os.major(device)}:{os.minor(device)}"
    with pytest.raises(CannotHonour, match="no block device"):
        limits.whole_disk(tmp_path, tmp_path / "sys")
    link.symlink_to(disk / "sda1")
    assert limits.whole_disk(tmp_path, tmp_path / "sys") == "8:0"


def test_usage_from_v2_files(tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text(
        "usage_usec 30\nuser_usec 20\nsystem_usec 10\nnr_periods 4\nnr_throttled 3\nthrottled_usec 7\n"
    )
    (tmp_path / "cpu.pressure").write_text("some avg10=0.00 total=5\nfull avg10=0.00 total=1\n")
    (tmp_path / "io.stat").write_text("8:0 rbytes=4096 wbytes=512 rios=1 wios=1 dbytes=0 dios=0\n")
    usage = accounting.read_usage(tmp_path, {})
    assert (usage.cpu_ns, usage.user_ns, usage.system_ns) == (30_000, 20_000, 10_000)
    assert (usage.nr_throttled, usage.throttled_ns, usage.cpu_pressure_ns) == (3, 7_000, 5_000)
    assert (usage.read_bytes, usage.write_bytes, usage.io_pressure_ns) == (4096, 512, None)


def test_usage_from_v1_files(tmp_path: Path) -> None:
    (tmp_path / "cpuacct.usage").write_text("300\n")
    (tmp_path / "cpu.stat").write_text("nr_periods 4\nnr_throttled 3\nthrottled_time 7\n")
    usage = accounting.read_usage(None, {"cpuacct": tmp_path, "cpu": tmp_path})
    assert (usage.cpu_ns, usage.user_ns, usage.nr_throttled, usage.throttled_ns) == (300, None, 3, 7)
    assert usage.read_bytes is None


def test_disks_that_the_kernel_does_not_count_are_not_known(tmp_path: Path) -> None:
    """As from Linux 6.10 on, before a limit was set on a disk: v1's files list none, the root's neither."""
    group = tmp_path / "contend"
    group.mkdir()
    (tmp_path / "cgroup.procs").touch()
    for directory in (tmp_path, group):
        (directory / "blkio.throttle.io_service_bytes").write_text("Total 0\n")
    assert accounting.read_usage(None, {"blkio": group}).read_bytes is None
    (tmp_path / "blkio.throttle.io_service_bytes").write_text("254:0 Read 8\nTotal 8\n")
    usage = accounting.read_usage(None, {"blkio": group})
    assert (usage.read_bytes, usage.write_bytes) == (0, 0)


@pytest.mark.parametrize("together", [True, False])
def test_a_v1_victim_is_limited_where_it_is_counted(
    together: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cpu and cpuacct are mostly of one hierarchy, in which a process has one group: of two, the first would be empty."""
    roots = {"cpu": tmp_path / "cpu", "cpuacct": tmp_path / ("cpu" if together else "cpuacct")}
    for root in roots.values():
        (root / "session").mkdir(parents=True, exist_ok=True)
        (root / "cgroup.procs").touch()
        (root / "session/cgroup.procs").touch()
    both = {name: Hierarchy(1, root, root / "session", frozenset({name})) for name, root in roots.items()}
    monkeypatch.setattr(cgroups, "read_layout", lambda _: Layout(None, both))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(Groups, "_prove", lambda _: None)
    with Ledger(tmp_path / "ledger.ndjson") as ledger:
        made = Groups("r", ledger).make("victim", Limit(cpus=0.5), tmp_path)
    assert made is not None
    assert made.v1["cpuacct"] == roots["cpuacct"] / "contend.r/victim"
    assert made.v1["cpu"] == roots["cpu"] / ("contend.r/victim" if together else "session/contend.r/victim")
    assert len(made.joined()) == (1 if together else 2)
    assert (made.v1["cpu"] / "cpu.cfs_quota_us").read_text() == "50000"
    (made.v1["cpu"] / "cpu.stat").write_text("nr_throttled 3\nthrottled_time 7\n")
    (made.v1["cpuacct"] / "cpuacct.usage").write_text("300\n")
    usage = made.usage()
    assert (usage.cpu_ns, usage.nr_throttled) == (300, 3)
