"""The host's CPUs as they are wired, and which of them each pinned cell was given: for the terminal and the page.

From what a run recorded: the topology in its environment, and what was read back from the kernel trial by trial.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from contend.platforms.cpu_sets import LEVELS, describe
from contend.platforms.sizes import sized
from contend.platforms.topology import Cpu, Topology, format_cpu_list
from contend.report.model import ReportInput
from contend.report.plotkit import condition_colours

TAKEN, FREE = "█", "·"
_BETWEEN = {"core": " ", "cache": " | ", "node": " || ", "package": " || "}


@dataclass(frozen=True, slots=True)
class CpuSet:
    """CPUs that the pinned cells of one platform, provisioning and size ran on. name: the platform's, as in the table."""

    name: str
    size: str
    cpus: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CpuMap:
    topology: Topology
    sets: tuple[CpuSet, ...]


def cpu_map(report: ReportInput) -> CpuMap | None:
    """The map of the host's CPUs and of each pinned set; None where the run has no pinned cells, or no record of the
    host's topology."""
    wired = report.environment.get("topology") or {}
    cpus = tuple(
        Cpu(int(c["cpu"]), int(c["core"]), int(c["package"]), int(c["node"]), int(c["cache"]))
        for c in wired.get("cpus", ())
    )
    sets = tuple(sorted(set(_sets(report)), key=lambda each: (each.name, len(each.cpus), each.size)))
    return CpuMap(Topology(cpus), sets) if cpus and sets else None


def _sets(report: ReportInput) -> Iterator[CpuSet]:
    pinned = {
        cell.id
        for cell in report.analysis.planned.values()
        if cell.values.platform is not None and cell.values.platform.provisioning == "pinned"
    }
    for row in report.rows:
        factors, given = row.get("factors", {}), (row.get("honoured") or {}).get("cpus")
        if row.get("cell") in pinned and given:
            name = f"{factors['platform']} {factors['provisioning']}"
            yield CpuSet(name, sized(factors), tuple(sorted(int(cpu) for cpu in given)))


def _ordered(cpus: Sequence[Cpu]) -> list[Cpu]:
    return sorted(cpus, key=lambda c: (*(getattr(c, level) for level in LEVELS), c.id))


def summary(topology: Topology) -> str:
    """
    >>> summary(Topology(tuple(Cpu(n, n % 2) for n in range(4))))
    '1 package, 1 node, 1 last-level cache, 2 cores of 4 threads'
    """
    counts = [len({getattr(cpu, level) for cpu in topology.cpus}) for level in LEVELS]
    names = ("package", "node", "last-level cache", "core")
    parts = [f"{n} {name}{'s' if n > 1 else ''}" for n, name in zip(counts, names, strict=True)]
    threads = len(topology.cpus)
    return ", ".join(parts) + (f" of {threads} threads" if threads != counts[-1] else "")


def strip(topology: Topology, taken: Sequence[int]) -> str:
    """Draw all CPUs of a host in one line: a mark each, separated by what they share.

    >>> host = Topology(tuple(Cpu(n, n % 4, node=n % 4 // 2, cache=n % 4 // 2) for n in range(8)))
    >>> strip(host, (3, 7))
    '·· ·· || ·· ██'
    """
    line, last = "", None
    for cpu in _ordered(topology.cpus):
        if last is not None:
            apart = next((at for at in LEVELS if getattr(cpu, at) != getattr(last, at)), "")
            line += _BETWEEN.get(apart, "")
        line += TAKEN if cpu.id in taken else FREE
        last = cpu
    return line


def rows(cpus: CpuMap) -> list[tuple[str, ...]]:
    """A row of words for each set: its name, its CPUs, and the cores, caches and nodes they belong to."""
    return [
        (f"{each.name}, {each.size}", format_cpu_list(each.cpus), describe(cpus.topology, each.cpus))
        for each in cpus.sets
    ]


HEADERS = ("set of CPUs", "CPUs", "in")


def terminal_rows(cpus: CpuMap, width: int) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Headers and rows for the terminal; with a strip of the whole host where `width` columns have room for it."""
    words, strips = rows(cpus), [strip(cpus.topology, each.cpus) for each in cpus.sets]
    name = max(len(row[0]) for row in words)
    numbers = max(4, *(len(row[1]) for row in words))
    if name + numbers + len(strips[0]) + 6 > width:
        return HEADERS, words
    return ("set of CPUs", "CPUs", "of the host"), [
        (row[0], row[1], line) for row, line in zip(words, strips, strict=True)
    ]


def pictures(report: ReportInput, cpus: CpuMap) -> list[tuple[CpuSet, str, str]]:
    """Draw each set: itself, in words, and as nested boxes. The colours are the platforms' in the rest of the page."""
    colours = condition_colours(report)
    return [
        (
            each,
            describe(cpus.topology, each.cpus),
            _boxes(cpus.topology, each, colours.get(each.name, "var(--c1)")),
        )
        for each in cpus.sets
    ]


def _boxes(topology: Topology, each: CpuSet, colour: str) -> str:
    label = f"{each.name}, {each.size}: CPU {format_cpu_list(each.cpus)}, {describe(topology, each.cpus)}"
    # The kernel numbers packages and nodes; a cache is known by its lowest CPU, and counted here.
    caches = {cache: n for n, cache in enumerate(dict.fromkeys(cpu.cache for cpu in _ordered(topology.cpus)))}
    inner = _level(_ordered(topology.cpus), LEVELS, set(each.cpus), caches)
    return f'<div class="cpus" role="img" aria-label="{escape(label)}" style="--set:{escape(colour)}">{inner}</div>'


def _level(cpus: Sequence[Cpu], levels: Sequence[str], taken: set[int], caches: Mapping[int, int]) -> str:
    if not levels:
        return "".join(
            f'<span class="cpu{" taken" if cpu.id in taken else ""}">{cpu.id}</span>' for cpu in cpus
        )
    groups: dict[int, list[Cpu]] = {}
    for cpu in cpus:
        groups.setdefault(getattr(cpu, levels[0]), []).append(cpu)
    made = []
    for key, group in groups.items():
        inner = _level(group, levels[1:], taken, caches)
        number = caches[key] if levels[0] == "cache" else key
        name = f"<small>{levels[0]} {number}</small>" if levels[0] != "core" else ""
        made.append(f'<div class="{levels[0]}">{name}<div class="within">{inner}</div></div>')
    return "".join(made)
