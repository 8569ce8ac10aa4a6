"""The host itself, without a treatment: no quota and no cpuset, unless a limit is asked for.

Each party gets a control group that only accounts and finds its processes again; where this user may have
none, its processes are this process's descendants (`contend.platforms.kin`). CPUs are given by
affinity (sched_setaffinity), which a process may change; what it got is read back.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Protocol

from contend import names
from contend.errors import CannotHonour, HostFailed
from contend.platforms import cgroups, network, procfs
from contend.platforms.base import Command, Exit, HostSpec, Survivor, Usage
from contend.platforms.groups import Groups, WorkloadGroup
from contend.platforms.kin import Kin
from contend.platforms.network import namespace_path
from contend.platforms.processes import Confines, LocalProcess, launch
from contend.platforms.topology import format_cpu_list, permitted
from contend.store.ledger import Ledger
from contend.text.printable import printable

# For what ends right after its command, like the rest of a pipe: it was not left.
_LAST_WORDS_S = 0.2
_GRACE_S = 2.0
_RELEASE_S = 2.0  # a user's process that forks without end cannot be moved out whole


class BarePlatform:
    """See `base.Platform`.

    A party that asks for no CPUs in particular gets those this process may use when the platform is made.
    cgroups: "v1" looks away from a v2 tree, "none" uses affinity only.
    """

    kind = "bare"

    def __init__(
        self,
        run_id: str,
        ledger: Ledger,
        *,
        cgroups: cgroups.Force = "auto",
    ) -> None:
        self._run_id = names.check_name("run id", run_id)
        self._ledger = ledger
        self._default_cpus = tuple(sorted(os.sched_getaffinity(0)))
        self._groups = Groups(run_id, ledger, cgroups)
        self._hosts: dict[str, BareHost] = {}
        self._kin: Kin | None = None

    def prepare(self, spec: HostSpec) -> BareHost:
        cpus = check_spec(spec, self._hosts.get(spec.name), self._default_cpus)
        self._groups.check(spec.limit, spec.directory)
        group = self._groups.make(spec.name, spec.limit, spec.directory)
        if group is None and self._kin is None:
            self._kin = Kin(self._run_id)
        host = BareHost(self._run_id, self._ledger, spec, cpus, self._groups, group or self._kin)
        self._hosts[spec.name] = host
        return host

    def describe(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            **self._groups.describe(),
            "cpus": list(self._default_cpus),
            # With autogroups each session is a scheduling group: parties share by session, not thread.
            "autogroup": _autogroup(),
        }

    def close(self) -> None:
        """Close every host, then the run's groups. All are tried; the first error is raised."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._groups.close)
            if self._kin is not None:
                stack.callback(self._kin.close)
                self._kin = None
            for host in self._hosts.values():
                stack.callback(host.close)
            self._hosts = {}


class Closable(Protocol):
    """A host of a run."""

    closed: bool


def check_spec(spec: HostSpec, known: Closable | None, default: tuple[int, ...]) -> tuple[int, ...]:
    """The CPUs `spec` gets. known: of that name, if any. Raises CannotHonour for a name that is taken, for a network
    namespace that is not there, and for a CPU that is not there or not allowed."""
    names.check_name("party", spec.name)
    if known is not None and not known.closed:
        raise CannotHonour(f"there is a party '{spec.name}' already", hint="names are unique within a run")
    if spec.netns is not None and not namespace_path(spec.netns).exists():
        raise CannotHonour(f"there is no network namespace '{spec.netns}'", hint="ip netns list")
    if spec.cpu_list is None:
        return default
    allowed = permitted()
    missing = sorted(set(spec.cpu_list) - set(allowed))
    if missing or not spec.cpu_list:
        raise CannotHonour(
            f"'{spec.name}' wants CPU {', '.join(map(str, missing)) or '(none)'}, which contend may not use",
            hint=f"allowed here: {format_cpu_list(allowed)}",
        )
    return tuple(sorted(spec.cpu_list))


def _autogroup() -> bool | None:
    try:
        return Path("/proc/sys/kernel/sched_autogroup_enabled").read_text(encoding="ascii").strip() == "1"
    except FileNotFoundError:
        return None


