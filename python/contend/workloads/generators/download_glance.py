"""`image-download-glance client | make | run | remove`: downloads from a cloud's own Glance.

The image is random, of the run's own, announced in its ledger before it is made, and uploaded once for all variants.
Clients get its URL at the cloud's endpoint and a token, on their stdin. Where Glance's processes are on this host, what
they used stands beside what the clients did, in ticks of 10 ms; what else serves a download (a web server before it,
keystone, the database) is in no figure. Where Glance speaks HTTP only, HTTPS is had by a proxy that is put before it for
the trial (`download_proxy`), whose time stands by itself.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from contend.clouds.access import Access
from contend.clouds.openstack import KINDS, unique_name
from contend.clouds.storm import roles
from contend.errors import BadInput, CannotHonour, HostFailed, TrialFailed
from contend.units import parse_fraction, parse_size_bytes
from contend.workloads.downloads.clients import Task
from contend.workloads.generators import download, download_proxy, verbs
from contend.workloads.generators.cloud import access_of, cloud_of
from contend.workloads.generators.download import trial
from contend.workloads.parameters_file import Placeholders

SERVICES = ("image",)
_IMAGE = KINDS["image"]
_TIMEOUT_S = 60.0  # of a silent Glance


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters(download.Parameters):
    """Parameters of the workload image-download-glance."""

    cloud: str


class RandomBytes:
    """A file of so many random bytes, to be read once. `sha512`: digest of what was read."""

    def __init__(self, size: int) -> None:
        self._left, self._size, self.sha512 = size, size, hashlib.sha512()

    def __len__(self) -> int:
        return self._size

    def read(self, most: int = -1) -> bytes:
        """Read up to `most` bytes.

        >>> some = RandomBytes(5); len(some.read(3)), len(some.read(3)), some.read(3)
        (3, 2, b'')
        """
        piece = os.urandom(min(self._left, 1 << 20 if most < 0 else most))
        self._left -= len(piece)
        self.sha512.update(piece)
        return piece


def main(arguments: list[str]) -> int:
    """Run a verb and return the exit code, the error's where it fails."""
    return verbs.run(
        arguments, Parameters, {"client": download.build, "make": _make, "run": _run, "remove": _remove}
    )


def _image(given: Parameters, at: Placeholders) -> Path:
    """File of what is known of the image, one for all variants of the run."""
    return at.work.parent / f"glance-{given.size}.json"


def _tls(at: Placeholders) -> Path:
    """Directory of the proxy's certificate, one for all variants of the run."""
    return at.work.parent / "glance-tls"


def _make(given: Parameters, at: Placeholders) -> None:
    """Upload the image, unless another variant of the run has; what a proxy needs, where one is asked for."""
    size = _size(given.size)
    if given.scheme == download_proxy.SCHEME:
        download_proxy.refuse_https(access_of(given.cloud, at, SERVICES).endpoint("image"))
        download_proxy.prepare(_tls(at))
    image = _image(given, at)
    known = _about(image)
    if known is not None and known["sha512"]:
        return
    authority_of(access_of(given.cloud, at, SERVICES))
    _remove(given, at)  # what an earlier attempt left half-way
    name = unique_name(at.run.name, f"image-{size}")
    with cloud_of(given.cloud, at, SERVICES, 1) as (cloud, record):
        wanted = {"disk_format": "raw", "container_format": "bare", "visibility": "private"}
        made = cloud.create(record, _IMAGE, name, wanted)
        about = {"id": str(made["id"]), "name": name, "size": size, "sha512": ""}
        image.write_text(json.dumps(about), encoding="utf-8")  # so that `remove` knows of it
        content = RandomBytes(size)
        upload(cloud.api.access, str(about["id"]), content)
        stored = cloud.api.request("GET", "image", f"{_IMAGE.path}/{made['id']}").json()
    if stored.get("status") != "active" or stored.get("size") != size:
        raise HostFailed(
            f"glance has {stored.get('size')} of {size} bytes, and calls the image '{stored.get('status')}'",
            hint="its log says why",
        )
    image.write_text(json.dumps({**about, "sha512": content.sha512.hexdigest()}), encoding="utf-8")


