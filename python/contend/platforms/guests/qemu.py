"""QEMU: the command line of a guest, and its monitor (QMP), by which its virtual CPUs are found and ports forwarded."""

from __future__ import annotations

import collections
import json
import re
import socket
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contend.errors import HostFailed
from contend.platforms.base import Limit
from contend.platforms.guests import machine
from contend.platforms.guests.boot import ADDRESS, COMMAND_LINE, Boot
from contend.platforms.network import Tap

MONITOR, CONSOLE, OVERLAY = "qmp", "console", "overlay.qcow2"  # files of a guest
NETDEV = "net"
_WITHIN_S = 10.0


def need_program() -> None:
    """Check that this host can run QEMU's guests. Raises CannotHonour without QEMU, or on another processor."""
    machine.need("virtual machines", "engine=podman", ("qemu-img", "qemu-utils"))


@dataclass(frozen=True, slots=True)
class Machine:
    """A guest's size and what it boots. accel: kvm, or tcg, which is emulation."""

    boot: Boot
    accel: str
    vcpus: int
    memory_mib: int
    limit: Limit = Limit()  # of its disk
    tap: Tap | None = None  # None: QEMU's own network, by which ports of this host are forwarded

    @property
    def emulated(self) -> bool:
        return self.accel != "kvm"

    def command(self, ports: tuple[str, ...]) -> tuple[str, ...]:
        """QEMU's command line; run it in the directory with the overlay and the monitor's socket, to which it connects.
        ports: names of virtio-serial ports, each with a socket of that name."""
        words = [*self.basis.words(), "-rtc", "base=utc"]
        words += ["-serial", f"file:{CONSOLE}"]
        words += ["-chardev", f"socket,id=qmp,path={MONITOR}", "-mon", "qmp,mode=control"]
        words += ["-drive", f"if=none,id=disk,file={OVERLAY},format=qcow2{self._throttle()}"]
        words += ["-device", "virtio-blk-pci,drive=disk", "-device", "virtio-serial-pci"]
        for name in ports:
            words += ["-chardev", f"socket,id={name},path={name}"]
            words += ["-device", f"virtserialport,chardev={name},name={name}"]
        words += ["-netdev", self._netdev(), "-device", f"virtio-net-pci,netdev={NETDEV}"]
        return tuple(words)

    @property
    def basis(self) -> machine.Basis:
        """The machine without disk, port and network."""
        return machine.Basis(
            self.boot.kernel,
            self.boot.initramfs,
            self.kernel_line,
            self.accel,
            self.memory_mib,
            self.vcpus,
        )

    @property
    def kernel_line(self) -> str:
        """The guest's kernel's command line."""
        return COMMAND_LINE if self.tap is None else f"{COMMAND_LINE} {ADDRESS}={self.tap.address}"

    @property
    def network(self) -> str:
        """The kind of network: `user` (QEMU's own network, ports forwarded), `tap`, or `tap, vhost`."""
        if self.tap is None:
            return "user"
        return "tap, vhost" if self.tap.vhost and not self.emulated else "tap"

    def _netdev(self) -> str:
        if self.tap is None:
            return f"user,id={NETDEV},restrict=off"
        vhost = "on" if "vhost" in self.network else "off"
        return f"tap,id={NETDEV},ifname={self.tap.device},script=no,downscript=no,vhost={vhost}"

    def _throttle(self) -> str:
        limit = self.limit
        rates = {"iops": limit.iops, "bps": limit.bytes_per_s}
        return "".join(
            f",throttling.{name}-{way}={rate}"
            for name, rate in rates.items()
            if rate is not None
            for way in ("read", "write")
        )


