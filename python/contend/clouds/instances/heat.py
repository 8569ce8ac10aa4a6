"""The topology of a run as a Heat template: what `parameters.by: heat` makes as one stack, and `--dry-run` prints.

Heat Orchestration Template, version 2018-08-31 (Rocky). Every instance has the name and the mark that it has when contend
makes it by itself, so that both are read back alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contend.clouds.instances.topology import Guest, Topology, Volume, rules, user_data
from contend.clouds.openstack import MARK

VERSION = "2018-08-31"
_PARAMETERS: Mapping[str, str] = {
    "image": "name or id",
    "flavor": "name or id",
    "public_key": "whose private key opens the instances",
}


def template(topology: Topology, prefix: str, run: str) -> dict[str, Any]:
    """prefix: what the names of its things begin with."""
    made: dict[str, Any] = {}

    def add(role: str, kind: str, properties: Mapping[str, Any], after: tuple[str, ...] = ()) -> None:
        waits = {"depends_on": list(after)} if after else {}
        made[role] = {"type": f"OS::{kind}", **waits, "properties": dict(properties)}

    add(
        "key",
        "Nova::KeyPair",
        {"name": f"{prefix}-key", "public_key": _given("public_key")},
    )
    add("access", "Neutron::SecurityGroup", {"name": f"{prefix}-access", "rules": _rules()})
    if not topology.networks:
        _networks(topology, prefix, add)
    for role, policy in topology.groups():
        add(role, "Nova::ServerGroup", {"name": f"{prefix}-{role}", "policies": [policy]})
    for guest in topology.guests():
        _guest(topology, guest, prefix, run, add)
    for volume in topology.volumes():
        _volume(volume, prefix, run, add)
    return {
        "heat_template_version": VERSION,
        "description": f"{MARK}={run}",
        "parameters": {name: {"type": "string", "description": about} for name, about in _PARAMETERS.items()},
        "resources": made,
    }


def text(made: Mapping[str, Any]) -> str:
    """A template as YAML, to be read and to be given to `openstack stack create`."""
    import yaml

    return yaml.safe_dump(dict(made), sort_keys=False, width=110)


def _networks(topology: Topology, prefix: str, add: Any) -> None:
    for number in topology.subnets:
        add(f"net{number}", "Neutron::Net", {"name": f"{prefix}-net{number}"})
        add(
            f"subnet{number}",
            "Neutron::Subnet",
            {
                "name": f"{prefix}-subnet{number}",
                "network": _of(f"net{number}"),
                "cidr": topology.cidrs[number - 1],
                "ip_version": 4,
            },
        )
    if topology.routed:
        outside = {"external_gateway_info": {"network": topology.external}} if topology.external else {}
        add("router", "Neutron::Router", {"name": f"{prefix}-router", **outside})
        for number in topology.subnets:
            add(
                f"way{number}",
                "Neutron::RouterInterface",
                {"router": _of("router"), "subnet": _of(f"subnet{number}")},
            )


def _guest(topology: Topology, guest: Guest, prefix: str, run: str, add: Any) -> None:
    own = not topology.networks
    network = _of(f"net{guest.subnet}") if own else topology.networks[guest.subnet - 1]
    port = f"port-{guest.role}"
    add(
        port,
        "Neutron::Port",
        {"name": f"{prefix}-{guest.role}", "network": network, "security_groups": [_of("access")]},
        (f"subnet{guest.subnet}",) if own else (),
    )
    hints: dict[str, Any] = {}
    if guest.group:
        hints["group"] = _of(guest.group)
    if guest.beside:
        hints["same_host"] = [_of(guest.beside)]
    if guest.apart:
        hints["different_host"] = [_of(guest.apart)]
    add(
        guest.role,
        "Nova::Server",
        {
            "name": f"{prefix}-{guest.role}",
            "image": _given("image"),
            "flavor": _given("flavor"),
            "key_name": _of("key"),
            "networks": [{"port": _of(port)}],
            "metadata": {MARK: run},
            **({"availability_zone": guest.zone} if guest.zone else {}),
            **({"scheduler_hints": hints} if hints else {}),
            # Else heat puts scripts of its own into each, and wants its CloudFormation service.
            "user_data_format": "RAW",
            **({"user_data": user_data(topology.tools)} if topology.install else {}),
        },
    )
    if topology.external:
        properties = {"floating_network": topology.external, "port_id": _of(port)}
        add(
            f"floating-{guest.role}",
            "Neutron::FloatingIP",
            properties,
            (f"way{guest.subnet}",) if topology.routed else (),
        )


def _volume(volume: Volume, prefix: str, run: str, add: Any) -> None:
    add(
        volume.role,
        "Cinder::Volume",
        {
            "name": f"{prefix}-{volume.role}",
            "size": volume.disk.gib,
            "volume_type": volume.disk.type,
            "metadata": {MARK: run},
        },
    )
    add(
        f"{volume.role}-attached",
        "Cinder::VolumeAttachment",
        {"instance_uuid": _of(volume.guest), "volume_id": _of(volume.role)},
    )


def _rules() -> list[dict[str, Any]]:
    return [
        {"remote_mode": "remote_group_id"} if not rule else {**rule, "remote_ip_prefix": "0.0.0.0/0"}
        for rule in rules()
    ]


def _of(role: str) -> dict[str, str]:
    return {"get_resource": role}


def _given(name: str) -> dict[str, str]:
    return {"get_param": name}
