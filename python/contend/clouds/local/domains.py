"""A storm's virtual machines by libvirt: one transient domain each, made and ended by virsh.

A guest's console is a TCP connection that QEMU makes to a socket of ours on the loopback device: that is no file, so it
works whatever user and confinement libvirt gives its guests. When it is made tells that QEMU's process is there.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import socket
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from contend.clouds.local import cpu
from contend.clouds.local.containers import REST
from contend.clouds.local.guest import Console, command_line, make_initramfs
from contend.clouds.local.removal import DOMAIN
from contend.clouds.storm.stamps import ACTIVE, NS, Interval, Track
from contend.errors import CannotHonour, HostFailed
from contend.platforms import procfs
from contend.platforms.calls import Ended
from contend.platforms.guests import virsh
from contend.platforms.guests.machine import Basis, part
from contend.platforms.guests.virsh import put
from contend.store.ledger import Record

if TYPE_CHECKING:
    from contend.clouds.storm.storm import Happened

_LOOK_S = 0.1
_GUEST = re.compile(rb"guest=([^,\0]+)")


@dataclass(frozen=True, slots=True)
class Domain:
    """How every guest of a run is made. `uri`: of the libvirt that makes it; `accel`: kvm or tcg (emulated)."""

    uri: str
    kernel: str
    initramfs: str
    accel: str
    memory_mib: int

    def xml(self, name: str, number: int, network: str, port: int) -> str:
        """XML of the domain for libvirt; the console goes to that port of 127.0.0.1."""
        made = Basis(self.kernel, self.initramfs, command_line(number), self.accel, self.memory_mib)
        domain = made.domain(name)
        devices = part(domain, "devices")
        serial = put(devices, "serial", type="tcp")
        put(serial, "source", mode="connect", host="127.0.0.1", service=str(port))
        put(serial, "protocol", type="raw")
        if network != "none":
            wanted = {"auto": "default"}.get(network, network)
            card = put(devices, "interface", type="user" if network == "user" else "network")
            if network != "user":
                put(card, "source", network=wanted)
            put(card, "model", type="virtio")
        return ElementTree.tostring(domain, encoding="unicode")


def check_network(uri: str, network: str) -> None:
    """Check that this libvirt has that network, and that it is active. Raises CannotHonour."""
    if network in ("none", "user"):
        return
    wanted = {"auto": "default"}.get(network, network)
    done = virsh.ask(uri, "net-info", wanted)
    if done.code != 0 or not re.search(r"^Active:\s+yes", done.out, re.MULTILINE):
        why = "it is not active" if done.code == 0 else done.why
        raise CannotHonour(
            f"libvirt's network '{wanted}' at {uri}: {why}",
            hint=f"virsh --connect {uri} net-start {wanted}; or network=user, none",
        )


class Domains:
    """Libvirt domains as the machines of a storm (see `clouds.base.Machines`). network: none, user (QEMU's own), auto
    (libvirt's `default`), or the name of one."""

    awaited = "served"
    phases = ("libvirt", REST, "machine", "firmware", "kernel")

    def __init__(self, made: Domain, record: Record, network: str) -> None:
        self._made, self._record, self._network = made, record, network
        self.counts: dict[str, int] = {"requests": 0}
        self._guests: dict[str, _Guest] = {}
        self._cpu_ns = 0
        self._lock = threading.Lock()

    def announce(self, tracks: Sequence[Track]) -> None:
        self._guests = {track.name: _Guest(number) for number, track in enumerate(tracks)}
        self._record.intend(DOMAIN, self._guests, uri=self._made.uri)
        virsh.detect(self._made.uri)  # one that had ended since: not to be started by a call of the run

    def count_cpu(self) -> Callable[[], dict[str, float]]:
        before = cpu.read()

        def used() -> dict[str, float]:
            daemons = {r: s for r, s in cpu.between(before, cpu.read()).items() if r == cpu.LIBVIRT}
            guests = sum(sum(procfs.cpu_times_ns(pid)) for pid in _pids(set(self._guests)))
            roles = {"qemu": guests / NS, virsh.PROGRAM: self._cpu_ns / NS} | daemons
            return dict(sorted(roles.items(), key=lambda item: -item[1]))

        return used

    def _call(self, *words: str) -> Ended:
        done = virsh.ask(self._made.uri, *words)
        with self._lock:
            self._cpu_ns += done.cpu_ns
            self.counts["requests"] += 1
        return done

    def create(self, track: Track) -> None:
        """Create a domain. The request is accepted when virsh has returned: the guest's processor runs by then."""
        guest = self._guests[track.name]
        described = self._made.xml(track.name, guest.number, self._network, guest.port)
        fd = os.memfd_create(track.name, 0)
        try:
            os.write(fd, described.encode())
            # Its own number in this process, which virsh may read while it is alive.
            done = self._call("create", f"/proc/{os.getpid()}/fd/{fd}")
        except OSError as error:
            track.problem = f"refused: {error}"
            return
        finally:
            os.close(fd)
        if done.code != 0:
            track.problem = f"refused: {done.why}"
            return
        track.accepted_ns = track.running_ns = done.ended_ns
        track.id = track.name

    def watch(self, tracks: Sequence[Track], until_ns: int, sending: Callable[[], bool]) -> None:
        waiting = {self._guests[track.name].fd: (self._guests[track.name], track) for track in tracks}
        poll = select.poll()
        for fd in waiting:
            poll.register(fd, select.POLLIN)
        while (now_ns := time.monotonic_ns()) < until_ns:
            if all(track.problem or track.active for track in tracks) and not sending():
                return
            for fd, _ in poll.poll(min(_LOOK_S * 1e3, (until_ns - now_ns) / 1e6)):
                guest, track = waiting.pop(fd)
                poll.unregister(fd)
                at_ns = time.monotonic_ns()
                if guest.hear(at_ns):
                    waiting[guest.fd] = guest, track
                    poll.register(guest.fd, select.POLLIN)
                elif track.active is None and not track.problem:
                    track.problem = f"QEMU ended: {guest.console.last or 'the guest said nothing'}"
                if guest.console.served_ns and track.active is None:
                    track.entries.append((ACTIVE, Interval(at_ns, at_ns)))

    def ask(self, happened: Happened) -> None:
        """Add each domain's moments: QEMU's connection, virsh's return, and by what the guest's clock says."""
        for track in happened.tracks:
            guest = self._guests[track.name]
            moments = (
                ("machine", guest.connected_ns),
                ("firmware", track.running_ns),
                ("kernel", guest.console.kernel_ns),
            )
            on_the_way = [(state, Interval(at, at)) for state, at in moments if at]
            track.entries = on_the_way + [entry for entry in track.entries if entry[0] == ACTIVE]

    def delete(self, track: Track) -> None:
        """Delete a domain: it is gone when libvirt says so."""
        done = self._call("destroy", track.name)
        if done.code == 0:
            track.gone = Interval(done.ended_ns, done.ended_ns)

    def watch_gone(self, tracks: Sequence[Track], until_ns: int) -> None:
        """Do nothing: `delete` has waited."""

    def clear(self, tracks: Sequence[Track], within_s: float) -> dict[str, str]:
        left: dict[str, str] = {}
        for track in tracks:
            self._guests[track.name].close()
            if track.gone is None:
                try:
                    virsh.remove(self._made.uri, track.name, self._record.run)
                except HostFailed as error:
                    left[track.name] = error.message
        self._record.removed(DOMAIN, (name for name in self._guests if name not in left))
        return left


class _Guest:
    """The console of one: first a socket that listens, then the connection that QEMU has made to it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.console = Console()
        self.connected_ns = 0
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=1)
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]

    @property
    def fd(self) -> int:
        return self._socket.fileno()

    def hear(self, now_ns: int) -> bool:
        """Read what has come, at that moment; False when nothing will come any more."""
        try:
            if not self.connected_ns:
                connection, _ = self._socket.accept()
                connection.setblocking(False)
                self._socket.close()
                self._socket, self.connected_ns = connection, now_ns
                return True
            data = self._socket.recv(65536)
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        self.console.hear(data, now_ns)
        return bool(data)

    def close(self) -> None:
        self._socket.close()


def _pids(wanted: set[str]) -> list[int]:
    """Pids of the QEMUs of those domains."""
    pids = []
    for pid in procfs.all_pids():
        with contextlib.suppress(OSError):  # it has ended
            match = _GUEST.search((procfs.PROC / str(pid) / "cmdline").read_bytes())
            if match and match[1].decode(errors="replace") in wanted:
                pids.append(pid)
    return pids


def put_files(folder: Path, kernel: Path, scratch: Path) -> tuple[Path, Path]:
    """Copy kernel and initramfs where libvirt's QEMU can read them, whoever runs that: not below anybody's home."""
    folder.mkdir()
    folder.chmod(0o755)
    copied, initramfs = folder / "vmlinuz", folder / "initramfs"
    shutil.copyfile(kernel, copied)
    make_initramfs(initramfs, scratch)
    for path in (copied, initramfs):
        path.chmod(0o644)
    return copied, initramfs
