"""A run's cloud: one login for all of its trials, and the ids of images, flavours and networks by name.

A storm's client is started anew for each storm: what this imports is in what is measured.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from contend.clouds.access import Access
from contend.clouds.http import Api
from contend.clouds.login import SERVICES, kept, login
from contend.clouds.openstack import Cloud, Record, need_id, unique_name
from contend.errors import BadInput
from contend.names import short_hash
from contend.workloads.parameters_file import Placeholders

USER_PROPERTY = "os_admin_user"
"""The property in which an image names its user (glance's common image properties)."""


def access_file(work: Path, cloud: str) -> Path:
    """File of the token that a run keeps in the directory `work`, one for each cloud: a run may compare clouds."""
    return work / (f"cloud-access-{short_hash(cloud)}.json" if cloud else "cloud-access.json")


def access_of(cloud: str, at: Placeholders, services: Sequence[str] = SERVICES) -> Access:
    """The run's access to that cloud; a new login where it has none that is still valid. services: those that must be
    there."""
    return kept(access_file(at.work.parent, cloud), cloud, services)


@contextmanager
def cloud_of(
    cloud: str, at: Placeholders, services: Sequence[str] = SERVICES, connections: int = 4
) -> Iterator[tuple[Cloud, Record]]:
    """Open the run's cloud and its ledger while the block runs. connections: the most kept to each service."""
    access = access_of(cloud, at, services)

    def renew() -> Access:
        fresh = login(cloud, services=services)
        fresh.save(access_file(at.work.parent, cloud))
        return fresh

    from contend.store.state import ledger_of  # brings shutil, which logging in does without

    api, run = Api(access, renew, connections=connections), at.run
    try:
        with Record(ledger_of(run), run=run.name, cloud=access.cloud, config=access.config) as record:
            yield Cloud(api, run.name), record
    finally:
        api.close()


def trial_prefix(at: Placeholders) -> str:
    """Prefix of names of a trial's things, which no other trial has, nor an earlier attempt of this one."""
    return unique_name(at.run.name, f"{at.out.name.lstrip('0') or '0'}-{os.urandom(2).hex()}")


def server_of(api: Api, image: str, flavor: str, network: str) -> dict[str, Any]:
    """Make the body of a request for a server, ids for names. "" takes the only image, and the smallest flavour.

    network: `none`, `auto` (the cloud's choice), or a network's name. Raises HostFailed for what is not there.
    """
    flavors = api.request("GET", "compute", "/flavors/detail").json()["flavors"]
    if flavor:
        flavors = _called(flavor, flavors)
    else:
        flavors = sorted(flavors, key=lambda f: (f["ram"], f["vcpus"], f["disk"]))[:1]
    hint = "--set parameters.{0}=NAME; openstack {0} list shows them"
    networks: Any = network
    if network not in ("none", "auto"):
        known = api.request("GET", "network", "/networks?limit=500").json()["networks"]
        id_ = need_id(_called(network, known), "network", network, "--set network=[none,auto]")
        networks = [{"uuid": id_}]
    return {
        "imageRef": need_id(_images(api, image), "image", image or "(any)", hint.format("image")),
        "flavorRef": need_id(flavors, "flavour", flavor or "(any)", hint.format("flavor")),
        "networks": networks,
    }


def image_user(api: Api, image: str) -> str:
    """Name of the user that an image lets in by key; "" where there is no such image. Raises BadInput where it does not
    say."""
    images = _images(api, image)
    if len(images) != 1:
        return ""
    if user := str(images[0].get(USER_PROPERTY) or ""):
        return user
    raise BadInput(
        f"image '{images[0]['name']}' does not say as whom to log in (its property {USER_PROPERTY})",
        hint="--set parameters.user=debian, ubuntu, cloud-user, …",
    )


def _images(api: Api, image: str) -> list[dict[str, Any]]:
    """List active images of that name or id; "" means the only one there is."""
    images: list[dict[str, Any]] = api.request("GET", "image", "/images?status=active&limit=500").json()[
        "images"
    ]
    return images if not image and len(images) == 1 else _called(image, images)


def _called(name: str, things: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [thing for thing in things if name in (thing["name"], thing["id"])]
