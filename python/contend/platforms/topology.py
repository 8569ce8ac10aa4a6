"""The CPUs contend may use, how they are wired, and which of them each workload gets."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from contend.errors import CannotHonour, ScenarioError
from contend.platforms.procfs import text_or_empty

Kind = Literal["same-cpu", "own-cores", "same-host"]
KINDS: tuple[Kind, ...] = ("same-cpu", "own-cores", "same-host")


@dataclass(frozen=True, slots=True)
class Cpu:
    """One logical CPU. `core` is the same for SMT siblings; `cache` for those that share the last level."""

    id: int
    core: int
    package: int = 0
    node: int = 0
    cache: int = 0


@dataclass(frozen=True, slots=True)
class Topology:
    """The CPUs this process may use (its affinity within its cpuset), by number."""

    cpus: tuple[Cpu, ...]

    @staticmethod
    def read(sys: Path = Path("/sys"), allowed: Iterable[int] | None = None) -> Topology:
        """The topology from /sys/devices/system. What /sys does not say is taken as one core per CPU."""
        ids = sorted(os.sched_getaffinity(0) if allowed is None else allowed)
        nodes = _nodes(sys)
        cpus = []
        for number in ids:
            base = sys / f"devices/system/cpu/cpu{number}"
            siblings = parse_cpu_list(text_or_empty(base / "topology/thread_siblings_list")) or (number,)
            shared = _last_level(base) or (number,)
            package = text_or_empty(base / "topology/physical_package_id")
            # The lowest sibling names the core: core_id itself repeats from package to package.
            cpus.append(Cpu(number, siblings[0], int(package or 0), nodes.get(number, 0), shared[0]))
        return Topology(tuple(cpus))

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(cpu.id for cpu in self.cpus)

    def cores(self) -> list[tuple[Cpu, ...]]:
        """The CPUs by core, in the order of the lowest CPU of each."""
        by_core: dict[int, list[Cpu]] = {}
        for cpu in sorted(self.cpus, key=lambda c: c.id):
            by_core.setdefault(cpu.core, []).append(cpu)
        return [tuple(core) for core in by_core.values()]

    def to_json(self) -> dict[str, object]:
        return {
            "cpus": [
                {"cpu": c.id, "core": c.core, "package": c.package, "node": c.node, "cache": c.cache}
                for c in self.cpus
            ],
            "smt": any(len(core) > 1 for core in self.cores()),
        }


def siblings(cpus: Iterable[int], sys: Path = Path("/sys")) -> tuple[int, ...]:
    """The other hardware threads of these CPUs' cores, whoever may use them."""
    own = set(cpus)
    lists = (text_or_empty(sys / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") for cpu in own)
    return tuple(sorted({cpu for text in lists for cpu in parse_cpu_list(text)} - own))


@dataclass(frozen=True, slots=True)
class Placement:
    """CPUs of victim, neighbours, load and tool; None: no affinity. `notes` say what could not be kept apart."""

    kind: Kind
    victim: tuple[int, ...] | None
    neighbours: tuple[int, ...] | None
    load: tuple[int, ...] | None
    tool: tuple[int, ...] | None
    all: tuple[int, ...]
    notes: tuple[str, ...] = ()

    def summary(self) -> str:
        """Describe the placement for people.

        >>> Placement("same-cpu", (1,), (1,), (0,), (0,), (0, 1)).summary()
        'same-cpu: victim on CPU 1, neighbours on CPU 1, load on CPU 0, tool on CPU 0'
        """
        if self.victim is None:
            return f"{self.kind}: every party on CPU {format_cpu_list(self.all)}, no affinity"
        by_role = {"victim": self.victim, "neighbours": self.neighbours, "load": self.load, "tool": self.tool}
        shown = ", ".join(f"{name} on CPU {format_cpu_list(cpus or ())}" for name, cpus in by_role.items())
        return "; ".join((f"{self.kind}: {shown}", *self.notes))


def permitted() -> tuple[int, ...]:
    """Every CPU this process could run on: its cpuset, whatever its affinity is now.

    A thread of its own asks for all and reads back what the kernel left of it; no other thread is moved.
    """
    cpus: list[int] = []

    def ask() -> None:
        os.sched_setaffinity(0, _possible() or range(os.cpu_count() or 1))
        cpus.extend(sorted(os.sched_getaffinity(0)))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return tuple(cpus)


@contextmanager
def confined(cpus: Iterable[int]) -> Iterator[None]:
    """Run this thread, and what it starts in the block, on `cpus`; then where it was."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _possible() -> tuple[int, ...]:
    return parse_cpu_list(text_or_empty(Path("/sys/devices/system/cpu/possible")))


def placement(kind: str, topology: Topology) -> Placement:
    """The CPUs that the victim, the neighbours, the load generator and the tool itself get.

    same-cpu: victim and neighbours on the same one CPU, load and tool on the others. own-cores: victim and
    neighbours on cores of their own in the same node; load and tool beside the neighbours when there is no
    third core. same-host: no affinity.

    Raises CannotHonour when there are too few CPUs, ScenarioError for another kind.

    >>> two = Topology((Cpu(0, 0), Cpu(1, 1)))
    >>> p = placement("same-cpu", two)
    >>> p.victim, p.neighbours, p.load
    ((1,), (1,), (0,))
    """
    if not topology.cpus:
        raise CannotHonour("there is no CPU that contend may use", hint="look at the affinity of the shell")
    if kind == "same-host":
        return Placement("same-host", None, None, None, None, topology.ids)
    if kind == "same-cpu":
        return _same_cpu(topology)
    if kind == "own-cores":
        return _own_cores(topology)
    raise ScenarioError(
        f"'placement: {kind}' is not one of: {', '.join(KINDS)}", hint="same-cpu is the default"
    )


def _same_cpu(topology: Topology) -> Placement:
    if len(topology.cpus) < 2:
        raise CannotHonour(
            "placement same-cpu needs 2 CPUs (one for the parties, one for load and tool), this host gives 1",
            hint="placement: same-host, or a machine with more CPUs",
        )
    cores = topology.cores()
    # The last core: CPU 0 takes most interrupts, and its neighbour in the same core would slow it down.
    shared = cores[-1][0]
    others = tuple(c.id for c in topology.cpus if c.core != shared.core)
    notes: tuple[str, ...] = ()
    if not others:
        others = tuple(c.id for c in topology.cpus if c.id != shared.id)
        notes = (f"load and tool run on SMT siblings of CPU {shared.id}: they share its core",)
    return Placement("same-cpu", (shared.id,), (shared.id,), others, others, topology.ids, notes)


def _own_cores(topology: Topology) -> Placement:
    if len(topology.cpus) < 2:
        raise CannotHonour(
            "placement own-cores needs 2 CPUs, this host gives 1",
            hint="placement: same-host, or a machine with more CPUs",
        )
    groups = [tuple(c.id for c in core) for core in _roomiest_node(topology)]
    notes: list[str] = []
    if len(groups) == 1:  # one core with SMT: the siblings must be split
        groups = [(cpu,) for cpu in groups[0]]
        notes.append("victim and neighbours are SMT siblings of one core: they share its caches and units")
    if len(groups) == 2:
        notes.append("load and tool share the neighbours' CPUs: there is no third core")
        victim, neighbours, rest = groups[1], groups[0], groups[0]
    else:
        # Load and tool get a third of the cores from the low end, where the interrupts are; victim and
        # neighbours get half of the rest each.
        outside = max(1, len(groups) // 3)
        outside += (len(groups) - outside) % 2
        half = (len(groups) - outside) // 2
        rest, neighbours, victim = (
            tuple(sorted(cpu for group in part for cpu in group))
            for part in (groups[:outside], groups[outside : outside + half], groups[outside + half :])
        )
    return Placement("own-cores", victim, neighbours, rest, rest, topology.ids, tuple(notes))


def pick(topology: Topology, number: int) -> tuple[int, ...]:
    """Choose `number` CPUs of this host, in as few nodes, caches and cores as possible.

    From the high end, since CPU 0 takes most interrupts. The same number gives the same CPUs. Raises CannotHonour.

    >>> smt = Topology(tuple(Cpu(n, n % 4, node=n % 4 // 2, cache=n % 4 // 2) for n in range(8)))
    >>> pick(smt, 2), pick(smt, 3), pick(smt, 5)
    ((3, 7), (2, 3, 7), (1, 2, 3, 6, 7))
    """
    if not 1 <= number <= len(topology.cpus):
        have = len(topology.cpus)
        raise CannotHonour(
            f"{number} CPUs are wanted, this host gives {have}", hint="a smaller size, or another host"
        )
    return tuple(sorted(cpu.id for cpu in _fill(topology.cpus, number, ("node", "cache", "core"))))


def _fill(cpus: Iterable[Cpu], number: int, levels: tuple[str, ...]) -> list[Cpu]:
    """So many of them, group by group of the first level: the smallest that holds the rest, else the largest."""
    if not levels:
        return sorted(cpus, key=lambda cpu: cpu.id)[:number]
    groups: dict[int, list[Cpu]] = {}
    for cpu in cpus:
        groups.setdefault(getattr(cpu, levels[0]), []).append(cpu)
    picked: list[Cpu] = []
    while number > len(picked):
        rest = number - len(picked)
        # Of equal ones the highest.
        by_size = sorted(groups, key=lambda key: (len(groups[key]), -key))
        best = next((key for key in by_size if len(groups[key]) >= rest), None)
        if best is None:
            best = max(groups, key=lambda key: (len(groups[key]), key))
        group = groups.pop(best)
        picked += _fill(group, min(rest, len(group)), levels[1:])
    return picked


def _roomiest_node(topology: Topology) -> list[tuple[Cpu, ...]]:
    """The cores of the node with the most, if it has 3; else all. Another node has slower memory."""
    nodes: dict[int, list[tuple[Cpu, ...]]] = {}
    for core in topology.cores():
        nodes.setdefault(core[0].node, []).append(core)
    best = max(nodes.values(), key=len)
    return best if len(best) >= 3 else topology.cores()


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """The numbers of a kernel CPU list.

    >>> parse_cpu_list("0-2,5")
    (0, 1, 2, 5)
    """
    numbers: set[int] = set()
    for part in text.strip().split(","):
        if part:
            low, _, high = part.partition("-")
            numbers.update(range(int(low), int(high or low) + 1))
    return tuple(sorted(numbers))


def format_cpu_list(cpus: Iterable[int]) -> str:
    """The kernel's notation of a set of CPUs.

    >>> format_cpu_list([5, 0, 1, 2])
    '0-2,5'
    """
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def _last_level(base: Path) -> tuple[int, ...]:
    """CPUs that share the highest level of cache with this one; empty where /sys does not say."""
    levels = []
    for index in sorted((base / "cache").glob("index*")):
        shared = parse_cpu_list(text_or_empty(index / "shared_cpu_list"))
        if shared:
            levels.append((int(text_or_empty(index / "level") or 0), shared))
    return max(levels)[1] if levels else ()


def _nodes(sys: Path) -> dict[int, int]:
    nodes = {}
    for directory in (sys / "devices/system/node").glob("node[0-9]*"):
        for cpu in parse_cpu_list(text_or_empty(directory / "cpulist")):
            nodes[cpu] = int(directory.name.removeprefix("node"))
    return nodes
