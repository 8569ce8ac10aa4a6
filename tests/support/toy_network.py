"""A small network service on a database of its own, with or without a listing that asks once for every entity.

It answers as neutron does, as far as a growing population needs that; every statement that its database runs is counted.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from contend.clouds.access import Access
from support.serving import serving

_SCHEMA = """
create table networks (id integer primary key, name text, description text);
create table subnets (id integer primary key, network integer);
create index subnets_of on subnets (network);
"""


class ToyNetwork:
    """`read` tells the statements so far: what a meter wants. quota: networks that it will make at most."""

    def __init__(self, place: Path, *, each: bool, quota: int = 10**9) -> None:
        self.each, self.quota, self.url = each, quota, ""
        self.lock = threading.Lock()
        self.statements = 0
        self.database = sqlite3.connect(place, check_same_thread=False, isolation_level=None)
        self.database.executescript(_SCHEMA)
        self.database.set_trace_callback(self._count)

    def _count(self, statement: str) -> None:
        self.statements += 1

    def read(self) -> Mapping[str, int]:
        with self.lock:
            return {"SQL": self.statements}

    def access(self) -> Access:
        return Access("toy", "", "token", 2e9, "p", {"network": self.url})

    @property
    def population(self) -> int:
        with self.lock:
            return int(self.database.execute("select count(*) from networks").fetchone()[0])

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        parts = urlsplit(path)
        with self.lock:
            if parts.path == "/":
                return 200, {"resources": ["networks"]}
            id_ = parts.path.removeprefix("/networks").strip("/")
            if method == "POST":
                return self._create(body["network"])
            if method == "DELETE":
                gone = self.database.execute("delete from networks where id = ?", (int(id_),)).rowcount
                return (204, None) if gone else (404, {"NeutronError": {"message": "not found"}})
            return self._show(id_) if id_ else self._list(parse_qs(parts.query))

    def _create(self, wanted: Mapping[str, Any]) -> tuple[int, Any]:
        if self.database.execute("select count(*) from networks").fetchone()[0] >= self.quota:
            return 409, {"NeutronError": {"message": "Quota exceeded for resources: ['network']"}}
        row = (wanted["name"], wanted.get("description", ""))
        made = self.database.execute("insert into networks (name, description) values (?, ?)", row).lastrowid
        return 201, {"network": {"id": str(made), **wanted}}

    def _show(self, id_: str) -> tuple[int, Any]:
        row = self.database.execute(
            "select id, name, description from networks where id = ?", (id_,)
        ).fetchone()
        return (200, {"network": self._told(row, self._subnets(row[0]))}) if row else (404, {})

    def _list(self, query: Mapping[str, list[str]]) -> tuple[int, Any]:
        limit, after = int(query.get("limit", ["-1"])[0]), int(query.get("marker", ["0"])[0])
        rows = self.database.execute(
            "select id, name, description from networks where id > ? order by id limit ?", (after, limit)
        ).fetchall()
        if self.each:
            told = [self._told(row, self._subnets(row[0])) for row in rows]
        else:  # one statement for all of them
            subnets: dict[int, list[str]] = {}
            for network, subnet in self.database.execute("select network, id from subnets"):
                subnets.setdefault(network, []).append(str(subnet))
            told = [self._told(row, subnets.get(row[0], [])) for row in rows]
        page: dict[str, Any] = {"networks": told}
        if 0 <= limit == len(rows) and rows:
            href = f"{self.url}/networks?limit={limit}&marker={rows[-1][0]}"
            page["networks_links"] = [{"rel": "next", "href": href}]
        return 200, page

    def _subnets(self, network: int) -> list[str]:
        found = self.database.execute("select id from subnets where network = ?", (network,))
        return [str(row[0]) for row in found]

    def _told(self, row: tuple[int, str, str], subnets: list[str]) -> dict[str, Any]:
        return {
            "id": str(row[0]),
            "name": row[1],
            "description": row[2],
            "status": "ACTIVE",
            "subnets": subnets,
        }


@contextmanager
def toy_network(place: Path, *, each: bool, quota: int = 10**9) -> Iterator[ToyNetwork]:
    """One on a free port of the loopback device, its database in `place`. each: a statement for every network listed."""
    toy = ToyNetwork(place, each=each, quota=quota)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def work(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, data = toy.answer(self.command, self.path, json.loads(body) if body else None)
            content = b"" if data is None else json.dumps(data).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = work  # noqa: N815 - the names that http.server calls

        def log_message(self, *args: object) -> None:
            pass

    try:
        with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as toy.url:
            yield toy
    finally:
        toy.database.close()
