"""Guests without one: the agent over a pair of sockets, the files both sides have, sizes, keys and command lines."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from contend.errors import CannotHonour, HostFailed
from contend.platforms.base import Command, HostSpec, Limit
from contend.platforms.guests import accel, boot, image
from contend.platforms.guests.channel import Channel, Silent
from contend.platforms.guests.files import Shared, named_directories
from contend.platforms.guests.guest import Guest, Starter
from contend.platforms.guests.mirror import Mirror, signature, walk
from contend.platforms.guests.needs import count_vcpus, need
from contend.platforms.guests.qemu import Machine, Qmp
from contend.store import state


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Inside:
    """The agent's half that knows nothing of commands, in a thread: frames in, frames out."""

    def __init__(self, connection: socket.socket) -> None:
        import json

        from contend.platforms.guests.agent import HEADER

        def send(kind: bytes, number: int, data: bytes) -> None:
            connection.sendall(HEADER.pack(kind, number, len(data)) + data)

        files = Mirror(send)

        def serve() -> None:
            stream = connection.makefile("rb")
            while head := stream.read(HEADER.size):
                kind, number, length = HEADER.unpack(head)
                data = stream.read(length)
                if kind == b"D":
                    files.write(data)
                    continue
                asked = json.loads(data or b"{}")
                if kind == b"W":
                    files.begin_write(number, asked)
                elif kind == b"M":
                    for path in asked["paths"]:
                        files.forget(path)
                    send(b"a", number, b"{}")
                elif kind == b"L":
                    files.changes(number, asked["roots"], asked["largest"])
            stream.close()

        self.thread = threading.Thread(target=serve)
        self.thread.start()


@pytest.fixture
def channel() -> Iterator[Channel]:
    """To a mirror that has the same file system: what is sent is written where it was read."""
    mine, theirs = socket.socketpair()
    inside = Inside(theirs)
    made = Channel(mine, lambda: "", lambda port: None)
    yield made
    made.close()
    inside.thread.join()
    theirs.close()


def test_what_a_command_makes_changes_and_removes_is_taken_over(channel: Channel, tmp_path: Path) -> None:
    """Both sides are one directory, so only what is told can be looked at: that each is told once."""
    work = tmp_path / "work"
    (work / "deep").mkdir(parents=True)
    (work / "in").write_text("from the host")
    (work / "link").symlink_to("in")
    shared = Shared(channel, [])
    shared.add([work, work / "deep"])
    shared.push(())
    (work / "made").write_bytes(os.urandom(200_000))
    (work / "made").chmod(0o640)
    before = (work / "made").read_bytes()
    (work / "in").unlink()
    shared.fetch(())
    assert (work / "made").read_bytes() == before
    assert (work / "made").stat().st_mode & 0o777 == 0o640
    assert not list(work.glob("*.contend-part"))
    assert shared.kept == ()


def test_outputs_and_what_is_hidden_are_not_sent(channel: Channel, tmp_path: Path) -> None:
    work, secret = tmp_path / "work", tmp_path / "work/state"
    secret.mkdir(parents=True)
    (secret / "key").write_text("x")
    (work / "out").write_text("")
    shared = Shared(channel, [secret])
    shared.add([work])
    shared.push({work / "out"})
    assert set(shared._known) == {str(work)}


def test_a_guest_that_is_gone_is_told_to_who_waits() -> None:
    mine, theirs = socket.socketpair()
    channel = Channel(mine, lambda: "Kernel panic", lambda port: None)
    theirs.close()
    with pytest.raises(HostFailed, match="gone") as gone:
        channel.ask(b"C")
    assert gone.value.hint == "Kernel panic"
    channel.close()


def test_directories_that_a_command_names() -> None:
    run = Path("/r/run")
    command = Command(
        ("sh", "-c", "cat '/r/run/work/a b' >/r/run/work/v/x"), run, run / "work/o/out", run / "work/o/err"
    )
    found = named_directories(command, run)
    assert found[:2] == [run, run / "work/o"]
    assert run / "work/v" in found


