"""What Glance behind keystone answers about one image, for a server of `wire_servers`."""

from __future__ import annotations

import hashlib
import json

CONTENT = bytes(range(256)) * 500
ID = "11111111-2222-3333-4444-555555555555"
TOKEN = "secret-token"
SHA512 = hashlib.sha512(CONTENT).hexdigest()


def answer(request: bytes, content: bytes = CONTENT) -> bytes:
    """The root tells the versions to anybody, with 300; all else wants the token, and below /v2 none is told. As a real one
    answers: tests/contract/clouds/test_recorded_cloud.py.

    content: what comes for the image, whose size and hashes are told as CONTENT's.
    """
    head = request.partition(b"\r\n\r\n")[0].decode()
    path = head.split()[1].rstrip("/")
    port = next(line for line in head.splitlines() if line.lower().startswith("host:")).rpartition(":")[2]
    if not path or path == "/versions":
        link = {"rel": "self", "href": f"http://127.0.0.1:{port}/v2/"}
        return _json(
            200 if path else 300, {"versions": [{"id": "v2.17", "status": "CURRENT", "links": [link]}]}
        )
    if f"x-auth-token: {TOKEN}" not in head.lower():
        return _json(401, {})
    if path == f"/v2/images/{ID}":
        return _json(200, _about())
    if path == f"/v2/images/{ID}/file":
        head_of = b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n"
        return head_of % len(content) + content
    if path == "/v2/schemas/image":
        return _json(200, {"name": "image", "properties": {}, "additionalProperties": {"type": "string"}})
    return _json(404, {})


def corrupted() -> bytes:
    """As long as CONTENT, and one bit of it another."""
    middle = len(CONTENT) // 2
    return CONTENT[:middle] + bytes([CONTENT[middle] ^ 1]) + CONTENT[middle + 1 :]


def _about() -> dict[str, object]:
    return {
        "id": ID, "name": "image", "status": "active", "size": len(CONTENT), "disk_format": "raw",
        "container_format": "bare", "visibility": "private", "checksum": hashlib.md5(CONTENT).hexdigest(),
        "os_hash_algo": "sha512", "os_hash_value": SHA512, "schema": "/v2/schemas/image",
        "file": f"/v2/images/{ID}/file",
    }  # fmt: skip


def _json(status: int, told: object) -> bytes:
    body = json.dumps(told).encode()
    head = b"HTTP/1.1 %d x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (status, len(body)) + body
