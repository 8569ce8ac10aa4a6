"""Where the cloud has put the instances of a run, read back, and whether that is what was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from contend.clouds.instances.topology import Spot, Topology
from contend.errors import HostFailed


class Placed(NamedTuple):
    """One instance. address: that the other end sends to; reach: that SSH goes to; host_id: nova's digest of project and
    host, the same for two of a project on one host; host: its name, "" for who may not see it; network: its name; key: the
    public key of its SSH server, "" before it was seen; emulated: its CPU is a program's."""

    id: str
    address: str
    reach: str
    host_id: str
    host: str
    network: str
    key: str = ""
    emulated: bool = False

    @property
    def where(self) -> str:
        """
        >>> Placed("i", "a", "a", "0123456789abcdef", "", "n").where
        'host 01234567'
        """
        return self.host or f"host {self.host_id[:8]}"


def read(item: Mapping[str, Any]) -> Placed:
    """Read a server as nova lists it. Raises HostFailed for one without an IPv4 address."""
    fixed, floating, network = _addresses(item)
    if not fixed:
        raise HostFailed(
            f"instance {item['name']} has no IPv4 address",
            hint="has its network a subnet, with addresses left?",
        )
    return Placed(
        str(item["id"]),
        fixed,
        floating or fixed,
        str(item.get("hostId") or ""),
        str(item.get("OS-EXT-SRV-ATTR:host") or ""),
        network,
    )


def has_floating(item: Mapping[str, Any]) -> bool:
    """True if nova knows a floating address of that server: neutron tells it a while after the address is the server's.

    >>> has_floating({"addresses": {"net": [{"addr": "10.0.0.3", "OS-EXT-IPS:type": "fixed"}]}})
    False
    """
    return bool(_addresses(item)[1])


def _addresses(item: Mapping[str, Any]) -> tuple[str, str, str]:
    """The first fixed and the first floating IPv4 address, and the network of the fixed one; "" for none."""
    fixed = floating = network = ""
    for name, addresses in (item.get("addresses") or {}).items():
        for address in addresses:
            if address.get("version", 4) != 4:
                continue
            if address.get("OS-EXT-IPS:type") == "floating":
                floating = floating or str(address["addr"])
            elif not fixed:
                fixed, network = str(address["addr"]), str(name)
    return fixed, floating, network


def check(topology: Topology, placed: Mapping[str, Placed]) -> None:
    """Check that each pair is placed as its cell says. Raises HostFailed."""
    for pair in range(1, topology.pairs + 1):
        for spot in topology.spots:
            check_pair(topology, placed, pair, spot)


def check_pair(topology: Topology, placed: Mapping[str, Placed], pair: int, spot: Spot) -> None:
    """Check that a pair is placed as the spot says. Raises HostFailed."""
    roles = topology.ends(pair, spot)
    client, server = placed[roles.client], placed[roles.server]
    for role, of in zip(roles, (client, server), strict=True):
        if not of.host_id:
            raise HostFailed(
                f"nova does not say on which host instance {role} is (hostId is empty)",
                hint="its placement cannot be verified, so nothing is measured",
            )
    together = client.host_id == server.host_id
    if spot.host != "any" and together != (spot.host == "same"):
        where = f"both on {client.where}" if together else f"on {client.where} and {server.where}"
        raise HostFailed(
            f"{roles.client} and {roles.server} are to be on {_HOSTS[spot.host]}, and the cloud has them {where}",
            hint=_HINTS[topology.means],
        )
    if (client.network == server.network) != (spot.subnet == "same"):
        raise HostFailed(
            f"{roles.client} and {roles.server} are to be in {spot.subnet} subnets, and are in {client.network} and"
            f" {server.network}",
            hint="networks with one subnet each: --set parameters.networks=ONE,OTHER",
        )


_HOSTS: Mapping[str, str] = {"same": "one host", "different": "different hosts"}
_HINTS: Mapping[str, str] = {
    "groups": "does the scheduler have ServerGroupAffinityFilter and ServerGroupAntiAffinityFilter?",
    "hints": "without SameHostFilter and DifferentHostFilter it ignores hints: --set parameters.means=groups",
    "hosts": "were they moved since? `means=hosts` takes an administrator",
}


def hosts_of(placed: Mapping[str, Placed], roles: Sequence[str]) -> list[str]:
    """Names of the hosts that these instances are on, or what stands for them; each once."""
    return list(dict.fromkeys(placed[role].where for role in roles))
