"""Guests by libvirt: a transient domain that is the same machine as QEMU started directly, in the party's group.

libvirt's daemon starts QEMU and would keep it when contend is killed: so virsh makes each domain with `--autodestroy` and
stays connected, a child of this process that goes with it. Monitor and console are contend's own, beside libvirt's.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shlex
import shutil
import signal as signals
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from contend import names
from contend.errors import CannotHonour, ContendError, HostFailed
from contend.files import NO_OUTPUT
from contend.platforms import network, procfs
from contend.platforms.bare import BareHost
from contend.platforms.base import Command
from contend.platforms.guests import accel, qemu, virsh
from contend.platforms.guests.guest import AGENT, INNER, Directly, Guest, Starter
from contend.platforms.guests.machine import PROGRAM, part
from contend.platforms.guests.virsh import put
from contend.platforms.processes import Confines, LocalProcess, launch
from contend.platforms.topology import format_cpu_list
from contend.store.ledger import Ledger

QEMU, LIBVIRT = "qemu", "libvirt"
SETTING = "hypervisor=qemu, which needs none"
SHARED = Path("/var/tmp")  # where paths are short: that of a socket has at most 107 bytes
_MEMBER = "virsh"
_WITHIN_S = 60.0
_LOOK_S = 0.05
_QEMU_SCHEMA = "http://libvirt.org/schemas/domain/qemu/1.0"
_SLOTS = {"disk": "3", "ports": "4", "network": "5"}  # of the root bus, where QEMU puts them by itself
_NETDEV = "ua-net"


@dataclass(frozen=True, slots=True)
class Libvirt:
    """A libvirt that answers. models: its security drivers, each of which would own or confine what guests use."""

    uri: str
    version: str
    models: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The URI without the transport: `qemu:///system` or `qemu:///session`."""
        return f"libvirt:{self.uri.partition(':')[2].partition('?')[0]}"

    def describe(self) -> dict[str, str]:
        return {"uri": self.uri, "version": self.version}


def need(hypervisor: str) -> None:
    """Check the hypervisor. Raises CannotHonour where libvirt is to start guests and none answers."""
    if hypervisor != QEMU:
        virsh.detect("" if hypervisor == LIBVIRT else hypervisor, SETTING)


def connect(hypervisor: str) -> Libvirt | None:
    """Connect to libvirt: `libvirt` means the first that answers, else a URI. None for `qemu`, which needs none.

    Raises CannotHonour.
    """
    if hypervisor == QEMU:
        return None
    uri = virsh.detect("" if hypervisor == LIBVIRT else hypervisor, SETTING)
    version = re.search(r"daemon: (\S+)", virsh.ask(uri, "version", "--daemon").out)
    answer = virsh.ask(uri, "capabilities")
    try:
        models = ElementTree.fromstring(answer.out).findall("host/secmodel/model")
    except ElementTree.ParseError:
        raise CannotHonour(
            f"libvirt at {uri} does not tell what it can: {answer.why}", hint=SETTING
        ) from None
    return Libvirt(uri, version[1] if version else "", tuple(model.text or "" for model in models))


@dataclass(frozen=True, slots=True)
class GuestSpec:
    """A guest: its run and name, all its CPUs, and one CPU for each virtual one where they are pinned."""

    run: str
    name: str
    cpus: tuple[int, ...]
    pins: tuple[int, ...] = ()
    netns: str | None = None

    @property
    def domain(self) -> str:
        return names.container(self.run, self.name)


def mechanism(libvirt: Libvirt | None, contained: bool, how: str = "") -> str:
    """Words for what runs a guest.

    >>> mechanism(None, False, "KVM"), mechanism(Libvirt("qemu:///system", "9.0.0", ()), True)
    ('virtual machine (QEMU, KVM)', 'container (crun) in a virtual machine (QEMU by libvirt)')
    """
    by = "QEMU" if libvirt is None else "QEMU by libvirt"
    return f"{'container (crun) in a ' if contained else ''}virtual machine ({f'{by}, {how}' if how else by})"


def acceleration(libvirt: Libvirt | None, how: str, what: str) -> tuple[str, str]:
    """How guests are to boot (kvm, tcg, or "" to try), and the name under which the answer is kept.

    Where QEMU boots none by KVM it does not for libvirt either; where it does, libvirt may still not let it.
    """
    if libvirt is None:
        return how, what
    return how or ("tcg" if accel.remembered(what) else ""), f"{libvirt.kind} {what}"


def starter(libvirt: Libvirt | None, ledger: Ledger, outside: BareHost, spec: GuestSpec) -> Starter:
    """Choose who starts a guest: this process or libvirt. outside: the host that QEMU runs in."""
    return Directly(outside) if libvirt is None else ByLibvirt(libvirt, ledger, outside, spec)