def test_walking_passes_over_sockets_and_what_goes_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "fifo")
    found: dict[str, os.stat_result] = {}
    walk(str(tmp_path), found)
    walk(str(tmp_path / "none"), found)
    assert set(found) == {str(tmp_path / "file")}
    assert signature(tmp_path.stat()) == (tmp_path.stat().st_mode,)


def test_an_image_is_known_by_what_is_in_it() -> None:
    plain = image.recipe()
    assert plain == image.recipe(["python3"])
    assert plain.key != image.recipe(["fio"]).key
    assert image.recipe(["fio", "nginx"]).key == image.recipe(["nginx", "fio"]).key
    with pytest.raises(CannotHonour, match="rm -rf"):
        image.recipe(["fio; rm -rf /"])


@pytest.mark.parametrize(
    ("text", "suite"),
    [
        ("ID=debian\nVERSION_CODENAME=trixie\n", "trixie"),
        ("ID=ubuntu\nVERSION_CODENAME=noble\n", ""),
    ],
)
def test_the_release_is_the_hosts_own_where_that_is_debian(tmp_path: Path, text: str, suite: str) -> None:
    (tmp_path / "os-release").write_text(text)
    assert image.suite(tmp_path / "os-release") == suite
    assert image.suite(tmp_path / "none") == ""


def test_an_image_comes_from_where_this_host_has_its_own_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "deb http://a/debian/ trixie main\ndeb http://a/debian/ trixie-updates main\n"
    said += "deb http://a/debian/ trixie main\ndeb http://b/other stable main\ndeb http://s/ trixie-security main\n"
    apt = tmp_path / "apt-get"
    apt.write_text(f"#!/bin/sh\ncat <<E\n{said}E\n")
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert image.sources("trixie") == (
        "deb http://a/debian/ trixie main",
        "deb http://a/debian/ trixie-updates main",
        "deb http://s/ trixie-security main",
    )
    assert image.sources("") == () and image.sources("bookworm") == ()
    monkeypatch.setattr(image, "suite", lambda: "")
    assert any("no source" in error.message for error in image.lacks())


def test_half_an_image_is_found_and_removed_and_a_whole_one_is_not(cache: Path) -> None:
    half = image.home() / "contend-some-run.0123456789abcdef"
    half.mkdir(parents=True)
    (half / "disk.part").write_text("x")
    whole = image.home() / image.recipe().key
    whole.mkdir()
    (whole / image.DISK).write_text("x")
    assert image.left() == [(half, "some-run")]
    assert image.have(image.recipe()) == whole / image.DISK
    with pytest.raises(HostFailed, match="no half-built"):
        image.remove_half(whole, "some-run")
    assert image.remove_half(half, "some-run")
    assert not image.remove_half(half, "some-run")


def test_without_root_or_tools_it_is_said_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(image.shutil, "which", lambda name, path="": None if name == "mmdebstrap" else name)
    with pytest.raises(CannotHonour) as lacks:
        image.need(image.recipe())
    assert "mmdebstrap" in lacks.value.message
    assert "root" in lacks.value.message
    assert "apt-get install mmdebstrap" in lacks.value.hint


def test_a_file_that_is_no_file_system_is_refused(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(8192))
    with pytest.raises(CannotHonour, match="no root on ext4"):
        boot.prepare(disk)
    assert [path for path in image.home().iterdir() if path.name.startswith("boot-")] == []


