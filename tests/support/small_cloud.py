"""A cloud of this host's, as far as a storage sweep asks of one: its instances are SSH servers with disks of their own to
see, its volumes loop devices. What is asked for is done at once.

It stands for the ways between what contend asks and what runs in instances. How a cloud behaves is for tests on a real one;
its answers are held to those of one (tests/contract/clouds/test_recorded_cloud.py).
"""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from contend.clouds.access import VERSIONS, Access
from contend.clouds.openstack import KINDS, Kind
from support.instances import Instances
from support.serving import serving

SERVICES = ("compute", "network", "image", "block-storage")
ADDRESSES = "127.0.73."
# A mount namespace in which no disk is seen before one is attached.
_APART = 'mount -t tmpfs none /sys/block && exec "$@"'
_DISK = """\
mkdir /sys/block/$1 && cd /sys/block/$1
echo $2 >size
printf %s $3 >serial
ln -s /sys/devices/virtual/block/$1/stat stat
"""
SERIAL = 20
# What clouds answer where it is not 201, and 204.
_MADE = {"server": 202, "volume": 202, "keypair": 200}
_DELETED = {"volume": 202, "keypair": 202}
_HOST = "os-vol-host-attr:host"
_OWN = "of"  # a key of ours in a volume: the server that has it
_VERSION = re.compile(r"^/v\d")


