"""Machines of this host: what is asked of them, what their words mean, and what is found again after a crash."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from contend import names
from contend.clouds.local import cpu, domains, qemu, settle
from contend.clouds.local.guest import Node, archive
from contend.clouds.local.removal import CONTAINER, DOMAIN, FILES, TAP, VM, new_files, remove
from contend.clouds.local.settle import accelerator, check
from contend.clouds.local.vms import MicroVms
from contend.clouds.storm.stamps import Track
from contend.engine.doctor import local_machines
from contend.engine.plan import make_plan
from contend.engine.removal import REMOVERS
from contend.errors import BadInput, CannotHonour, ScenarioError
from contend.platforms import procfs
from contend.platforms.calls import call
from contend.platforms.guests import kernels, virsh
from contend.platforms.resources import remove_leftovers
from contend.scenario.yaml_file import read_yaml
from contend.store.ledger import Record, leftovers
from contend.studies.scenarios import parse
from contend.studies.storm.model import Storm
from support.own_runs import own, own_state, record_process

RUN = "boot-storm-20260102-101500-7f3a"


def scenario(text: str) -> Storm:
    found = parse(read_yaml(f"study: storm\ncloud: local\n{text}", "mine.yaml", ScenarioError))
    assert isinstance(found, Storm)
    return found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("parameters: {engine: podman}", "container (podman)"),
        ("parameters: {engine: qemu, accel: tcg}", "micro-VM (emulated)"),
        ("parameters: {engine: qemu, accel: kvm}", "micro-VM (KVM)"),
        ("parameters: {engine: libvirt, accel: tcg}", "VM (libvirt, emulated)"),
    ],
)
def test_every_row_says_what_the_machines_are(text: str, said: str) -> None:
    cells = make_plan(scenario(text), 1).cells
    assert {cell.factors["platform"] for cell in cells} == {said}
    assert {cell.victim.instance.workload.name for cell in cells} == {"boot-storm-local"}


@pytest.mark.parametrize(
    ("parameters", "network", "said"),
    [
        ({"engine": "lxd"}, "none", "makes no machines"),
        ({"engine": "runc"}, "auto", "makes no networks"),
    ],
)
def test_what_no_engine_gives_is_refused(parameters: dict[str, Any], network: str, said: str) -> None:
    with pytest.raises((BadInput, CannotHonour), match=said):
        check(parameters, (network,))


def test_taps_are_not_promised_to_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settle, "vm_lacks", lambda kernel="": [])
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    check({"engine": "qemu"}, ("none", "user"))
    monkeypatch.setattr(virsh, "need_program", lambda: None)
    check({"engine": "libvirt"}, ("none", "auto", "mine"))  # libvirt's networks are made by its daemon
    with pytest.raises(CannotHonour, match="needs root"):
        check({"engine": "qemu"}, ("none", "auto"))


def test_a_kernel_that_is_not_there_is_said() -> None:
    with pytest.raises(CannotHonour, match="no kernel to be read at /nonexistent"):
        kernels.find("/nonexistent")


def test_the_doctor_tells_what_can_be_made_and_how_to_mend_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    containers, vms = local_machines()
    assert (containers.works, containers.fix) == (False, "apt-get install podman")
    assert vms.works is False
    assert "qemu-system-x86_64, not found" in vms.detail
    assert "apt-get install qemu-system-x86" in vms.fix
    (programs / "runc").symlink_to("/bin/true")
    containers, _ = local_machines()
    assert containers.works is None, "it was not tried"
    assert "runc" in containers.detail


def test_emulation_that_was_asked_for_tries_nothing() -> None:
    assert accelerator({"accel": "tcg", "kernel": "/nonexistent"}) == ("tcg", "as asked")


def test_an_archive_is_what_the_kernel_unpacks() -> None:
    packed = archive([Node("dev/console", 0o020600, rdev=(5, 1)), Node("init", 0o100755, b"#!/x\n")])
    found, at = {}, 0
    while True:
        assert packed[at : at + 6] == b"070701"
        fields = [int(packed[at + 6 + 8 * k : at + 14 + 8 * k], 16) for k in range(13)]
        length, size = fields[11], fields[6]
        name = packed[at + 110 : at + 110 + length - 1].decode()
        start = (at + 110 + length + 3) // 4 * 4
        found[name] = (fields[1], packed[start : start + size], (fields[9], fields[10]))
        at = (start + size + 3) // 4 * 4
        if name == "TRAILER!!!":
            break
    assert at == len(packed)
    assert found["dev/console"] == (0o020600, b"", (5, 1))
    assert found["init"] == (0o100755, b"#!/x\n", (0, 0))


def test_a_domain_is_described_as_asked() -> None:
    made = domains.Domain("qemu:///system", "/var/tmp/k", "/var/tmp/i", "tcg", 96)
    told = ElementTree.fromstring(made.xml("contend-x-1", 1, "auto", 4711))
    assert told.get("type") == "qemu"
    assert {path: told.findtext(path) for path in ("name", "memory", "os/kernel", "os/initrd")} == {
        "name": "contend-x-1",
        "memory": "96",
        "os/kernel": "/var/tmp/k",
        "os/initrd": "/var/tmp/i",
    }
    assert "contend=1" in (told.findtext("os/cmdline") or "")
    source = told.find("devices/serial/source")
    assert source is not None
    assert source.attrib == {"mode": "connect", "host": "127.0.0.1", "service": "4711"}
    networks = {
        network: [
            (card.get("type"), card.find("source"))
            for card in ElementTree.fromstring(made.xml("x", 1, network, 1)).iter("interface")
        ]
        for network in ("none", "user")
    }
    assert networks == {"none": [], "user": [("user", None)]}
    named = told.find("devices/interface/source")
    assert named is not None
    assert named.get("network") == "default"


def test_what_is_not_a_runs_own_is_not_removed(tmp_path: Path) -> None:
    mine = new_files(RUN)
    mine.mkdir()
    (mine / "vmlinuz").touch()
    others = [tmp_path, mine.parent / "contend-00000000-abcdef", mine / "vmlinuz"]
    rows = [{"kind": FILES, "name": str(folder), "run": RUN} for folder in [*others, mine, mine]]
    rows.append({"kind": DOMAIN, "name": "web-1", "run": RUN, "uri": "test:///default"})
    told = [(gone.was_there, bool(gone.why)) for gone in remove(rows)]
    assert told == [(True, True)] * 3 + [(True, False), (False, False), (True, True)]
    assert tmp_path.exists()
    assert not mine.exists()


def test_a_guest_tells_when_it_runs_and_when_it_serves() -> None:
    guest = qemu.Guest(3, "contend-x-3")
    (console, theirs), (monitor, qmp) = socket.socketpair(), socket.socketpair()
    guest.connect(console, monitor)

    def said(end: socket.socket, mine: socket.socket, line: bytes, at: int) -> None:
        end.send(line)
        guest.hear(mine, at)

    with console, theirs, monitor, qmp:
        said(qmp, monitor, b'{"QMP": {"version": {}}}\r\n', 10)
        assert [json.loads(line)["execute"] for line in qmp.recv(4096).splitlines()] == [
            "qmp_capabilities",
            "query-status",
        ]
        said(qmp, monitor, b'{"return": {}}\r\n{"return": {"status": "prelaunch"}}\r\n', 20)
        assert (guest.greeted_ns, guest.running_ns) == (10, 0)
        said(qmp, monitor, b'{"timestamp": {}, "event": "RESUME"}\r\n', 30)
        said(theirs, console, b"[0.1] odd words\r\ncontend ser", 40)
        assert (guest.running_ns, guest.console.served_ns) == (30, 0)
        said(theirs, console, b"ved 3 1.25\r\n", 50)
        assert (guest.console.served_ns, guest.console.uptime_ns) == (50, 1_250_000_000)
        qmp.close()
        guest.hear(monitor, 60)
        assert guest.ended == "QEMU ended"
        assert guest.last_words == "[0.1] odd words"


def test_a_command_line_says_emulated_or_not() -> None:
    words = {
        accel: qemu.machine(accel, Path("k"), Path("i"), 128).command(0, "none", "")
        for accel in ("kvm", "tcg")
    }
    assert words["kvm"][words["kvm"].index("-accel") + 1] == "kvm"
    assert words["tcg"][words["tcg"].index("-accel") + 1].startswith("tcg")
    tap = qemu.machine("tcg", Path("k"), Path("i"), 128).command(0, "auto", "{TAPPED}")
    assert "tap,ifname={TAPPED},script=no,downscript=no,id=net" in tap


def test_a_call_tells_its_time_its_words_and_its_cpu() -> None:
    done = call(
        ("sh", "-c", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; echo out; echo no >&2; exit 3"), 20
    )
    assert (done.code, done.out, done.why) == (3, "out\n", "no")
    assert 0 < done.cpu_ns <= 1.5 * (done.ended_ns - done.began_ns)


def test_a_call_that_says_much_is_heard_to_the_end() -> None:
    assert call(("sh", "-c", "i=0; while [ $i -lt 30000 ]; do echo $i; i=$((i+1)); done"), 20).out.endswith(
        "\n29999\n"
    )


def test_a_call_that_hangs_is_ended() -> None:
    done = call(("sh", "-c", "sleep 60"), 0.1)
    assert done.code == -9
    assert "not done within 0.1 s" in done.why


def test_a_runtime_that_ended_is_in_its_monitors_children() -> None:
    before: cpu.Used = {(1, 5): ("conmon", 10_000_000, 20_000_000)}
    after: cpu.Used = {
        (1, 5): ("conmon", 30_000_000, 20_000_000),
        (2, 9): ("conmon", 10_000_000, 70_000_000),
        (3, 9): ("containerd-shim", 10_000_000, 5_000_000),
    }
    assert cpu.between(before, after) == {"conmon": 0.03, "runtime": 0.075, "shim": 0.01}


def test_the_taps_that_a_storm_announces_are_known_as_its_run_s(tmp_path: Path) -> None:
    """Else `contend destroy` leaves those of a storm that was killed: it removes no stranger's link."""
    ledger = tmp_path / "ledger.ndjson"
    with Record(ledger, RUN) as record:
        machine = qemu.Machine("vmlinuz", "initramfs", "tcg", "q35", 64)
        MicroVms(machine, record, "auto").announce([Track(f"contend-{RUN}-1-aa-{k}") for k in range(2)])
    taps = [row for row in leftovers(ledger) if row["kind"] == TAP]
    assert len(taps) == 2
    assert [(gone.was_there, gone.why) for gone in remove(taps)] == [
        (False, ""),
        (False, ""),
    ]  # and no stranger's


