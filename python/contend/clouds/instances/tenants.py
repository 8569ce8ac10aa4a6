"""Two instances that storage is measured from: the measured one and its neighbour's, each with a volume of every type.

    measured ── volume of type ssd        neighbour ── volume of type ssd
             └─ volume of type hdd                  └─ volume of type hdd

They are the ends of one pair in one subnet; where the neighbour's stands is asked for and read back as any server's is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from contend.clouds.instances.topology import Disk, Ends, Host, Spot, Topology, shared
from contend.errors import BadInput

MEASURED, NEIGHBOUR = "measured", "neighbour"
TOOLS = ("fio",)
HOSTS: tuple[Host, ...] = get_args(Host)


@dataclass(frozen=True, slots=True)
class Tenants(Topology):
    """A topology of one pair, by names of their own."""

    def ends(self, pair: int, spot: Spot) -> Ends:
        return Ends(MEASURED, NEIGHBOUR)


def read(*, disks: Sequence[Disk], neighbour_host: str, **more: Any) -> Tenants:
    """Read options; `more` is as in `topology.shared`. Raises BadInput.

    >>> of = read(disks=[Disk("ssd", "ssd", 1)], neighbour_host="different", means="groups")
    >>> [volume.role for volume in of.volumes()], list(of.groups())
    (['measured-ssd', 'neighbour-ssd'], [('g1-ds', 'anti-affinity')])
    """
    host = next((known for known in HOSTS if known == neighbour_host), None)
    if host is None:
        raise BadInput(f"neighbour_host: '{neighbour_host}' is not one of: {', '.join(HOSTS)}", hint="any")
    return Tenants((Spot(host, "same"),), 1, tools=TOOLS, disks=tuple(disks), **shared(**more))


def disks_of(text: str) -> tuple[Disk, ...]:
    """Read an option of a command, which is JSON: names of types hold whatever their makers liked.

    >>> disks_of(json.dumps([Disk("a", "a type, of mine", 2)]))
    (Disk(pool='a', type='a type, of mine', gib=2),)
    """
    return tuple(Disk(str(pool), str(type_), int(gib)) for pool, type_, gib in json.loads(text))
