"""An HTTP server that keeps servers by name as nova's API does, and misbehaves where it is told to.

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
    lock: threading.Lock = field(default_factory=threading.Lock)

    def access(self, token: str = "good") -> Access:
        return Access("bad", "", token, 2e9, "p", {"compute": self.url})

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