class ByLibvirt:
    """See `guest.Starter`."""

    netdev = f"host{_NETDEV}"

    def __init__(self, libvirt: Libvirt, ledger: Ledger, outside: BareHost, spec: GuestSpec) -> None:
        self._libvirt, self._ledger, self._outside, self._spec = libvirt, ledger, outside, spec
        self.tap = "" if spec.netns is None else network.tap_outside(spec.netns)

    @contextlib.contextmanager
    def sockets(self, directory: Path) -> Iterator[Path]:
        """Make a directory for sockets, with a short absolute path: libvirt starts QEMU in /."""
        folder = SHARED / f"{names.PREFIX}-{names.short_hash(self._spec.run)}-{secrets.token_hex(3)}"
        self._ledger.intend("directory", str(folder), run=self._spec.run)
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)
            self._ledger.removed("directory", str(folder))

    def start(self, guest: Guest, sockets: Path) -> Domain:
        spec, uri = self._spec, self._libvirt.uri
        folder, name = guest.directory, spec.domain
        file = folder / "domain.xml"
        file.write_text(
            describe(guest.machine, folder, sockets, spec, self._libvirt.models), encoding="utf-8"
        )
        virsh.detect(uri)  # one that had ended since: not to be started by a call of the run
        wait = f"event --domain {name} --event lifecycle --loop"
        script = f"create {shlex.quote(str(file))} --paused --autodestroy; {wait}"
        argv = (virsh.PROGRAM, "--keepalive-interval", "0", "--connect", uri, script)
        self._ledger.intend(virsh.KIND, name, run=spec.run, uri=uri)
        try:
            keeper = launch(
                Command(argv, folder, folder / "virsh.out", folder / "qemu.err", virsh.ENGLISH),
                Confines(),
                {procfs.MARKER: spec.run, procfs.MEMBER_MARKER: _MEMBER},
            )
        except BaseException:
            self._ledger.removed(virsh.KIND, name)
            raise
        return Domain(uri, name, spec.run, keeper, self._ledger)

    def connected(self, guest: Guest, pid: int) -> None:
        """Move QEMU into the workload's group and onto its CPUs, and only then let the guest run."""
        assert isinstance(guest.process, Domain)
        guest.process.connected(pid)
        guest.process.wait_made()
        self._outside.adopt(pid)
        if guest.machine.tap is not None and self._spec.netns is not None:
            network.bring_in(guest.machine.tap, self._spec.netns)
        guest.qmp("cont")

    def refused(self, words: str) -> ContendError:
        """That it has no KVM is no reason against an emulated guest; anything else would be the same again."""
        reason = words.removeprefix("error: ") or NO_OUTPUT
        if re.search(r"kvm|virt ?type", reason, re.IGNORECASE):
            return HostFailed(f"libvirt starts no guest by KVM: {reason}", hint="contend doctor")
        return CannotHonour(
            f"libvirt at {self._libvirt.uri} starts no guest: {reason}", hint=f"--set {SETTING}"
        )


class Domain:
    """QEMU, which is libvirt's child. See `guest.Emulator`. keeper: virsh, with whose connection the domain ends."""

    def __init__(self, uri: str, name: str, run: str, keeper: LocalProcess, ledger: Ledger) -> None:
        self._uri, self._name, self._run = uri, name, run
        self._keeper, self._ledger = keeper, ledger
        self.pid = 0  # until it has connected
        self._pidfd = -1
        self._ended = False

    def connected(self, pid: int) -> None:
        try:
            self.pid, self._pidfd = pid, os.pidfd_open(pid)
        except ProcessLookupError:
            raise HostFailed("QEMU ended while libvirt started it", hint="contend doctor") from None

    def wait_made(self) -> None:
        """Wait until libvirt has made the guest and pinned its threads. Raises HostFailed."""
        until = time.monotonic() + _WITHIN_S
        while True:
            state = virsh.ask(self._uri, "domstate", "--reason", self._name)
            if state.out.startswith("paused") and "starting" not in state.out:
                return
            if not self.alive() or not self._keeper.alive() or time.monotonic() > until:
                reason = state.why if state.code else state.out.strip()
                raise HostFailed(f"libvirt does not get {self._name} ready: {reason}", hint="contend doctor")
            time.sleep(_LOOK_S)

    def alive(self) -> bool:
        if self._ended:
            return False
        return self._keeper.alive() if self._pidfd < 0 else not procfs.ends_within(self._pidfd, 0.0)

    def stop(self, signal: str = "KILL", grace_s: float = 0.0) -> None:
        """End the domain, its process and its virsh at once, whatever the signal. Idempotent. Raises HostFailed."""
        if self._ended:
            return
        self._ended = True
        with contextlib.ExitStack() as stack:
            stack.callback(self._kill)
            stack.callback(self._keeper.stop, "KILL", 0.0)
            try:
                virsh.remove(self._uri, self._name, self._run)
            except HostFailed:
                if not self.pid:
                    raise
                # Its daemon is gone, or hangs: without its process there is no transient domain.
        self._ledger.removed(virsh.KIND, self._name)

    def _kill(self) -> None:
        """Kill what libvirt has not ended."""
        if self._pidfd < 0:
            return
        with contextlib.suppress(ProcessLookupError):
            signals.pidfd_send_signal(self._pidfd, signals.SIGKILL)
        gone = procfs.ends_within(self._pidfd, 10.0)
        os.close(self._pidfd)
        self._pidfd = -1
        if not gone:
            raise HostFailed(f"process {self.pid} does not die of SIGKILL", hint="stuck in the kernel")


