"""Cells of a placement study: each route, by protocol, message and pairs, against that within one host and subnet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from contend.clouds.instances.before import creation_lines
from contend.clouds.instances.topology import Spot, Topology, read
from contend.studies.cell import Cell, CellWorkload
from contend.studies.placement.conditions import condition_words, route_words
from contend.studies.placement.model import NetworkPlacement
from contend.workloads.instance import resolve
from contend.workloads.load import load as load_workload

ENDS = {"namespaces": "namespaces of one machine", "instances": "instances of a cloud"}
CONTROL = " (control)"


def cells(scenario: NetworkPlacement) -> tuple[Cell, ...]:
    workload = load_workload(scenario.placement_workload)
    of_run = _of_run(scenario)
    made: list[Cell] = []

    def add(route: dict[str, str], of: dict[str, str | int], baseline: str, *, control: bool = False) -> str:
        conditions = condition_words(str(of["protocol"]), int(of["message"]), int(of["pairs"]))
        where = route_words(route["host"], route["subnet"], route["encapsulation"])
        name = f"{where}{CONTROL if control else ''} | {conditions}"
        # The control is its baseline again, in the same namespaces.
        factor = {key: value for key, value in route.items() if key in workload.parameters}
        measured = CellWorkload(
            f"{where} | {conditions}", resolve(workload, {**scenario.parameters, **of_run, **factor, **of})
        )
        factors = {
            "variant": where + (CONTROL if control else ""),
            **route,
            **{key: str(value) for key, value in of.items()},
            "ends": ENDS[scenario.ends],
            **({"cloud": scenario.cloud} if scenario.cloud else {}),
            "platform": scenario.platform.kind,
        }
        numbers = {key: value for key, value in of.items() if isinstance(value, int)}
        made.append(Cell(name, measured, (), factors, baseline, control, numbers=numbers))
        return name

    for of in _conditions(scenario):
        first, *others = _routes(scenario)
        baseline = add(first, of, "")
        add(first, of, baseline, control=True)
        for route in others:
            add(route, of, baseline)
    return tuple(made)


def _conditions(scenario: NetworkPlacement) -> Iterator[dict[str, str | int]]:
    """Protocols and messages are crossed at the least number of pairs; more pairs have the first of each."""
    least, *more = sorted(set(scenario.pairs))
    protocols, messages = dict.fromkeys(scenario.protocols), dict.fromkeys(scenario.messages)
    for protocol in protocols:
        for message in messages:
            yield {"protocol": protocol, "message": message, "pairs": least}
    for pairs in more:
        yield {"protocol": scenario.protocols[0], "message": scenario.messages[0], "pairs": pairs}


def _routes(scenario: NetworkPlacement) -> Iterator[dict[str, str]]:
    """The baseline first. Within a host nothing is encapsulated."""
    for host in sorted(set(scenario.hosts), key=("same", "different").index):
        inside = host == "same" or scenario.cloud  # what is between its hosts is the cloud's own
        ways = ("none",) if inside else dict.fromkeys(scenario.encapsulation)
        for encapsulation in ways:
            for subnet in sorted(set(scenario.subnets), key=("same", "different").index):
                yield {"host": host, "subnet": subnet, "encapsulation": encapsulation}


def _of_run(scenario: NetworkPlacement) -> dict[str, str | int]:
    """Settings that every cell on a cloud needs of the others: the instances of all are made at once."""
    if not scenario.cloud:
        return {}
    spots = dict.fromkeys(Spot.read(p["host"][0] + p["subnet"][0]).short for p in _routes(scenario))
    return {"cloud": scenario.cloud, "places": ",".join(spots), "most": max(scenario.pairs)}


def topology_of(scenario: NetworkPlacement) -> tuple[Topology, dict[str, Any]]:
    """The instances that a run on a cloud makes, and the workload's parameters. Raises BadInput."""
    of = dict(cells(scenario)[0].victim.instance.parameters)
    texts = {
        key: str(of[key]) for key in ("places", "means", "zone", "hosts", "networks", "cidrs", "external")
    }
    return read(**texts, pairs=int(of["most"]), install=bool(of["install"])), of


def instance_lines(scenario: NetworkPlacement) -> Iterator[str]:
    """Lines on what a run on a cloud makes there, and the template where Heat makes it. Raises BadInput."""
    topology, parameters = topology_of(scenario)
    guests = topology.guests()
    made = [f"{len(guests)} instances ({', '.join(guest.role for guest in guests)})"]
    groups = len(list(topology.groups()))
    made += [f"{groups} server group{'s' if groups > 1 else ''}"] if groups else []
    yield from creation_lines(scenario.cloud, topology, parameters, made)
