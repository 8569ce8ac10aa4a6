"""Stand-ins for a cloud's services, held to what real ones answered (tests/data/recorded, by scripts/record_tools.py)."""

from __future__ import annotations

import base64
import json
import os
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support import glance_answers
from support.prerequisites import need
from support.small_cloud import small_cloud

REAL: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "data/recorded/openstack.json").read_text(encoding="utf-8")
)
KINDS = {bool: "truth", int: "number", float: "number", str: "text", type(None): "nothing"}
# Of nobody; RFC 8709, 4.
KEY = "ssh-ed25519 " + base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0 " + bytes(range(32))).decode()
# Their keys are names that the user chose.
OF_A_USER = frozenset({"addresses", "metadata"})
# Of an image: a property that its owner gave it.
GIVEN = frozenset({".os_admin_user", ".images.os_admin_user"})


def differences(ours: Any, real: Any, at: str = "") -> list[str]:
    """Where an answer of a stand-in has what the real one had not, or has another kind of it."""
    if real == "nothing":  # for this one there was none
        return [] if not isinstance(ours, dict | list) else [f"{at}: something, not nothing"]
    if isinstance(ours, dict) and isinstance(real, dict):
        if at.rpartition(".")[2] in OF_A_USER and real:
            real = dict.fromkeys(ours, next(iter(real.values())))
        return [
            wrong
            for key, value in ours.items()
            if f"{at}.{key}" not in GIVEN
            for wrong in (
                differences(value, real[key], f"{at}.{key}")
                if key in real
                else [f"{at}.{key}: not in the real one"]
            )
        ]
    if isinstance(ours, list) and isinstance(real, list):
        return [wrong for value in ours if real for wrong in differences(value, real[0], at)]
    found = KINDS.get(type(ours), type(ours).__name__)
    return [] if found == real else [f"{at}: {found}, not {real}"]


def held(name: str, status: int, headers: Mapping[str, str], body: bytes) -> Any:
    """The answer as JSON, where it is such. Fails where it is not as the real one answered to the same."""
    real = REAL[name]
    assert status == real["status"], name
    # Nothing of contend follows a location.
    assert {"x-subject-token"} & set(real["headers"]) <= set(map(str.lower, headers)), name
    of_json = headers.get("Content-Type", "").startswith("application/json") and body
    told = json.loads(body) if of_json else None
    if real["body"] != "nothing":
        assert not differences(told, real["body"]), name
    return told


def test_what_differs_is_seen() -> None:
    real = {"server": {"id": "text", "addresses": {"net": [{"addr": "text"}]}, "of": "nothing", "tags": []}}
    for fits in (
        {"server": {"id": "a"}},
        {"server": {"addresses": {"other": [{"addr": "a"}]}, "of": 1, "tags": [7]}},
    ):
        assert differences(fits, real) == []
    for other, wrong in (
        ({"server": {"id": 1}}, ".server.id: number, not text"),
        ({"server": {"name": "a"}}, ".server.name: not in the real one"),
        (
            {"server": {"addresses": {"net": [{"port": 1}]}}},
            ".server.addresses.net.port: not in the real one",
        ),
        ({"server": []}, ".server: list, not {"),
    ):
        assert [each[: len(wrong)] for each in differences(other, real)] == [wrong]


def test_the_small_cloud_answers_as_a_cloud_does(tmp_path: Path) -> None:
    need(os.geteuid() == 0, "root: for loop devices and mount namespaces")
    asked = set()
    with small_cloud(tmp_path) as cloud:

        def ask(name: str, method: str, path: str, body: Any = None) -> Any:
            data = None if body is None else json.dumps(body).encode()
            opener = urllib.request.build_opener(Plain)
            with opener.open(
                urllib.request.Request(cloud.url + path, data, method=method), timeout=60
            ) as answer:
                asked.add(name)
                return held(name, answer.status, dict(answer.headers.items()), answer.read())

        ask("keystone", "GET", "/v3")
        ask("login", "POST", "/v3/auth/tokens", {"auth": {}})
        ask("images", "GET", "/v2/images")
        ask("image", "GET", "/v2/images/image-1")
        ask("flavors", "GET", "/v2/flavors/detail")
        ask("networks", "GET", "/v2/networks")
        ask("volume types", "GET", "/v3/types")
        group = ask("make security-group", "POST", "/v2/security-groups", {"security_group": {"name": "g"}})
        ask("make security-group-rule", "POST", "/v2/security-group-rules", {"security_group_rule": {}})
        ask(
            "make keypair",
            "POST",
            "/v2/os-keypairs",
            {"keypair": {"name": "k", "public_key": KEY}},
        )
        ask("keypairs", "GET", "/v2/os-keypairs")
        server = ask("make server", "POST", "/v2/servers", {"server": {"name": "s", "metadata": {"a": "b"}}})
        at = f"/v2/servers/{server['server']['id']}"
        assert ask("server", "GET", at)["server"]["addresses"], "it is there at once"
        ask("servers", "GET", "/v2/servers/detail")
        ask("no server", "GET", "/v2/servers/none")
        volume = {"size": 1, "name": "v", "volume_type": "ssd", "metadata": {"a": "b"}}
        made = ask("make volume", "POST", "/v3/volumes", {"volume": volume})
        disk = f"/v3/volumes/{made['volume']['id']}"
        ask("volume", "GET", disk)
        ask("volumes", "GET", "/v3/volumes/detail")
        attachment = {"volumeAttachment": {"volumeId": made["volume"]["id"]}}
        ask("attach volume", "POST", f"{at}/os-volume_attachments", attachment)
        ask("delete volume in use", "DELETE", disk)
        ask("delete server", "DELETE", at)
        ask("delete volume", "DELETE", disk)
        ask("no volume", "GET", disk)
        ask("delete keypair", "DELETE", "/v2/os-keypairs/k")
        ask("delete no keypair", "DELETE", "/v2/os-keypairs/k")
        ask("delete security-group", "DELETE", f"/v2/security-groups/{group['security_group']['id']}")
        assert not cloud.left()
    glance = {"image versions", "image versions by name", "image without a token"}
    glance |= {"image data", "image schema", "no image", "below v2"}
    assert asked | glance == set(REAL), "what was recorded is compared, all of it"


class Plain(urllib.request.HTTPErrorProcessor):
    """Every answer is one, whatever its status."""

    def http_response(self, request: Any, response: Any) -> Any:
        return response


@pytest.mark.parametrize(
    ("name", "path", "token"),
    [
        ("image versions", "/", False),
        ("image versions by name", "/versions", False),
        ("image without a token", "/v2/images", False),
        ("image", f"/v2/images/{glance_answers.ID}", True),
        ("image data", f"/v2/images/{glance_answers.ID}/file", True),
        ("image schema", "/v2/schemas/image", True),
        ("no image", "/v2/images/22222222-3333-4444-5555-666666666666", True),
        ("below v2", "/v2/nothing", True),
    ],
)
def test_glance_stands_in_for_glance(name: str, path: str, token: bool) -> None:
    mark = f"X-Auth-Token: {glance_answers.TOKEN}\r\n" if token else ""
    answer = glance_answers.answer(f"GET {path} HTTP/1.1\r\nHost: h:1\r\n{mark}\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    held(name, int(first.split()[1]), dict(line.split(": ", 1) for line in lines), body)
