"""One running guest: QEMU, its monitor and the agent inside, from the overlay to the end."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from contend.errors import ContendError, HostFailed
from contend.platforms.bare import BareHost
from contend.platforms.base import Command
from contend.platforms.guests.channel import Channel
from contend.platforms.guests.qemu import CONSOLE, MONITOR, NETDEV, OVERLAY, Machine, Qmp, make_overlay

AGENT, INNER = "agent", "inner"  # ports: of the guest's agent, and of the one in a container of it
_LOOK_S = 0.05
_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid


class Emulator(Protocol):
    """QEMU's process: a child of this process or of libvirt."""

    @property
    def pid(self) -> int: ...

    def alive(self) -> bool: ...

    def stop(self, signal: str = "TERM", grace_s: float = 2.0) -> object: ...


class Starter(Protocol):
    """Starts a guest's QEMU: as a child of this process, or by libvirt."""

    netdev: str
    """What QEMU calls the back end of the guest's network card."""

    tap: str
    """What the tap of a guest in a network namespace is called, if the starter makes it: elsewhere; "" if not."""

    def sockets(self, directory: Path) -> contextlib.AbstractContextManager[Path]:
        """Directory of the sockets that QEMU connects to; the block may end once it has."""
        ...

    def start(self, guest: Guest, sockets: Path) -> Emulator:
        """Start a QEMU that connects to the monitor's socket and to those of the ports."""
        ...

    def connected(self, guest: Guest, pid: int) -> None:
        """Take note that QEMU has connected and is process `pid`. The guest's CPUs run when this returns."""
        ...

    def refused(self, words: str) -> ContendError:
        """Make the error for a QEMU that does not connect. words: the last line of its output."""
        ...


class Directly:
    """QEMU as a process of the party's own, from its first instruction. See `Starter`."""

    netdev, tap = NETDEV, ""

    def __init__(self, outside: BareHost) -> None:
        self._outside = outside

    def sockets(self, directory: Path) -> contextlib.AbstractContextManager[Path]:
        return contextlib.nullcontext(directory)  # where it starts, so that their paths are short

    def start(self, guest: Guest, sockets: Path) -> Emulator:
        folder = guest.directory
        environment = {"TMPDIR": str(folder)}
        command = guest.machine.command((AGENT, INNER))
        return self._outside.run(
            Command(command, folder, folder / "qemu.out", folder / "qemu.err", environment)
        )

    def connected(self, guest: Guest, pid: int) -> None:
        """Do nothing: the guest runs since QEMU was started."""

    def refused(self, words: str) -> ContendError:
        return HostFailed("QEMU does not start", hint=words or "contend doctor")


