"""Python's image clients, as `image-download` starts them, on a server that answers as Glance does behind keystone."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from contend.fetch.clients import CLIENTS, Task, command_of
from support.wire_servers import Server, serving

CONTENT = bytes(range(256)) * 500
ID = "11111111-2222-3333-4444-555555555555"
LIBRARIES = [name for name in CLIENTS if CLIENTS[name].needs[0].startswith("module ")]


def answer(request: bytes) -> bytes:
    """The root tells the versions to anybody, with 300; all else wants the token, and below /v2 none is told."""
    head = request.partition(b"\r\n\r\n")[0].decode()
    path = head.split()[1].rstrip("/")
    port = next(line for line in head.splitlines() if line.lower().startswith("host:")).rpartition(":")[2]
    if not path or path == "/versions":
        link = {"rel": "self", "href": f"http://127.0.0.1:{port}/v2/"}
        return _json(300, {"versions": [{"id": "v2.17", "status": "CURRENT", "links": [link]}]})
    if "x-auth-token: secret-token" not in head.lower():
        return _json(401, {})
    if path == f"/v2/images/{ID}":
        return _json(200, _about())
    if path == f"/v2/images/{ID}/file":
        head_of = b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n"
        return head_of % len(CONTENT) + CONTENT
    if path == "/v2/schemas/image":
        return _json(200, {"name": "image", "properties": {}, "additionalProperties": True})
    return _json(404, {})


def _about() -> dict[str, object]:
    return {
        "id": ID, "name": "image", "status": "active", "size": len(CONTENT), "disk_format": "raw",
        "container_format": "bare", "visibility": "private", "checksum": hashlib.md5(CONTENT).hexdigest(),
        "os_hash_algo": "sha512", "os_hash_value": hashlib.sha512(CONTENT).hexdigest(),
        "schema": "/v2/schemas/image", "file": f"/v2/images/{ID}/file",
    }  # fmt: skip


def _json(status: int, told: object) -> bytes:
    body = json.dumps(told).encode()
    return (
        b"HTTP/1.1 %d x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        % (
            status,
            len(body),
        )
        + body
    )


@pytest.fixture
def glance() -> Iterator[Server]:
    with serving(answer) as server:
        yield server


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_downloads_with_a_token(name: str, glance: Server, tmp_path: Path) -> None:
    if CLIENTS[name].missing():
        pytest.skip(f"{name}: {', '.join(CLIENTS[name].missing())}")
    sha512 = str(_about()["os_hash_value"])
    task = Task(glance.url, output=str(tmp_path / "x"), sha512=sha512, image=ID, token="secret-token")
    command = command_of(name, task)
    done = subprocess.run(command.argv, input=command.stdin, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x").read_bytes() == CONTENT
    refused = command_of(name, Task(glance.url, sha512=sha512, image=ID, token="another"))
    done = subprocess.run(refused.argv, input=refused.stdin, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
