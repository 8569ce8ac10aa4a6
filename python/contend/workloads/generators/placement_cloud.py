"""`{native} network-placement-cloud prepare | run | finish`: pairs of instances of a cloud.

The first `prepare` of a run makes all of its instances and verifies where they are; `finish` removes all that the run has.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import zlib
from collections.abc import Mapping
from pathlib import Path

from contend.clouds.instances import placed, reach
from contend.clouds.instances.placed import Placed
from contend.clouds.instances.topology import Spot, Topology, read
from contend.units import parse_duration_ns, parse_size_bytes
from contend.workloads.generators import on_cloud, verbs
from contend.workloads.generators.on_cloud import STATE, Guests, State, Volumes, home
from contend.workloads.generators.placement import check


def main(arguments: list[str]) -> int:
    """The exit code: that of the error where there is one."""
    return verbs.interruptible(_parser(), arguments)


def _topology(given: argparse.Namespace) -> Topology:
    return read(
        places=given.places or Spot(given.host, given.subnet).short,
        pairs=max(given.most, given.pairs),
        means=given.means,
        zone=given.zone,
        hosts=given.hosts,
        networks=given.networks,
        cidrs=given.cidrs,
        external=given.external,
        install=given.install == "true",
    )


def _prepare(given: argparse.Namespace) -> None:
    check(given.protocol, given.message, "none", given.host)
    topology = _topology(given)

    def reached(guests: Guests, volumes: Volumes, way: reach.Way, within_s: float) -> tuple[Guests, Volumes]:
        return asyncio.run(_reached(guests, way, install=topology.install, within_s=within_s)), volumes

    on_cloud.prepare(given, topology, reached)


async def _reached(
    guests: Mapping[str, Placed], way: reach.Way, *, install: bool, within_s: float
) -> dict[str, Placed]:
    """All instances, once the benchmark can run in each. Raises HostFailed for the first that it cannot run in."""
    seen = await asyncio.gather(
        *(reach.ready(role, to, way, install=install, within_s=within_s) for role, to in guests.items())
    )
    return dict(zip(guests, seen, strict=True))


def _run(given: argparse.Namespace) -> None:
    from contend.clouds.instances import trial
    from contend.testbed.placement.trial import Traffic

    topology, spot = _topology(given), Spot(given.host, given.subnet)
    state = State.read(home(given) / STATE)
    guests = state.guests
    _still_there(given, topology, spot, state)
    seconds = parse_duration_ns(given.duration) / 1e9 / 2
    # Another in every trial: what a lost connection left there listens for a while.
    port = 20_000 + 2 * (zlib.crc32(f"{given.work.name} {given.seed}".encode()) % 5_000)
    asked = Traffic(given.protocol, given.message, seconds, given.rate, given.seed, port)
    ends = [topology.ends(pair, spot) for pair in range(1, given.pairs + 1)]
    pairs = [((c, guests[c]), (s, guests[s])) for c, s in ends]
    document = trial.run(pairs, asked, state.way(given))
    roles = [role for of in ends for role in of]
    document["emulated"] = sum(guests[role].emulated for role in roles) / len(roles)
    document["hosts"] = placed.hosts_of(guests, roles)
    given.out.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _still_there(given: argparse.Namespace, topology: Topology, spot: Spot, state: State) -> None:
    """The cell's pairs are where they were when the run began: clouds move instances. Raises HostFailed."""
    roles = [role for pair in range(1, given.pairs + 1) for role in topology.ends(pair, spot)]
    found = on_cloud.still_there(given, state, roles)
    for pair in range(1, given.pairs + 1):
        placed.check_pair(topology, found, pair, spot)
    on_cloud.not_moved(state, found)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="network-placement-cloud", description="Pairs of instances of a cloud, over hosts and subnets."
    )
    subparsers = parser.add_subparsers(required=True, metavar="prepare | run | finish")
    for name, act, about in (
        ("prepare", _prepare, "make the instances"),
        ("run", _run, "a trial"),
        ("finish", on_cloud.finish, "remove what the run made"),
    ):
        verb = subparsers.add_parser(name, help=about)
        verb.set_defaults(run_verb=act)
        on_cloud.add_run(verb)
        if name == "finish":
            continue
        _add_topology(verb)
        verb.add_argument("--protocol", choices=("tcp", "udp"), default="tcp")
        verb.add_argument("--message", type=parse_size_bytes, default=1400, help="bytes")
        on_cloud.add_ssh(verb)
        if act is _prepare:
            on_cloud.add_making(verb)
        else:
            verb.add_argument("--work", type=Path, required=True, help="the party's directory in its run")
            verb.add_argument("--for", dest="duration", default="10s", help="both halves together")
            verb.add_argument("--rate", type=float, default=500.0, help="requests a second of each pair")
            verb.add_argument("--seed", type=int, default=0)
            verb.add_argument("--out", type=Path, required=True, help="the trial's document goes here")
    return parser


def _add_topology(verb: argparse.ArgumentParser) -> None:
    for option in ("--host", "--subnet"):
        verb.add_argument(option, choices=("same", "different"), default="same")
    verb.add_argument("--places", default="", help="of the whole run, like ss,sd,ds,dd: host, subnet")
    verb.add_argument("--pairs", type=int, default=1)
    verb.add_argument("--most", type=int, default=1, help="pairs, of the whole run")
    on_cloud.add_means(verb)
