"""Makes the instances of a run: by requests of its own, or as one stack of Heat. Each thing is in the ledger first."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from contend.clouds.http import Api
from contend.clouds.instances import heat, volumes
from contend.clouds.instances.placed import has_floating
from contend.clouds.instances.topology import Guest, Topology, rules, user_data
from contend.clouds.instances.volumes import Held
from contend.clouds.openstack import HINTS, KINDS, Cloud, Record, need_id
from contend.errors import HostFailed
from contend.store.ledger import leftovers

SERVER = KINDS["server"]
SERVICES = ("compute", "network", "image", "orchestration")
_POLL_S = 1.0
_OF_NETWORK = "--set parameters.networks=ONE or ONE,OTHER; openstack network list shows them"


class Wanted(NamedTuple):
    """The request for each instance. image, flavor: ids; public_key: as OpenSSH writes it, without a comment."""

    image: str
    flavor: str
    public_key: str


@dataclass(frozen=True)
class Maker:
    """Makes one run's resources on a cloud. prefix: how their names begin; within_s: how long it may take."""

    cloud: Cloud
    record: Record
    prefix: str
    topology: Topology
    within_s: float = 540.0
    sleep: Callable[[float], None] = time.sleep

    @property
    def _api(self) -> Api:
        return self.cloud.api

    def name(self, role: str) -> str:
        return f"{self.prefix}-{role}"

    def by_requests(self, wanted: Wanted) -> dict[str, dict[str, Any]]:
        """Make everything by requests: servers as nova lists them, by role, all ACTIVE, with their volumes. Raises
        RequestFailed, HostFailed."""
        until = time.monotonic() + self.within_s
        if self.topology.disks:  # what no backend has room for fails before servers are made
            volumes.make(self.cloud, self.record, self.name, self.topology)
            self._volumes("available", until)
        self._make("keypair", "key", {"public_key": wanted.public_key})
        access = self._access()
        networks = self._networks()
        groups = {
            role: str(self._make("server-group", role, {"policies": [policy]})["id"])
            for role, policy in self.topology.groups()
        }
        ids: dict[str, str] = {}
        for guest in self.topology.guests():
            port = self._make(
                "port", guest.role, {"network_id": networks[guest.subnet - 1], "security_groups": [access]}
            )
            body = self._server(guest, wanted, str(port["id"]))
            hints = self._hints(guest, groups, ids)
            ids[guest.role] = self._make_server(guest.role, body, hints)
            if self.topology.external:
                self._floating(guest.role, str(port["id"]))
        by_role = self.await_active()
        if self.topology.disks:
            servers = {role: str(item["id"]) for role, item in by_role.items()}
            volumes.attach(self.cloud, self.name, self.topology, servers)
            self._volumes("in-use", until, servers)
        return by_role

    def volumes(self) -> dict[str, Held]:
        """Volumes of the instances, by role, once all are attached. Raises HostFailed."""
        return self._volumes("in-use", time.monotonic() + self.within_s)

    def _volumes(
        self, state: str, until: float, servers: Mapping[str, str] = MappingProxyType({})
    ) -> dict[str, Held]:
        return volumes.await_all(
            self.cloud, self.name, self.topology, state, until, servers, sleep=self.sleep
        )

    def by_heat(self, wanted: Wanted) -> dict[str, dict[str, Any]]:
        """As `by_requests`, by one stack. Raises HostFailed with the reason that heat gives."""
        stack = KINDS["stack"]
        given = {"image": wanted.image, "flavor": wanted.flavor, "public_key": wanted.public_key}
        made = self.cloud.create(
            self.record,
            stack,
            self.name("stack"),
            {
                "template": heat.template(self.topology, self.prefix, self.cloud.run),
                "parameters": given,
                "timeout_mins": max(1, round(self.within_s / 60)),
                "disable_rollback": True,  # what failed stays to be told, and goes with the stack
            },
        )
        until = time.monotonic() + self.within_s
        while True:
            answer = self._api.request("GET", "orchestration", f"/stacks/{made['id']}").json()["stack"]
            state = str(answer["stack_status"])
            if state == "CREATE_COMPLETE":
                return self.await_active()
            if state.endswith("FAILED"):
                raise HostFailed(
                    f"heat cannot make the stack: {answer.get('stack_status_reason', state)}",
                    hint="the template is in the run's directory; --set parameters.by=requests makes it without heat",
                )
            self._not_after(until, f"the stack is {state}")

    def await_active(self) -> dict[str, dict[str, Any]]:
        """Wait until each server is ACTIVE, and nova knows its floating address if it is to have one. Raises HostFailed
        for one that fails."""
        roles = {self.name(guest.role): guest.role for guest in self.topology.guests()}
        until = time.monotonic() + self.within_s
        while True:
            by_role = {roles[str(item["name"])]: item for item in self.cloud.find(SERVER, roles)}
            for role, item in by_role.items():
                if item["status"] == "ERROR":
                    raise HostFailed(
                        f"instance {role} is in ERROR: {self._fault(item)}", hint=_hint(self.topology)
                    )
            what = "not ACTIVE"
            waiting = [role for role in roles.values() if by_role.get(role, {}).get("status") != "ACTIVE"]
            if not waiting and self.topology.external:
                what = "without a floating address"
                waiting = [role for role, item in by_role.items() if not has_floating(item)]
            if not waiting:
                return by_role
            self._not_after(until, f"{what}: {', '.join(waiting[:5])}")

    def _not_after(self, until: float, what: str) -> None:
        if time.monotonic() > until:
            raise HostFailed(
                f"after {self.within_s:g} s {what}", hint="a longer time: --set parameters.within=SECONDS"
            )
        self.sleep(_POLL_S)

    def _fault(self, item: Mapping[str, Any]) -> str:
        server = self._api.request("GET", "compute", f"/servers/{item['id']}").json()["server"]
        return str((server.get("fault") or {}).get("message") or "nova does not say why")[:300]

    def _make(self, kind: str, role: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
        return self.cloud.create(self.record, KINDS[kind], self.name(role), wanted)

    def _access(self) -> str:
        """The security group."""
        made = str(self._make("security-group", "access", {})["id"])
        for rule in rules():
            whose = {} if rule else {"remote_group_id": made}
            body = {**rule, **whose, "security_group_id": made, "direction": "ingress", "ethertype": "IPv4"}
            self._api.request("POST", "network", "/security-group-rules", body={"security_group_rule": body})
        return made

    def _networks(self) -> list[str]:
        """Ids, by subnet."""
        topology = self.topology
        if topology.networks:
            return [self._network(name) for name in topology.networks]
        networks, subnets = [], []
        for number in topology.subnets:
            networks.append(str(self._make("network", f"net{number}", {})["id"]))
            wanted = {
                "network_id": networks[-1],
                "ip_version": 4,
                "cidr": topology.cidrs[number - 1],
            }
            subnets.append(str(self._make("subnet", f"subnet{number}", wanted)["id"]))
        if topology.routed:
            outside = {}
            if topology.external:
                outside = {"external_gateway_info": {"network_id": self._network(topology.external)}}
            router = str(self._make("router", "router", outside)["id"])
            for subnet in subnets:
                path = f"/routers/{router}/add_router_interface"
                self._api.request("PUT", "network", path, body={"subnet_id": subnet})
        return networks

    def _network(self, name: str) -> str:
        known = self._api.request("GET", "network", "/networks?limit=500").json()["networks"]
        return need_id([n for n in known if name in (n["name"], n["id"])], "network", name, _OF_NETWORK)

    def _server(self, guest: Guest, wanted: Wanted, port: str) -> dict[str, Any]:
        body: dict[str, Any] = {
            "imageRef": wanted.image,
            "flavorRef": wanted.flavor,
            "key_name": self.name("key"),
            "networks": [{"port": port}],
        }
        if guest.zone:
            body["availability_zone"] = guest.zone
        if self.topology.install:
            body["user_data"] = base64.b64encode(user_data(self.topology.tools).encode()).decode()
        return body

    @staticmethod
    def _hints(guest: Guest, groups: Mapping[str, str], ids: Mapping[str, str]) -> dict[str, Any]:
        hints: dict[str, Any] = {}
        if guest.group:
            hints["group"] = groups[guest.group]
        if guest.beside:
            hints["same_host"] = [ids[guest.beside]]
        if guest.apart:
            hints["different_host"] = [ids[guest.apart]]
        return hints

    def _make_server(self, role: str, body: Mapping[str, Any], hints: Mapping[str, Any]) -> str:
        """Its id. Where a hint names another instance, that one has to be on its host already: nova looks where it is."""
        if "same_host" in hints or "different_host" in hints:
            self._await_hosts([*hints.get("same_host", ()), *hints.get("different_host", ())])
        request = {**body, HINTS: dict(hints)} if hints else body
        return str(self.cloud.create(self.record, SERVER, self.name(role), request)["id"])

    def _await_hosts(self, ids: Sequence[str]) -> None:
        until = time.monotonic() + self.within_s
        for id_ in ids:
            while True:
                server = self._api.request("GET", "compute", f"/servers/{id_}").json()["server"]
                if server["status"] == "ERROR":
                    raise HostFailed(
                        f"an instance is in ERROR: {self._fault(server)}", hint=_hint(self.topology)
                    )
                if server.get("hostId") and server["status"] == "ACTIVE":
                    break
                self._not_after(until, f"{server['name']} is {server['status']}")

    def _floating(self, role: str, port: str) -> None:
        outside = self._network(self.topology.external)
        self._make("floating-ip", role, {"floating_network_id": outside, "port_id": port})


def remove(cloud: Cloud, record: Record) -> dict[str, str]:
    """Remove everything of this cloud that the run's ledger holds; returns what stays, and why. Idempotent."""
    left: dict[str, str] = {}
    rows = leftovers(record.path)
    for kind in KINDS.values():
        names = [str(row["name"]) for row in rows if row["kind"] == kind.ledger]
        if names:
            there, late = cloud.remove(kind, names)
            left |= late
            # What was asked for and never answered may still come: `contend.clouds.removal` waits for it.
            open_ = {str(row["name"]) for row in rows if row["event"] == "intend"} - there
            record.removed(kind, [name for name in names if name not in late and name not in open_])
    return left


def _hint(topology: Topology) -> str:
    return {
        "groups": "anti-affinity takes as many hosts with room as a pair has ends: two; or fewer places: --set hosts=same",
        "hints": "the scheduler's filters SameHostFilter and DifferentHostFilter may lack hosts with room",
        "hosts": "is the host up, with room, in that zone? openstack hypervisor list",
    }[topology.means]
