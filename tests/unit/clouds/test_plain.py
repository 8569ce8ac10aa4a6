"""Logging in without openstacksdk: the same as it finds, or nothing, so that it is asked."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from contend.clouds import login, plain
from contend.clouds.access import Access
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

    def make(top: dict[str, Any] | None = None, auth: dict[str, Any] | None = None, **more: Any) -> Path:
        described = {
            "auth": {"auth_url": f"{keystone[0].url}/v3", **AUTH, **(auth or {})},
            "region_name": "one",
            **more,
        }
        file = tmp_path / "described.yaml"
        file.write_text(json.dumps({"clouds": {"mine": described}, **(top or {})}), encoding="utf-8")
        monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(file))
        return file

    return make


def both(cloud: str = "", config: str = "") -> tuple[Access | None, Access]:
    return plain.login(cloud, config, SERVICES), login._login(cloud, config, SERVICES)


@pytest.mark.parametrize(
    ("auth", "more"),
    [
        ({}, {}),
        (
            {},
            {"identity_api_version": "3", "auth_type": "v3password", "interface": "public", "verify": False},
        ),
        ({}, {"cacert": "/etc/ssl/mine.pem", "identity_api_version": 3}),
    ],
)
def test_the_same_as_openstacksdk_finds(
    write: Write, keystone: tuple[Keystone, Server], auth: dict[str, Any], more: dict[str, Any]
) -> None:
    file = write(auth=auth, **more)
    for named in ((), ("mine",), ("mine", str(file))):
        found, expected = both(*named)
        assert found is not None
        assert found._asdict() == expected._asdict()
    made = keystone[0]
    assert found.endpoints == {
        "compute": f"{made.url}/compute/v2.1", "network": f"{made.url}/network/v2.0", "image": f"{made.url}/image/v2",
    }  # fmt: skip
    assert found.fresh
    assert "abc" not in repr(found)


def test_login_does_without_openstacksdk(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write()
    monkeypatch.setattr(login, "_login", lambda *_: pytest.fail("openstacksdk was asked"))
    assert login.login("mine").project == "p1"


def test_a_wrong_password_is_tried_once(write: Write, keystone: tuple[Keystone, Server]) -> None:
    write(auth={"password": "other"})
    with pytest.raises(HostFailed, match="does not let us in") as caught:
        login.login("mine")
    assert "password" in caught.value.hint
    assert sum(request.startswith(b"POST") for request in keystone[1].requests) == 1


@pytest.mark.parametrize(
    ("top", "auth", "more"),
    [
        ({}, {}, {"profile": "vexxhost"}),
        ({}, {}, {"auth_type": "v3applicationcredential"}),
        ({}, {}, {"compute_endpoint_override": "http://other/"}),
        ({}, {}, {"regions": ["one", "two"]}),
        ({}, {}, {"identity_api_version": "2.0"}),
        ({}, {}, {"region_name": "{x}"}),
        ({}, {"auth_url": "http://127.0.0.1:5000"}, {}),
        ({}, {"domain_name": "x"}, {}),
        ({}, {"project_id": "p1"}, {}),
        ({}, {"user_domain_id": "x"}, {}),
        ({}, {"password": 7}, {}),
        ({"cache": {"auth": True}}, {}, {}),
        ({"public-clouds": {}}, {}, {}),
    ],
)
def test_what_is_not_plain_is_left_to_openstacksdk(
    write: Write, top: dict[str, Any], auth: dict[str, Any], more: dict[str, Any]
) -> None:
    write(top, auth, **more)
    assert plain.described("mine") is None


def test_what_adds_to_a_description_is_left_to_openstacksdk(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write()
    assert plain.described("mine") is not None
    assert plain.described("other") is None
    assert plain.described("mine", "/no/such/file") is None
    monkeypatch.setenv("OS_REGION_NAME", "two")
    assert plain.described("mine") is None
    assert plain.described("mine", str(file)) is not None, (
        "a recorded file is meant, whatever the environment says"
    )
    monkeypatch.delenv("OS_REGION_NAME")
    secrets = Path("home/openstack/secure.yaml")
    secrets.parent.mkdir(parents=True)
    secrets.write_text("clouds: {}")
    assert plain.described("mine") is None
    secrets.unlink()
    file.write_text("clouds: [")
    assert plain.described("mine") is None


def test_the_nearest_file_counts(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    text = write().read_text(encoding="utf-8")
    monkeypatch.delenv("OS_CLIENT_CONFIG_FILE")
    assert plain.described("mine") is None
    for place in ("home/openstack/clouds.yml", "clouds.yaml"):
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        Path(place).write_text(text, encoding="utf-8")
        found = plain.described("mine")
        assert found is not None
        assert Path(found.file) == Path(place).absolute()
    assert AUTH["password"] not in repr(found)


@pytest.mark.parametrize(
    ("kind", "path"), [("volumev3", "/volume/v3/abc"), ("compute", "/compute/v3"), ("image", "/nothing")]
)
def test_a_catalogue_that_is_not_plain(
    write: Write, keystone: tuple[Keystone, Server], kind: str, path: str
) -> None:
    write()
    keystone[0].entries[kind] = path
    assert plain.login("mine", "", SERVICES) is None


def test_what_keystone_says_otherwise(write: Write, keystone: tuple[Keystone, Server]) -> None:
    write()
    keystone[0].status = 300
    assert plain.login("mine", "", SERVICES) is None
    keystone[0].status = 403
    with pytest.raises(HostFailed):
        plain.login("mine", "", SERVICES)


def test_a_service_that_names_itself_otherwise_behind_a_proxy(
    write: Write, keystone: tuple[Keystone, Server]
) -> None:
    write()
    made = keystone[0]
    made.version = lambda id_, status, path: {  # type: ignore[method-assign]
        "id": id_, "status": status, "links": [{"rel": "self", "href": f"http://inside.invalid{path}"}]
    }  # fmt: skip
    assert plain.login("mine", "", SERVICES) is None


def test_tls_as_described(write: Write, tmp_path: Path) -> None:
    (tmp_path / "ca").mkdir()
    authority = Authority(tmp_path / "ca")
    made = Keystone()
    with serving(made, tls=authority.server("127.0.0.1")) as server:
        made.url = server.url
        write(auth={"auth_url": f"{server.url}/v3"}, cacert=str(authority.file))
        found = plain.login("mine", "", SERVICES)
        assert found is not None
        assert (found.token, found.verify) == ("abc", str(authority.file))
        write(auth={"auth_url": f"{server.url}/v3"})
        assert plain.login("mine", "", SERVICES) is None