class Guest:
    """`start` returns when the agent serves. directory: of the guest alone; it holds what the guest writes."""

    def __init__(self, machine: Machine, directory: Path, starter: Starter) -> None:
        self.machine, self.directory = machine, directory
        self.hello: dict[str, Any] = {}
        self.boot_ns = 0  # from asking for QEMU to the agent's word
        self.process: Emulator | None = None
        self._starter = starter
        self._qmp: Qmp | None = None
        self._channel: Channel | None = None
        self._inner: Channel | None = None
        self._forwarded: set[int] = set()
        self._lock = threading.Lock()
        self._wanted = 1  # by how many it is kept awake: while it starts by whoever starts it
        self._resting = threading.Lock()

    def start(self, within_s: float) -> None:
        """Start the guest and wait for its agent. Raises HostFailed after `within_s`; call `stop` then, too."""
        began = time.monotonic()
        overlay = self.directory / OVERLAY
        overlay.unlink(missing_ok=True)
        make_overlay(self.machine.boot.disk, overlay, os.environ)
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(self._starter.sockets(self.directory))
            listening = {name: stack.enter_context(_listen(folder, name)) for name in (MONITOR, AGENT, INNER)}
            self.process = self._starter.start(self, folder)
            monitor = self._accept(listening[MONITOR])
            pid = _peer(monitor)
            try:
                self._qmp = Qmp(monitor, self._starter.netdev)
            except HostFailed as error:  # it has ended: its own words say why
                monitor.close()
                raise HostFailed(
                    f"QEMU ended: {self.last_words() or error.message}", hint="contend doctor"
                ) from error
            self._channel = Channel(self._accept(listening[AGENT]), self.last_words, self._forward)
            self._inner = Channel(self._accept(listening[INNER]), self.last_words, self._forward)
        self._starter.connected(self, pid)
        self.hello = self._channel.hello(within_s - (time.monotonic() - began))
        self.boot_ns = round((time.monotonic() - began) * 1e9)
        self._tell_time()

    def _tell_time(self) -> None:
        """Its own clock is of whole seconds after its start, and stands still while it rests."""
        offset_ns, _ = self.channel.clock()
        self.channel.ask(b"X", ns=time.time_ns() - time.monotonic_ns() + offset_ns)

    # Rest

    def wake(self) -> None:
        """Let the guest's CPUs run until `rest` was called as often as this. Raises HostFailed."""
        with self._resting:
            if self._wanted == 0:
                self.qmp("cont")
                self._tell_time()
            self._wanted += 1

    def rest(self) -> None:
        """Pause the guest's CPUs and clock once nobody needs it, so that its ticks do not disturb other trials."""
        with self._resting:
            self._wanted -= 1
            if self._wanted == 0 and self._qmp is not None:
                with contextlib.suppress(HostFailed):  # it has ended, which who asks it next is told
                    self._qmp("stop")

    @property
    def resting(self) -> bool:
        return self._wanted == 0

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        """Keep the guest awake while the block runs."""
        self.wake()
        try:
            yield
        finally:
            self.rest()

    @property
    def qmp(self) -> Qmp:
        assert self._qmp is not None, "started"
        return self._qmp

    @property
    def channel(self) -> Channel:
        assert self._channel is not None, "started"
        return self._channel

    @property
    def inner(self) -> Channel:
        assert self._inner is not None, "started"
        return self._inner

    def _accept(self, server: socket.socket) -> socket.socket:
        deadline = time.monotonic() + 30.0
        while True:
            with contextlib.suppress(TimeoutError):
                connection, _ = server.accept()
                connection.settimeout(None)
                return connection
            if self.process is None or not self.process.alive() or time.monotonic() > deadline:
                raise self._starter.refused(self.last_words())

    # Ports

    def watch_ports(self, ports: tuple[int, ...]) -> None:
        """Forward these ports, and no others, from now on, each while something inside listens there."""
        with self._lock:
            forwarded, self._forwarded = self._forwarded, set()
        for port in forwarded if self.machine.tap is None else ():
            self.qmp.forward(port, on=False)
        self.channel.ask(b"N", ports=list(ports))

    def _forward(self, port: int) -> None:
        """In the thread that reads: nothing listened there before, so nobody outside finds an open door to nothing."""
        with contextlib.suppress(
            HostFailed
        ):  # the guest has just gone, or the port is taken: then nobody gets in
            if self.machine.tap is None:
                self.qmp.forward(port, on=True)
            with self._lock:
                self._forwarded.add(port)

    def serves(self, port: int) -> bool:
        """True if something inside listens on this watched port, and can be reached."""
        with self._lock:
            return port in self._forwarded

    def last_words(self) -> str:
        """Read the last line of QEMU's error output, or else of the guest's console."""
        for name in ("qemu.err", CONSOLE):
            path = self.directory / name
            if path.exists():
                lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
                texts = [line.strip() for line in lines if line.strip()]
                if texts:
                    return texts[-1][:300]
        return ""

    def stop(self) -> None:
        """End the guest at once and drop its overlay. Idempotent. Everything is tried; the first error is raised."""
        with contextlib.ExitStack() as stack:
            for end in (self._qmp, self._inner, self._channel):
                if end is not None:
                    stack.callback(end.close)
            if self.process is not None:
                stack.callback(self.process.stop, "KILL", 0.0)
            self.process = self._channel = self._inner = self._qmp = None


def _listen(directory: Path, name: str) -> socket.socket:
    """A path of a socket has at most 107 bytes, the directory's may have more: by its descriptor it is short."""
    (directory / name).unlink(missing_ok=True)
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        server = socket.socket(socket.AF_UNIX)
        server.bind(f"/proc/self/fd/{folder}/{name}")
    finally:
        os.close(folder)
    server.listen(1)
    server.settimeout(_LOOK_S)
    return server


def _peer(connection: socket.socket) -> int:
    """The process that has connected."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid: int = _CREDENTIALS.unpack(credentials)[0]
    return pid
