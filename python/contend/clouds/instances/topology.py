"""The instances that a run wants on a cloud, in which networks, and what keeps them on one host or apart. Sends nothing.

    c1-ss ── net1 ── s1-ss         the first pair, same host, same subnet
    c1-sd ── net1 ── router ── net2 ── s1-sd

Every place of every pair has a server of its own, so that nothing moves between trials. By server groups it has a client
of its own too: an instance is in one group, and a group keeps all of its members together or all apart. Else a pair's
client is the same in all places, as it is in namespaces.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any, Literal, NamedTuple

from contend.errors import BadInput

Where = Literal["same", "different"]
Means = Literal["groups", "hints", "hosts"]
TOOLS = ("iperf3", "python3")
"""Programs that an end of a pair needs; packages are called as they are."""
MEANS: tuple[Means, ...] = ("groups", "hints", "hosts")
Host = Literal["same", "different", "any"]
CIDRS = ("10.201.0.0/24", "10.202.0.0/24")
POLICIES: dict[Host, str] = {"same": "affinity", "different": "anti-affinity"}


class Spot(NamedTuple):
    """Position of a pair's server, relative to its client. host: any is wherever the cloud puts it."""

    host: Host
    subnet: Where

    @property
    def short(self) -> str:
        """
        >>> Spot("same", "different").short
        'sd'
        """
        return self.host[0] + self.subnet[0]

    @classmethod
    def read(cls, short: str) -> Spot:
        """Parse a spot like `sd`. Raises BadInput.

        >>> Spot.read("ds")
        Spot(host='different', subnet='same')
        """
        letters: dict[str, Where] = {"s": "same", "d": "different"}
        if len(short) != 2 or not set(short) <= set(letters):
            raise BadInput(f"'{short}' is no place", hint="host and subnet: ss, sd, ds or dd")
        return cls(letters[short[0]], letters[short[1]])


class Guest(NamedTuple):
    """One instance. role: its name, but for the run's; subnet: 1 or 2; group: of which server group; beside, apart: the role
    on whose host it is to be, or is not to be; zone: availability zone, maybe with a host."""

    role: str
    subnet: int
    group: str = ""
    beside: str = ""
    apart: str = ""
    zone: str = ""


class Disk(NamedTuple):
    """A volume that every instance has. pool: its name, but for the run's and the instance's; type: of the cloud's."""

    pool: str
    type: str
    gib: int


class Volume(NamedTuple):
    """One volume. role: its name, but for the run's; guest: whose it is."""

    role: str
    guest: str
    disk: Disk


class Ends(NamedTuple):
    """Roles of a pair's client and server."""

    client: str
    server: str


