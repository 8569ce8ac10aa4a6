"""The interface between a run and the platforms it runs on: `Platform`, `Host`, `Process` and what they exchange.

A Platform prepares Hosts. A Host is one party's place to run: the victim, each neighbour and the load
generator get one each, so that what one uses is accounted to it and can be ended without the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

Role = Literal["victim", "neighbour", "load"]
PERIOD_US = 100_000  # of a CPU quota: the kernel's default


@dataclass(frozen=True, slots=True)
class Limit:
    """Caps for one party, by the controllers of cgroup v1 or v2. None: not capped.

    cpus: CPU bandwidth in CPUs (quota / period). memory_bytes: memory.max. read_iops, write_iops: on the
    block device that holds the run directory. bytes_per_s: read and write each, on the same device. period_us,
    burst_us: how a bandwidth is given, where there is one.
    """

    cpus: float | None = None
    memory_bytes: int | None = None
    iops: int | None = None
    bytes_per_s: int | None = None
    period_us: int = PERIOD_US
    burst_us: int = 0

    def __bool__(self) -> bool:
        return any(x is not None for x in (self.cpus, self.memory_bytes, self.iops, self.bytes_per_s))


@dataclass(frozen=True, slots=True)
class HostSpec:
    """Resources for the host of one workload: CPUs, limits, network. `cpu_list` is an affinity (bare), a cpuset
    (container, when pinned), or what each virtual CPU is pinned to (vm). `ports`: of its servers, which are to be
    reached at 127.0.0.1 from outside. `netns` is where its processes stand; of a guest the server's end of a pair, where
    its machine gets a tap device."""

    name: str  # unique within the run; becomes part of the names of cgroups and containers
    role: Role
    cpu_list: tuple[int, ...] | None = None  # None: every CPU the tool itself may use
    limit: Limit = Limit()
    netns: str | None = None
    directory: Path = Path()  # the run directory: visible inside the platform under the same path
    ports: tuple[int, ...] = ()


Left = Literal["ended", "released", "outside"]


@dataclass(frozen=True, slots=True)
class Command:
    """A command, and what becomes of the processes that it leaves behind.

    ended: contend ends them with the host. released: they are the user's once the command has ended by itself, see
    `Releases`. outside: the command is the user's, and on the bare host runs where contend itself does: not in the host's
    group, not accounted, and found again by nobody.
    """

    argv: tuple[str, ...]
    cwd: Path
    stdout: Path
    stderr: Path
    env: Mapping[str, str] = field(default_factory=dict)  # added to the tool's own environment
    left: Left = "ended"


@dataclass(frozen=True, slots=True)
class Survivor:
    """A process that a user's command left running, and that contend leaves running too."""

    pid: int
    name: str


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended. Times are of the process itself and its waited-for children (rusage).

    wall_ns is the time inside the platform (first instruction of the command to its end); startup_ns what the
    platform added before it (0 on bare). max_rss_bytes and the switches are 0 where the platform cannot tell; read_bytes
    (from devices) and major_faults are None.
    """

    code: int  # exit status, or minus the signal's number
    wall_ns: int
    user_ns: int
    system_ns: int
    max_rss_bytes: int
    voluntary_switches: int
    involuntary_switches: int
    startup_ns: int = 0
    timed_out: bool = False
    read_bytes: int | None = None
    major_faults: int | None = None

    @property
    def cpu_ns(self) -> int:
        return self.user_ns + self.system_ns


class Process(Protocol):
    # Called once with the pid when the process has ended and is not reaped yet, so that its last counters can
    # be read from /proc. A platform whose processes are not the tool's children cannot, and never calls it.
    on_exit: Callable[[int], None] | None

    @property
    def pid(self) -> int:
        """The process's pid, in contend's own pid namespace."""
        ...

    @property
    def started_ns(self) -> int:
        """When the process started: CLOCK_MONOTONIC, ns."""
        ...

    def wait(self, timeout_s: float | None = None) -> Exit:
        """Wait for the end; after timeout_s the whole process group is ended and Exit.timed_out is set."""
        ...

    def stop(self, signal: str = "TERM", grace_s: float = 2.0) -> Exit:
        """End it and its children: signal, then SIGKILL after the grace. Idempotent."""
        ...

    def alive(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Usage:
    """Counters of one host since it was prepared, in ns or counts; None where this machine cannot tell."""

    cpu_ns: int | None = None
    user_ns: int | None = None
    system_ns: int | None = None
    nr_throttled: int | None = None
    throttled_ns: int | None = None
    cpu_pressure_ns: int | None = None  # PSI some: time in which at least one task waited for a CPU
    io_pressure_ns: int | None = None
    memory_pressure_ns: int | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None
    memory_traffic_bytes: int | None = None  # between its last-level caches and memory
    cache_bytes: int | None = None  # of last-level caches, held now: a level, which `since` leaves as it is

    def since(self, earlier: Usage) -> Usage:
        """Subtract an earlier usage.

        >>> Usage(cpu_ns=9).since(Usage(cpu_ns=4, read_bytes=1)).cpu_ns
        5
        """
        return self._with(earlier, -1)

    def plus(self, more: Usage) -> Usage:
        """Add another usage."""
        return self._with(more, 1)

    def _with(self, other: Usage, sign: int) -> Usage:
        """Add or subtract. A figure that one of the two cannot tell is 0 of the other, and None where this one cannot."""
        figures: dict[str, int | None] = {}
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if name == "cache_bytes" and sign < 0:
                figures[name] = value
                continue
            figures[name] = None if value is None else value + sign * (getattr(other, name) or 0)
        return Usage(**figures)


class Host(Protocol):
    spec: HostSpec
    visible: bool  # its processes are this host's too, and /proc tells of them

    def run(self, command: Command) -> Process: ...

    def usage(self) -> Usage: ...

    def pids(self) -> tuple[int, ...]:
        """Every process of this host that is alive, in the tool's own pid namespace."""
        ...

    def processes(self) -> int:
        """How many processes its commands have now. Those inside a guest are not among `pids`."""
        ...

    def listens(self, port: int) -> bool:
        """True if one of its servers can be reached at this TCP port."""
        ...

    def cgroup(self) -> Path | None:
        """The cgroup v2 directory that holds exactly this host's tasks, if there is one."""
        ...

    def honoured(self) -> dict[str, object]:
        """The shares that the host got, read back from the kernel: cpus, quota, memory, mechanism."""
        ...

    def close(self) -> None:
        """End every process and remove everything. Idempotent; safe after a failure half-way."""
        ...


@runtime_checkable
class Releases(Protocol):
    """A host whose commands can leave processes that outlive it: the bare one. What is left in a container ends with it."""

    def release(self) -> tuple[Survivor, ...]:
        """Let go what ended commands have left running: no longer of this host, so neither accounted to it nor ended with
        it. To be called while none of the user's commands runs. Raises HostFailed when the kernel refuses."""
        ...


class Platform(Protocol):
    kind: str

    def prepare(self, spec: HostSpec) -> Host:
        """Make a host as `spec` asks. Raises CannotHonour, before anything is created, where this machine cannot give
        that."""
        ...

    def describe(self) -> dict[str, object]:
        """Describe the platform for environment.json: mechanism (cgroup v1/v2, scope, affinity only), runtime and
        version."""
        ...

    def close(self) -> None: ...
