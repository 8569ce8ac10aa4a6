"""An HTTP server that keeps servers as nova's API does and volumes as cinder's, and misbehaves where it is told to.

It stands for what goes wrong on the way: rate limits, errors, answers that never arrive, tokens that have expired.
How a cloud behaves otherwise is for the tests on a real one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from contend.clouds.access import Access
from support.serving import serving


@dataclass
class Fault:
    """What happens to one request instead of, or after, its work. `act`: it is worked on all the same."""

    status: int = 0  # 0: the connection is closed without an answer
    act: bool = False
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class BadApi:
    url: str
    token: str = "good"
    servers: dict[str, dict[str, Any]] = field(default_factory=dict)
    faults: dict[str, list[Fault]] = field(default_factory=dict)  # by method, used up one after the other
    seen: list[str] = field(default_factory=list)
    page: int = 500
    undeletable: int = 0  # so many deletions are accepted, and end in ERROR
    volumes: dict[str, dict[str, Any]] = field(default_factory=dict)
    types: dict[str, str] = field(
        default_factory=lambda: {"ssd": "available"}
    )  # state of volumes that are made of it
    messages: list[str] = field(default_factory=list)  # what cinder tells users of a volume that failed
    holds: int = 0  # so many looks after its server has gone a volume is still in use
    unattached: str = ""  # what nova says of attachments, which it does not make
    lock: threading.Lock = field(default_factory=threading.Lock)

    def access(self, token: str = "good") -> Access:
        return Access("bad", "", token, 2e9, "p", {"compute": self.url, "block-storage": self.url})

    def add(self, name: str, **more: Any) -> str:
        with self.lock:
            id_ = f"id-{len(self.seen)}-{len(self.servers)}"
            self.servers[id_] = {"id": id_, "name": name, "status": "ACTIVE", "metadata": {}, **more}
            return id_

    def count(self, method: str) -> int:
        return sum(line.startswith(method) for line in self.seen)


class _Server(ThreadingHTTPServer):
    request_queue_size = (
        128  # as many as a storm sends at once: its kernel would drop some beyond the usual five
    )


@contextmanager
def bad_api() -> Iterator[BadApi]:
    """One on a free port of the loopback device."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with api.lock:
                api.seen.append(f"{self.command} {self.path}")
                waiting = api.faults.get(self.command)
                fault = waiting.pop(0) if waiting else None
            if self.headers["X-Auth-Token"] != api.token:
                self.send(401, {"error": {"message": "expired"}})
                return
            if fault is not None and not fault.act:
                self.fail(fault)
                return
            status, data = self.work(json.loads(body) if body else None)
            if fault is None:
                self.send(status, data)
            else:
                self.fail(fault)

        do_GET = do_POST = do_DELETE = answer  # noqa: N815 - the names that http.server calls

        def work(self, body: Any) -> tuple[int, Any]:
            parts = urlsplit(self.path)
            if "/volumes" in parts.path or parts.path in ("/types", "/messages"):
                return of_volumes(api, self.command, parts.path, body)
            if parts.path.endswith("os-volume_attachments"):
                return attach(api, parts.path.split("/")[2], body["volumeAttachment"]["volumeId"])
            if api.unattached and "/os-instance-actions" in parts.path:
                return actions(api.unattached, parts.path)
            if self.command == "POST":
                id_ = api.add(body["server"]["name"], metadata=body["server"].get("metadata", {}))
                return 202, {"server": {"id": id_}}
            if "/os-instance-actions" in parts.path:  # it keeps no record
                return 404, {}
            with api.lock:
                if self.command == "DELETE":
                    server = api.servers.get(parts.path.rpartition("/")[2])
                    if server is not None and api.undeletable:
                        api.undeletable -= 1
                        server |= {"status": "ERROR", "fault": {"message": "told to fail"}}
                        return 204, None
                    return (204, None) if api.servers.pop(parts.path.rpartition("/")[2], None) else (404, {})
                query = parse_qs(parts.query)
                status = query.get("status", [""])[0]
                found = [s for s in api.servers.values() if query.get("name", [""])[0] in s["name"]]
                found = [s for s in found if status in ("", s["status"])]
                start = int(query.get("marker", ["0"])[0])
                page: dict[str, Any] = {"servers": found[start : start + api.page]}
                if len(found) > start + api.page:
                    href = f"{api.url}{parts.path}?name={query['name'][0]}&status={status}&marker={start + api.page}"
                    page["servers_links"] = [{"rel": "next", "href": href}]
                return 200, page

        def fail(self, fault: Fault) -> None:
            if fault.status:
                self.send(fault.status, {"error": {"message": "told to fail"}}, fault.headers)
            else:
                self.close_connection = True
                self.connection.shutdown(2)

        def send(self, status: int, data: Any, headers: dict[str, str] | None = None) -> None:
            content = b"" if data is None else json.dumps(data).encode()
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    with serving(_Server(("127.0.0.1", 0), Handler)) as url:
        api = BadApi(url)
        yield api


def of_volumes(api: BadApi, method: str, path: str, body: Any) -> tuple[int, Any]:
    """What cinder answers."""
    with api.lock:
        if path == "/types":
            return 200, {"volume_types": [{"id": f"id-of-{name}", "name": name} for name in api.types]}
        if path == "/messages":
            return 200, {"messages": [{"user_message": text} for text in api.messages]}
        if method == "POST":
            id_ = f"volume-{len(api.seen)}"
            state = api.types[body["volume"]["volume_type"]]
            api.volumes[id_] = {**body["volume"], "id": id_, "status": state, "of": ""}
            return 202, {"volume": {"id": id_}}
        if method == "DELETE":
            volume = api.volumes.get(path.rpartition("/")[2])
            if volume is not None and volume["status"] == "in-use":
                return 400, {"badRequest": {"message": "Volume status must be available or error"}}
            return (202, None) if api.volumes.pop(path.rpartition("/")[2], None) else (404, {})
        for volume in api.volumes.values():
            if volume["status"] == "in-use" and volume["of"] not in api.servers:
                volume["status"] = "in-use" if api.holds > 0 else "available"
                api.holds -= 1
        return 200, {"volumes": list(api.volumes.values())}


def attach(api: BadApi, server: str, volume: str) -> tuple[int, Any]:
    """What nova answers: always at once."""
    with api.lock:
        if not api.unattached:
            api.volumes[volume] |= {"status": "in-use", "of": server}
    return 200, {"volumeAttachment": {"id": volume, "device": "/dev/vdb"}}


def actions(why: str, path: str) -> tuple[int, Any]:
    """What nova keeps of an attachment that failed."""
    one = {"action": "attach_volume", "request_id": "req-1", "message": "Error"}
    if path.endswith("req-1"):
        return 200, {"instanceAction": {**one, "events": [{"details": why}]}}
    return 200, {"instanceActions": [one]}