def test_drivers_are_loaded_after_what_they_need() -> None:
    dependencies = (
        "kernel/drivers/net/virtio_net.ko: kernel/net/core/failover.ko kernel/drivers/virtio/virtio.ko\n"
        "kernel/net/core/failover.ko:\nkernel/drivers/virtio/virtio.ko:\n"
        "kernel/drivers/virtio/virtio-pci.ko.xz: kernel/drivers/virtio/virtio.ko\n"
    )
    assert boot.in_order(dependencies, ("virtio_pci", "virtio_net")) == [
        "kernel/drivers/virtio/virtio.ko",
        "kernel/drivers/virtio/virtio-pci.ko.xz",
        "kernel/net/core/failover.ko",
        "kernel/drivers/net/virtio_net.ko",
    ]


def spec(limit: Limit | None = None, cpus: tuple[int, ...] | None = None) -> HostSpec:
    return HostSpec("victim", "victim", cpus, limit or Limit())


@pytest.mark.parametrize(("limit", "vcpus"), [(None, 4), (0.5, 1), (1.0, 1), (1.5, 2), (3.0, 3)])
def test_as_many_virtual_cpus_as_the_limit_says(limit: float | None, vcpus: int) -> None:
    assert count_vcpus(spec(Limit(cpus=limit)), 4) == vcpus


def test_each_virtual_cpu_has_a_cpu_to_be_pinned_to() -> None:
    with pytest.raises(CannotHonour, match="pinned to 1"):
        count_vcpus(spec(Limit(cpus=1.5), (0,)), 1)


def booted(tmp_path: Path) -> boot.Boot:
    (tmp_path / "disk").write_text("x")
    return boot.Boot(tmp_path / "disk", tmp_path / "vmlinuz", tmp_path / "initramfs", "6.1")


def test_what_is_emulated_says_so_and_disks_are_throttled_both_ways(tmp_path: Path) -> None:
    machine = Machine(booted(tmp_path), "tcg", 2, 512, Limit(iops=100))
    words = " ".join(machine.command(("agent",)))
    assert machine.emulated
    assert "-accel tcg,thread=multi -cpu max -smp 2 -m 512M" in words
    assert "throttling.iops-read=100,throttling.iops-write=100" in words
    assert not Machine(booted(tmp_path), "kvm", 1, 512).emulated


def _boots(*works: str) -> tuple[list[tuple[str, float]], Callable[[str, float], str]]:
    """What was tried, and a boot that only comes up so."""
    tried: list[tuple[str, float]] = []

    def boot(how: str, within_s: float) -> str:
        tried.append((how, within_s))
        if how not in works or len(tried) < 2:
            raise HostFailed("it stands still", hint="its console")
        return how

    return tried, boot


def test_a_guest_is_emulated_where_kvm_boots_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accel, "cannot_open", lambda: "")
    tried, boot = _boots("tcg")
    assert accel.start(boot, "one") == ("tcg", "tcg", 0)
    assert tried == [("kvm", accel.WITHIN_S), ("tcg", 30.0)]
    assert accel.remembered("one") == "it stands still: its console"
    assert accel.start(boot, "one")[1] == "tcg" and tried[2:] == [("tcg", 30.0)], "KVM is not tried again"


@pytest.mark.parametrize(
    ("silent", "busy", "tries", "kept"),
    [
        (False, True, [15.0], "it stands still: its console"),
        (True, False, [15.0], "it stands still: its console"),
        (True, True, [15.0, 60.0], None),
    ],
    ids=["ended", "silent on a quiet host", "silent on a busy one"],
)
def test_no_answer_on_a_busy_host_is_no_no(
    silent: bool, busy: bool, tries: list[float], kept: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accel, "busy", lambda: busy)
    tried: list[float] = []

    def boot(within_s: float) -> str:
        tried.append(within_s)
        raise (Silent if silent else HostFailed)("it stands still", hint="its console")

    assert accel.by_kvm(boot, "one") == (None, "it stands still: its console")
    assert tried == tries
    assert accel.remembered("one") == kept


