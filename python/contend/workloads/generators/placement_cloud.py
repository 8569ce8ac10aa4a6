"""`{native} network-placement-cloud prepare | run | finish`: pairs of instances of a cloud.

The first `prepare` of a run makes all of its instances and verifies where they are; `finish` removes all that the run has.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from contend.clouds.instances import placed, reach
from contend.clouds.instances.placed import Placed
from contend.clouds.instances.topology import Spot, Topology, Where, read
from contend.platforms.guests.respond import Protocol
from contend.workloads.generators import on_cloud, verbs
from contend.workloads.generators.on_cloud import STATE, Guests, Making, State, Volumes, home
from contend.workloads.generators.placement import check
from contend.workloads.parameters_file import Placeholders


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters(Making):
    """Parameters of the workload network-placement-cloud."""

    host: Where
    subnet: Where
    protocol: Protocol
    message: int
    pairs: int
    rate: float
    places: str
    most: int


def main(arguments: list[str]) -> int:
    """Run a verb and return the exit code, the error's where it fails."""
    return verbs.interruptible(
        arguments, Parameters, {"prepare": _prepare, "run": _run, "finish": on_cloud.finish}
    )


def _topology(given: Parameters) -> Topology:
    return read(
        places=given.places or Spot(given.host, given.subnet).short,
        pairs=max(given.most, given.pairs),
        **given.shared(),
    )


def _prepare(given: Parameters, at: Placeholders) -> None:
    check(given.protocol, given.message, "none", given.host)
    topology = _topology(given)

    def reached(guests: Guests, volumes: Volumes, way: reach.Way, within_s: float) -> tuple[Guests, Volumes]:
        return asyncio.run(_reached(guests, way, install=topology.install, within_s=within_s)), volumes

    on_cloud.prepare(given, at, topology, reached)


async def _reached(
    guests: Mapping[str, Placed], way: reach.Way, *, install: bool, within_s: float
) -> dict[str, Placed]:
    """All instances, once the benchmark can run in each. Raises HostFailed for the first that it cannot run in."""
    seen = await asyncio.gather(
        *(reach.ready(role, to, way, install=install, within_s=within_s) for role, to in guests.items())
    )
    return dict(zip(guests, seen, strict=True))


def _run(given: Parameters, at: Placeholders) -> None:
    from contend.workloads.drivers.placement import instances as trial
    from contend.workloads.drivers.placement.trial import Traffic

    topology, spot = _topology(given), Spot(given.host, given.subnet)
    state = State.read(home(at) / STATE)
    guests = state.guests
    _still_there(given, at, topology, spot, state)
    # Another in every trial: what a lost connection left there listens for a while.
    port = 20_000 + 2 * (zlib.crc32(f"{at.work.name} {at.seed}".encode()) % 5_000)
    traffic = Traffic(given.protocol, given.message, at.seconds / 2, given.rate, at.seed, port)
    ends = [topology.ends(pair, spot) for pair in range(1, given.pairs + 1)]
    pairs = [((c, guests[c]), (s, guests[s])) for c, s in ends]
    document = trial.run(pairs, traffic, state.way(given, at))
    roles = [role for of in ends for role in of]
    document["emulated"] = sum(guests[role].emulated for role in roles) / len(roles)
    document["hosts"] = placed.hosts_of(guests, roles)
    (at.out / "placement.json").write_text(
        json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8"
    )


def _still_there(given: Parameters, at: Placeholders, topology: Topology, spot: Spot, state: State) -> None:
    """The cell's pairs are where they were when the run began: clouds move instances. Raises HostFailed."""
    roles = [role for pair in range(1, given.pairs + 1) for role in topology.ends(pair, spot)]
    instances = on_cloud.still_there(given, at, state, roles)
    for pair in range(1, given.pairs + 1):
        placed.check_pair(topology, instances, pair, spot)
    on_cloud.not_moved(state, instances)
