"""What is written for each treatment, in either version's files, and what is refused since it could not be taken back."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend.errors import CannotHonour, HostFailed
from contend.platforms import by_hand, confinement, procfs, treatments
from contend.platforms.interventions import Interventions, Rewritten
from contend.platforms.treatments import GroupLimit, Switch, put
from contend.store import state
from contend.store.ledger import Ledger, leftovers


def group(tmp_path: Path, **files: str) -> list[Path]:
    for name, text in files.items():
        (tmp_path / name.replace("_", ".", 1)).write_text(f"{text}\n")
    return [tmp_path / "elsewhere", tmp_path]


def values(switch: Switch) -> tuple[str, str, str]:
    assert isinstance(switch.setting, GroupLimit)
    return switch.setting.file.name, switch.before, switch.during


def test_weights_and_quotas_of_either_version(tmp_path: Path) -> None:
    assert values(treatments.cpu_weight(group(tmp_path, cpu_weight="100"))) == ("cpu.weight", "100", "10")
    assert values(treatments.cpu_quota(group(tmp_path, cpu_max="max 100000"), 0.25)) == (
        *("cpu.max", "max 100000", "25000 100000"),
    )
    v1 = tmp_path / "v1"
    v1.mkdir()
    paths = group(v1, cpu_shares="1024", cpu_cfs_quota_us="-1", cpu_cfs_period_us="50000")
    assert values(treatments.cpu_weight(paths)) == ("cpu.shares", "1024", "102")
    assert values(treatments.cpu_quota(paths, 0.5)) == ("cpu.cfs_quota_us", "-1", "25000")


def test_files_with_a_line_for_each_device(tmp_path: Path) -> None:
    (tmp_path / "io.weight").write_text("default 100\n8:0 50\n")
    switch = treatments.io_weight([tmp_path], ["io.cost"])
    assert (switch.setting.name, switch.before, switch.during) == (
        f"{tmp_path}/io.weight default",
        "100",
        "10",
    )
    (tmp_path / "io.max").write_text("8:16 rbps=max wbps=7 riops=max wiops=max\n")
    assert GroupLimit(tmp_path / "io.max", "8:16").read() == "rbps=max wbps=7 riops=max wiops=max"
    assert GroupLimit(tmp_path / "io.max", "8:0").read() == "rbps=max wbps=max riops=max wiops=max"
    assert GroupLimit(tmp_path / "gone/io.max", "8:0").read() is None


def test_a_limit_for_disks_of_either_version(tmp_path: Path) -> None:
    """Of the disks that the group has used; what was limited more stays so."""
    (tmp_path / "io.max").write_text("8:0 rbps=500000 wbps=max riops=9 wiops=max\n")
    (tmp_path / "io.stat").write_text("8:0 rbytes=7 wbytes=0 rios=1\n8:16 rbytes=0 wbytes=0\n")
    [switch] = treatments.io_limit([tmp_path], 10**6)
    assert (switch.setting.name, switch.during) == (
        f"{tmp_path}/io.max 8:0",
        "rbps=500000 wbps=1000000 riops=9 wiops=max",
    )
    assert by_hand.unit_properties(switch)[1] == "IOWriteBandwidthMax=/dev/block/8:0 1000000"
    v1 = tmp_path / "v1"
    v1.mkdir()
    (v1 / "blkio.throttle.io_service_bytes").write_text("254:0 Read 0\n254:0 Write 4096\nTotal 4096\n")
    with pytest.raises(CannotHonour, match="no io setting"):
        treatments.io_limit([v1], 10**6)
    for way in ("read", "write"):
        (v1 / f"blkio.throttle.{way}_bps_device").write_text("")
    switches = treatments.io_limit([v1], 10**6)
    assert [(of.before, of.during) for of in switches] == [("0", "1000000")] * 2
    (v1 / "blkio.throttle.io_service_bytes").write_text("Total 0\n")
    with pytest.raises(CannotHonour, match="used no disk"):
        treatments.io_limit([v1], 10**6)


def test_cpus_apart_and_back_to_none_of_its_own(tmp_path: Path) -> None:
    switch = treatments.cpu_set(group(tmp_path, cpuset_cpus=""), (2, 3))
    assert (switch.before, switch.during) == ("", "2-3")
    assert put(switch.setting, "2-3") and put(switch.setting, "")
    with pytest.raises(CannotHonour, match="is CPU 2-3 already"):
        treatments.cpu_set(group(tmp_path, cpuset_cpus="2-3"), (2, 3))


def test_freezing(tmp_path: Path) -> None:
    assert values(treatments.freeze(group(tmp_path, cgroup_freeze="0"))) == ("cgroup.freeze", "0", "1")
    with pytest.raises(CannotHonour, match="already"):
        treatments.freeze(group(tmp_path, cgroup_freeze="1"))


class HalfFrozen(GroupLimit):
    """A freezer of version 1 with a process that waits in the kernel: it is on its way for good."""

    takes = True

    def write(self, value: str) -> None:
        if self.takes:
            super().write("FREEZING" if value == "FROZEN" else value)


@pytest.fixture
def half_frozen(tmp_path: Path) -> Switch:
    file = tmp_path / "freezer.state"
    file.write_text("THAWED\n")
    return Switch(HalfFrozen(file), "THAWED", "FROZEN")


def test_a_freezer_that_is_only_on_its_way_is_thawed(half_frozen: Switch, run: Path) -> None:
    with Ledger(run / "ledger.ndjson") as ledger:
        of = Interventions("run", {"it": [half_frozen]}, ledger, run, run)
        with pytest.raises(HostFailed, match="reads 'FREEZING' after 'FROZEN' was written"):
            of.on(["it"], 5.0)
        assert half_frozen.setting.read() == "THAWED"
        of.close()
        assert leftovers(ledger.path) == []


def test_what_cannot_be_thawed_stays_known(
    half_frozen: Switch, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the experiment, which tries again, and then to the ledger, for `contend destroy`."""
    with Ledger(run / "ledger.ndjson") as ledger:
        of = Interventions("run", {"it": [half_frozen]}, ledger, run, run)
        half_frozen.setting.write("FROZEN")
        of._on = [half_frozen]
        with monkeypatch.context() as refused:
            refused.setattr(HalfFrozen, "takes", False)
            for _ in range(2):
                with pytest.raises(HostFailed, match="reads 'FREEZING' after 'THAWED' was written"):
                    of.off()
            with pytest.raises(Rewritten):
                of.on(["it"], 5.0)
            with pytest.raises(HostFailed, match="reads 'FREEZING'"):
                of.close()
        [row] = leftovers(ledger.path)
        assert half_frozen.setting.read() == "FREEZING"
        monkeypatch.setattr(confinement, "in_hierarchy", Path)
        assert treatments.restore(row["kind"], row["name"], row)
        assert half_frozen.setting.read() == "THAWED"
        assert not treatments.restore(row["kind"], row["name"], row)