def test_a_guest_that_comes_up_late_on_a_busy_host_is_one_by_kvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accel, "busy", lambda: True)

    def boot(within_s: float) -> str:
        if within_s < accel.BUSY_WITHIN_S:
            raise Silent("not yet", hint="wait")
        return "guest"

    assert accel.by_kvm(boot, "one") == ("guest", "")
    assert accel.remembered("one") == ""


@pytest.mark.parametrize(("avg10", "busy"), [("24.99", False), ("25.00", True), ("100.00", True)])
def test_pressure_says_whether_a_host_is_busy(
    avg10: str, busy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        f"some avg10={avg10} avg60=90.00 avg300=1.00 total=1\nfull avg10=99.00 avg60=0.00 avg300=0.00 total=0"
    )
    monkeypatch.setattr(accel.procfs, "text_or_empty", lambda path: text)
    assert accel.busy() is busy
    monkeypatch.setattr(accel.procfs, "text_or_empty", lambda path: "")
    monkeypatch.setattr(accel.os, "getloadavg", lambda: (1e3 if busy else 0.0, 0.0, 0.0))
    assert accel.busy() is busy


def test_a_guest_that_stands_still_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accel, "cannot_open", lambda: "no /dev/kvm")
    tried, boot = _boots("tcg")
    assert accel.start(boot, "one") == ("tcg", "tcg", 1)
    assert tried == [("tcg", 30.0), ("tcg", 60.0)]
    tried, boot = _boots()
    with pytest.raises(HostFailed, match="stands still"):
        accel.start(boot, "one", "kvm")
    assert [within_s for _, within_s in tried] == [30.0, 60.0, 120.0]


def test_what_kvm_did_is_remembered_by_guest_until_the_next_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    assert accel.remembered() is None
    accel.remember("one", "stood still")
    accel.remember("two", "")
    assert (accel.remembered("one"), accel.remembered("two")) == ("stood still", "")
    assert accel.remembered("three") is None
    monkeypatch.setattr(accel.procfs, "boot_id", lambda: "another")
    assert accel.remembered("one") is None
    (state.cache() / "kvm.json").write_text("{")
    assert accel.remembered("one") is None


def test_an_image_of_the_users_has_to_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contend.platforms.guests.qemu.need_program", lambda: None)
    os.mkfifo(tmp_path / "fifo")  # to open it would wait for ever
    for what in (tmp_path / "none", tmp_path, tmp_path / "fifo", Path("/dev/zero")):
        with pytest.raises(CannotHonour, match="no image"):
            need(str(what))
    (tmp_path / "disk").touch()
    need(str(tmp_path / "disk"))


class _Said:
    """QEMU's monitor and the agent of a guest that is not there."""

    def __init__(self) -> None:
        self.commands: list[str] = []

    def __call__(self, command: str) -> None:
        self.commands.append(command)

    def clock(self) -> tuple[int, int]:
        return 0, 0

    def ask(self, kind: bytes, **values: object) -> None:
        self.commands.append(kind.decode())


def test_a_guest_rests_while_nobody_wants_it(tmp_path: Path) -> None:
    guest, said = Guest(cast(Machine, None), tmp_path, cast(Starter, None)), _Said()
    guest._qmp, guest._channel = cast(Qmp, said), cast(Channel, said)
    guest.rest()
    assert said.commands == ["stop"]
    guest.wake()
    with guest.awake():
        guest.rest()
        assert said.commands == ["stop", "cont", "X"], "two want it: it goes on while one still does"
    assert said.commands == ["stop", "cont", "X", "stop"]


def test_a_guest_that_has_ended_may_rest(tmp_path: Path) -> None:
    guest, ours = Guest(cast(Machine, None), tmp_path, cast(Starter, None)), socket.socketpair()
    ours[1].sendall(b'{"QMP": {}}\n{"return": {}}\n')
    guest._qmp = Qmp(ours[0])
    ours[1].close()
    guest.rest()
    guest._wanted = 0
    with pytest.raises(HostFailed, match="monitor"):
        guest.wake()
    guest._qmp.close()
