"""Storms of the laboratory drawn at random, each with one culprit that is known: by construction, and by measurement.

The demand of a resource is what it must do for the whole storm, one piece after the other: the storm cannot be shorter.
The culprit's is drawn first; every other resource gets a part of it at most.
"""

from __future__ import annotations

import dataclasses
import random
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from contend.workloads.drivers.storm_lab.options import Storm

# What a call costs beside the database's work: two messages over the broker.
CALL_MS = 4.0
# No other resource has more of the culprit's demand than this.
MOST_OTHER = 0.35

# What hunt may call the culprit: any of these parts, in a finding's resource.
RESOURCES: Mapping[str, tuple[str, ...]] = {
    "tracker": ("compute_resources",),
    "hypervisor": ("Hypervisor.lock",),
    "hashed": ("Worker.updates",),
    "builders": ("Compute.builders",),
    "chatty": ("instance_update",),
}
FIXES: Mapping[str, Mapping[str, object]] = {
    "tracker": {"hold_across_rpc": False},
    "hypervisor": {"hypervisor_lock": "instance"},
    "hashed": {"queues": "shared"},
    "builders": {"builders": 64},
    "chatty": {"send_noops": False},
}


@dataclass(frozen=True)
class Draw:
    """One storm, its culprit, and what each resource has to do in it (ms)."""

    seed: int
    culprit: str
    options: Storm
    demand_ms: Mapping[str, float]

    def fixed(self, fault: str) -> Storm:
        return dataclasses.replace(self.options, **FIXES[fault])  # type: ignore[arg-type]

    @property
    def largest(self) -> Storm:
        """With as many compute services as any draw has."""
        return dataclasses.replace(self.options, computes=2)

    @property
    def fixes(self) -> dict[str, Storm]:
        """What each fix makes of it, without those that change nothing."""
        found = {fault: self.fixed(fault) for fault in FIXES}
        return {fault: options for fault, options in found.items() if options != self.options}


def draw(seed: int) -> Draw:
    """The storm of that seed; culprits take turns, sizes are random."""
    chance = random.Random(f"storm/{seed}")
    culprit = tuple(RESOURCES)[seed % len(RESOURCES)]
    while True:
        options = _DRAWS[culprit](chance)
        demand = demands(options)
        others = [ms for fault, ms in demand.items() if fault != culprit]
        if max(others) <= MOST_OTHER * demand[culprit]:
            return Draw(seed, culprit, options, demand)


