"""Hosts, subnets and instances as network namespaces: names, addresses, and the commands that wire them. Makes nothing.

    instance ── veth ── bridge of host a ── way ── bridge of host b ── veth ── instance
                              │ │
                     router (one port a subnet)

A host is a namespace with a bridge. The way between two hosts is a veth, or a vxlan over one. The router stands beside
host a, as a virtual router stands beside its tenant's instance: what goes from one subnet to another goes through it,
wherever its end is. All names and addresses are inside namespaces, so nothing of them meets the host's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from contend import names

Encapsulation = Literal["none", "vxlan", "ovs"]
Where = Literal["same", "different"]
ENCAPSULATIONS: tuple[Encapsulation, ...] = ("none", "vxlan", "ovs")
MOST_PAIRS = 64
HOST_A, HOST_B, ROUTER = "ha", "hb", "r"
ROUTER_PORTS = ("r1", "r2")  # one a subnet
BRIDGE, PORT, WAY, UNDERLAY = "br", "eth0", "way", "under"
# vxlan adds 50 bytes. The underlay takes larger frames, as the networks below clouds do, so that instances have the same
# MTU with it and without, and what differs is the work.
UNDERLAY_MTU = 1600
VXLAN_ID, VXLAN_PORT = 42, 4789
_ROLE = re.compile(r"h[ab]|r|i[0-9]+(c|[ab][12])")


@dataclass(frozen=True, slots=True)
class Ends:
    """The instances of one pair: its client and its server."""

    client: Instance
    server: Instance


@dataclass(frozen=True, slots=True)
class Instance:
    """A namespace on a host's bridge. pair: from 1; kind: `c` a client, `s` a server."""

    namespace: str
    host: Literal["a", "b"]
    subnet: Literal[1, 2]
    pair: int
    kind: Literal["c", "s"]

    @property
    def address(self) -> str:
        """The instance's address in the subnet's /16: 1 is a client, 2 a server on host a, 3 one on host b; then the pair.

        >>> Instance("n", "b", 2, 7, "s").address
        '10.202.3.7'
        """
        part = 1 if self.kind == "c" else 2 if self.host == "a" else 3
        return f"10.{200 + self.subnet}.{part}.{self.pair}"

    @property
    def port(self) -> str:
        """Name of the instance's port on the bridge.

        >>> Instance("n", "b", 2, 64, "s").port
        's64b2'
        """
        return f"{self.kind}{self.pair}{self.host}{self.subnet}"


@dataclass(frozen=True, slots=True)
class Layout:
    """One bed of a run: every encapsulation has its own."""

    run: str
    encapsulation: Encapsulation

    def name(self, role: str) -> str:
        """Name of a namespace.

        >>> Layout("r", "vxlan").name("ha")[-4:]
        '-1ha'
        """
        number = ENCAPSULATIONS.index(self.encapsulation)
        return f"{names.PREFIX}-{names.short_hash(self.run)}-{number}{role}"

    def owns(self, namespace: str) -> bool:
        """True if a namespace is of this bed.

        >>> of = Layout("r", "none")
        >>> [of.owns(of.name(role)) for role in ("ha", "r", "i3b1", "s")], of.owns(Layout("r", "ovs").name("ha"))
        ([True, True, True, False], False)
        """
        role = namespace.removeprefix(self.name(""))
        return role != namespace and _ROLE.fullmatch(role) is not None

    def frame(self) -> tuple[str, ...]:
        """Namespaces of the hosts and the router."""
        return self.name(HOST_A), self.name(HOST_B), self.name(ROUTER)

    def ends(self, pair: int, host: Where, subnet: Where) -> Ends:
        """Ends of the pair of that number, from 1. The client is always the same: on host a, in subnet 1."""
        return Ends(Instance(self.name(f"i{pair}c"), "a", 1, pair, "c"), self._server(pair, host, subnet))

    def _server(self, pair: int, host: Where, subnet: Where) -> Instance:
        at: Literal["a", "b"] = "a" if host == "same" else "b"
        of: Literal[1, 2] = 1 if subnet == "same" else 2
        return Instance(self.name(f"i{pair}{at}{of}"), at, of, pair, "s")

    def instances(self, pairs: int, host: Where, subnet: Where) -> Iterator[Instance]:
        """List the instances of so many pairs."""
        for pair in range(1, pairs + 1):
            ends = self.ends(pair, host, subnet)
            yield ends.client
            yield ends.server


def gateway(subnet: int) -> str:
    """The router's address in a subnet."""
    return f"10.{200 + subnet}.0.1"


def hosts_commands(layout: Layout) -> Iterator[tuple[str, list[str]]]:
    """(namespace, `ip` commands in it) of hosts, router and the way between the hosts, in order."""
    a, b, router = layout.frame()
    for host in (a, b):
        if layout.encapsulation != "ovs":  # whose bridge is a program's
            yield (
                host,
                [*_added(f"{BRIDGE} type bridge stp_state 0 forward_delay 0"), f"link set dev {BRIDGE} up"],
            )
    link = WAY if layout.encapsulation != "vxlan" else UNDERLAY
    yield a, [f"link add name {link} type veth peer name {link} netns {b}"]
    for host, own, other in ((a, "10.203.0.1", "10.203.0.2"), (b, "10.203.0.2", "10.203.0.1")):
        yield host, [f"link set dev {link} addrgenmode none", *_way(layout, own, other)]
    for subnet, port in enumerate(ROUTER_PORTS, start=1):
        yield (
            a,
            [f"link add name {port} type veth peer name {port} netns {router}", *_on_bridge(layout, port)],
        )
        yield router, [*_port(port), f"address add {gateway(subnet)}/16 dev {port}"]


def _way(layout: Layout, own: str, other: str) -> list[str]:
    if layout.encapsulation != "vxlan":
        return _on_bridge(layout, WAY)
    vxlan = f"{WAY} type vxlan id {VXLAN_ID} local {own} remote {other} dstport {VXLAN_PORT} dev {UNDERLAY}"
    return [
        f"link set dev {UNDERLAY} mtu {UNDERLAY_MTU}",
        f"address add {own}/30 dev {UNDERLAY}",
        f"link set dev {UNDERLAY} up",
        *_added(vxlan),
        f"link set dev {WAY} mtu 1500",
        *_on_bridge(layout, WAY),
    ]


def _added(device: str) -> list[str]:
    """Without an IPv6 address, whose housekeeping would be packets of its own."""
    return [f"link add name {device}", f"link set dev {device.split()[0]} addrgenmode none"]


def _on_bridge(layout: Layout, port: str) -> list[str]:
    master = [f"link set dev {port} master {BRIDGE}"] if layout.encapsulation != "ovs" else []
    return [f"link set dev {port} addrgenmode none", *master, f"link set dev {port} up"]


def _port(device: str) -> list[str]:
    return ["link set dev lo up", f"link set dev {device} addrgenmode none", f"link set dev {device} up"]


def instance_commands(layout: Layout, instance: Instance) -> Iterator[tuple[str, list[str]]]:
    """(namespace, `ip` commands in it) of one instance."""
    host = layout.name(HOST_A if instance.host == "a" else HOST_B)
    port = instance.port
    yield (
        host,
        [
            f"link add name {port} type veth peer name {PORT} netns {instance.namespace}",
            *_on_bridge(layout, port),
        ],
    )
    yield (
        instance.namespace,
        [
            *_port(PORT),
            f"address add {instance.address}/16 dev {PORT}",
            f"route add default via {gateway(instance.subnet)}",
        ],
    )