def test_what_came_after_the_watchdog_s_moment_is_put_back(tmp_path: Path, run: Path) -> None:
    """Nobody would end it any more, as where contend is stopped before it writes and once more after that."""
    weight = treatments.cpu_weight(group(tmp_path, cpu_weight="100"))
    with Ledger(run / "ledger.ndjson") as ledger:
        of = Interventions("run", {"it": [weight]}, ledger, run, run)
        with pytest.raises(HostFailed, match="over before it was there"):
            of.on(["it"], -1.0)
        assert weight.setting.read() == "100"
        of.on(["it"], 5.0)
        assert weight.setting.read() == "10"
        of.close()


def test_nothing_is_changed_with_a_watchdog_that_would_put_nothing_back(
    half_frozen: Switch, run: Path
) -> None:
    state.unregister("run")
    with Ledger(run / "ledger.ndjson") as ledger:
        with pytest.raises(HostFailed, match="watchdog that puts limits back does not start"):
            Interventions("run", {"it": [half_frozen]}, ledger, run, run)
        assert leftovers(ledger.path) == []


def test_what_stands_at_the_end_stays_in_the_ledger(half_frozen: Switch, run: Path) -> None:
    with Ledger(run / "ledger.ndjson") as ledger:
        of = Interventions("run", {"it": [half_frozen]}, ledger, run, run)
        half_frozen.setting.write("FROZEN")
        of.close()
        assert [row["name"] for row in leftovers(ledger.path)] == [half_frozen.setting.name]


def test_of_another_boot_nothing_is_put_back(half_frozen: Switch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confinement, "in_hierarchy", Path)
    half_frozen.setting.write("FROZEN")
    row = {"before": "THAWED", "during": "FROZEN", "boot_id": "another"}
    kind, name = half_frozen.setting.kind, half_frozen.setting.name
    assert treatments.announced(kind, name, row) is None
    assert not treatments.restore(kind, name, row)
    switch = treatments.announced(kind, name, row | {"boot_id": procfs.boot_id()})
    assert switch is not None and (switch.setting.name, switch.before, switch.during) == (
        name,
        "THAWED",
        "FROZEN",
    )


@pytest.mark.parametrize(
    ("files", "treat", "words"),
    [
        ({"cpu_weight": "1"}, treatments.cpu_weight, "at its least already"),
        (
            {"cpu_max": "10000 100000"},
            lambda paths: treatments.cpu_quota(paths, 0.5),
            "no more than that already",
        ),
        ({"io_weight": "default 100"}, treatments.io_weight, "used no disk"),
        (
            {"io_stat": "0:0 rbytes=7", "io_weight": "default 100"},
            treatments.io_weight,
            "mean nothing to the scheduler of the disks",
        ),
        ({"io_weight": "default 100"}, lambda paths: treatments.io_weight(paths, ["bfq"]), "no io setting"),
        ({}, treatments.cpu_weight, "no cpu setting"),
    ],
)
def test_what_would_be_no_treatment_is_refused(
    tmp_path: Path, files: dict[str, str], treat: object, words: str
) -> None:
    with pytest.raises(CannotHonour, match=words):
        treat(group(tmp_path, **files))  # type: ignore[operator]


def test_a_kernel_that_keeps_another_value_is_an_error(tmp_path: Path) -> None:
    class Stubborn:
        kind, name = treatments.GROUP, "/x"

        def read(self) -> str:
            return "1"

        def write(self, value: str) -> None:
            pass

    with pytest.raises(HostFailed, match="reads '1' after '2' was written"):
        put(Stubborn(), "2")
    with pytest.raises(HostFailed, match="cannot write '2'"):
        put(GroupLimit(tmp_path), "2")


def test_who_has_no_group_is_refused_with_how_to_give_one() -> None:
    with pytest.raises(CannotHonour, match="no control group of its own") as refused:
        treatments.cpu_quota([], 0.1)
    assert "cgroup.procs" in refused.value.hint


@pytest.mark.parametrize(
    ("quota_us", "percent"),
    [
        (1_000_000, "1000%"),
        (1_200_000, "1200%"),
        (33_333, "33.33%"),
        (1_000, "1%"),
        (12_345_678, "12345.68%"),
    ],
)
def test_a_quota_as_systemd_takes_it(quota_us: int, percent: str) -> None:
    """It takes hundredths of a percent, and no exponents."""
    of = GroupLimit(Path("/sys/fs/cgroup/a.service/cpu.max"))
    assert by_hand.unit_properties(Switch(of, "max 100000", f"{quota_us} 100000")) == (f"CPUQuota={percent}",)