@pytest.mark.one_of("strays")  # `contend destroy --all` of a test beside it would take it for one
def test_a_machine_that_outlives_its_storm_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a kill leaves: a row, and a process with the run's mark and the machine's name."""
    own_state(tmp_path, monkeypatch)
    tap = f"ctd{names.short_hash(RUN)}.0"
    name, other = f"contend-{RUN}-1-aa-0", f"contend-{RUN}-1-aa-1"
    environment = {**os.environ, procfs.MARKER: RUN}
    started = [
        subprocess.Popen(("sleep", "60"), env={**environment, procfs.MEMBER_MARKER: party})
        for party in (name, other)
    ]
    try:
        ledger = tmp_path / "ledger.ndjson"
        with Record(ledger, RUN) as record:
            record.intend(VM, (name,))
            record.intend(CONTAINER, (f"contend-{RUN}-1-aa-9",), engine="podman")
            record.intend(TAP, (tap,))
        assert {row["kind"] for row in leftovers(ledger)} == {VM, CONTAINER, TAP}
        while procfs.marked(RUN, member=name) != {started[0].pid}:  # until it has become sleep
            time.sleep(0.001)
        record_process(RUN, started[0].pid)  # as being of the run: its mark says which of its machines it is
        removed = {
            item.name: (item.was_there, item.why) for item in remove_leftovers(own(tmp_path), REMOVERS)
        }
        assert removed == {
            str(started[0].pid): (True, ""),
            name: (False, ""),  # with its process
            f"contend-{RUN}-1-aa-9": (False, ""),
            tap: (False, ""),
        }
        assert started[0].wait(10) == -9
        assert started[1].poll() is None, "another machine's process was not in the ledger"
        assert leftovers(ledger) == []
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_a_stranger_in_the_ledger_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_state(tmp_path, monkeypatch)
    ledger = tmp_path / "ledger.ndjson"
    with Record(ledger, RUN) as record:
        record.intend(VM, ("sshd",))
        record.intend(TAP, ("eth0",))
        record.intend("local-strange", ("x",))
    why = {item.name: item.why for item in remove_leftovers(own(tmp_path), REMOVERS)}
    assert "not one of contend's" in why["sshd"]
    assert "not one of contend's" in why["eth0"]
    assert "does not know" in why["x"]
    assert len(leftovers(ledger)) == 3