class Monitor:
    """Words with a QEMU (QMP): a JSON object a line.

    See https://www.qemu.org/docs/master/interop/qemu-qmp-ref.html.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._heard = connection, b""

    def say(self, command: str, **arguments: Any) -> None:
        """Raises OSError where nobody hears it."""
        words = {"execute": command} | ({"arguments": arguments} if arguments else {})
        self._connection.sendall(json.dumps(words).encode() + b"\n")

    def hear(self, data: bytes) -> list[dict[str, Any]]:
        """Messages that are whole now, after what has just come."""
        *lines, self._heard = (self._heard + data).split(b"\n")
        return [json.loads(line) for line in lines]


class Qmp(Monitor):
    """A monitor that is called, and answers."""

    def __init__(self, connection: socket.socket, netdev: str = NETDEV) -> None:
        super().__init__(connection)
        connection.settimeout(_WITHIN_S)
        self._netdev, self._unread = netdev, collections.deque[dict[str, Any]]()
        self._lock = threading.Lock()  # ports are forwarded by the thread that reads
        self._read()  # its greeting
        self("qmp_capabilities")

    def __call__(self, command: str, **arguments: Any) -> Any:
        """Call QEMU and return its answer. Raises HostFailed when it refuses or does not answer."""
        with self._lock:
            try:
                self.say(command, **arguments)
            except OSError as error:
                raise HostFailed(
                    f"QEMU's monitor is gone: {error.strerror}", hint="see its console"
                ) from error
            while True:
                answer = self._read()
                if "return" in answer:
                    return answer["return"]
                if "error" in answer:
                    raise HostFailed(
                        f"QEMU refuses {command}: {answer['error'].get('desc')}", hint="contend doctor"
                    )

    def _read(self) -> dict[str, Any]:
        while not self._unread:
            try:
                data = self._connection.recv(65536)
            except OSError as error:
                raise HostFailed(f"QEMU's monitor does not answer: {error}", hint="contend doctor") from error
            if not data:
                raise HostFailed("QEMU's monitor is gone", hint="see its console")
            self._unread += self.hear(data)
        return self._unread.popleft()

    def vcpu_threads(self) -> list[int]:
        """Thread ids on this host, by the number of the virtual CPU."""
        cpus = sorted(self("query-cpus-fast"), key=lambda cpu: int(cpu["cpu-index"]))
        return [int(cpu["thread-id"]) for cpu in cpus]

    def memory_bytes(self) -> int:
        return int(self("query-memory-size-summary")["base-memory"])

    def disk_limits(self) -> dict[str, str]:
        """Limits of the disk, as QEMU says."""
        (disk,) = [block["inserted"] for block in self("query-block") if "inserted" in block]
        wanted = ("iops_rd", "iops_wr", "bps_rd", "bps_wr")
        return {f"disk.{name}": str(disk[name]) for name in wanted if disk.get(name)}

    def forward(self, port: int, on: bool) -> None:
        """Forward a port of this host to the guest's port of that number, at 127.0.0.1 on both sides. Raises HostFailed."""
        words = f"hostfwd_add {self._netdev} tcp:127.0.0.1:{port}-127.0.0.1:{port}"
        if not on:
            words = f"hostfwd_remove {self._netdev} tcp:127.0.0.1:{port}"
        answer = str(self("human-monitor-command", **{"command-line": words})).strip()
        if answer and "removed" not in answer:
            raise HostFailed(f"QEMU does not forward port {port}: {answer}", hint="is the port in use?")

    def close(self) -> None:
        self._connection.close()


def version() -> str:
    """QEMU's version, like 7.2.17; "" without QEMU."""
    try:
        done = subprocess.run([machine.PROGRAM, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    match = re.search(r"version (\S+)", done.stdout)
    return match[1] if match else ""


def make_overlay(disk: Path, overlay: Path, environment: Mapping[str, str]) -> None:
    """Make the file that the guest writes to instead of the image. Raises HostFailed."""
    done = subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(disk), str(overlay)],
        capture_output=True,
        text=True,
        check=False,
        env=dict(environment),
    )
    if done.returncode != 0:
        raise HostFailed(f"qemu-img: {done.stderr.strip()[-300:]}", hint="df -h")
