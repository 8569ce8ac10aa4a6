"""Run by the bed's own Python: `catalogue` tells keystone of the services, `furnish` makes what boots need. Idempotent.

On standard input a JSON object; for `catalogue` {"services": {type: [name, URL]}, "region": …, "password": that of
heat's domain administrator}.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

_BLANK = b"\0" * 1024
_DIGEST = "contend_digest"


def catalogue(services: dict[str, list[str]], region: str, password: str) -> None:
    """Tell keystone of the services, their endpoints at these URLs, roles, and heat's domain."""
    cloud = _connect()
    identity = cloud.identity
    known = {service.type: service.id for service in identity.services()}
    endpoints = {(e.service_id, e.interface): e for e in identity.endpoints()}
    for kind, (name, url) in services.items():
        service = known.get(kind) or identity.create_service(name=name, type=kind).id
        for interface in ("public", "internal", "admin"):
            endpoint = endpoints.get((service, interface))
            if endpoint is None:
                identity.create_endpoint(service_id=service, interface=interface, url=url, region_id=region)
            elif endpoint.url != url:
                identity.update_endpoint(endpoint, url=url)
    roles = {role.name: role.id for role in identity.roles()}
    for name in ("service", "heat_stack_owner", "heat_stack_user"):
        roles.setdefault(name, None)
        if roles[name] is None:
            roles[name] = identity.create_role(name=name).id
    for name in ("service", "heat_stack_owner"):
        identity.assign_project_role_to_user(cloud.current_project_id, cloud.current_user_id, roles[name])
    domain = identity.find_domain("heat") or identity.create_domain(name="heat")
    admin = identity.find_user("heat_domain_admin", domain_id=domain.id) or identity.create_user(
        name="heat_domain_admin", password=password, domain_id=domain.id
    )
    identity.assign_domain_role_to_user(domain.id, admin.id, roles["admin"])


def furnish(
    without: list[str],
    subnet: list[str],
    memory_mib: dict[str, int],
    guests: list[dict[str, Any]],
    backends: dict[str, int],
) -> None:
    """Flavours with so much memory, an image "blank" and those of real guests, a network "net" with a subnet (its addresses,
    the gateway's), a volume type "fake", and one of each backend.

    without: parts that the bed lacks; the catalogue knows them if it had them once. guests: of each its image's name, files
    (kernel, initramfs), their digest, the command line, and whom it lets in by key. backends: with the IOPS that a volume
    has at most, 0 for no limit, which the hypervisor sees to.
    """
    cloud = _connect()
    for name, ram in memory_mib.items():
        known = cloud.compute.find_flavor(name)
        if known and known.ram < ram:
            cloud.compute.delete_flavor(known)
            known = None
        if not known:
            # Rally asks for a disk of 1 GB; the fake driver takes none.
            cloud.compute.create_flavor(name=name, vcpus=1, ram=ram, disk=1)
    if not cloud.image.find_image("blank"):
        _image(cloud, "blank", "raw", "bare", data=_BLANK)
    for guest in guests:
        _guest(cloud, **guest)
    if "network" not in without and not cloud.network.find_network("net"):
        network = cloud.network.create_network(name="net", provider_network_type="local")
        cloud.network.create_subnet(
            network_id=network.id, ip_version=4, cidr=subnet[0], gateway_ip=subnet[1], enable_dhcp=False
        )
    if "volume" not in without and not cloud.block_storage.find_type("fake"):
        cloud.block_storage.create_type(name="fake", extra_specs={"volume_backend_name": "fake"})
    for name, iops in backends.items():
        _volume_type(cloud, name, iops)


def _volume_type(cloud: Any, name: str, iops: int) -> None:
    """Make the volume type of a backend. Its limit holds for volumes that are attached from now on."""
    storage = cloud.block_storage
    made = storage.find_type(name) or storage.create_type(
        name=name, extra_specs={"volume_backend_name": name}
    )
    specs = {entry["name"]: entry for entry in storage.get("/qos-specs").json()["qos_specs"]}
    known, wanted = specs.get(name), {"total_iops_sec": str(iops)}
    if known and (not iops or known["specs"] != wanted):
        storage.delete(f"/qos-specs/{known['id']}?force=true")
        known = None
    if iops and not known:
        body = {"qos_specs": {"name": name, "consumer": "front-end", **wanted}}
        known = storage.post("/qos-specs", json=body).json()["qos_specs"]
    if known:
        storage.get(f"/qos-specs/{known['id']}/associate?vol_type_id={made.id}")


def _guest(cloud: Any, name: str, files: list[str], digest: str, command_line: str, user: str) -> None:
    """An image of real guests, which boot a kernel and an initramfs; what there is of another digest goes first."""
    known = cloud.image.find_image(name)
    if known and known.properties.get(_DIGEST) == digest:
        return
    for part in (name, f"{name}-kernel", f"{name}-initramfs"):
        for hidden in (True, False):
            for image in cloud.image.images(name=part, is_hidden=hidden):
                cloud.image.delete_image(image)
    made = [
        _image(cloud, f"{name}-kernel", "aki", "aki", filename=files[0]),
        _image(cloud, f"{name}-initramfs", "ari", "ari", filename=files[1]),
    ]
    for image in made:  # not among what servers are made of
        cloud.image.update_image(image, is_hidden=True)
    _image(
        cloud,
        name,
        "raw",
        "bare",
        data=_BLANK,
        kernel_id=made[0].id,
        ramdisk_id=made[1].id,
        os_command_line=command_line,
        img_config_drive="mandatory",
        # Not on a host that fakes it.
        img_hv_type="qemu",
        **({"os_admin_user": user} if user else {}),
        **{_DIGEST: digest},
    )


def _image(cloud: Any, name: str, kind: str, container: str, **properties: Any) -> Any:
    return cloud.create_image(
        name,
        disk_format=kind,
        container_format=container,
        visibility="public",
        wait=True,
        validate_checksum=False,
        **properties,
    )


def _connect() -> Any:
    import openstack  # the bed's own, not that of whoever reads this module
    from keystoneauth1.exceptions import ClientException

    deadline = time.monotonic() + 60
    while True:
        try:
            cloud = openstack.connect()
            cloud.authorize()
        except (openstack.exceptions.SDKException, ClientException):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)
        else:
            return cloud


if __name__ == "__main__":
    wanted: dict[str, Callable[..., None]] = {"catalogue": catalogue, "furnish": furnish}
    wanted[sys.argv[1]](**json.load(sys.stdin))
