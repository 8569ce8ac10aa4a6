"""One micro-VM: a QEMU process with a serial console and a QMP monitor, each a socket pair that ends when it does."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contend.clouds.local.guest import Console, command_line
from contend.errors import HostFailed
from contend.platforms import procfs
from contend.platforms.calls import spawn
from contend.platforms.guests import accel
from contend.platforms.guests import machine as basis
from contend.platforms.guests.channel import Silent
from contend.platforms.guests.qemu import Monitor
from contend.text.shape import Shape

_NIC = {"microvm": "virtio-net-device", "q35": "virtio-net-pci"}


@dataclass(frozen=True, slots=True)
class Machine(Shape):
    """The make of every guest of a run. `accel`: kvm or tcg (emulated); `model`: QEMU's machine type."""

    kernel: str
    initramfs: str
    accel: str
    model: str
    memory_mib: int
    init: str = ""

    @property
    def emulated(self) -> bool:
        return self.accel != "kvm"

    def command(self, number: int, network: str, tap: str) -> list[str]:
        """QEMU's command line, with descriptor 3 for the console and 4 for QMP. network: none, user, or auto with its
        `tap`."""
        made = basis.Basis(
            self.kernel, self.initramfs, command_line(number), self.accel, self.memory_mib, model=self.model
        )
        argv = made.words()
        argv += ["-chardev", "socket,id=console,fd=3", "-serial", "chardev:console"]
        argv += ["-chardev", "socket,id=qmp,fd=4", "-mon", "chardev=qmp,mode=control"]
        if network != "none":
            backend = "user" if network == "user" else f"tap,ifname={tap},script=no,downscript=no"
            argv += ["-netdev", f"{backend},id=net", "-device", f"{_NIC[self.model]},netdev=net"]
        return argv


def need_program() -> None:
    """Check for QEMU, and that its guests here are made for this processor. Raises CannotHonour."""
    basis.need("micro-VMs", "parameters.engine=podman")


class Guest:
    """One running QEMU. `hear` reads what it has said; moments are CLOCK_MONOTONIC ns, 0 for not yet."""

    def __init__(self, number: int, name: str) -> None:
        self.number, self.name = number, name
        self.pid = 0
        self.greeted_ns = self.running_ns = 0
        self.console = Console()
        self.ended = ""  # why it is no more
        self.sockets: tuple[socket.socket, ...] = ()
        self._err = -1
        self._lock = threading.Lock()

    def start(self, argv: list[str], marks: Mapping[str, str]) -> None:
        """Start QEMU. Raises OSError. The process carries the run's mark and its own name, by which it is found
        again."""
        pairs = [socket.socketpair() for _ in range(2)]
        self._err = os.memfd_create("err", os.MFD_CLOEXEC)
        try:
            theirs = {3 + number: pair[1].fileno() for number, pair in enumerate(pairs)}
            environment = {**os.environ, **marks, procfs.MEMBER_MARKER: self.name}
            self.pid = spawn(argv, {**theirs, 1: self._err, 2: self._err}, environment)
        finally:
            for _, other in pairs:
                other.close()
            self.connect(*(mine for mine, _ in pairs))

    def connect(self, console: socket.socket, monitor: socket.socket) -> None:
        """Take the sockets of QEMU's console and monitor."""
        self.sockets, self._monitor = (console, monitor), Monitor(monitor)
        for mine in self.sockets:
            mine.setblocking(False)

    def hear(self, which: socket.socket, now_ns: int) -> None:
        """Read what has come on one of its sockets at that moment."""
        try:
            data = which.recv(65536)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self.ended = self.ended or "QEMU ended"
            return
        if which is self.sockets[0]:
            self.console.hear(data, now_ns)
            return
        for message in self._monitor.hear(data):
            self._answer(message, now_ns)

    def _answer(self, message: Mapping[str, Any], now_ns: int) -> None:
        """QMP: a greeting, the status that was asked for, and RESUME where the guest did not run yet by then."""
        if "QMP" in message:
            self.greeted_ns = now_ns
            self._say("qmp_capabilities")
            self._say("query-status")
        status = message.get("return")
        state = status.get("status") if isinstance(status, dict) else ""
        if not self.running_ns and (state == "running" or message.get("event") == "RESUME"):
            self.running_ns = now_ns
        if state == "internal-error" or message.get("event") == "GUEST_PANICKED":
            self.ended = "the guest cannot go on: internal error of the virtual processor"

    def _say(self, command: str) -> bool:
        """To the monitor; False where it is gone."""
        with contextlib.suppress(OSError):
            self._monitor.say(command)
            return True
        return False

    @property
    def cpu_ns(self) -> int:
        return sum(procfs.cpu_times_ns(self.pid)) if self.pid else 0

    def stop(self, within_s: float) -> int:
        """End QEMU, by its monitor, or by force after `within_s`; returns the moment, CLOCK_MONOTONIC ns."""
        if not self.pid:
            return time.monotonic_ns()
        with self._lock:
            fd = os.pidfd_open(self.pid)
            try:
                if not (self._say("quit") and procfs.ends_within(fd, within_s)):
                    os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            finally:
                os.close(fd)
            self.pid = 0
        return time.monotonic_ns()

    def close(self) -> None:
        """Close the sockets and files, after `stop`. Idempotent."""
        for mine in self.sockets:
            mine.close()
        if self._err >= 0:
            os.close(self._err)
            self._err = -1

    @property
    def last_words(self) -> str:
        """Last line of QEMU, or else of the guest's kernel."""
        output = os.pread(self._err, 4096, 0).decode(errors="replace").strip() if self._err >= 0 else ""
        return output.splitlines()[-1] if output else self.console.last


def boot(machine: Machine, within_s: float) -> bool:
    """Boot a guest, and end it when it serves. Raises HostFailed where it does not, Silent where it says nothing."""
    guest = Guest(0, f"contend-trial-{os.getpid()}")
    poll = select.poll()
    began = time.monotonic()
    try:
        guest.start(machine.command(0, "none", ""), {})
        for mine in guest.sockets:
            poll.register(mine, select.POLLIN)
        while not guest.console.served_ns and not guest.ended:
            left = within_s - (time.monotonic() - began)
            if left <= 0:
                raise Silent(f"a guest said nothing within {within_s:g} s", hint="contend doctor")
            for fd, _ in poll.poll(left * 1e3):
                which = next(mine for mine in guest.sockets if mine.fileno() == fd)
                guest.hear(which, time.monotonic_ns())
        if guest.ended:
            raise HostFailed(f"{guest.ended}: {guest.last_words}", hint="contend doctor")
        return True
    except OSError as error:
        raise HostFailed(str(error), hint="contend doctor") from error
    finally:
        guest.stop(1.0)
        guest.close()


def machine(accel: str, kernel: Path, initramfs: Path, memory_mib: int, init: str = "") -> Machine:
    """QEMU's machine type for that acceleration. Under emulation microvm hangs now and then; q35 does not."""
    model = "microvm" if accel == "kvm" else "q35"
    return Machine(str(kernel), str(initramfs), accel, model, memory_mib, init)


def kvm_problem(kernel: Path, initramfs: Path, memory_mib: int, what: str) -> str:
    """Boot a guest with KVM: why that fails here, "" where it works. Takes up to 15 s, on a busy host 75 s; the answer is
    kept as that of `what`."""
    if why := accel.cannot_open():
        return why
    guest = machine("kvm", kernel, initramfs, memory_mib)
    return accel.by_kvm(lambda within_s: boot(guest, within_s), what)[1]