class SmallCloud:
    """types: of volumes, by name; things: by collection and id; hosts: of the next instances, by turns."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.url = ""
        self.instances = Instances(place)
        self.types = ["ssd", "hdd"]
        self.hosts = ["a"]
        self.things: dict[str, dict[str, dict[str, Any]]] = {kind.path: {} for kind in KINDS.values()}
        self.things["/images"]["image-1"] = {"id": "image-1", "name": "small", "os_admin_user": "root"}
        self.things["/networks"]["net-1"] = {"id": "net-1", "name": "net"}
        self.devices: dict[str, str] = {}
        self._made = 0
        self._lock = threading.Lock()

    def access(self, path: Path) -> None:
        """As a run keeps it, so that nobody logs in."""
        Access("small", "", "t", time.time() + 3600, "p", dict.fromkeys(SERVICES, self.url)).save(path)

    def describe(self, file: Path) -> None:
        """As clouds.yaml has it."""
        domains = {"user_domain_id": "default", "project_domain_id": "default"}
        auth = {
            "auth_url": f"{self.url}/v3",
            "username": "u",
            "password": "p",
            "project_name": "p",
            **domains,
        }
        file.write_text(json.dumps({"clouds": {"small": {"auth": auth}}}))

    def token(self) -> dict[str, Any]:
        """What keystone answers."""
        catalogue = [
            {
                "type": service,
                "name": service,
                "endpoints": [
                    {"interface": "public", "region_id": "one", "url": f"{self.url}/v{VERSIONS[service][0]}"}
                ],
            }
            for service in SERVICES
        ]
        until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
        return {"token": {"expires_at": until.isoformat(), "project": {"id": "p"}, "catalog": catalogue}}

    def _link(self) -> dict[str, str]:
        return {"rel": "self", "href": f"{self.url}/v3/"}

    def left(self) -> list[str]:
        """Whatever has contend's name, and devices that are still there."""
        named = [str(i["name"]) for of in self.things.values() for i in of.values()]
        return [name for name in named if name.startswith("contend-")] + list(self.devices.values())

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        with self._lock:
            if not path:
                return 200, {"version": {"id": "v3.14", "status": "stable", "links": [self._link()]}}
            if path == "/auth/tokens":
                return 201, self.token()
            if path == "/types":
                return 200, {"volume_types": [{"id": f"id-{name}", "name": name} for name in self.types]}
            if path == "/flavors/detail":
                return 200, {"flavors": [{"id": "f", "name": "small", "ram": 1, "vcpus": 1, "disk": 1}]}
            if path == "/security-group-rules":
                return 201, {"security_group_rule": {}}
            if path.endswith("/os-volume_attachments"):
                return self._attach(path.split("/")[2], body["volumeAttachment"]["volumeId"])
            kind = next(k for k in KINDS.values() if path == k.path or path.startswith(f"{k.path}/"))
            known, id_ = self.things[kind.path], path.removeprefix(kind.path).strip("/")
            if method == "POST":
                return self._make(kind, body[kind.one])
            if method == "DELETE":
                return self._delete(kind, id_)
            if id_ in ("", "detail"):
                return 200, {kind.many: [self._listed(kind, thing) for thing in known.values()]}
            return (200, self._told(kind, known[id_])) if id_ in known else _absent(kind)

    def _told(self, kind: Kind, thing: dict[str, Any]) -> dict[str, Any]:
        shown = {key: value for key, value in thing.items() if key != _OWN}
        return {kind.one: shown} if kind.wrapped else shown

    def _listed(self, kind: Kind, thing: dict[str, Any]) -> dict[str, Any]:
        told = self._told(kind, thing)
        found: dict[str, Any] = told if kind.name == "keypair" or not kind.wrapped else told[kind.one]
        return found

    def _make(self, kind: Kind, wanted: dict[str, Any]) -> tuple[int, Any]:
        self._made += 1
        id_ = f"{self._made:08x}-4b5a-6978-8796-a5b4c3d2e1f0"
        made: dict[str, Any] = {**wanted, "id": id_}
        if kind.name == "keypair":
            (self.place / "authorized").write_text(made["public_key"] + "\n")
            id_ = made["name"]
            del made["id"]
        elif kind.name == "server":
            address = f"{ADDRESSES}{self._made + 1}"
            inside = ("unshare", "--mount", "--propagation", "private", "sh", "-c", _APART, "sh")
            self.instances.start(address, inside=inside)
            self.hosts.append(self.hosts.pop(0))
            where = {"addr": address, "version": 4, "OS-EXT-IPS:type": "fixed"}
            made |= {"status": "ACTIVE", "hostId": self.hosts[-1], "addresses": {"net": [where]}}
        elif kind.name == "volume":
            made |= {"status": "available", _OWN: "", _HOST: f"c@{made['volume_type']}#p"}
            file = self.place / id_
            file.touch()
            os.truncate(file, int(made["size"]) << 30)
            words = ["losetup", "--find", "--show", str(file)]
            self.devices[id_] = subprocess.run(
                words, capture_output=True, text=True, check=True
            ).stdout.strip()
        self.things[kind.path][id_] = made
        # Of a server no more is told than that there will be one, of a volume not where.
        shown = {"id": id_} if kind.name == "server" else {k: v for k, v in made.items() if k != _HOST}
        return _MADE.get(kind.name, 201), self._told(kind, shown)

    def _attach(self, server: str, volume: str) -> tuple[int, Any]:
        found = self.things["/volumes"][volume]
        address = self.things["/servers"][server]["addresses"]["net"][0]["addr"]
        pid = self.instances.servers[address].pid
        name = Path(self.devices[volume]).name
        told = (name, str(int(found["size"]) << 21), volume[:SERIAL])
        inside = ["nsenter", "--target", str(pid), "--mount", "sh", "-ec", _DISK, "sh", *told]
        subprocess.run(inside, check=True)
        found |= {"status": "in-use", _OWN: server}
        return 200, {"volumeAttachment": {"id": volume, "device": "/dev/vdz"}}

    def _delete(self, kind: Kind, id_: str) -> tuple[int, Any]:
        found = self.things[kind.path].get(id_)
        if found is None:
            return _absent(kind)
        if kind.name == "volume":
            if found["status"] == "in-use":
                return 400, {
                    "badRequest": {"code": 400, "message": "Volume status must be available or error"}
                }
            subprocess.run(["losetup", "--detach", self.devices.pop(id_)], check=True)
            (self.place / id_).unlink()
        if kind.name == "server":
            self.instances.stop(found["addresses"]["net"][0]["addr"])
            for volume in self.things["/volumes"].values():
                if volume[_OWN] == id_:
                    volume |= {"status": "available", _OWN: ""}
        del self.things[kind.path][id_]
        return _DELETED.get(kind.name, 204), None

    def end(self) -> None:
        """Whatever is left of it."""
        self.instances.end()
        for device in self.devices.values():
            subprocess.run(["losetup", "--detach", device], check=False)


def _absent(kind: Kind) -> tuple[int, Any]:
    return 404, {"itemNotFound": {"code": 404, "message": f"{kind.one} could not be found."}}


@contextmanager
def small_cloud(place: Path) -> Iterator[SmallCloud]:
    """One on a free port of the loopback device. It takes root."""
    cloud = SmallCloud(place)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = _VERSION.sub("", urlsplit(self.path).path)
            status, told = cloud.answer(self.command, path, json.loads(body) if body else None)
            content = b"" if told is None else json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("X-Subject-Token", "t")  # of a login
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = answer  # noqa: N815 - the names that http.server calls

        def log_message(self, *args: object) -> None:
            pass

    try:
        with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as url:
            cloud.url = url
            yield cloud
    finally:
        cloud.end()
