"""What libvirt is told of a guest, against what QEMU is told without it; it is started in tests/system."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import cast

import pytest

from contend.engine import doctor
from contend.errors import CannotHonour, HostFailed
from contend.platforms import network
from contend.platforms.bare import BareHost
from contend.platforms.base import Limit
from contend.platforms.guests import accel, boot, domain
from contend.platforms.guests.qemu import Machine
from contend.platforms.network import Tap
from contend.store.ledger import Ledger

PARTY = domain.GuestSpec("run-1", "victim", (0, 1, 3), (1, 3))
QEMU = "{http://libvirt.org/schemas/domain/qemu/1.0}"


def machine(tmp_path: Path, how: str = "tcg", limit: Limit = Limit(), tap: Tap | None = None) -> Machine:
    return Machine(
        boot.Boot(tmp_path / "disk", tmp_path / "k", tmp_path / "i", "6.1"), how, 2, 512, limit, tap
    )


def described(made: Machine, models: tuple[str, ...] = (), folder: str = "/f") -> ElementTree.Element:
    return ElementTree.fromstring(domain.describe(made, Path(folder), Path("/s"), PARTY, models))


def test_the_machine_is_the_one_that_is_asked_for(tmp_path: Path) -> None:
    told = described(machine(tmp_path))
    assert (told.get("type"), told.findtext("name")) == ("qemu", "contend-run-1-victim")
    assert (told.findtext("memory"), told.findtext("vcpu")) == ("512", "2")
    assert [(p.get("vcpu"), p.get("cpuset")) for p in told.findall("cputune/vcpupin")] == [
        ("0", "1"),
        ("1", "3"),
    ]
    emulator = told.find("cputune/emulatorpin")
    assert emulator is not None and emulator.get("cpuset") == "0-1,3"
    assert told.findtext("os/cmdline") == boot.COMMAND_LINE
    assert told.find("devices/disk/iotune") is None
    assert described(machine(tmp_path, "kvm")).get("type") == "kvm"


def test_its_disk_is_throttled_both_ways(tmp_path: Path) -> None:
    told = described(machine(tmp_path, limit=Limit(iops=100, bytes_per_s=4096))).find("devices/disk/iotune")
    assert told is not None
    rates = {rate.tag: rate.text for rate in told}
    assert rates == {
        "read_bytes_sec": "4096",
        "write_bytes_sec": "4096",
        "read_iops_sec": "100",
        "write_iops_sec": "100",
    }


def test_its_network_is_qemus_own_or_a_tap(tmp_path: Path) -> None:
    user = described(machine(tmp_path)).find("devices/interface")
    assert user is not None and user.get("type") == "user"
    tap = Tap("ctd0123abcd.00", "10.200.0.1/30", vhost=True)
    for how, driver in (("kvm", "vhost"), ("tcg", "qemu")):
        told = described(machine(tmp_path, how, tap=tap))
        target, back = told.find("devices/interface/target"), told.find("devices/interface/driver")
        assert target is not None and target.get("dev") == tap.device
        assert back is not None and back.get("name") == driver
        assert f"{boot.ADDRESS}={tap.address}" in (told.findtext("os/cmdline") or "")


def test_nothing_that_it_uses_changes_its_owner(tmp_path: Path) -> None:
    told = described(machine(tmp_path), ("none", "dac", "apparmor")).findall("seclabel")
    assert [(label.get("type"), label.get("model")) for label in told] == [
        ("static", "dac"),
        ("none", "apparmor"),
    ]
    assert told[0].get("relabel") == "no"


def test_a_comma_in_a_path_is_no_option_of_qemu(tmp_path: Path) -> None:
    told = described(machine(tmp_path), folder="/home/a,b")
    words = [arg.get("value") for arg in told.findall(f"{QEMU}commandline/{QEMU}arg")]
    assert "file,id=contend-console,path=/home/a,,b/console" in words
    marks = {env.get("name"): env.get("value") for env in told.findall(f"{QEMU}commandline/{QEMU}env")}
    assert marks == {"CONTEND_RUN": "run-1", "CONTEND_PARTY": "victim"}


def test_a_tap_outside_of_its_namespace_has_a_name_of_its_own() -> None:
    names = {network.tap_outside(f"contend-0123abcd-{number}s") for number in range(30)}
    assert len(names) == 30 and max(map(len, names)) <= 15
    assert not names & {f"ctd0123abcd.{number}" for number in range(9)}
    with pytest.raises(CannotHonour):
        network.tap_outside("mine")


def test_only_what_says_nothing_of_kvm_ends_the_run() -> None:
    libvirt = domain.Libvirt("qemu+unix:///system?socket=/s", "9.0.0", ())
    assert libvirt.kind == "libvirt:///system"
    made = domain.ByLibvirt(libvirt, cast(Ledger, None), cast(BareHost, None), PARTY)
    assert isinstance(made.refused("error: does not support virt type 'kvm'"), HostFailed)
    assert isinstance(made.refused("error: Permission denied"), CannotHonour)


def test_kvm_is_not_tried_again_where_qemu_boots_none_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    libvirt = domain.Libvirt("qemu:///system", "9.0.0", ())
    assert domain.acceleration(None, "", "this") == ("", "this")
    assert domain.acceleration(libvirt, "", "this") == ("", "libvirt:///system this")
    accel.remember("this", "it stood still")
    assert domain.acceleration(libvirt, "", "this")[0] == "tcg"
    assert domain.acceleration(libvirt, "kvm", "this")[0] == "kvm"


def test_doctor_tells_whether_libvirt_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "need", lambda: None)
    vm, by_libvirt = doctor.guests()
    assert (vm.name, by_libvirt.name) == ("platform vm", "platform vm: hypervisor=libvirt")
    assert "libvirt" in by_libvirt.detail + by_libvirt.fix
    monkeypatch.setenv("PATH", "/nonexistent")
    _, without = doctor.guests()
    assert (without.works, without.fix) == (False, "apt-get install libvirt-clients")
