"""Checks of what this host can run, by trying, and the fix for what it cannot. Makes nothing that outlives a check, but the
memory of whether KVM boots a guest, until this host boots again."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from contend.clouds.local.settle import accelerator, vm_lacks
from contend.errors import CannotHonour, ContendError
from contend.platforms import cgroups, hotplug, masks, programs
from contend.platforms.container import works
from contend.platforms.guests import accel, image, virsh
from contend.platforms.guests.needs import need
from contend.platforms.network import check_rights
from contend.platforms.packages import install_command
from contend.platforms.topology import Topology
from contend.probes.client import probe_check, program
from contend.text.shape import Shape
from contend.workloads.install import hint, missing
from contend.workloads.load import load, names


@dataclass(frozen=True, slots=True)
class Check(Shape):
    """One thing. `works` None: it was not tried, `detail` says why."""

    name: str
    works: bool | None
    detail: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Doctor(Shape):
    """The host, and the parts of contend that it can run."""

    environment: Annotated[Mapping[str, Any], "as in environment.json of a run"]
    checks: tuple[Check, ...]


def checks(*, containers: bool) -> Iterator[Check]:
    """Every check, as it is made. `containers` starts one of each engine, which takes seconds."""
    for check in (
        _cpus,
        _smaller_hosts,
        _accounting,
        _controllers,
        _pressure,
        _run_delay,
        _namespaces,
        _counters,
        _kvm,
    ):
        yield check()
    yield from _probe()
    yield _program("contend-fetch")
    yield _program("contend-rpc")
    yield from _engines(try_them=containers)
    yield from guests()
    yield from local_machines()
    for name in names():
        workload = load(name)
        absent = missing(workload)
        detail = f"missing: {', '.join(absent)}" if absent else workload.title
        yield Check(f"workload {name}", not absent, detail, hint([workload]) if absent else "")


def _either(name: str, works: bool, detail: str, lacking: str, fix: str) -> Check:
    """One thing that is there, or lacking and to be fixed."""
    return Check(name, True, detail) if works else Check(name, False, lacking, fix)


def _cpus() -> Check:
    topology = Topology.read()
    cores = len(topology.cores())
    count = len(topology.ids)
    detail = f"{count} CPUs on {cores} cores: same-cpu"
    more, lacking = f"{detail}, own-cores, same-host", f"{detail} shares it with the tool itself"
    return _either("placement", cores >= 2, more, lacking, "own-cores needs 2 cores")


def _smaller_hosts() -> Check:
    """Check what `hosts` of platform-overhead can have; no CPU goes for that."""
    topology = Topology.read()
    count = len(topology.ids)
    least = max(1, len(hotplug.fixed(topology.ids)))
    if count < 2:
        return Check("smaller hosts", False, "there is one CPU", "a machine with more")
    why = hotplug.refused(topology, range(min(least, count - 1), count), cpusets=masks.cpuset_root())
    if why:
        fix = "none is needed: hosts are confined by affinity and cpuset instead, and labelled"
        return Check("smaller hosts", False, f"no CPU can be taken offline: {why}", fix)
    return Check("smaller hosts", True, f"from {least} to {count} CPUs, by taking CPUs offline")


def _accounting() -> Check:
    layout = cgroups.read_layout()
    parents = [str(parent) for hierarchy in layout.hierarchies() for parent in cgroups.parents(hierarchy)[:1]]
    detail = f"{layout.name}: {parents[0] if parents else ''}"
    lacking = "this user may not make cgroups: affinity only, processes found by their mark"
    fix = "run as root, or in a user session with systemd (loginctl enable-linger)"
    return _either("cgroup accounting", bool(parents), detail, lacking, fix)


def _controllers() -> Check:
    layout = cgroups.read_layout()
    versions = dict.fromkeys(layout.v1, 1) | dict.fromkeys(layout.v2.controllers if layout.v2 else (), 2)
    absent = [
        name
        for name, older in (("cpu", "cpu"), ("cpuset", "cpuset"), ("memory", "memory"), ("io", "blkio"))
        if not versions.keys() & {name, older}
    ]
    shown = [
        f"{name} (v{version})"
        for name, version in sorted(versions.items())
        if name in ("cpu", "cpuset", "memory", "io", "blkio")
    ]
    detail = ", ".join(shown)
    fix = "boot with systemd.unified_cgroup_hierarchy=1, or delegate the controllers to this user"
    return _either("cgroup controllers", not absent, detail, f"{detail}; without {', '.join(absent)}", fix)


def _pressure() -> Check:
    here, fix = Path("/proc/pressure/cpu").exists(), "boot with psi=1 (CONFIG_PSI)"
    return _either("pressure (PSI)", here, "/proc/pressure", "not in this kernel", fix)


def _run_delay() -> Check:
    try:
        on = len(Path("/proc/self/schedstat").read_text(encoding="ascii").split()) == 3
    except OSError:
        on = False
    fix = "a kernel with CONFIG_SCHED_INFO"
    return _either("run delay", on, "/proc/PID/schedstat", "not in this kernel", fix)


def _namespaces() -> Check:
    try:
        check_rights()
    except ContendError as error:
        return Check("network namespaces", False, error.message, error.hint)
    return Check("network namespaces", True, "for workloads over a network pair (iperf3)")


def _counters() -> Check:
    """Hardware counters, by asking for one: the PMU of a virtual machine is often not there."""
    here = any(Path("/sys/bus/event_source/devices").glob("cpu*"))
    detail, fix = "a CPU PMU is registered (not used yet)", "a host, or a virtual machine with a virtual PMU"
    lacking = "no CPU PMU: cache and memory bandwidth cannot be named as causes"
    return _either("hardware counters", here, detail, lacking, fix)


def _kvm() -> Check:
    if not Path("/dev/kvm").exists():
        return Check(
            "KVM guests", False, "no /dev/kvm", "enable virtualisation in firmware or nested virtualisation"
        )
    if why := accel.cannot_open():
        return Check("KVM guests", False, why, "usermod --append --groups kvm USER, then log in again")
    if lacks := vm_lacks():
        wanted = "; ".join(error.hint for error in lacks)
        return Check("KVM guests", None, f"not tried: {'; '.join(error.message for error in lacks)}", wanted)
    try:
        how, why = accelerator({})
    except ContendError as error:
        return Check("KVM guests", None, f"not tried: {error.message}", error.hint)
    # Only QEMU's own words and the processor's tell what to do about it.
    return _either(
        "KVM guests", how == "kvm", "a guest boots", f"a guest does not boot: {why}", "guests are emulated"
    )


def _probe() -> Iterator[Check]:
    """contend-probe, and by its own word which sources of process figures work for this user."""
    try:
        answer = probe_check()
    except ContendError as error:
        yield Check("contend-probe", False, error.message, error.hint)
        return
    yield Check("contend-probe", True, f"{answer['probe']}; host and processes from /proc at least")
    no_bpf, detail = answer["no_bpf"], "task iterators and scheduler tracepoints work for this user"
    lacking = f"{no_bpf}; sampling falls back to taskstats or /proc"
    yield _either("BPF", no_bpf is None, detail, lacking, _bpf_fix(str(no_bpf)))


def _program(name: str) -> Check:
    """A program of contend's own that a set-up for the demo leaves out."""
    try:
        path = programs.installed(name)
        done = subprocess.run((path, "--version"), capture_output=True, text=True, check=False)
    except ContendError as error:
        return Check(name, False, error.message, error.hint)
    except OSError as error:
        return Check(name, False, f"{path} cannot be started: {error.strerror}", "make setup")
    works = done.returncode == 0
    return Check(name, works, done.stdout.strip() or f"{path} does not work", "" if works else "make setup")


