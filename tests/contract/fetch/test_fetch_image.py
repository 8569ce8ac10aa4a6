"""`contend fetch IMAGE`: by name and by id, verified by what Glance says of it, with the token for Glance alone."""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from support.image_servers import Fetch
from support.wire_servers import serving

CONTENT = bytes(range(256)) * 400
ID = "11111111-2222-3333-4444-555555555555"
QUEUED = "99999999-2222-3333-4444-555555555555"


class Cloud:
    """Keystone's and Glance's part in it, as their API references say."""

    def __init__(self, place: Path) -> None:
        self.url = ""
        self.place = place
        self.images: list[dict[str, Any]] = [
            _image(ID, "debian 13", os_hash_algo="sha512", os_hash_value=hashlib.sha512(CONTENT).hexdigest()),
            _image("2" + ID[1:], "twice"),
            _image("3" + ID[1:], "twice"),
            _image("4" + ID[1:], "a,b", checksum=hashlib.md5(CONTENT).hexdigest()),
            _image("5" + ID[1:], "wrong", os_hash_algo="sha256", os_hash_value="0" * 64),
            _image(QUEUED, "queued", status="queued"),
        ]

    def __call__(self, request: bytes) -> bytes:
        head, _, body = request.partition(b"\r\n\r\n")
        method, path = head.decode().split()[:2]
        if method == "POST":
            right = json.loads(body)["auth"]["identity"]["password"]["user"]["password"] == "right"
            return (
                _json(201, {"token": self._token()}, "X-Subject-Token: secret-token")
                if right
                else _json(401, {})
            )
        if path.rstrip("/") == "/v3":
            return _json(
                200, {"version": {"id": "v3.14", "status": "stable", "links": [_self(f"{self.url}/v3/")]}}
            )
        if b"X-Auth-Token: secret-token" not in head:
            return _json(401, {})
        parts = urlsplit(path)
        words = parts.path.split("/")[3:]
        if len(words) == 3:
            return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(CONTENT) + CONTENT
        if len(words) == 2:
            found = [image for image in self.images if image["id"] == words[1]]
            return _json(200, found[0]) if found else _json(404, {})
        name = parse_qs(parts.query).get("name", [""])[0].removeprefix('in:"').removesuffix('"')
        return _json(200, {"images": [image for image in self.images if name in ("", image["name"])]})

    def describe(self, password: str = "right") -> None:
        auth = {
            "auth_url": f"{self.url}/v3", "username": "me", "password": password, "project_name": "mine",
            "user_domain_name": "Default", "project_domain_name": "Default",
        }  # fmt: skip
        (self.place / "clouds.yaml").write_text(json.dumps({"clouds": {"mine": {"auth": auth}}}))

    def _token(self) -> dict[str, Any]:
        endpoint = {"interface": "public", "region": "one", "region_id": "one", "url": f"{self.url}/image/v2"}
        return {
            "expires_at": "2036-01-02T03:04:05.000000Z",
            "project": {"id": "p"},
            "catalog": [{"type": "image", "name": "glance", "endpoints": [endpoint]}],
        }


def _self(url: str) -> dict[str, str]:
    return {"rel": "self", "href": url}


def _image(id_: str, name: str, **more: Any) -> dict[str, Any]:
    described = {"id": id_, "name": name, "status": "active", "disk_format": "raw", "size": len(CONTENT)}
    return {**described, "checksum": None, **more}


def _json(status: int, told: object, *headers: str) -> bytes:
    content = json.dumps(told).encode()
    lines = [f"HTTP/1.1 {status} x", f"Content-Length: {len(content)}", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode() + content


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    made = Cloud(tmp_path)
    with serving(made, closes=True) as server:
        made.url = server.url
        made.describe()
        yield made


def test_by_name_and_by_id(cloud: Cloud, fetch: Fetch) -> None:
    said = fetch("debian 13", "--cloud", "mine").fine()
    assert "sha512 verified" in said.err
    assert (fetch.place / "debian 13.raw").read_bytes() == CONTENT
    fetch(ID, "-o", "x", env={"OS_CLOUD": "mine"}).fine()
    assert (fetch.place / "x").read_bytes() == CONTENT
    assert "md5 verified" in fetch("a,b", "--cloud", "mine", "-o", "y").fine().err
    assert fetch.left() == ["clouds.yaml", "debian 13.raw", "x", "y"]


def test_mistakes(cloud: Cloud, fetch: Fetch) -> None:
    fetch("debian", "--cloud", "mine").error(2, "no image is called 'debian'", "debian 13")
    fetch("twice", "--cloud", "mine").error(2, "2 images", "2" + ID[1:], "3" + ID[1:])
    fetch("queued", "--cloud", "mine").error(2, "'queued'")
    fetch("debian 13", "--cloud", "other").error(2, "other")
    fetch("debian 13", "--cloud", "mine", "--insecure").error(2, "clouds.yaml")
    fetch("wrong", "--cloud", "mine").error(1, "sha256 checksum")
    fetch("wrong", "--cloud", "mine", "--checksum", "none", "-o", "x").fine()
    assert fetch.left() == ["clouds.yaml", "x"]


def test_wrong_credentials(cloud: Cloud, fetch: Fetch) -> None:
    cloud.describe("wrong")
    said = fetch("debian 13", "--cloud", "mine")
    said.error(1, "does not let us in")
    assert "wrong" not in said.err


def test_a_cloud_that_is_not_there(cloud: Cloud, fetch: Fetch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        cloud.url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    cloud.describe()
    said = fetch("debian 13", "--cloud", "mine")
    said.error(1, "does not let us in")
    assert said.err.startswith("error: "), "what the library warns of does not stand above it"


def test_an_image_of_another_size_is_refused(cloud: Cloud, fetch: Fetch) -> None:
    cloud.images[0]["size"] = 5
    fetch("debian 13", "--cloud", "mine", "-o", "x").error(1, "102400 bytes, not 5")
    assert "x" not in fetch.left()


def test_what_asks_for_a_login_first_is_no_keystone(cloud: Cloud, fetch: Fetch) -> None:
    cloud.url += "/elsewhere"
    cloud.describe()
    fetch("debian 13", "--cloud", "mine").error(1, "answers 401 before a login", "auth_url")
