"""Choices of a number of CPUs on this host: close together, or far apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from contend.platforms.topology import Cpu, Topology, pick

LEVELS = ("package", "node", "cache", "core")


def spread(topology: Topology, number: int) -> tuple[int, ...]:
    """So many CPUs as far apart as they go: whole cores first, then different caches, nodes and packages.

    The first is the one that `pick` takes. The same number gives the same CPUs. Raises CannotHonour.

    >>> smt = Topology(tuple(Cpu(n, n % 4, node=n % 4 // 2, cache=n % 4 // 2) for n in range(8)))
    >>> spread(smt, 1), spread(smt, 2), spread(smt, 5)
    ((3,), (1, 3), (0, 1, 2, 3, 7))
    """
    pick(topology, number)  # raises for a number that this host does not have
    (first,) = pick(topology, 1)
    left = {cpu.id: cpu for cpu in topology.cpus}
    taken: dict[str, Counter[int]] = {level: Counter() for level in LEVELS}
    chosen: list[int] = []
    while len(chosen) < number:
        best = left[first] if not chosen else min(left.values(), key=lambda cpu: _taken_beside(cpu, taken))
        chosen.append(best.id)
        del left[best.id]
        for level in LEVELS:
            taken[level][getattr(best, level)] += 1
    return tuple(sorted(chosen))


def _taken_beside(cpu: Cpu, taken: dict[str, Counter[int]]) -> tuple[int, ...]:
    """How many of its neighbours are taken, nearest first; of equal ones from the high end, like `pick`."""
    counts = (taken[level][getattr(cpu, level)] for level in reversed(LEVELS))
    return (*counts, -cpu.core, cpu.id)


def alike(topology: Topology, one: Iterable[int], other: Iterable[int]) -> bool:
    """True if two sets are wired the same: as many CPUs in as many cores, caches, nodes and packages.

    >>> smt = Topology(tuple(Cpu(n, n % 4, cache=n % 4 // 2) for n in range(8)))
    >>> alike(smt, (3, 7), (0, 4)), alike(smt, (3, 7), (3, 2)), alike(smt, (2, 3), (0, 2))
    (True, False, False)
    """
    return _shape(_of(topology, one), LEVELS) == _shape(_of(topology, other), LEVELS)


def _of(topology: Topology, ids: Iterable[int]) -> list[Cpu]:
    wanted = set(ids)
    return [cpu for cpu in topology.cpus if cpu.id in wanted]


Shape = int | tuple["Shape", ...]


def _shape(cpus: Sequence[Cpu], levels: Sequence[str]) -> Shape:
    """The tree of a set without its numbers: the children of each in an order of their own."""
    if not levels:
        return len(cpus)
    groups: dict[int, list[Cpu]] = {}
    for cpu in cpus:
        groups.setdefault(getattr(cpu, levels[0]), []).append(cpu)
    return tuple(sorted((_shape(group, levels[1:]) for group in groups.values()), key=repr))


def describe(topology: Topology, ids: Iterable[int]) -> str:
    """Describe a set of CPUs: in how many cores, caches, nodes and packages it lies.

    >>> smt = Topology(tuple(Cpu(n, n % 4, cache=n % 4 // 2) for n in range(8)))
    >>> describe(smt, (3, 7)), describe(smt, (1, 3))
    ('1 core, 1 cache, 1 node', '2 cores, 2 caches, 1 node')
    """
    cpus = _of(topology, ids)
    parts = []
    for level in ("core", "cache", "node", "package"):
        number = len({getattr(cpu, level) for cpu in cpus})
        if level != "package" or number > 1:
            parts.append(f"{number} {level}{'s' if number != 1 else ''}")
    return ", ".join(parts)
