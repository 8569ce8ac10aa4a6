"""What all of contend's virtual machines have in common, by QEMU and by libvirt."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from contend.errors import CannotHonour
from contend.platforms.guests import machine
from contend.platforms.guests.machine import Basis, part


@pytest.mark.parametrize(
    ("accel", "by", "processor", "type_", "mode"),
    [
        ("kvm", "kvm", "host", "kvm", "host-passthrough"),
        ("tcg", "tcg,thread=multi", "max", "qemu", "maximum"),
    ],
)
def test_one_machine_by_qemu_and_by_libvirt(
    accel: str, by: str, processor: str, type_: str, mode: str
) -> None:
    made = Basis(Path("/k"), "/i", "quiet x=1", accel, 96, 2)
    words = made.words()
    told = dict(zip(words[1::2], words[2::2], strict=False))
    assert (told["-accel"], told["-cpu"], told["-smp"], told["-m"]) == (by, processor, "2", "96M")
    assert words[words.index("-append") + 1] == "quiet x=1"
    domain = made.domain("contend-x")
    assert (domain.get("type"), part(domain, "cpu").get("mode")) == (type_, mode)
    texts = {path: domain.findtext(path) for path in ("name", "memory", "vcpu", "os/kernel", "os/initrd")}
    assert texts == {
        "name": "contend-x",
        "memory": "96",
        "vcpu": "2",
        "os/kernel": "/k",
        "os/initrd": "/i",
    }
    assert domain.findtext("os/cmdline") == "quiet x=1"
    with pytest.raises(KeyError, match="disk"):
        part(domain, "disk")


def test_what_is_missing_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    there: set[str] = set()
    monkeypatch.setattr(shutil, "which", lambda name: name if name in there else None)
    with pytest.raises(CannotHonour, match="micro-VMs need qemu-system-x86_64") as caught:
        machine.need("micro-VMs", "engine=podman")
    assert caught.value.hint == "apt-get install qemu-system-x86"
    there.add(machine.PROGRAM)
    machine.need("micro-VMs", "engine=podman")
    with pytest.raises(CannotHonour, match="virtual machines need qemu-img"):
        machine.need("virtual machines", "engine=podman", ("qemu-img", "qemu-utils"))
    monkeypatch.setattr("os.uname", lambda: type("Uname", (), {"machine": "riscv64"}))
    with pytest.raises(CannotHonour, match="no micro-VMs on riscv64 yet"):
        machine.need("micro-VMs", "engine=podman")
