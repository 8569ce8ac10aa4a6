"""Virtual machines: one guest a party, booted once and kept, commands run in it by an agent of contend's.

QEMU runs in the party's control group and on its CPUs, so what a guest uses is accounted like any other party, whether
it was started from here or by libvirt. By KVM where a guest really boots so; otherwise it is emulated, which everything
that is told of it says: what an emulated guest costs is no price of virtualisation.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from contend import names
from contend.errors import CannotHonour, HostFailed, TrialFailed
from contend.platforms import bandwidth, bundles, network, procfs
from contend.platforms.bare import BareHost, BarePlatform, check_spec
from contend.platforms.base import Command, HostSpec, Limit, Usage
from contend.platforms.guests import accel, boot, disk, domain, image, inner, qemu, readback
from contend.platforms.guests.channel import Channel
from contend.platforms.guests.files import Shared, named_directories
from contend.platforms.guests.guest import Guest, Starter
from contend.platforms.guests.needs import count_vcpus, need
from contend.platforms.guests.process import GuestProcess
from contend.platforms.processes import open_output, start_hint
from contend.platforms.provisioning import memory_bytes, quota_cpus
from contend.store.ledger import Ledger

MEMORY_BYTES = 1 << 30  # where no size is asked for
LEAST_MEMORY_BYTES = 192 << 20
BESIDE_MIB = 192
_MIB = 1 << 20
_STILL_S = 0.2  # an emulator whose guest was stopped ends what it was about, when it gets a CPU


class VmPlatform:
    """See `base.Platform`.

    image: a disk of the user's, raw, qcow2, vmdk or vhdx, whose root is ext4 with a kernel and python3; "" builds one of
    Debian with `packages` installed, once. accel: kvm or tcg; "" is KVM where a guest boots by it. hypervisor: qemu is
    started from here, libvirt (the first that answers) or the URI of one starts it in our place. contained: commands run
    in a container of the guest, which has the size that is asked for; the platform is `container-in-vm` then. Raises
    CannotHonour without QEMU, without the libvirt that is asked for, and where there is no image and none can be built.
    """

    def __init__(
        self,
        run_id: str,
        ledger: Ledger,
        *,
        directory: Path | None = None,
        image: str = "",
        packages: Iterable[str] = (),
        accel: str = "",
        hypervisor: str = domain.QEMU,
        contained: bool = False,
    ) -> None:
        self.kind = "container-in-vm" if contained else "vm"
        self._contained = contained
        self._run_id = names.check_name("run id", run_id)
        self._ledger, self._directory, self._accel = ledger, directory, accel
        need(image, packages, hypervisor)
        self._hypervisor = hypervisor
        self._libvirt: domain.Libvirt | None = None
        self._image = Path(image).expanduser().resolve() if image else None
        self._packages = tuple(packages)
        self._bare = BarePlatform(run_id, ledger)
        self._default_cpus = tuple(sorted(os.sched_getaffinity(0)))
        self._hosts: dict[str, VmHost] = {}
        self._boot: boot.Boot | None = None

    def prepare(self, spec: HostSpec) -> VmHost:
        cpus = check_spec(spec, self._hosts.get(spec.name), self._default_cpus)
        vcpus = count_vcpus(spec, len(cpus))
        memory = spec.limit.memory_bytes or MEMORY_BYTES
        if memory < LEAST_MEMORY_BYTES:
            raise CannotHonour(
                f"a guest does not boot in {memory} bytes", hint=f"at least {LEAST_MEMORY_BYTES >> 20} MiB"
            )
        if self._boot is None:
            self._libvirt = domain.connect(self._hypervisor)
            self._boot = boot.prepare(self._disk())
        host = VmHost(
            self._run_id,
            self._ledger,
            self._bare,
            self._boot,
            spec,
            vcpus,
            self._accel,
            self._contained,
            self._libvirt,
        )
        self._hosts[spec.name] = host
        host.start(cpus)
        return host

    def _disk(self) -> Path:
        if self._image:
            return disk.as_raw(self._image, self._run_id, self._ledger)
        return image.build(image.recipe(self._packages), self._run_id, self._ledger)

    def describe(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "mechanism": domain.mechanism(self._libvirt, self._contained),
            "version": qemu.version(),
            "libvirt": self._libvirt and self._libvirt.describe(),
            "accel": sorted({host.accel for host in self._hosts.values()}),
            "emulated": any(host.accel == "tcg" for host in self._hosts.values()),
            "boot_s": {name: host.boot_s for name, host in self._hosts.items()},
            "image": str(self._image or "Debian, built by contend"),
            "kernel": self._boot.version if self._boot else "",
            "packages": list(self._packages),
            "outside": self._bare.describe(),
        }

    def close(self) -> None:
        """End every guest. All are tried; the first error is raised."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._bare.close)
            for host in self._hosts.values():
                stack.callback(host.close)
            self._hosts = {}


