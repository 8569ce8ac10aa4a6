"""One running guest: QEMU, its monitor and the agent inside, from the overlay to the end."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from contend.errors import HostFailed
from contend.platforms.base import Command, Process
from contend.platforms.guests.channel import Channel
from contend.platforms.guests.qemu import Machine, Qmp, make_overlay

AGENT, INNER = "agent", "inner"  # ports: of the guest's agent, and of the one in a container of it
_LOOK_S = 0.05


class Guest:
    """`start` returns when the agent serves. directory: of the guest alone; it holds what the guest writes.

    `run` starts QEMU and is told by what command.
    """

    def __init__(self, machine: Machine, directory: Path) -> None:
        self.machine, self.directory = machine, directory
        self.hello: dict[str, Any] = {}
        self.boot_ns = 0  # from asking for QEMU to the agent's word
        self.process: Process | None = None
        self._qmp: Qmp | None = None
        self._channel: Channel | None = None
        self._inner: Channel | None = None
        self._forwarded: set[int] = set()
        self._lock = threading.Lock()
        self._wanted = 1  # by how many it is kept awake: while it starts by whoever starts it
        self._resting = threading.Lock()

    def start(self, run: Callable[[Command], Process], within_s: float) -> None:
        """Raises HostFailed when it does not come up within that time; `stop` is to be called then, too."""
        began = time.monotonic()
        overlay = self.directory / "overlay.qcow2"
        overlay.unlink(missing_ok=True)
        make_overlay(self.machine.boot.disk, overlay, os.environ)
        said = self.directory / "qemu.err"
        with contextlib.ExitStack() as stack:
            listening = {name: stack.enter_context(self._listen(name)) for name in ("qmp", AGENT, INNER)}
            command = self.machine.command((AGENT, INNER))
            environment = {"TMPDIR": str(self.directory)}
            self.process = run(
                Command(command, self.directory, self.directory / "qemu.out", said, environment)
            )
            monitor = self._accept(listening["qmp"])
            try:
                self._qmp = Qmp(monitor)
            except HostFailed as error:  # it has ended: its own words say why
                monitor.close()
                raise HostFailed(
                    f"QEMU ended: {self.last_words() or error.message}", hint="contend doctor"
                ) from error
            self._channel = Channel(self._accept(listening[AGENT]), self.last_words, self._forward)
            self._inner = Channel(self._accept(listening[INNER]), self.last_words, self._forward)
        self.hello = self._channel.hello(within_s - (time.monotonic() - began))
        self.boot_ns = round((time.monotonic() - began) * 1e9)
        self._tell_time()

    def _tell_time(self) -> None:
        """Its own clock is of whole seconds after its start, and stands still while it rests."""
        offset_ns, _ = self.channel.clock()
        self.channel.ask(b"X", ns=time.time_ns() - time.monotonic_ns() + offset_ns)

    # Rest

    def wake(self) -> None:
        """Its CPUs run until `rest` was called as often. Raises HostFailed."""
        with self._resting:
            if self._wanted == 0:
                self.qmp("cont")
                self._tell_time()
            self._wanted += 1

    def rest(self) -> None:
        """Nobody wants it for now: its CPUs and its clock stand still, so that its ticks take nothing from other trials."""
        with self._resting:
            self._wanted -= 1
            if self._wanted == 0 and self._qmp is not None:
                with contextlib.suppress(HostFailed):  # it has ended, which who asks it next is told
                    self._qmp("stop")

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        """Meanwhile."""
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

    def _listen(self, name: str) -> socket.socket:
        """A path of a socket has at most 107 bytes, the directory's may have more: by its descriptor it is short."""
        (self.directory / name).unlink(missing_ok=True)
        folder = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            server = socket.socket(socket.AF_UNIX)
            server.bind(f"/proc/self/fd/{folder}/{name}")
        finally:
            os.close(folder)
        server.listen(1)
        server.settimeout(_LOOK_S)
        return server

    def _accept(self, server: socket.socket) -> socket.socket:
        deadline = time.monotonic() + 30.0
        while True:
            with contextlib.suppress(TimeoutError):
                connection, _ = server.accept()
                connection.settimeout(None)
                return connection
            if self.process is None or not self.process.alive() or time.monotonic() > deadline:
                raise HostFailed("QEMU does not start", hint=self.last_words() or "contend doctor")

    # Ports

    def watch_ports(self, ports: tuple[int, ...]) -> None:
        """Forward each of them from now on while something inside listens there, and none that were."""
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
        """Whether something inside listens on this watched port, and can be reached."""
        with self._lock:
            return port in self._forwarded

    def last_words(self) -> str:
        """Of QEMU, or else of the guest's console."""
        for name in ("qemu.err", "console"):
            path = self.directory / name
            if path.exists():
                lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
                told = [line.strip() for line in lines if line.strip()]
                if told:
                    return told[-1][:300]
        return ""

    def stop(self) -> None:
        """At once: its overlay is thrown away. Idempotent."""
        if self.process is not None:
            self.process.stop("KILL", 0.0)
        for channel in (self._channel, self._inner):
            if channel is not None:
                channel.close()
        if self._qmp is not None:
            self._qmp.close()
        self.process = self._channel = self._inner = self._qmp = None
