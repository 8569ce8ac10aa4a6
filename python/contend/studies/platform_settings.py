"""The platform settings of an overhead study: a platform of one size each, and what this host cannot give of them.

A platform setting is one combination of all that is varied: kind of platform, provisioning, size; of a quota its period
and burst; of a set of CPUs which it gets.
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
class PlatformSetting:
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
        """The provisioning, and those of its settings that are not the usual ones.

        >>> PlatformSetting("container", "vanilla", PlatformSize(1), period_us=10_000, burst_us=5_000).how
        'vanilla 10ms burst 5ms'
        >>> PlatformSetting("container", "pinned", PlatformSize(1), placement="spread").how
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
        The platform, its provisioning and its size, as in names of cells.

        >>> PlatformSetting("container", "pinned", PlatformSize(0.5)).label
        'container pinned 0.5 CPU'
        >>> PlatformSetting("bare", "", PlatformSize(1)).label
        'bare 1 CPU'
        """
        return " ".join(word for word in (self.kind, self.how, self.sized) if word)

    @property
    def sized(self) -> str:
        """The size in words, and of which host."""
        size = self.size.label
        return size if self.host is None else f"{size} {of_host(self.host, self.host_by)}"

    @property
    def values(self) -> SizedPlatform:
        """The setting as plan.json has it."""
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
        """Factors that identify its cell. period, burst and placement are left out where they are the usual ones."""
        factors = {
            "platform": self.kind,
            "provisioning": self.how or "none",
            "size": self.size.label,
            "cpus": f"{self.size.cpus:g}",
        }
        if self.period_us != PERIOD_US:
            factors["period"] = period_text(self.period_us)
        if self.burst_us:
            factors["burst"] = period_text(self.burst_us)
        if self.placement != "packed":
            factors["placement"] = self.placement
        if self.host is not None:
            factors |= {"host": str(self.host), "host_by": self.host_by}
        return factors

    @property
    def limit(self) -> Limit:
        """The CPU and memory limits: the quota of vanilla; of pinned only the quota for a fraction of a CPU, as sets have
        whole ones."""
        if self.kind == "bare":
            return Limit()
        memory = self.size.memory_bytes
        if self.provisioning == "vanilla":
            return Limit(self.size.cpus, memory, period_us=self.period_us, burst_us=self.burst_us)
        whole = self.size.cpus == self.size.whole_cpus
        return Limit(cpus=None if whole else self.size.cpus, memory_bytes=memory)

    @property
    def cpus_wanted(self) -> int | None:
        """The number of CPUs in its set; None for no set."""
        return None if self.provisioning == "vanilla" else self.size.whole_cpus

    def cpus(self, topology: Topology) -> tuple[int, ...]:
        """The set of CPUs of its size, whether or not it is pinned to it. topology: of its host. Raises CannotHonour."""
        choose = spread if self.placement == "spread" else pick
        return choose(topology, self.size.whole_cpus)

    @property
    def refused(self) -> str:
        """The reason why no host offers this; "" where one might."""
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
    """Sizes of the host in CPUs, the whole one first; one of None where the size is not varied."""
    if not scenario.hosts:
        return ((None, ""),)
    whole, *smaller = sorted(set(scenario.hosts), reverse=True)
    by: HostBy = "confined" if scenario.hosts_by == "confined" else "offline"
    return ((whole, "whole"), *((cpus, by) for cpus in smaller))


def wired(
    scenario: Overhead, topology: Topology, fixed: Iterable[int] | None = None
) -> dict[int | None, Topology]:
    """The topology of the host at each of its sizes. topology: of the whole host; fixed: CPUs that cannot go offline.
    Raises CannotHonour."""
    topologies: dict[int | None, Topology] = {}
    for cpus, by in hosts(scenario):
        ids = topology.ids
        if cpus is not None and by == "offline":
            ids = staying(topology, cpus, hotplug.fixed(topology.ids) if fixed is None else fixed)
        elif cpus is not None and by == "confined":
            ids = pick(topology, cpus)
        topologies[cpus] = Topology(tuple(cpu for cpu in topology.cpus if cpu.id in ids))
    return topologies


def bare(
    scenario: Overhead, size: PlatformSize, host: tuple[int | None, HostBy] = (None, "")
) -> PlatformSetting:
    """The bare host that platforms of this size are compared with."""
    return PlatformSetting(
        "bare", "", PlatformSize(size.whole_cpus), scenario.threads, host=host[0], host_by=host[1]
    )


def settings_on(
    scenario: Overhead, size: PlatformSize, host: tuple[int | None, HostBy] = (None, "")
) -> tuple[PlatformSetting, ...]:
    """Platform settings of one size on one host, without those that the scenario leaves out; none where the host is
    smaller."""
    made = dict.fromkeys(_every(scenario, size, host))
    return tuple(setting for setting in made if setting.label not in scenario.without)


def _every(
    scenario: Overhead, size: PlatformSize, host: tuple[int | None, HostBy]
) -> Iterator[PlatformSetting]:
    if host[0] is None or size.cpus <= host[0]:
        for setting in _settings(scenario, size):
            yield replace(setting, host=host[0], host_by=host[1])


def _settings(scenario: Overhead, size: PlatformSize) -> Iterator[PlatformSetting]:
    for kind in scenario.platforms:
        for provisioning in scenario.provisioning:
            if provisioning == "pinned":
                for placement in scenario.placements:
                    yield PlatformSetting(kind, provisioning, size, scenario.threads, placement=placement)
                continue
            for period in scenario.periods:
                for burst in scenario.bursts:
                    yield PlatformSetting(kind, provisioning, size, scenario.threads, period, burst)


def cannot(
    scenario: Overhead,
    topology: Topology | None = None,
    layout: Layout | None = None,
    release: str = "",
    fixed: Iterable[int] | None = None,
) -> dict[PlatformSetting, str]:
    """The platform settings that this host does not give, and why. The sizes are those of the scenario, and fit."""
    topology = Topology.read() if topology is None else topology
    of = wired(scenario, topology, fixed)
    release = release or platform.release()
    without_burst = ""
    if any(scenario.bursts):
        without_burst = bandwidth.no_burst(read_layout() if layout is None else layout, release)
    refusals: dict[PlatformSetting, str] = {}
    for host, size in itertools.product(hosts(scenario), scenario.sizes):
        sets: list[tuple[str, PlatformSetting]] = []
        for setting in settings_on(scenario, size, host):
            why = setting.refused
            if setting.provisioning == "vanilla":
                why = why or (without_burst if setting.burst_us else "")
            else:
                other = next((p for kind, p in sets if kind == setting.kind), None)
                sets.append((setting.kind, setting))
                why = why or ("" if other is None else _same(of[host[0]], other, setting))
            if why:
                refusals[setting] = why
    return refusals


def _same(topology: Topology, one: PlatformSetting, other: PlatformSetting) -> str:
    if not alike(topology, one.cpus(topology), other.cpus(topology)):
        return ""
    return f"of {len(topology.cpus)} CPUs wired as they are here, {one.placement} and {other.placement} are the same"


def refusal_lines(cells: Mapping[PlatformSetting, str]) -> tuple[str, ...]:
    """Lines on what is left out, one for all sizes that are left out for the same reason.

    >>> refusal_lines({PlatformSetting("vm", "vanilla", PlatformSize(n), period_us=10_000): "no quota" for n in (1, 2)})
    ('vm vanilla 10ms, 1 CPU, 2 CPUs: no quota',)
    """
    by_reason: dict[tuple[str, str, str], list[str]] = {}
    for setting, why in cells.items():
        by_reason.setdefault((setting.kind, setting.how, why), []).append(setting.sized)
    return tuple(f"{kind} {how}, {', '.join(sizes)}: {why}" for (kind, how, why), sizes in by_reason.items())


def unknown(scenario: Overhead) -> Sequence[str]:
    """Names in the scenario's `without` that match no platform setting."""
    sizes = itertools.product(scenario.sizes, hosts(scenario))
    there = {setting.label for size, host in sizes for setting in _every(scenario, size, host)}
    return [name for name in scenario.without if name not in there]
