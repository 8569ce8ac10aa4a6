"""Logging in by openstacksdk to a small keystone, and what of it requests then go by."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from contend.clouds.login import login
from contend.errors import HostFailed
from support.wire_servers import Authority, Server, serving

SERVICES = ("compute", "network", "image", "block-storage")
AUTH = {
    "username": "me", "password": "se{cr}et", "project_name": "mine",
    "user_domain_name": "Default", "project_domain_id": "default",
}  # fmt: skip


class Keystone:
    """With the other services' lists of versions on the same port."""

    def __init__(self) -> None:
        self.url = ""
        self.status = 201
        self.entries: dict[str, str] = {
            "compute": "/compute/v2.1", "network": "/network", "image": "/image/", "identity": "/v3",
        }  # fmt: skip

    def __call__(self, request: bytes) -> bytes:
        head, _, body = request.partition(b"\r\n\r\n")
        method, path = head.split()[:2]
        told, status, more = self.answer(method.decode(), path.decode(), body)
        content = json.dumps(told).encode()
        lines = [f"HTTP/1.1 {status} x", f"Content-Length: {len(content)}", *more, "", ""]
        return "\r\n".join(lines).encode() + content

    def answer(self, method: str, path: str, body: bytes) -> tuple[Any, int, list[str]]:
        if method == "POST":
            if json.loads(body)["auth"]["identity"]["password"]["user"]["password"] != AUTH["password"]:
                return {"error": {"message": "no", "code": 401}}, 401, []
            return {"token": self.token()}, self.status, ["X-Subject-Token: abc"]
        if path.startswith("/v3"):
            links = [{"rel": "self", "href": f"{self.url}/v3/"}]
            return (
                {"version": {"id": "v3.14", "status": "stable", "links": links, "media-types": []}},
                200,
                [],
            )
        if path.startswith("/network"):
            return {"versions": [self.version("v2.0", "CURRENT", "/network/v2.0/")]}, 200, []
        if path.startswith("/image"):
            of = [
                ("v2.17", "CURRENT", "/image/v2/"),
                ("v2.9", "SUPPORTED", "/image/v2.9/"),
                ("v1.1", "DEPRECATED", "/v1/"),
            ]
            return {"versions": [self.version(*one) for one in of]}, 300, []
        return {}, 404, []

    def version(self, id_: str, status: str, path: str) -> dict[str, Any]:
        return {"id": id_, "status": status, "links": [{"rel": "self", "href": self.url + path}]}

    def token(self) -> dict[str, Any]:
        catalogue = [
            {
                "type": kind,
                "name": kind,
                "id": kind,
                "endpoints": [
                    {"interface": interface, "region": region, "region_id": region, "id": f"{kind}{interface}{region}",
                     "url": self.url + path if (interface, region) == ("public", "one") else "http://elsewhere.invalid/"}
                    for region in ("two", "one") for interface in ("internal", "public")
                ],
            }
            for kind, path in self.entries.items()
        ]  # fmt: skip
        return {
            "methods": ["password"], "expires_at": "2036-01-02T03:04:05.000000Z", "issued_at": "2026-01-01T00:00:00Z",
            "user": {"id": "u", "name": "me", "domain": {"id": "default", "name": "Default"}},
            "project": {"id": "p1", "name": "mine", "domain": {"id": "default", "name": "Default"}},
            "roles": [], "catalog": catalogue,
        }  # fmt: skip


@pytest.fixture
def keystone() -> Iterator[tuple[Keystone, Server]]:
    made = Keystone()
    with serving(made) as server:
        made.url = server.url
        yield made, server


Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keystone: tuple[Keystone, Server]) -> Write:
    """A clouds.yaml with one cloud, as OS_CLIENT_CONFIG_FILE has it; nothing else of this host's counts."""
    for name in [name for name in os.environ if name.startswith("OS_")]:
        monkeypatch.delenv(name)
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def make(auth: dict[str, Any] | None = None, **more: Any) -> Path:
        described = {
            "auth": {"auth_url": f"{keystone[0].url}/v3", **AUTH, **(auth or {})},
            "region_name": "one",
            **more,
        }
        file = tmp_path / "described.yaml"
        file.write_text(json.dumps({"clouds": {"mine": described}}), encoding="utf-8")
        monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(file))
        return file

    return make


@pytest.mark.parametrize("verify", [True, False])
def test_endpoints_of_the_region_and_the_version(
    write: Write, keystone: tuple[Keystone, Server], monkeypatch: pytest.MonkeyPatch, verify: bool
) -> None:
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    monkeypatch.delenv("CURL_CA_BUNDLE", raising=False)
    file = write(verify=verify, interface="public")
    found, made = login("mine", services=SERVICES), keystone[0]
    assert found.endpoints == {
        "compute": f"{made.url}/compute/v2.1", "network": f"{made.url}/network/v2.0", "image": f"{made.url}/image/v2",
    }  # fmt: skip
    assert found == login("mine", str(file), SERVICES) == login("", services=SERVICES)
    assert (found.cloud, found.config, found.token, found.project) == ("mine", str(file), "abc", "p1")
    assert found.verify is False if not verify else Path(str(found.verify)).is_file()
    assert found.fresh
    assert "abc" not in repr(found)


def test_a_wrong_password_is_tried_once(write: Write, keystone: tuple[Keystone, Server]) -> None:
    write(auth={"password": "other"})
    with pytest.raises(HostFailed, match="does not let us in") as caught:
        login("mine")
    assert "password" in caught.value.hint
    assert sum(request.startswith(b"POST") for request in keystone[1].requests) == 1


def test_a_keystone_that_does_not_say_how_to_log_in(
    write: Write, keystone: tuple[Keystone, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    write()
    made = keystone[0]
    told = made.answer
    monkeypatch.setattr(
        made, "answer", lambda method, path, body: (
            ({}, 404, []) if (method, path) == ("GET", "/v3") else told(method, path, body)
        )
    )  # fmt: skip
    assert login("mine").token == "abc"
    unread = Keystone.__call__
    monkeypatch.setattr(
        Keystone, "__call__", lambda self, request: (
            b"no HTTP\r\n\r\n" if request.startswith(b"GET /v3 ") else unread(self, request)
        )
    )  # fmt: skip
    assert login("mine").token == "abc"


def test_tls_as_described(write: Write, tmp_path: Path) -> None:
    (tmp_path / "ca").mkdir()
    authority = Authority(tmp_path / "ca")
    made = Keystone()
    with serving(made, tls=authority.server("127.0.0.1")) as server:
        made.url = server.url
        write(auth={"auth_url": f"{server.url}/v3"}, cacert=str(authority.file))
        found = login("mine", services=SERVICES)
        assert (found.token, found.verify) == ("abc", str(authority.file))
        write(auth={"auth_url": f"{server.url}/v3"})
        with pytest.raises(HostFailed, match="does not let us in"):
            login("mine", services=SERVICES)