@dataclass(frozen=True, slots=True)
class Topology:
    """The instances of a run. means: what places them; zone: of all; hosts: two `ZONE:HOST`, with means `hosts`; networks:
    those of the cloud to use, by subnet, none where the run makes its own with these addresses (`cidrs`); external: the
    network that floating addresses are of, "" for none; install: what guests lack comes from their distribution; tools:
    programs that they need; disks: volumes that each of them has."""

    spots: tuple[Spot, ...]
    pairs: int
    means: Means = "groups"
    zone: str = ""
    hosts: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    cidrs: tuple[str, ...] = CIDRS
    external: str = ""
    install: bool = False
    tools: tuple[str, ...] = TOOLS
    disks: tuple[Disk, ...] = ()

    def __post_init__(self) -> None:
        apart = any(spot.host == "different" for spot in self.spots)
        if self.means == "hosts" and any(spot.host == "any" for spot in self.spots):
            raise BadInput(
                "an instance that may be on any host is placed by none",
                hint="--set parameters.neighbour_host=same, or different",
            )
        if self.means == "hosts" and len(self.hosts) != 1 + apart:
            wanted = "two hosts" if apart else "one host"
            raise BadInput(
                f"these places need {wanted}, and `hosts` names {len(self.hosts)}",
                hint="--set parameters.hosts=nova:compute-1,nova:compute-2, as an administrator",
            )
        if self.means != "hosts" and self.hosts:
            raise BadInput("`hosts` names hosts, and nothing uses them", hint="--set parameters.means=hosts")
        if self.networks and len(self.networks) < len(self.subnets):
            raise BadInput(
                f"different subnets need two networks, and `networks` names {self.networks[0]} only",
                hint="--set parameters.networks=ONE,OTHER, joined by a router; or --set subnets=same",
            )
        if not self.networks:
            self._check_addresses()

    def _check_addresses(self) -> None:
        try:
            known = [IPv4Network(cidr) for cidr in self.cidrs]
        except ValueError as error:
            raise BadInput(f"`cidrs`: {error}", hint="like 10.201.0.0/24,10.202.0.0/24") from None
        if len(known) < len(self.subnets) or any(a.overlaps(b) for a, b in itertools.pairwise(known)):
            raise BadInput("`cidrs` are two that do not overlap", hint="like 10.201.0.0/24,10.202.0.0/24")

    @property
    def subnets(self) -> tuple[int, ...]:
        """
        >>> Topology((Spot("same", "same"),), 1).subnets
        (1,)
        """
        return (1, 2) if any(spot.subnet == "different" for spot in self.spots) else (1,)

    @property
    def routed(self) -> bool:
        """True if the run makes a router: between its own subnets, or to the outside."""
        return not self.networks and (len(self.subnets) > 1 or self.external != "")

    def ends(self, pair: int, spot: Spot) -> Ends:
        """
        >>> Topology((Spot("same", "same"),), 1).ends(2, Spot("same", "different"))
        Ends(client='c2-sd', server='s2-sd')
        >>> Topology((Spot("same", "same"),), 1, "hints").ends(2, Spot("same", "different"))
        Ends(client='c2', server='s2-sd')
        """
        own = f"-{spot.short}" if self.means == "groups" else ""
        return Ends(f"c{pair}{own}", f"s{pair}-{spot.short}")

    def groups(self) -> Iterator[tuple[str, str]]:
        """Role and policy of each server group: one for each spot and pair."""
        if self.means == "groups":
            for pair in range(1, self.pairs + 1):
                for spot in (s for s in self.spots if s.host != "any"):
                    yield f"g{pair}-{spot.short}", POLICIES[spot.host]

    def guests(self) -> tuple[Guest, ...]:
        """All instances, each after those that it is to be beside or apart from."""
        by_role: dict[str, Guest] = {}
        for pair in range(1, self.pairs + 1):
            for spot in self.spots:
                client, server = self.ends(pair, spot)
                grouped = self.means == "groups" and spot.host != "any"
                group = f"g{pair}-{spot.short}" if grouped else ""
                by_role.setdefault(client, Guest(client, 1, group, zone=self._zone("same")))
                hinted = client if self.means == "hints" else ""
                by_role[server] = Guest(
                    server,
                    1 if spot.subnet == "same" else 2,
                    group,
                    beside=hinted if spot.host == "same" else "",
                    apart=hinted if spot.host == "different" else "",
                    zone=self._zone(spot.host),
                )
        return tuple(sorted(by_role.values(), key=lambda guest: guest.role[0]))  # clients first

    def volumes(self) -> tuple[Volume, ...]:
        """The volumes of all instances."""
        return tuple(
            Volume(f"{guest.role}-{disk.pool}", guest.role, disk)
            for guest in self.guests()
            for disk in self.disks
        )

    def _zone(self, host: Host) -> str:
        if self.means != "hosts":
            return self.zone
        return self.hosts[0] if host == "same" else self.hosts[1]


def read(*, places: str, pairs: int, **more: Any) -> Topology:
    """Read options; `more` is as in `shared`. Raises BadInput.

    >>> read(places="ss,dd", pairs=1, means="hosts", hosts="nova:a,nova:b").guests()[-1].zone
    'nova:b'
    """
    return Topology(tuple(Spot.read(short) for short in listed(places)), pairs, **shared(**more))


def shared(
    *,
    means: str,
    zone: str = "",
    hosts: str = "",
    networks: str = "",
    cidrs: str = "",
    external: str = "",
    install: bool = False,
) -> dict[str, Any]:
    """Fields of every topology, by name; lists are parted by commas. Raises BadInput."""
    if means not in MEANS:
        raise BadInput(f"means: '{means}' is not one of: {', '.join(MEANS)}", hint="groups is the default")
    return {
        "means": means,
        "zone": zone,
        "hosts": listed(hosts),
        "networks": listed(networks),
        "cidrs": listed(cidrs) if cidrs else CIDRS,
        "external": external,
        "install": install,
    }


def listed(text: str) -> tuple[str, ...]:
    """Split at commas.

    >>> listed("one, other,"), listed("")
    (('one', 'other'), ())
    """
    return tuple(part.strip() for part in text.split(",") if part.strip())


def user_data(tools: Sequence[str]) -> str:
    """The user data for cloud-init, which most distributions' images have.

    >>> user_data(["fio"])
    '#cloud-config\\npackage_update: true\\npackages: [fio]\\n'
    """
    return f"#cloud-config\npackage_update: true\npackages: [{', '.join(tools)}]\n"


def rules() -> tuple[dict[str, Any], ...]:
    """Rules of the security group: SSH and ping from anywhere; for the empty one, anything from another of the group."""
    return (
        {"protocol": "tcp", "port_range_min": 22, "port_range_max": 22},
        {"protocol": "icmp"},
        {},
    )