def _about(image: Path) -> dict[str, Any] | None:
    """Read what is known of the image; None while there is none. sha512: "" until all of it is uploaded."""
    try:
        document: dict[str, Any] = json.loads(image.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return document


def upload(access: Access, image: str, content: RandomBytes) -> None:
    """Upload the content of an image that has none yet. Raises HostFailed."""
    import requests  # which openstacksdk brings

    url = f"{access.endpoint('image')}{_IMAGE.path}/{image}/file"
    headers = {"X-Auth-Token": access.token, "Content-Type": "application/octet-stream"}
    try:
        answer = requests.put(
            url,
            data=content,  # a file with a length: what Glance gets has one too
            headers=headers,
            verify=access.verify,
            cert=access.certificate,  # type: ignore[arg-type]
            timeout=_TIMEOUT_S,
        )
    except requests.RequestException as error:
        raise HostFailed(
            f"the image cannot be uploaded: {type(error).__name__}", hint="glance's log says why"
        ) from error
    if answer.status_code != 204:
        raise HostFailed(
            f"glance does not take the image: {answer.status_code} {answer.reason}",
            hint="may this user upload so much? a smaller one: --set parameters.size=64M",
        )


def _run(given: Parameters, at: Placeholders) -> None:
    access, about = access_of(given.cloud, at, SERVICES), _about(_image(given, at))
    if about is None:
        raise TrialFailed("there is no image to download", hint="the run's `prepare` uploads it")
    task = Task(
        base=access.endpoint("image").removesuffix("/v2"),
        authority=authority_of(access),
        sha512=about["sha512"] if given.checksum == "sha512" else "",
        image=about["id"],
        token=access.token,
        cpu_max=parse_fraction(given.cpu_max) if given.cpu_max else None,
        programs=str(at.work),
    )
    size, server = about["size"], glance_cpu(access)
    if given.scheme == download_proxy.SCHEME:
        with download_proxy.before(
            task.base, _tls(at), at.work / "image-download-proxy.conf", at.out
        ) as proxy:
            task = replace(task, base=proxy.base, authority=proxy.authority)
            document = trial(given.client, task, size, given.to, given.at_once, at.out, server, proxy.cpu_s)
            download_proxy.check_passed(proxy, size * given.at_once)
    else:
        document = trial(given.client, task, size, given.to, given.at_once, at.out, server)
    print(json.dumps(document))


def glance_cpu(access: Access) -> Callable[[], float] | None:
    """A function that reads the CPU seconds of Glance's processes on this host; None where it runs elsewhere."""
    if not roles.is_here(access.endpoint("image")):
        return None
    ports = roles.ports({**access.catalogue, "image": access.endpoint("image")})
    began = roles.read(ports)
    if not any(used.role == "glance" for used in began.values()):
        return None
    return lambda: roles.between(began, roles.read(ports)).get("glance", 0.0)


def authority_of(access: Access) -> str:
    """Path of the certificate (PEM) that clients are to trust; "" for HTTP. Raises CannotHonour for what not every
    client can be told."""
    if not access.endpoint("image").startswith("https:"):
        return ""
    if access.certificate is not None:
        raise CannotHonour("a client's own certificate is not measured here", hint="see cert in clouds.yaml")
    if not isinstance(access.verify, str) or Path(access.verify).is_dir():
        raise CannotHonour(
            "clients are to be told whom to trust, by one file",
            hint="cacert: FILE in clouds.yaml, and verify: true",
        )
    return access.verify


def _remove(given: Parameters, at: Placeholders) -> None:
    """Once for all variants. What cannot be removed stays in the ledger, for `contend destroy`."""
    image = _image(given, at)
    about = _about(image)
    if about is None:
        return
    with cloud_of(given.cloud, at, SERVICES, 1) as (cloud, record):
        if late := cloud.clear(record, _IMAGE, (about["name"],)):
            raise TrialFailed(f"the image cannot be removed: {next(iter(late.values()))}")
    image.unlink()


def _size(text: str) -> int:
    size = parse_size_bytes(text)
    if size < 1:
        raise BadInput(f"an image of {text} is none", hint="--set parameters.size=512M")
    return size
