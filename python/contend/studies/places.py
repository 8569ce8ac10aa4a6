"""The places of an overhead study: a platform of one size each, and what this host cannot give of them.

A place is one setting of all that is varied: kind of platform, provisioning, size; of a quota its period and burst; of a
set of CPUs which it gets.
"""

from __future__ import annotations

import itertools
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from contend.platforms import bandwidth, hotplug
from contend.platforms.bandwidth import period_text
from contend.platforms.base import PERIOD_US, Limit
from contend.platforms.cgroups import Layout, read_layout
from contend.platforms.cpu_sets import alike, spread
from contend.platforms.hotplug import staying
from contend.platforms.sizes import PlatformSize, of_host
from contend.platforms.topology import Topology, pick
from contend.store.cells import SizedPlatform
from contend.studies.model import GUESTS
from contend.studies.overhead.model import Overhead

HostBy = Literal["", "whole", "offline", "confined"]


@dataclass(frozen=True, slots=True)
class Place:
    """A platform of one size, where a study compares several. provisioning: "" for bare, which has neither.

    period_us, burst_us: of the quota of vanilla. placement: which CPUs a pinned set gets. host, host_by: CPUs of the host,
    where a study varies that, and how it came to have so many.
    """

    kind: str
    provisioning: Literal["", "vanilla", "pinned"]
    size: PlatformSize
    threads: Literal["size", "automatic"] = "size"
    period_us: int = PERIOD_US
    burst_us: int = 0
    placement: Literal["packed", "spread"] = "packed"
    host: int | None = None
    host_by: HostBy = ""

    @property
    def how(self) -> str:
        """The provisioning, and what of it is not as usual.

        >>> Place("container", "vanilla", PlatformSize(1), period_us=10_000, burst_us=5_000).how
        'vanilla 10ms burst 5ms'
        >>> Place("container", "pinned", PlatformSize(1), placement="spread").how
        'pinned spread'
        """
        return " ".join((self.provisioning, *(self._words()))).strip()

    def _words(self) -> Iterator[str]:
        if self.period_us != PERIOD_US:
            yield period_text(self.period_us)
        if self.burst_us:
            yield f"burst {period_text(self.burst_us)}"
        if self.placement != "packed":
            yield self.placement

    @property
    def label(self) -> str:
        """
        >>> Place("container", "pinned", PlatformSize(0.5)).label, Place("bare", "", PlatformSize(1)).label
        ('container pinned 0.5 CPU', 'bare 1 CPU')
        """
        return " ".join(word for word in (self.kind, self.how, self.sized) if word)

    @property
    def sized(self) -> str:
        """Its size, and of which host."""
        size = self.size.label
        return size if self.host is None else f"{size} {of_host(self.host, self.host_by)}"

    @property
    def values(self) -> SizedPlatform:
        """The same, as plan.json has it."""
        return SizedPlatform(
            self.kind,
            self.provisioning,
            self.size.cpus,
            self.period_us,
            self.burst_us,
            self.placement,
            self.host,
            self.host_by,
        )

    @property
    def factors(self) -> dict[str, str]:
        """What its cell is told apart by. period, burst and placement are there where they are not as usual."""
        found = {
            "platform": self.kind,
            "provisioning": self.how or "none",
            "size": self.size.label,
            "cpus": f"{self.size.cpus:g}",
        }
        if self.period_us != PERIOD_US:
            found["period"] = period_text(self.period_us)
        if self.burst_us:
            found["burst"] = period_text(self.burst_us)
        if self.placement != "packed":
            found["placement"] = self.placement
        if self.host is not None:
            found |= {"host": str(self.host), "host_by": self.host_by}
        return found

    @property
    def limit(self) -> Limit:
        """The quota of vanilla, and of what is left of a CPU where pinned: the set of CPUs has whole ones."""
        if self.kind == "bare":
            return Limit()
        memory = self.size.memory_bytes
        if self.provisioning == "vanilla":
            return Limit(self.size.cpus, memory, period_us=self.period_us, burst_us=self.burst_us)
        whole = self.size.cpus == self.size.whole_cpus
        return Limit(cpus=None if whole else self.size.cpus, memory_bytes=memory)

    @property
    def cpus_wanted(self) -> int | None:
        """Size of its set of CPUs; None: no set."""
        return None if self.provisioning == "vanilla" else self.size.whole_cpus

    def cpus(self, topology: Topology) -> tuple[int, ...]:
        """The set of so many, whether or not it is given one. topology: of its host. Raises CannotHonour."""
        choose = spread if self.placement == "spread" else pick
        return choose(topology, self.size.whole_cpus)

    @property
    def refused(self) -> str:
        """Why no host gives this; "" where one might."""
        if self.kind in GUESTS and self.host_by in ("offline", "confined"):
            return "guests are made on the whole host only"
        if self.provisioning != "vanilla" or (self.period_us == PERIOD_US and not self.burst_us):
            return ""
        if self.kind == "vm" and self.size.cpus == self.size.whole_cpus:
            return "a virtual machine of whole CPUs has no quota"
        if self.kind == "container-in-vm" and self.burst_us:
            return "a container in a guest is given no burst"
        return bandwidth.refused(self.limit)