def demands(o: Storm) -> dict[str, float]:
    """What each resource must do for all boots of the host that has most of them, in ms; of calls, for one boot.

    Waiting for what is no resource's fault is the boot's own: the chatty one's demand is what its calls without need
    add to it.
    """
    boots = -(-o.jobs // o.computes)
    call = CALL_MS + o.update_ms + o.item_ms
    noops = o.noops if o.send_noops else 0
    sent = o.updates - o.noops + noops
    own = o.image_ms + o.network_ms + (sent + o.progress) * call
    own += o.hypervisor_calls * (o.hypervisor_ms + o.hypervisor_gap_ms)
    loads = [0.0] * o.workers
    if o.queues == "hashed":
        for number in range(o.jobs):
            key = f"host-{number % o.computes}" if o.key == "host" else f"instance-{number}"
            loads[zlib.crc32(key.encode()) % o.workers] += (sent + o.progress) * (o.update_ms + o.item_ms)
    fair = sum(loads) / o.workers
    return {
        "tracker": boots * (o.claim_ms + (sent * call if o.hold_across_rpc else 0.0)),
        "hypervisor": boots * o.hypervisor_calls * o.hypervisor_ms if o.hypervisor_lock == "global" else 0.0,
        "hashed": max(loads) - fair,
        "builders": boots * own / o.builders if boots > o.builders else 0.0,
        "chatty": noops * call,
    }


def _quiet(chance: random.Random, jobs: int, length_ms: float) -> Storm:
    """Nothing waits for anything much: what is there of each fault is a small part of the length."""
    computes = chance.choice((1, 1, 2))
    boots = -(-jobs // computes)
    calls = chance.randint(3, 8)
    share = chance.uniform(0.02, 0.2)
    return Storm(
        jobs=jobs,
        seed=chance.randrange(1000),
        computes=computes,
        image_ms=chance.uniform(40, 120),
        network_ms=chance.uniform(40, 120),
        hold_across_rpc=chance.random() < 0.5,
        claim_ms=chance.uniform(0.02, 0.15) * length_ms / boots,
        updates=chance.randint(2, 4),
        noops=chance.randint(0, 1),
        progress=chance.randint(1, 3),
        hypervisor_lock=chance.choice(("global", "instance")),
        hypervisor_calls=calls,
        hypervisor_ms=share * length_ms / boots / calls,
        queues=chance.choice(("shared", "hashed")),
        key="instance",
        workers=chance.randint(12, 24),
        update_ms=chance.uniform(3, 8),
        builders=64,
    )


def _tracker(chance: random.Random) -> Storm:
    length_ms = chance.uniform(1200, 1800)
    quiet = _quiet(chance, chance.randint(10, 16), length_ms)
    updates = chance.randint(3, 6)
    boots = -(-quiet.jobs // quiet.computes)
    call = (length_ms / boots - quiet.claim_ms) / updates
    return dataclasses.replace(
        quiet,
        hold_across_rpc=True,
        updates=updates,
        noops=chance.randint(0, updates // 3),
        update_ms=max(1.0, call - CALL_MS - quiet.item_ms),
        queues="shared",
    )


def _hypervisor(chance: random.Random) -> Storm:
    length_ms = chance.uniform(1200, 1800)
    quiet = _quiet(chance, chance.randint(10, 16), length_ms)
    calls = chance.randint(10, 40)
    boots = -(-quiet.jobs // quiet.computes)
    return dataclasses.replace(
        quiet,
        hypervisor_lock="global",
        hypervisor_calls=calls,
        hypervisor_ms=length_ms / boots / calls,
        hypervisor_gap_ms=chance.uniform(0.2, 1.0),
    )


def _hashed(chance: random.Random) -> Storm:
    length_ms = chance.uniform(1200, 1800)
    quiet = _quiet(chance, chance.randint(10, 16), length_ms)
    updates, progress = chance.randint(2, 5), chance.randint(1, 3)
    work = length_ms * quiet.computes / quiet.jobs / (updates + progress)
    return dataclasses.replace(
        quiet,
        hold_across_rpc=False,
        queues="hashed",
        key="host",
        workers=chance.randint(4, 12),
        updates=updates,
        noops=chance.randint(0, updates // 3),
        progress=progress,
        update_ms=max(2.0, work - quiet.item_ms),
    )


def _builders(chance: random.Random) -> Storm:
    length_ms = chance.uniform(1200, 1800)
    quiet = _quiet(chance, chance.randint(10, 16), length_ms)
    builders = chance.randint(1, 3)
    each = length_ms * builders * quiet.computes / quiet.jobs
    calls = (quiet.updates + quiet.progress) * (CALL_MS + quiet.update_ms + quiet.item_ms)
    rest = max(0.0, each - calls - quiet.hypervisor_calls * (quiet.hypervisor_ms + quiet.hypervisor_gap_ms))
    image = chance.uniform(0.3, 0.7)
    return dataclasses.replace(quiet, builders=builders, image_ms=rest * image, network_ms=rest * (1 - image))


def _chatty(chance: random.Random) -> Storm:
    length_ms = chance.uniform(900, 1300)
    quiet = _quiet(chance, chance.randint(5, 8), length_ms)
    updates = chance.randint(16, 28)
    noops = round(updates * chance.uniform(0.7, 0.85))
    return dataclasses.replace(
        quiet,
        hold_across_rpc=False,
        updates=updates,
        noops=noops,
        update_ms=length_ms / noops - CALL_MS - quiet.item_ms,
        queues="shared",
        workers=32,
    )


_DRAWS = {
    "tracker": _tracker,
    "hypervisor": _hypervisor,
    "hashed": _hashed,
    "builders": _builders,
    "chatty": _chatty,
}
