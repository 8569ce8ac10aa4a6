"""Groups in which a processor counts caches and memory: files as the kernel has them, read; nothing is emulated."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend.errors import HostFailed
from contend.platforms import resctrl
from contend.platforms.base import Usage
from contend.platforms.confinement import OfRun, monitor
from contend.platforms.resctrl import Counted, counted, is_there, path_of
from contend.platforms.topology import siblings


def made(group: Path, *caches: tuple[str, str]) -> Path:
    for number, (held, moved) in enumerate(caches):
        data = group / f"mon_data/mon_L3_{number:02d}"
        data.mkdir(parents=True)
        (data / "llc_occupancy").write_text(f"{held}\n")
        (data / "mbm_total_bytes").write_text(f"{moved}\n")
    return group


def test_counters_are_summed_over_caches(tmp_path: Path) -> None:
    assert counted(made(tmp_path, ("4096", "100"), ("8192", "23"))) == Counted(12288, 123)


@pytest.mark.parametrize("word", ["Unavailable", "Error", ""])
def test_a_counter_that_one_cache_does_not_know_is_known_for_none(tmp_path: Path, word: str) -> None:
    assert counted(made(tmp_path, ("4096", "100"), ("8192", word))) == Counted(12288, None)


def test_a_host_without_it_has_none(tmp_path: Path) -> None:
    assert not is_there(tmp_path)
    assert counted(tmp_path) == Counted(None, None)
    (tmp_path / "info/L3_MON").mkdir(parents=True)
    (tmp_path / "info/L3_MON/mon_features").write_text("llc_occupancy\nmbm_total_bytes\n")
    assert not is_there(tmp_path), "resctrl without groups for monitoring"
    (tmp_path / "mon_groups").mkdir()
    assert is_there(tmp_path)


def test_a_group_is_removed_once(tmp_path: Path) -> None:
    group = tmp_path / "group"
    group.mkdir()
    assert resctrl.remove(group)
    assert not resctrl.remove(group)


@pytest.mark.parametrize(
    "name",
    [
        "/sys/fs/resctrl/mon_groups/contend.r-10.victim",
        "/sys/fs/resctrl/contend.r-1.victim",
        "/sys/fs/resctrl/mon_groups/../contend.r-1.victim",
        "/sys/fs/resctrl/mon_groups/mine",
    ],
)
def test_a_ledger_that_names_a_stranger_is_refused(name: str) -> None:
    of = OfRun("r-1")
    assert monitor(str(path_of("r-1", "victim")), of) == path_of("r-1", "victim")
    with pytest.raises(HostFailed, match="groups for monitoring"):
        monitor(name, of)


def test_what_is_held_now_is_no_counter() -> None:
    before, after = (
        Usage(cache_bytes=5, memory_traffic_bytes=10),
        Usage(cache_bytes=3, memory_traffic_bytes=30),
    )
    since = after.since(before)
    assert (since.cache_bytes, since.memory_traffic_bytes) == (3, 20)


def test_siblings_are_the_other_threads_of_the_same_cores(tmp_path: Path) -> None:
    for cpu, text in enumerate(["0,4", "1,5", "2-3", "2-3", "0,4", "1,5"]):
        folder = tmp_path / f"devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{text}\n")
    assert siblings((0, 2), tmp_path) == (3, 4)
    assert siblings((0, 4), tmp_path) == ()
    assert siblings((7,), tmp_path) == ()