def hosts(scenario: Overhead) -> tuple[tuple[int | None, HostBy], ...]:
    """The sizes of the host, the whole one first; one of None where that is not varied."""
    if not scenario.hosts:
        return ((None, ""),)
    whole, *smaller = sorted(set(scenario.hosts), reverse=True)
    by: HostBy = "confined" if scenario.hosts_by == "confined" else "offline"
    return ((whole, "whole"), *((cpus, by) for cpus in smaller))


def wired(
    scenario: Overhead, topology: Topology, fixed: Iterable[int] | None = None
) -> dict[int | None, Topology]:
    """The CPUs of each of them. topology: of the whole host; fixed: CPUs that cannot go. Raises CannotHonour."""
    found: dict[int | None, Topology] = {}
    for cpus, by in hosts(scenario):
        ids = topology.ids
        if cpus is not None and by == "offline":
            ids = staying(topology, cpus, hotplug.fixed(topology.ids) if fixed is None else fixed)
        elif cpus is not None and by == "confined":
            ids = pick(topology, cpus)
        found[cpus] = Topology(tuple(cpu for cpu in topology.cpus if cpu.id in ids))
    return found


def bare(scenario: Overhead, size: PlatformSize, host: tuple[int | None, HostBy] = (None, "")) -> Place:
    """The bare host that places of this size are compared with."""
    return Place("bare", "", PlatformSize(size.whole_cpus), scenario.threads, host=host[0], host_by=host[1])


def places(
    scenario: Overhead, size: PlatformSize, host: tuple[int | None, HostBy] = (None, "")
) -> tuple[Place, ...]:
    """Those of one size on one host, without what the scenario leaves out; none where the host is smaller."""
    made = dict.fromkeys(_every(scenario, size, host))
    return tuple(place for place in made if place.label not in scenario.without)


def _every(scenario: Overhead, size: PlatformSize, host: tuple[int | None, HostBy]) -> Iterator[Place]:
    if host[0] is None or size.cpus <= host[0]:
        for place in _settings(scenario, size):
            yield replace(place, host=host[0], host_by=host[1])


def _settings(scenario: Overhead, size: PlatformSize) -> Iterator[Place]:
    for kind in scenario.platforms:
        for provisioning in scenario.provisioning:
            if provisioning == "pinned":
                for placement in scenario.placements:
                    yield Place(kind, provisioning, size, scenario.threads, placement=placement)
                continue
            for period in scenario.periods:
                for burst in scenario.bursts:
                    yield Place(kind, provisioning, size, scenario.threads, period, burst)


def cannot(
    scenario: Overhead,
    topology: Topology | None = None,
    layout: Layout | None = None,
    release: str = "",
    fixed: Iterable[int] | None = None,
) -> dict[Place, str]:
    """The places that this host does not give, and why. The sizes are those of the scenario, and fit."""
    topology = Topology.read() if topology is None else topology
    of = wired(scenario, topology, fixed)
    release = release or platform.release()
    without_burst = ""
    if any(scenario.bursts):
        without_burst = bandwidth.no_burst(read_layout() if layout is None else layout, release)
    found: dict[Place, str] = {}
    for host, size in itertools.product(hosts(scenario), scenario.sizes):
        sets: list[tuple[str, Place]] = []
        for place in places(scenario, size, host):
            why = place.refused
            if place.provisioning == "vanilla":
                why = why or (without_burst if place.burst_us else "")
            else:
                other = next((p for kind, p in sets if kind == place.kind), None)
                sets.append((place.kind, place))
                why = why or ("" if other is None else _same(of[host[0]], other, place))
            if why:
                found[place] = why
    return found


def _same(topology: Topology, one: Place, other: Place) -> str:
    if not alike(topology, one.cpus(topology), other.cpus(topology)):
        return ""
    return f"of {len(topology.cpus)} CPUs wired as they are here, {one.placement} and {other.placement} are the same"


def told(cells: Mapping[Place, str]) -> tuple[str, ...]:
    """What is left out, a line for all sizes that are left out for one reason.

    >>> told({Place("vm", "vanilla", PlatformSize(n), period_us=10_000): "no quota" for n in (1, 2)})
    ('vm vanilla 10ms, 1 CPU, 2 CPUs: no quota',)
    """
    found: dict[tuple[str, str, str], list[str]] = {}
    for place, why in cells.items():
        found.setdefault((place.kind, place.how, why), []).append(place.sized)
    return tuple(f"{kind} {how}, {', '.join(sizes)}: {why}" for (kind, how, why), sizes in found.items())


def unknown(scenario: Overhead) -> Sequence[str]:
    """What the scenario leaves out and would not have had."""
    sizes = itertools.product(scenario.sizes, hosts(scenario))
    there = {place.label for size, host in sizes for place in _every(scenario, size, host)}
    return [name for name in scenario.without if name not in there]