class VmHost:
    """See `base.Host`. Made by VmPlatform.prepare, which calls `start`."""

    visible = False

    def __init__(
        self,
        run_id: str,
        ledger: Ledger,
        bare: BarePlatform,
        booted: boot.Boot,
        spec: HostSpec,
        vcpus: int,
        accel: str,
        contained: bool,
        libvirt: domain.Libvirt | None,
    ) -> None:
        self.spec, self.accel, self._libvirt = spec, accel, libvirt
        self._run_id, self._ledger, self._bare, self._boot = run_id, ledger, bare, booted
        self._vcpus, self._contained = vcpus, contained
        # A container's limit is its own; the guest has some more, for its kernel and the agent.
        self._memory_mib = (spec.limit.memory_bytes or MEMORY_BYTES) // _MIB + (
            BESIDE_MIB if contained else 0
        )
        self._directory = bundles.home() / names.container(run_id, spec.name)
        self._outside: BareHost | None = None
        self._guest: Guest | None = None
        self._shared: Shared | None = None
        self._threads: list[int] = []
        self._base = Usage()
        self._running: list[GuestProcess] = []
        self._disk_limits: dict[str, str] = {}
        self._tap: network.Tap | None = None
        self._ram_bytes = 0
        self._still = 0  # guests that did not come up before this one
        self.closed = False

    # Start

    def start(self, cpus: tuple[int, ...]) -> None:
        """Boot the guest, without its quota, and read back what it got. Removes it again when that fails."""
        spec, limit = self.spec, self.spec.limit
        quota = limit.cpus if limit.cpus is not None and limit.cpus % 1 and not self._contained else None
        capped = Limit(cpus=quota, period_us=limit.period_us, burst_us=limit.burst_us)
        outside = HostSpec(spec.name, spec.role, cpus, capped, netns=spec.netns, directory=spec.directory)
        try:
            self._ledger.intend("bundle", str(self._directory), run=self._run_id)
            self._directory.mkdir(parents=True, mode=0o700)
            (self._directory / "owner").write_text(self._run_id, encoding="utf-8")
            self._outside = self._bare.prepare(outside)
            guest_spec = domain.GuestSpec(
                self._run_id, spec.name, cpus, tuple(sorted(spec.cpu_list or ())), spec.netns
            )
            starter = domain.starter(self._libvirt, self._ledger, self._outside, guest_spec)
            if spec.netns is not None:
                self._tap = network.make_tap(spec.netns, starter.tap)
            with self._outside.without_quota():
                self._guest = self._booted(starter)
            guest = self._guest
            hidden = [bundles.home().parent, image.home()]
            if self._contained:
                inner.start(guest.channel, guest.inner, spec, self._vcpus, self._directory)
            self._shared = Shared(self._channel, hidden)
            self._threads = guest.qmp.vcpu_threads()
            self._disk_limits, self._ram_bytes = guest.qmp.disk_limits(), guest.qmp.memory_bytes()
            if spec.cpu_list is not None:
                for thread, cpu in zip(self._threads, sorted(spec.cpu_list), strict=False):
                    os.sched_setaffinity(thread, {cpu})
            self._check()
            self._base = self._outside.usage()
            guest.rest()
        except BaseException:
            self.close()
            raise

    def _booted(self, starter: Starter) -> Guest:
        limit = self.spec.limit

        def start(how: str, within_s: float) -> Guest:
            machine = qemu.Machine(self._boot, how, self._vcpus, self._memory_mib, limit, self._tap)
            guest = Guest(machine, self._directory, starter)
            try:
                guest.start(within_s)
            except BaseException:
                guest.stop()
                raise
            return guest

        how, what = domain.acceleration(self._libvirt, self.accel, self._boot.what)
        guest, self.accel, self._still = accel.start(start, what, how)
        return guest

    def _check(self) -> None:
        """Raises HostFailed when the guest or the kernel says something else than was asked for."""
        got = self.honoured()
        readback.check_cpus(got, self.spec, self._vcpus, len(self._threads))
        if self._contained:
            readback.check_container(got, self.spec.limit, self._inside())
        readback.check_memory(self.guest.hello["memory_bytes"], self._ram_bytes, self._memory_mib * _MIB)

    # Commands

    @property
    def guest(self) -> Guest:
        if self._guest is None:
            raise HostFailed(f"'{self.spec.name}' is closed", hint="prepare it again")
        return self._guest

    @property
    def _channel(self) -> Channel:
        return self.guest.inner if self._contained else self.guest.channel

    @property
    def boot_s(self) -> float:
        return round(self._guest.boot_ns / 1e9, 3) if self._guest else 0.0

    def run(self, command: Command) -> GuestProcess:
        """See `base.Host`. Raises TrialFailed when the command cannot be started."""
        if self.closed or self._shared is None or self._outside is None:
            raise HostFailed(f"'{self.spec.name}' is closed", hint="prepare it again")
        guest = self.guest
        guest.wake()
        try:
            return self._run(command, guest, self._shared)
        except BaseException:
            guest.rest()
            raise

    def _run(self, command: Command, guest: Guest, shared: Shared) -> GuestProcess:
        requested_ns = time.monotonic_ns()
        channel = self._channel
        self._running = [process for process in self._running if process.alive()]
        if self.spec.ports and not self._running:
            guest.watch_ports(self.spec.ports)
        shared.add(named_directories(command, self.spec.directory))
        shared.push({command.stdout, command.stderr})
        marks = {procfs.MARKER: self._run_id, procfs.MEMBER_MARKER: self.spec.name}
        offset_ns, _ = channel.clock()
        outputs = {b"o": open_output(command.stdout), b"e": open_output(command.stderr)}
        task, frame = channel.run(command.argv, str(command.cwd), {**command.env, **marks}, outputs)
        if frame.kind != b"B":
            number = frame.values["error"]
            error = OSError(number, os.strerror(number))
            raise TrialFailed(
                f"{frame.values['what']}: {error.strerror} (in the guest)", hint=start_hint(error)
            )
        started_ns = max(frame.values["ns"] + offset_ns, requested_ns)
        qemu_pid = guest.process.pid if guest.process else 0

        def over() -> None:
            task.gone.wait()
            channel.forget(task)
            guest.rest()

        def after(_: GuestProcess) -> None:
            try:
                shared.fetch({command.stdout, command.stderr})
                if self.spec.ports and not any(process.alive() for process in self._running):
                    guest.watch_ports(())
            finally:
                if task.gone.is_set():
                    over()
                else:  # what a command leaves running goes on, and so does its guest
                    threading.Thread(target=over, name="guest's rest", daemon=True).start()

        process = GuestProcess(channel, task, qemu_pid, requested_ns, started_ns, after)
        self._running.append(process)
        return process

    def processes(self) -> int:
        return 0 if self._guest is None else len(self._ask_agent()["pids"])

    # What it has

    def usage(self) -> Usage:
        """Usage of QEMU, since the guest has booted; throttling is the container's, where there is one."""
        if self._outside is None:
            return Usage()
        used = self._outside.usage().since(self._base)
        stat = dict(line.split() for line in self._inside().get("cpu.stat", "").splitlines())
        if "nr_throttled" in stat:
            periods, waited_us = int(stat["nr_throttled"]), int(stat["throttled_usec"])
            used = replace(used, nr_throttled=periods, throttled_ns=waited_us * 1000)
        return used

    def _inside(self) -> dict[str, str]:
        """The files of the container's own group."""
        files: dict[str, str] = self._ask_agent()["files"] if self._contained and self._guest else {}
        return files

    def _ask_agent(self) -> Any:
        """Ask the agent for processes and usage. The CPU time of waking a resting guest is not counted as the workload's."""
        guest, outside = self.guest, self._outside
        before = outside.usage() if outside is not None and guest.resting else None
        with guest.awake():
            answer = self._channel.ask(b"C")
        if before is not None and outside is not None and guest.resting:
            procfs.until_asleep(outside.pids(), _STILL_S)
            self._base = self._base.plus(outside.usage().since(before))
        return answer

    def pids(self) -> tuple[int, ...]:
        """Pids of QEMU. The guest's own processes are not this host's."""
        return () if self._outside is None else self._outside.pids()

    def listens(self, port: int) -> bool:
        return self._guest is not None and self._guest.serves(port)

    def cgroup(self) -> Path | None:
        return None if self._outside is None else self._outside.cgroup()

    def honoured(self) -> dict[str, object]:
        """emulated; libvirt: its URI, "" where QEMU is started from here; cpus: those that the virtual CPUs' threads may run
        on; vcpus and memory_bytes: what the guest says; quota_cpus: of QEMU (None: not capped); boot_s: from asking for
        QEMU to the agent's word."""
        outside = self._outside.honoured() if self._outside else {}
        hello = self._guest.hello if self._guest else {}
        cpus = {cpu for thread in self._threads for cpu in readback.affinity(thread)}
        limit = self.spec.limit.cpus
        capped = outside.get("limits", {})
        assert isinstance(capped, dict)
        inside = self._inside()
        how = "KVM" if self.accel == "kvm" else "emulated"
        return {
            "mechanism": domain.mechanism(self._libvirt, self._contained, how),
            "emulated": self.accel != "kvm",
            "libvirt": self._libvirt.uri if self._libvirt else "",
            "accel": self.accel,
            "cpus": sorted(cpus),
            "cpus_by": "pinned virtual CPUs" if self.spec.cpu_list is not None else "affinity",
            "vcpus": hello.get("cpus"),
            "period_us": bandwidth.read_bandwidth(inside if self._contained else capped)[0],
            "quota_cpus": quota_cpus(inside) if self._contained else limit if capped else None,
            "memory_bytes": hello.get("memory_bytes"),
            "memory_limit": memory_bytes(inside) if self._contained else None,
            "limits": {**capped, **inside, "ram": str(self._ram_bytes), **self._disk_limits},
            "groups": outside.get("groups", []),
            "boot_s": self.boot_s,
            "boots_failed": self._still,
            "kernel": hello.get("kernel"),
            "kept_inside": list(self._shared.kept) if self._shared else [],
            "network": self._guest.machine.network if self._guest else "",
            "netns": self.spec.netns,
        }

    # End

    def close(self) -> None:
        """See `base.Host`. Everything is tried; the first error is raised."""
        if self.closed:
            return
        self.closed = True
        with contextlib.ExitStack() as stack:
            stack.callback(bundles.Bundle(self._directory).drop, self._ledger)
            if self._outside is not None:
                stack.callback(self._outside.close)
            if self._guest is not None:
                stack.callback(self._guest.stop)
            for process in self._running:
                process.abandon()
            self._running, self._guest = [], None
