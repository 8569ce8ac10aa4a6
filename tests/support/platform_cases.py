"""The platforms under contract, by name. Run as a script it holds a busy host until it is killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from contend.errors import CannotHonour
from contend.platforms import cgroups, procfs
from contend.platforms.bare import BarePlatform
from contend.platforms.base import Command, HostSpec, Limit, Platform
from contend.platforms.container import ContainerPlatform
from contend.platforms.guests import virsh
from contend.platforms.guests.needs import need
from contend.platforms.topology import format_cpu_list
from contend.platforms.vm import VmPlatform
from contend.store import state
from contend.store.ledger import Ledger
from contend.testbed import virt

CASES = (
    "bare-v2",
    "bare-v1",
    "bare-affinity",
    "container-podman",
    "container-runc",
    "vm",
    "vm-container",
    "vm-libvirt",
)
# Each of these boots guests of its own, which `make test` has no time for. CONTEND_TEST_GUESTS=all runs them, too.
BOOTING = (
    "test_a_party_gets_its_cpus_even_when_the_tool_has_few",
    "test_close_is_idempotent_and_final",
    "test_a_run_whose_directory_was_deleted_is_found_by_its_name",
    "test_destroy_forgets_a_run_that_left_nothing",
)
BOOTING_BOTH = (
    "test_cpus_are_honoured_and_read_back",
    "test_nothing_is_left_after_kill_9_and_removal",
)  # of a guest, and again with a container in it
# What a guest does that runs is the same whoever has started it.
BY_LIBVIRT = (
    "test_runs_a_command_where_and_how_it_was_asked",
    "test_pid_is_the_command_seen_from_here",
    "test_a_party_that_runs_nothing_takes_no_cpu",
    "test_usage_is_what_was_burnt",
    "test_nothing_is_left_after_kill_9_and_removal",
)
UNPRIVILEGED = "CONTEND_TEST_UNPRIVILEGED"
LIBVIRT = "CONTEND_TEST_LIBVIRT"  # the URI of the one that the tests have made

# Ignores TERM, and so do a busy child and a grandchild in a session of its own; sleeps come and go beside them.
STUBBORN = """trap '' TERM
setsid sh -c 'trap "" TERM; while :; do sleep 0.05; done' &
(trap '' TERM; while :; do :; done) &
while :; do sleep 0.05; done"""
STANDING = 3
"""Processes of it that stay."""


def make(case: str, run_id: str, ledger: Ledger, directory: Path) -> Platform:
    kind, _, variant = case.partition("-")
    if is_guest(case):
        hypervisor = os.environ[LIBVIRT] if variant == "libvirt" else "qemu"
        return VmPlatform(
            run_id, ledger, directory=directory, hypervisor=hypervisor, contained=variant == "container"
        )
    if kind == "container":
        return ContainerPlatform(run_id, ledger, directory=directory, engine=variant)
    if variant == "affinity":  # an unprivileged user has to find out by itself that it gets no cgroup
        return BarePlatform(run_id, ledger, cgroups="auto" if os.environ.get(UNPRIVILEGED) else "none")
    return BarePlatform(run_id, ledger, cgroups="v1" if variant == "v1" else "auto")


def missing(case: str) -> str:
    """What this host lacks for a case; "" when nothing."""
    kind, _, variant = case.partition("-")
    if os.geteuid() != 0 and case != "bare-affinity":
        return "root"
    if is_guest(case):
        try:
            need()
            if variant == "libvirt":
                virt.need()
        except CannotHonour as error:
            return error.message
    if kind == "container" and shutil.which(variant) is None:
        return variant
    v1 = Path("/sys/fs/cgroup/cpuacct")
    return "a cgroup v1 cpuacct hierarchy" if variant == "v1" and not v1.is_dir() else ""


def is_guest(case: str) -> bool:
    return case.startswith("vm")


def wanted() -> tuple[str, ...]:
    """Without rights there is one."""
    return ("bare-affinity",) if os.environ.get(UNPRIVILEGED) else CASES


def tries(case: str, test: str) -> bool:
    """Whether that test boots guests of that kind in this run."""
    if os.environ.get("CONTEND_TEST_GUESTS") == "all":
        return True
    if case == "vm-libvirt":
        return test in BY_LIBVIRT
    return not is_guest(case) or not (test in BOOTING or (case != "vm" and test in BOOTING_BOTH))


def domains(run_id: str) -> list[str]:
    """Those of a run that the tests' libvirt has, if there is one."""
    if LIBVIRT not in os.environ:
        return []
    listed = virsh.ask(os.environ[LIBVIRT], "list", "--all", "--name")
    assert listed.code == 0, listed.err
    return [name for name in listed.out.split() if run_id in name]


def python(case: str) -> str:
    """An interpreter there is on such a host."""
    return "/usr/bin/python3" if is_guest(case) else sys.executable


def seen_inside(case: str, cpus: tuple[int, ...]) -> str:
    """How a command sees the CPUs of its party: a guest counts its own."""
    return format_cpu_list(range(len(cpus)) if is_guest(case) else cpus)


def spec(
    name: str, directory: Path, limit: Limit | None = None, cpus: tuple[int, ...] | None = None
) -> HostSpec:
    return HostSpec(name, "victim", cpus, limit or Limit(), directory=directory)


def shell(script: str, directory: Path, **env: str) -> Command:
    return Command(("sh", "-c", script), directory, directory / "out", directory / "err", env)


def listed_by_the_engines() -> list[str]:
    """Every container there is, asked of the engines themselves."""
    lines: list[str] = []
    commands = [("podman", "ps", "-a", "--format", "{{.Names}}")]
    if (started := Path("/run/contend-oci/runc")).is_dir():  # else nothing was ever started with it
        commands.append(("runc", "--root", str(started), "list"))
    for command in commands:
        if shutil.which(command[0]) and os.geteuid() == 0:
            lines += subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return lines


def nothing_left(run_id: str) -> bool:
    groups = [p for p in cgroups.find(cgroups.read_layout()) if run_id in p.name]
    held = [line for line in listed_by_the_engines() if run_id in line]
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if run_id in line]
    bundles = list((state.folder().parent / "bundles").glob(f"*{run_id}*"))
    until(lambda: not domains(run_id), 10)  # libvirt learns of a process's end a little later
    found = [*groups, *held, *mounts, *bundles, *procfs.marked(run_id), *domains(run_id)]
    assert not found, found
    return True


def until(condition: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return met


if __name__ == "__main__":
    case_, run_id_, directory_ = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    state.register(run_id_, directory_)
    with Ledger(directory_ / "ledger.ndjson") as ledger_:
        ledger_.event("run-start", run=run_id_)
        platform_ = make(case_, run_id_, ledger_, directory_)
        host = platform_.prepare(spec("held", directory_))
        host.run(shell(STUBBORN, directory_))
        deadline = time.monotonic() + 10
        while (count := host.processes()) < STANDING and time.monotonic() < deadline:
            time.sleep(0.02)
        print("ready" if count >= STANDING else "late", *host.pids(), flush=True)
        time.sleep(120)