def _bpf_fix(reason: str) -> str:
    """The fix for BPF, from the reason that it does not work."""
    if "built without" in reason:
        return f"{install_command('clang', 'libelf-dev', 'zlib1g-dev')}, then make setup"
    if not Path("/sys/kernel/btf/vmlinux").exists():
        return "a kernel with CONFIG_DEBUG_INFO_BTF=y"
    path = program()
    # CAP_BPF and CAP_PERFMON since Linux 5.8 (capabilities(7)); taskstats by netlink wants CAP_NET_ADMIN.
    return f"run as root, or: setcap cap_bpf,cap_perfmon,cap_net_admin,cap_sys_ptrace,cap_dac_read_search+ep {path}"


def _engines(*, try_them: bool) -> Iterator[Check]:
    for engine in ("docker", "podman", "crun", "runc"):
        name, path = f"containers: {engine}", shutil.which(engine)
        if path is None:
            fix = install_command("docker.io" if engine == "docker" else engine)
            yield Check(name, False, "not installed", fix)
        elif not try_them:
            yield Check(name, None, f"{path}; not tried (contend doctor --containers)")
        else:
            problem = works(engine)
            yield _either(name, not problem, "ran a container", problem, "see its message")


def local_machines() -> Iterator[Check]:
    """Check which machines `contend run boot-storm --cloud local` can make here; whether KVM boots one is known by then."""
    engines = [name for name in ("docker", "podman", "runc", "crun") if shutil.which(name)]
    yield Check(
        "local machines: containers",
        None if engines else False,
        f"by {', '.join(engines)}; tried by a run, or by contend doctor --containers"
        if engines
        else "no engine",
        "" if engines else install_command("podman"),
    )
    lacks = vm_lacks()
    if lacks:
        reasons = "; ".join(error.message for error in lacks)
        yield Check("local machines: micro-VMs", False, reasons, "; ".join(error.hint for error in lacks))
        return
    problem = accel.cannot_open() or accel.remembered()
    how = {None: "KVM is tried by the first run, else emulated", "": "KVM boots guests"}.get(
        problem, f"emulated (KVM: {problem})"
    )
    yield Check("local machines: micro-VMs", True, f"by QEMU; {how}")
    yield _libvirt("local machines: domains")


def guests() -> Iterator[Check]:
    """Check that the platform vm works here, and how; whether KVM boots a guest is known by then."""
    try:
        need()
    except CannotHonour as error:
        yield Check("platform vm", False, error.message, error.hint)
        return
    why = accel.cannot_open() or accel.remembered()
    how = {None: "KVM is tried by the first run, else emulated", "": "by KVM"}.get(
        why, f"emulated (KVM: {why})"
    )
    built = image.have(image.recipe()) is not None
    yield Check(
        "platform vm", True, f"{how}; {'an image is there' if built else 'the first run builds an image'}"
    )
    yield _libvirt("platform vm: hypervisor=libvirt")


def _libvirt(name: str) -> Check:
    """Check libvirt. The user's own would be started by asking for it."""
    system, *own = virsh.usual()
    try:
        return Check(name, True, f"by libvirt at {virsh.detect(system)}")
    except CannotHonour as error:
        if own and shutil.which(virsh.PROGRAM):
            return Check(name, None, f"{system} does not answer; {own[0]} is tried by a run")
        return Check(name, False, error.message, error.hint)