def describe(
    machine: qemu.Machine, folder: Path, sockets: Path, spec: GuestSpec, models: Sequence[str]
) -> str:
    """Write the domain as XML for libvirt. folder: where its overlay is and its console goes.

    See https://libvirt.org/formatdomain.html.
    """
    ElementTree.register_namespace("qemu", _QEMU_SCHEMA)
    domain = machine.basis.domain(spec.domain)
    cpus = format_cpu_list(spec.cpus)
    part(domain, "vcpu").attrib.update(placement="static", cpuset=cpus)
    tune = put(domain, "cputune")
    for number, cpu in zip(range(machine.vcpus), spec.pins, strict=False):
        put(tune, "vcpupin", vcpu=str(number), cpuset=str(cpu))
    put(tune, "emulatorpin", cpuset=cpus)
    features = put(domain, "features")
    for name in ("acpi", "apic"):  # QEMU has them unless it is told not to
        put(features, name)
    put(part(domain, "cpu"), "topology", sockets="1", cores=str(machine.vcpus), threads="1")
    _add_devices(part(domain, "devices"), machine, folder, sockets)
    # Its QEMU runs as this user, so that it can read what is this user's, and nothing changes its owner.
    for model in models:
        if model == "dac":
            label = put(domain, "seclabel", type="static", model=model, relabel="no")
            put(label, "label", f"+{os.geteuid()}:+{os.getegid()}")
        elif model != "none":
            put(domain, "seclabel", type="none", model=model)
    _add_own(domain, folder, sockets, spec)
    return ElementTree.tostring(domain, encoding="unicode")


def _add_devices(devices: ElementTree.Element, machine: qemu.Machine, folder: Path, sockets: Path) -> None:
    put(devices, "emulator", shutil.which(PROGRAM) or PROGRAM)
    disk = put(devices, "disk", type="file", device="disk")
    put(disk, "driver", name="qemu", type="qcow2")
    put(disk, "source", file=str(folder / qemu.OVERLAY))
    put(disk, "target", dev="vda", bus="virtio")
    rates = {"bytes": machine.limit.bytes_per_s, "iops": machine.limit.iops}
    if any(rate is not None for rate in rates.values()):
        throttle = put(disk, "iotune")
        for what, rate in rates.items():
            for way in ("read", "write") if rate is not None else ():
                put(throttle, f"{way}_{what}_sec", str(rate))
    _put_in_slot(disk, "disk")
    _put_in_slot(put(devices, "controller", type="virtio-serial", index="0"), "ports")
    for name in (AGENT, INNER):
        channel = put(devices, "channel", type="unix")
        put(channel, "source", mode="connect", path=str(sockets / name))
        put(channel, "target", type="virtio", name=name)
    card = put(devices, "interface", type="user" if machine.tap is None else "ethernet")
    if machine.tap is not None:
        put(card, "target", dev=machine.tap.device)
    put(card, "model", type="virtio")
    if machine.tap is not None:
        put(card, "driver", name="vhost" if "vhost" in machine.network else "qemu")
    put(card, "alias", name=_NETDEV)
    _put_in_slot(card, "network")


def _put_in_slot(device: ElementTree.Element, what: str) -> None:
    put(device, "address", type="pci", domain="0", bus="0", slot=_SLOTS[what], function="0")


def _add_own(domain: ElementTree.Element, folder: Path, sockets: Path, spec: GuestSpec) -> None:
    """Add what contend gives QEMU past libvirt: a monitor and a console of its own, and the marks of the run."""
    words = [
        *("-chardev", f"socket,id=contend-monitor,path={_escaped(sockets / qemu.MONITOR)}"),
        *("-mon", "chardev=contend-monitor,mode=control"),
        *("-chardev", f"file,id=contend-console,path={_escaped(folder / qemu.CONSOLE)}"),
        *("-serial", "chardev:contend-console"),
    ]
    own = put(domain, f"{{{_QEMU_SCHEMA}}}commandline")
    for word in words:
        put(own, f"{{{_QEMU_SCHEMA}}}arg", value=word)
    for name, value in ((procfs.MARKER, spec.run), (procfs.MEMBER_MARKER, spec.name)):
        put(own, f"{{{_QEMU_SCHEMA}}}env", name=name, value=value)


def _escaped(path: Path) -> str:
    """As QEMU reads it among options."""
    return str(path).replace(",", ",,")