class BareHost:
    """See `base.Host`. Made by BarePlatform.prepare."""

    visible = True

    def __init__(
        self,
        run_id: str,
        ledger: Ledger,
        spec: HostSpec,
        cpus: tuple[int, ...],
        groups: Groups,
        traced_by: WorkloadGroup | Kin | None,
    ) -> None:
        """traced_by: its control groups, or the record of its descendants: by which its processes are found again."""
        self.spec = spec
        self._run_id, self._ledger = run_id, ledger
        self._cpus, self._groups = cpus, groups
        self._group = traced_by if isinstance(traced_by, WorkloadGroup) else None
        self._kin = traced_by if isinstance(traced_by, Kin) else None
        self._running: list[tuple[LocalProcess, str]] = []  # with the name in the ledger, "" for none
        self._ended: list[Exit] = []
        self._outside: list[LocalProcess] = []  # the user's own, while they run
        self._released: dict[int, int] = {}  # pid → start ticks of what was let go, where there are no groups
        self._got_cpus: tuple[int, ...] | None = None
        self._started = 0
        self.closed = False

    def run(self, command: Command) -> LocalProcess:
        """See `base.Host`. Raises TrialFailed when the command cannot be started."""
        if self.closed:
            raise HostFailed(f"'{self.spec.name}' is closed", hint="prepare it again")
        self._settle()
        confines = Confines(
            cgroup_procs=self._group.joined() if self._group and command.left != "outside" else (),
            cpus=self._cpus,
            netns=None if self.spec.netns is None else namespace_path(self.spec.netns),
        )
        if command.left == "outside":
            process = launch(command, confines, {})
            self._outside.append(process)
            if self._kin is not None:
                self._kin.waits_for(process.pid)
            return process
        marks = {procfs.MARKER: self._run_id, procfs.MEMBER_MARKER: self.spec.name}
        if self._group is not None and command.left == "released":
            marks = {}  # the group tells whose it is, and no mark is to stay on what is let go
        name = ""
        if self._group is None:  # with a group, the group is what is found again
            self._started += 1
            name = f"{self._run_id}/{self.spec.name}/{os.getpid()}.{self._started}"
            self._ledger.intend("process", name, run=self._run_id, party=self.spec.name)
        try:
            process = launch(
                command,
                confines,
                marks,
                among=self._group.pids if self._group else None,
                end_rest=self._end_rest,
            )
        except BaseException:
            if name:
                self._ledger.removed("process", name)
            raise
        self._running.append((process, name))
        with contextlib.suppress(ProcessLookupError):
            self._got_cpus = tuple(sorted(os.sched_getaffinity(process.pid)))
        if name:
            self._record(process, name)
        return process

    def adopt(self, pid: int) -> None:
        """Take in a process of this party that another program has started, with all its threads: into the party's
        groups and onto its CPUs, read back. Where there are no groups, the party's mark in its environment tells which
        party's it is. Raises HostFailed when the kernel refuses."""
        try:
            for file in self._group.procs() if self._group else ():
                file.write_text(str(pid), encoding="ascii")
            if self._kin is not None:
                self._kin.add(pid)
            threads = [int(entry.name) for entry in (procfs.PROC / str(pid) / "task").iterdir()]
            for thread in threads:
                os.sched_setaffinity(thread, self._cpus)
            got = {tuple(sorted(os.sched_getaffinity(thread))) for thread in threads}
        except OSError as error:
            raise HostFailed(
                f"process {pid} cannot be moved to '{self.spec.name}': {error.strerror}",
                hint="as root; or without libvirt, hypervisor=qemu",
            ) from error
        if got != {self._cpus} or pid not in self.pids():
            raise HostFailed(
                f"process {pid} is not where '{self.spec.name}' is: its threads run on {sorted(got)}",
                hint="contend doctor",
            )
        self._got_cpus = self._cpus

    def _record(self, process: LocalProcess, name: str) -> None:
        if self._kin is not None:
            self._kin.waits_for(process.pid)
        status = procfs.stat(process.pid)
        self._ledger.created(
            "process",
            name,
            run=self._run_id,
            party=self.spec.name,
            pid=process.pid,
            start_ticks=None if status is None else status.start_ticks,
            exe=procfs.executable(process.pid),
            boot_id=procfs.boot_id(),
        )

    def release(self) -> tuple[Survivor, ...]:
        """See `base.Releases`."""
        until, remaining = time.monotonic() + _LAST_WORDS_S, self._left()
        while remaining and time.monotonic() < until:
            time.sleep(0.005)
            remaining = self._left()
        released: dict[int, str] = {}
        until = time.monotonic() + _RELEASE_S
        while remaining and time.monotonic() < until:  # again: what was forked while the others were moved
            released |= {pid: printable(procfs.name(pid)) for pid in remaining}
            if self._group is not None:
                self._groups.release(self._group, remaining)
            else:
                self._released |= {s.pid: s.start_ticks for s in procfs.processes(remaining)}
                if self._kin is not None:
                    self._kin.let_go(remaining)
            remaining = self._left()
        self._settle()
        return tuple(Survivor(pid, name) for pid, name in sorted(released.items()))

    def _left(self) -> set[int]:
        """Pids that run here and belong to no command that still does."""
        running = {process.pid for process, _ in self._running if process.alive()}
        left = set(self.pids())
        if not left or not running:
            return left
        among = left | running
        for pid in running:
            left -= {pid} | procfs.descendants(pid, among) | procfs.in_session(pid, among)
        return left

    def _gone_from_here(self) -> set[int]:
        """Pids of what was let go, and of its descendants."""
        pids = {s.pid for s in procfs.processes(self._released) if s.start_ticks == self._released[s.pid]}
        return pids.union(*(procfs.descendants(pid) for pid in pids))

    def _in_session(self, process: LocalProcess) -> set[int]:
        return procfs.in_session(process.pid) - self._gone_from_here()

    @staticmethod
    def _left_outside(kin: Kin, ended: list[LocalProcess]) -> set[int]:
        """Pids that the user's commands have left, where this process is the reaper of orphans: the rest of their sessions,
        and orphans without a mark, in sessions of their own, that are not older than the commands."""
        pids = set().union(*(procfs.in_session(process.pid) for process in ended))
        began_ticks = min(process.started_ns for process in ended) * os.sysconf("SC_CLK_TCK") // 10**9
        for one in procfs.processes(kin.alive()):
            orphan = one.ppid == os.getpid() and one.session != os.getsid(0)
            if orphan and one.start_ticks >= began_ticks and procfs.marks(one.pid) is None:
                pids.add(one.pid)
        return pids

    def _settle(self) -> None:
        """Put the processes that have ended behind us."""
        ended = [process for process in self._outside if not process.alive()]
        if ended and self._kin is not None:
            self._kin.let_go(self._left_outside(self._kin, ended))
        self._outside = [process for process in self._outside if process not in ended]
        still = []
        for process, name in self._running:
            if process.alive():
                still.append((process, name))
                continue
            self._ended.append(process.wait())
            if name and not self._in_session(process):
                self._ledger.removed("process", name)
            elif name:  # the leader is gone, its session is not: remember it until close
                still.append((process, name))
                self._ended.pop()
        self._running = still

    def _end_rest(self, ended: LocalProcess) -> None:
        """After a forced end: nothing else runs here, so whatever is left was its."""
        if any(process is not ended and process.alive() for process, _ in self._running):
            return
        if self._group is not None:
            self._group.kill()
        else:
            procfs.kill_until_gone(lambda: self._marked() - self._gone_from_here())

    def usage(self) -> Usage:
        """Counters since `prepare`. Without a group: rusage of what ended plus /proc of what runs."""
        if self._group is not None:
            return self._group.usage()
        user = sum(exit_.user_ns for exit_ in self._ended)
        system = sum(exit_.system_ns for exit_ in self._ended)
        for process, _ in self._running:
            if not process.alive():
                ended = process.wait()
                user, system = user + ended.user_ns, system + ended.system_ns
        for pid in self.pids():
            times = procfs.cpu_times_ns(pid)
            user, system = user + times[0], system + times[1]
        return Usage(cpu_ns=user + system, user_ns=user, system_ns=system)

    def pids(self) -> tuple[int, ...]:
        if self._group is not None:
            return tuple(sorted(self._group.pids()))
        pids = self._marked()
        sessions = {process.pid for process, _ in self._running}
        pids |= {p.pid for p in procfs.processes() if p.session in sessions}
        return tuple(sorted(pids - self._gone_from_here()))

    def _marked(self) -> set[int]:
        """Without a group: descendants of this process that say that they are this party's."""
        mark = (self._run_id, self.spec.name)
        among = procfs.descendants(os.getpid()) if self._kin is None else self._kin.alive()
        return {pid for pid in among if procfs.marks(pid) == mark}

    def processes(self) -> int:
        return len(self.pids())

    def without_quota(self) -> contextlib.AbstractContextManager[None]:
        """Lift the CPU quota while the block runs: for work that is not the workload's own."""
        return contextlib.nullcontext() if self._group is None else self._group.without_quota()

    def listens(self, port: int) -> bool:
        return network.listening(self.spec.netns, port)

    def cgroup(self) -> Path | None:
        return self._group.v2 if self._group else None

    def honoured(self) -> dict[str, object]:
        """mechanism; cpus: the affinity the kernel gave the last process (before one: what will be asked);
        limits: files and what they read; groups: where it stands."""
        cpus = self._got_cpus or self._cpus
        return {
            "mechanism": self._groups.mechanism,
            "cpus": list(cpus),
            "cpus_by": "affinity",
            "cpus_read_back": self._got_cpus is not None,
            "limits": dict(self._group.read_back) if self._group else {},
            "groups": [str(path) for path in self._group.paths()] if self._group else [],
            "netns": self.spec.netns,
        }

    def close(self) -> None:
        """See `base.Host`. What cannot be ended is raised as HostFailed, after everything was tried."""
        self._settle()
        self.closed = True
        with contextlib.ExitStack() as stack:
            if self._group is not None:
                stack.callback(self._groups.drop, self._group)
            for process in self._outside:
                if process.alive():
                    stack.callback(process.stop, "TERM", _GRACE_S)
            self._outside = []
            for process, name in self._running:
                stack.callback(self._kill, process, name)
            self._running = []
        if self._group is None and (left := procfs.kill_until_gone(self.pids)):
            raise HostFailed(f"processes {sorted(left)} do not die of SIGKILL", hint="stuck in the kernel")

    def _kill(self, process: LocalProcess, name: str) -> None:
        exit_ = process.stop("KILL", 0.0)
        if left := procfs.kill_until_gone(lambda: self._in_session(process)):
            raise HostFailed(f"processes {sorted(left)} do not die of SIGKILL", hint="stuck in the kernel")
        self._ended.append(exit_)
        if name:
            self._ledger.removed("process", name)
