"""A storm's micro-VMs: one QEMU process each, watched by its monitor and by what the guest says on its console."""

from __future__ import annotations

import itertools
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from contend import names
from contend.clouds.local.qemu import Guest, Machine
from contend.clouds.local.removal import TAP, VM
from contend.clouds.storm.stamps import ACTIVE, NS, Interval, Track
from contend.errors import HostFailed
from contend.platforms import procfs
from contend.platforms.calls import call
from contend.platforms.network import remove_link
from contend.store.ledger import Record

if TYPE_CHECKING:
    from contend.clouds.storm.storm import Happened

_LOOK_S = 0.1  # how long a wait for words is at most, so that failures to start are seen too
_WITHIN_S = 60.0


class MicroVms:
    """Micro-VMs as the machines of a storm (see `clouds.base.Machines`). network: none, user (QEMU's own), or auto: a
    tap device each."""

    awaited = "served"

    def __init__(self, machine: Machine, record: Record, network: str) -> None:
        self._machine, self._record, self._network = machine, record, network
        self._hash = names.short_hash(record.run)  # `contend destroy` knows a run's links by it
        self.phases = (
            *(("network",) if network == "auto" else ()),
            *("process", "machine", "firmware", "kernel"),
        )
        self.counts: dict[str, int] = {"requests": 0}
        self._guests: dict[str, Guest] = {}
        self._taps: dict[str, tuple[str, int]] = {}  # by name: the device, and when it was there
        self._by_fd: dict[int, tuple[Guest, socket.socket]] = {}
        self._epoll = select.epoll()
        self._lock = threading.Lock()
        self._network_cpu_ns = 0

    def announce(self, tracks: Sequence[Track]) -> None:
        self._guests = {track.name: Guest(number, track.name) for number, track in enumerate(tracks)}
        if self._network == "auto":
            # Of a storm of this run that was cut off some may be there still.
            there = {name for _, name in socket.if_nameindex()}
            free = (tap for k in itertools.count() if (tap := f"ctd{self._hash}.{k}") not in there)
            self._taps = {track.name: (next(free), 0) for track in tracks}
            self._record.intend(TAP, (tap for tap, _ in self._taps.values()))
        self._record.intend(VM, self._guests)

    def count_cpu(self) -> Callable[[], dict[str, float]]:
        def used() -> dict[str, float]:
            roles = {"qemu": sum(guest.cpu_ns for guest in self._guests.values()) / NS}
            return roles | ({"network": self._network_cpu_ns / NS} if self._taps else {})

        return used

    def create(self, track: Track) -> None:
        """Start QEMU. A request is accepted when its process is started."""
        guest, tap = self._guests[track.name], ""
        with self._lock:
            self.counts["requests"] += 1
        if self._taps:
            tap, _ = self._taps[track.name]
            for words in (("tuntap", "add", "dev", tap, "mode", "tap"), ("link", "set", tap, "up")):
                done = call(("ip", *words), _WITHIN_S)
                with self._lock:
                    self._network_cpu_ns += done.cpu_ns
                if done.code != 0:
                    track.problem = f"refused: ip {' '.join(words)}: {done.why}"
                    return
            self._taps[track.name] = tap, done.ended_ns
        try:
            guest.start(
                self._machine.command(guest.number, self._network, tap), {procfs.MARKER: self._record.run}
            )
        except OSError as error:
            track.problem = f"refused: {error}"
            return
        track.accepted_ns = time.monotonic_ns()
        track.id = str(guest.pid)
        for mine in guest.sockets:
            self._by_fd[mine.fileno()] = guest, mine
            self._epoll.register(mine.fileno(), select.EPOLLIN)

    def watch(self, tracks: Sequence[Track], until_ns: int, sending: Callable[[], bool]) -> None:
        by_name = {track.name: track for track in tracks}
        while (now_ns := time.monotonic_ns()) < until_ns:
            if all(track.problem or track.active for track in tracks) and not sending():
                return
            for fd, _ in self._epoll.poll(min(_LOOK_S, (until_ns - now_ns) / NS)):
                guest, which = self._by_fd[fd]
                heard_ns = time.monotonic_ns()
                guest.hear(which, heard_ns)
                track = by_name[guest.name]
                if guest.console.served_ns and track.active is None:
                    track.entries.append((ACTIVE, Interval(heard_ns, heard_ns)))
                if guest.ended:
                    self._epoll.unregister(fd)
                    if track.active is None and not track.problem:
                        track.problem = f"{guest.ended}: {guest.last_words}"

    def ask(self, happened: Happened) -> None:
        """Add each guest's moments, from what QEMU and the guest have said."""
        for track in happened.tracks:
            guest = self._guests[track.name]
            track.running_ns = guest.running_ns
            tap_ns = self._taps.get(track.name, ("", 0))[1]
            moments = (
                ("process", tap_ns),
                ("machine", guest.greeted_ns),
                ("firmware", guest.running_ns),
                ("kernel", guest.console.kernel_ns),
            )
            on_the_way = [(state, Interval(at, at)) for state, at in moments if at]
            track.entries = on_the_way + [entry for entry in track.entries if entry[0] == ACTIVE]

    def delete(self, track: Track) -> None:
        """End a guest by its monitor and wait for it; then remove its tap."""
        ended_ns = self._guests[track.name].stop(5.0)
        if track.name in self._taps:
            ended_ns = call(("ip", "link", "delete", self._taps[track.name][0]), _WITHIN_S).ended_ns
        track.gone = Interval(ended_ns, ended_ns)

    def watch_gone(self, tracks: Sequence[Track], until_ns: int) -> None:
        """Do nothing: `delete` has waited."""

    def clear(self, tracks: Sequence[Track], within_s: float) -> dict[str, str]:
        left: dict[str, str] = {}
        for guest in self._guests.values():
            guest.stop(0.0)
            guest.close()
        self._record.removed(VM, self._guests)
        for name, (tap, _) in self._taps.items():
            try:
                remove_link(tap)
            except HostFailed as error:
                left[name] = error.message
        self._record.removed(TAP, (tap for name, (tap, _) in self._taps.items() if name not in left))
        self._epoll.close()
        return left
