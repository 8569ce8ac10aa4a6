"""Images of a cloud's Glance: where one's content is, and what it must hash to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from contend.clouds.http import Api
from contend.clouds.login import login
from contend.errors import BadInput, HostFailed, UnknownName, suggest
from contend.fetch.order import ALGORITHMS, Checksum, Source

_ID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", re.IGNORECASE)


def find_image(name: str, cloud: str = "") -> Source:
    """Find an image by name or id. Logs in as clouds.yaml or OS_* say.

    Raises BadInput for an image that cannot be fetched, UnknownName where there is none, HostFailed where the cloud
    does not let us in or does not answer.
    """
    access = login(cloud, services=("image",))
    api = Api(access, connections=1)
    try:
        image = _image(api, name)
    finally:
        api.close()
    url = f"{access.endpoint('image')}/images/{image['id']}/file"
    return source_of(image, url, access.token, access.verify, access.certificate)


def source_of(
    image: Mapping[str, Any],
    url: str,
    token: str,
    verify: bool | str = True,
    certificate: tuple[str, str | None] | None = None,
) -> Source:
    """Make the source of an image as Glance describes it. Raises BadInput for one that has no content yet.

    >>> found = source_of({"id": "1", "name": "a", "status": "active", "checksum": "0" * 32}, "http://h", "t")
    >>> found.checksum.algorithm, found.file_name
    ('md5', 'a')
    """
    called = f"image {image.get('name') or image['id']}"
    if image.get("status") != "active":
        raise BadInput(
            f"{called} is '{image.get('status')}': its content is not there", hint="openstack image show"
        )
    name = re.sub(r"[^\w.+ -]", "_", str(image.get("name") or image["id"])).lstrip(".") or str(image["id"])
    suffix = "." + str(image.get("disk_format") or "")
    return Source(
        url=url,
        headers=(("X-Auth-Token", token),),
        checksum=_checksum(image),
        size=image.get("size"),
        verify=verify,
        certificate=certificate,
        name=called,
        file_name=name if suffix == "." or name.lower().endswith(suffix) else name + suffix,
    )


def _checksum(image: Mapping[str, Any]) -> Checksum | None:
    """The secure hash, else the older md5; None where Glance has neither, or one that is not known here."""
    algorithm, value = image.get("os_hash_algo"), image.get("os_hash_value")
    if algorithm in ALGORITHMS and value:
        return Checksum(str(algorithm), str(value))
    return Checksum("md5", str(image["checksum"])) if image.get("checksum") else None


def _image(api: Api, name: str) -> Mapping[str, Any]:
    if _ID.match(name):
        answer = api.request("GET", "image", f"/images/{name.lower()}", absent=True)
        if answer.status == 200:
            return dict(answer.json())
    images = _named(api, name)
    if not images:
        listed = api.request("GET", "image", "/images?" + urlencode({"limit": 200})).json()
        raise _unknown(name, [str(image.get("name")) for image in listed.get("images", ())])
    if len(images) > 1:
        ids = ", ".join(str(image["id"]) for image in images)
        raise BadInput(f"{len(images)} images are called '{name}'", hint=f"name one by its id: {ids}")
    return images[0]


def _named(api: Api, name: str) -> Sequence[Mapping[str, Any]]:
    # `in:"…"`, for names with commas, which would be operators' lists.
    wanted = 'in:"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"' if "," in name else name
    images = api.request("GET", "image", f"/images?name={quote(wanted, safe='')}").json().get("images")
    if not isinstance(images, list):
        raise HostFailed("the image service answers with no list of images", hint="is its endpoint right?")
    return [image for image in images if image.get("name") == name]


def _unknown(name: str, known: Sequence[str]) -> UnknownName:
    error = UnknownName("image", name, known)
    if not known:
        error.hint = "openstack image list shows what there is; a URL starts with http:// or https://"
    else:
        error.hint = suggest(name, known, "openstack image list")
    return error
