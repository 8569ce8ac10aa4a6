"""Kinds of entities to grow on a cloud: what each needs first, what a request for one says, when one is there."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from contend.clouds.http import Api
from contend.clouds.openstack import KINDS, Cloud, Kind, Record, has_mark

SERVICES = ("compute", "network", "image", "block-storage", "identity")
"""Whose endpoints a pass may want."""

# Of each service a call that takes the same way in, and looks at no entities: its answer is a list of what it can do.
CONTROLS: Mapping[str, str] = {
    "compute": "/",
    "network": "/",
    "image": "/schemas/image",
    "block-storage": "/",
    "identity": "/",
}


@dataclass(frozen=True, slots=True)
class Growing:
    """How one kind is grown. needs: kinds of which one each is made first; ready: the state in which one is there, ""
    where that is so with the answer; paged: whether a listing can be asked for in pages."""

    kind: Kind
    needs: tuple[str, ...] = ()
    ready: str = ""
    paged: bool = True

    @property
    def control(self) -> str:
        return CONTROLS[self.kind.service]


GROWING: Mapping[str, Growing] = {
    growing.kind.name: growing
    for growing in (
        Growing(KINDS["network"]),
        Growing(KINDS["subnet"], needs=("network",)),
        Growing(KINDS["port"], needs=("network", "subnet")),
        Growing(KINDS["router"]),
        Growing(KINDS["security-group"]),
        Growing(KINDS["volume"], ready="available"),
        Growing(KINDS["server"], ready="ACTIVE"),
        Growing(KINDS["image"]),
        Growing(KINDS["user"], paged=False),
        Growing(KINDS["group"], paged=False),
        Growing(KINDS["project"], paged=False),
    )
}

# All subnets are of one network, all ports of one subnet; both have room for more than anybody will wait for.
_OF_SUBNETS = ipaddress.IPv4Address("10.0.0.0")
_ADDRESSES = 16  # of a subnet that is one of many
_OF_PORTS = "10.0.0.0/12"


@dataclass(frozen=True, slots=True)
class Base:
    """The entities that a tenant's others need: ids by kind, and what a server is to be."""

    ids: Mapping[str, str]
    server: Mapping[str, Any]

    def wanted(self, name: str, number: int) -> dict[str, Any]:
        """Body of the request for the `number`-th of a kind, but for its name and mark. Numbers are used once.

        >>> Base({"network": "n"}, {}).wanted("subnet", 3)["cidr"]
        '10.0.0.48/28'
        """
        if name == "subnet":
            cidr = f"{_OF_SUBNETS + _ADDRESSES * number}/{32 - _ADDRESSES.bit_length() + 1}"
            return {"network_id": self.ids["network"], "ip_version": 4, "cidr": cidr, "enable_dhcp": False}
        if name == "port":
            return {"network_id": self.ids["network"], "fixed_ips": [{"subnet_id": self.ids["subnet"]}]}
        if name == "image":  # a record without data
            return {"disk_format": "raw", "container_format": "bare", "visibility": "private"}
        if name == "user":  # who cannot log in
            return {"enabled": False}
        return {"volume": {"size": 1}, "server": dict(self.server)}.get(name, {})


def make_base(cloud: Cloud, record: Record, prefix: str, growing: Growing, server: Mapping[str, Any]) -> Base:
    """Make what the kind needs first. Raises RequestFailed."""
    ids: dict[str, str] = {}
    for name in growing.needs:
        wanted: dict[str, Any] = {}
        if name == "subnet":
            wanted = {"network_id": ids["network"], "ip_version": 4, "cidr": _OF_PORTS, "enable_dhcp": False}
        ids[name] = str(cloud.create(record, KINDS[name], f"{prefix}-base", wanted)["id"])
    return Base(ids, server)


def remove_base(cloud: Cloud, record: Record, prefix: str, growing: Growing) -> dict[str, str]:
    """Remove what `make_base` made; returns what could not be removed, and why."""
    left: dict[str, str] = {}
    for name in reversed(growing.needs):
        left |= cloud.clear(record, KINDS[name], (f"{prefix}-base",))
    return left


def remove_grown(cloud: Cloud, record: Record, prefix: str, growing: Growing) -> dict[str, str]:
    """Remove whatever there still is of the kind; what could not be, and why."""
    kind = growing.kind
    items = cloud.list(kind, f"{prefix}-")
    names = [name for item in items if has_mark(kind, item, name := str(item["name"]), cloud.run)]
    return cloud.clear(record, kind, names)


def states(cloud: Cloud, growing: Growing, prefix: str) -> dict[str, tuple[str, str]]:
    """Id and state, by name, of those whose names begin with the prefix."""
    return {
        str(item["name"]): (str(item["id"]), str(item.get("status") or ""))
        for item in cloud.list(growing.kind, prefix)
    }


def api_pool(workers: int, flood: int) -> int:
    """Connections that a pass may use at once."""
    return max(workers, flood) + 1


def can_ask(api: Api, growing: Growing) -> str:
    """Why the kind cannot be grown here, "" where its service is there."""
    service = growing.kind.service
    return "" if service in api.access.endpoints else f"the cloud has no {service} service"
