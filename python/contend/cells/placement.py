"""Cells of where instances stand: each place, by protocol, message and pairs, against the same host and subnet."""

from __future__ import annotations

from collections.abc import Iterator

from contend.cells.base import Cell, Party
from contend.studies import NetworkPlacement
from contend.testbed.placement.words import condition_words, place_words
from contend.workloads.instance import resolve
from contend.workloads.load import load as load_workload

ENDS = {"namespaces": "namespaces of one machine"}
CONTROL = " (control)"


def cells(scenario: NetworkPlacement) -> tuple[Cell, ...]:
    workload = load_workload(scenario.workload)
    made: list[Cell] = []

    def add(place: dict[str, str], of: dict[str, str | int], baseline: str, *, control: bool = False) -> str:
        conditions = condition_words(str(of["protocol"]), int(of["message"]), int(of["pairs"]))
        where = place_words(place["host"], place["subnet"], place["encapsulation"])
        name = f"{where}{CONTROL if control else ''} | {conditions}"
        # The control is its baseline again, in the same namespaces.
        party = Party(f"{where} | {conditions}", resolve(workload, {**scenario.parameters, **place, **of}))
        factors = {
            "variant": where + (CONTROL if control else ""),
            **place,
            **{key: str(value) for key, value in of.items()},
            "ends": ENDS[scenario.ends],
            "platform": scenario.platform.kind,
        }
        made.append(Cell(name, party, (), factors, baseline, control))
        return name

    for of in _conditions(scenario):
        first, *others = _places(scenario)
        baseline = add(first, of, "")
        add(first, of, baseline, control=True)
        for place in others:
            add(place, of, baseline)
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


def _places(scenario: NetworkPlacement) -> Iterator[dict[str, str]]:
    """The baseline first. Within a host nothing is encapsulated."""
    for host in sorted(set(scenario.hosts), key=("same", "different").index):
        ways = dict.fromkeys(scenario.encapsulation) if host == "different" else ("none",)
        for encapsulation in ways:
            for subnet in sorted(set(scenario.subnets), key=("same", "different").index):
                yield {"host": host, "subnet": subnet, "encapsulation": encapsulation}
