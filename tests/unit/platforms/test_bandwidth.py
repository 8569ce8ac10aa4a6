"""The period and burst of a CPU quota: what is written, what no kernel takes, and what is read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend.errors import CannotHonour, HostFailed
from contend.platforms import bandwidth, limits
from contend.platforms.base import HostSpec, Limit
from contend.platforms.cgroups import Hierarchy, Layout
from contend.platforms.guests.inner import resources
from contend.platforms.provisioning import engine_options, oci_resources, read_back

SHORT = Limit(cpus=0.5, period_us=10_000, burst_us=2_000)


def layout(root: Path, version: int) -> Layout:
    hierarchy = Hierarchy(2 if version == 2 else 1, root, root / "own", frozenset({"cpu"}))
    return Layout(hierarchy, {}) if version == 2 else Layout(None, {"cpu": hierarchy})


def test_what_is_written_for_a_period_and_a_burst() -> None:
    v2 = [(cap.file, cap.text) for cap in limits.caps("cpu", 2, SHORT, "")]
    assert v2 == [("cpu.max", "5000 10000"), ("cpu.max.burst", "2000")]
    v1 = [(cap.file, cap.text) for cap in limits.caps("cpu", 1, SHORT, "")]
    assert v1 == [("cpu.cfs_period_us", "10000"), ("cpu.cfs_quota_us", "5000"), ("cpu.cfs_burst_us", "2000")]


def test_engines_are_told_the_period() -> None:
    spec = HostSpec("v", "victim", limit=SHORT)
    assert engine_options(SHORT, spec) == ["--cpu-period", "10000", "--cpu-quota", "5000"]
    assert engine_options(Limit(cpus=0.5), spec) == ["--cpus", "0.5"]
    assert oci_resources(SHORT, spec) == {"cpu": {"quota": 5000, "period": 10000}}
    assert resources(spec, 1) == {"cpu": {"quota": 5000, "period": 10000}}


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (Limit(cpus=0.5, period_us=500), "a period of 0.5ms is not from 1 ms to 1 s"),
        (Limit(cpus=0.5, period_us=1_500_000), "a period of 1500ms is not from"),
        (Limit(cpus=0.5, period_us=1_000), "none below 1 ms"),
        (Limit(cpus=0.5, burst_us=50_001), "a burst of 50.001ms is above its quota of 50 ms"),
    ],
)
def test_what_no_kernel_takes_is_refused_before_anything_is_made(
    tmp_path: Path, limit: Limit, said: str
) -> None:
    assert said in bandwidth.refused(limit)
    with pytest.raises(CannotHonour):
        limits.check(limit, layout(tmp_path, 1), frozenset(), tmp_path)


def test_at_the_edge_it_is_taken() -> None:
    assert bandwidth.refused(Limit(cpus=1, period_us=1_000, burst_us=1_000)) == ""
    assert bandwidth.refused(Limit(cpus=0.5, period_us=1_000_000)) == ""


def test_a_burst_where_the_kernel_has_its_file(tmp_path: Path) -> None:
    assert "has no cpu.cfs_burst_us" in bandwidth.no_burst(layout(tmp_path, 1), "4.19.0")
    (tmp_path / "cpu.cfs_burst_us").touch()
    assert bandwidth.no_burst(layout(tmp_path, 1), "6.1.0") == ""
    assert bandwidth.no_burst(Layout(None, {}), "6.1.0") == "there are no control groups here"


def test_in_v2_a_group_tells_and_else_the_version(tmp_path: Path) -> None:
    v2 = layout(tmp_path, 2)
    assert bandwidth.no_burst(v2, "6.1.0-13-amd64") == ""
    assert "bursts came with Linux 5.14" in bandwidth.no_burst(v2, "5.10.0")
    (tmp_path / "some").mkdir()
    (tmp_path / "some/cpu.max").touch()
    assert "has no cpu.max.burst" in bandwidth.no_burst(v2, "6.1.0"), "a group without it says more"
    (tmp_path / "some/cpu.max.burst").touch()
    assert bandwidth.no_burst(v2, "5.10.0") == ""


@pytest.mark.parametrize("version", [1, 2])
def test_a_burst_is_written_and_read_back(tmp_path: Path, version: int) -> None:
    own, v1 = (None, {"cpu": tmp_path}) if version == 1 else (tmp_path, {})
    written = {"cpu.max": "5000 10000"} if version == 2 else {}
    for cap in limits.caps("cpu", version, SHORT, "")[: -1 if version == 1 else 0]:
        written[cap.file] = cap.text
    for name, text in written.items():
        (tmp_path / name).write_text(f"{text}\n")
    (tmp_path / bandwidth.BURST_FILES[version]).write_text("0\n")
    assert bandwidth.wrong(read_back(own, v1), SHORT) == "a burst of 0 instead of 2ms"
    bandwidth.write_burst(own, v1, SHORT)
    read = read_back(own, v1)
    assert bandwidth.wrong(read, SHORT) == "" and bandwidth.read_bandwidth(read) == (10_000, 2_000)
    assert bandwidth.wrong(read, Limit(cpus=0.5, burst_us=2_000)) == "a period of 10ms instead of 100ms"


def test_no_group_no_burst(tmp_path: Path) -> None:
    with pytest.raises(HostFailed, match="no group of the cpu controller"):
        bandwidth.write_burst(None, {}, SHORT)
    with pytest.raises(HostFailed, match="cannot write '2000'"):
        bandwidth.write_burst(tmp_path / "gone", {}, SHORT)
    bandwidth.write_burst(None, {}, Limit(cpus=0.5))


def test_a_quota_of_whole_microseconds_is_what_is_asked_for() -> None:
    assert bandwidth.given_cpus(Limit(cpus=1.2345, period_us=1000)) == 1.234
    assert bandwidth.given_cpus(Limit(cpus=1 / 3)) == 0.33333
